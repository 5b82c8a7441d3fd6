"""The nodes of a Slurm job as hosts: one step on all of them, whose tasks carry every connection."""
