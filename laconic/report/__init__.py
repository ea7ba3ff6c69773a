"""Results for people to read. Reads results and nothing else."""
