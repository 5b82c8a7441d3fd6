"""The directory of a run on this machine: layout, logs, metrics, and the schema of what hosts report."""
