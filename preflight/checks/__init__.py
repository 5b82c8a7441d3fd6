"""The checks, in the order in which they run and are listed. Importing this fills `registry.CHECKS`."""

from preflight.checks import (  # noqa: I001 - the order of the table, not of the alphabet
    environment,
    driver,
    gpus,
    compute_mode,
    processes,
    ports,
    precision,
    network,
    limits,
    paths,
    faults,
    health,
    alike,
)

__all__ = [
    "alike",
    "compute_mode",
    "driver",
    "environment",
    "faults",
    "gpus",
    "health",
    "limits",
    "network",
    "paths",
    "ports",
    "precision",
    "processes",
]
