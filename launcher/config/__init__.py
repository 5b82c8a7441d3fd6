"""What the user wrote: hosts.yaml, run configs, host names and the values of options."""
