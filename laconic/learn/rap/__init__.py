"""Random projections of columns and labels, one file a kind (Zhang et al.: RAP, section 2.3)."""
