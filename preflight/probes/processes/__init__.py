"""Processes of the host: who holds GPUs and ports, who belongs to a launch, who hangs."""
