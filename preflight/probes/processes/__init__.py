"""Processes of the host: who holds GPUs and ports, who belongs to a launch, who hangs."""

# Inits of containers that start one command and end with it (preflight/leftovers/reapers.py judges by it).
COMMAND_INITS = frozenset({"tini", "tini-static", "docker-init", "dumb-init", "catatonit", "podman-init"})
