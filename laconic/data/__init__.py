"""Where rows come from: public sets, files and frames, and how a set is dealt among parties."""
