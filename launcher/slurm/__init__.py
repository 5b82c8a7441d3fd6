"""Slurm: the job that we are in, its nodes as hosts, and jobs that are submitted."""
