"""The checks, in the order in which they run and are listed. Importing this fills `registry.CHECKS`."""

from preflight.checks import (  # noqa: I001 - the order of the table, not of the alphabet
    environment,
    driver,
    gpus,
    compute_mode,
    processes,
    claims,
    ports,
    precision,
    network,
    limits,
    paths,
    faults,
    health,
    alike,
    script,
)

__all__ = [
    "alike",
    "claims",
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
    "script",
]
