"""Speed measured against other ways of doing the same; each file prints one table."""
