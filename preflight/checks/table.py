"""The checks, in the order in which they run and are listed. Importing this fills `registry.CHECKS`."""

from preflight.checks import (  # noqa: I001 - the order of the table, not of the alphabet
    environment,
    driver,
    gpus,
    compute_mode,
    processes,
    gpu_claims,
    ports,
    precision,
    network,
    limits,
    paths,
    gpu_faults,
    health,
    consistency,
    script,
    deepspeed,
    fsdp,
    deep,
)

from preflight.checks.registry import sort_by_module

sort_by_module(
    module.__name__
    for module in (
        environment,
        driver,
        gpus,
        compute_mode,
        processes,
        gpu_claims,
        ports,
        precision,
        network,
        limits,
        paths,
        gpu_faults,
        health,
        consistency,
        script,
        deepspeed,
        fsdp,
        deep,
    )
)

__all__ = [
    "compute_mode",
    "consistency",
    "deep",
    "deepspeed",
    "driver",
    "environment",
    "fsdp",
    "gpu_claims",
    "gpu_faults",
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
