"""The deep checks of hosts: a launch that measures, its judgement, what is kept of it."""
