"""How many shards ask many hosts. Imports little: every preflight asks."""

import os

FEWEST_HOSTS = 512  # from this number on several interpreters gain more than they take to start
SHARD_WIDTH = 128
"""Hosts that one shard speaks to at once: an agent takes a second or two, its connection 4 ms of CPU and
0.15 MiB."""
_MOST_SHARDS = 4
"""A shard takes 60 MiB, and one process decodes and judges no faster than four ask. Each connects to a jump
host for itself, where sshd drops connections from 10 unproven ones on (MaxStartups 10:30:100)."""
_HOSTS_EACH = 128


def choose_shard_count(hosts: int, cores: int = 0) -> int:
    """Return how many shards ask so many hosts, none if one process is as fast; `cores` 0: all."""
    if hosts < FEWEST_HOSTS:
        return 0
    return max(1, min(cores or _usable_cores(), hosts // _HOSTS_EACH, _MOST_SHARDS))


def _usable_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # Linux alone has it
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
