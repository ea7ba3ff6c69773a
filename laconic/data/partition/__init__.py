"""Partitions: a public data set dealt among parties, by columns or by rows."""
