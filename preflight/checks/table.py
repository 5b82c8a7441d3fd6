"""The checks, in the order in which they run and are listed.

Importing this fills `registry.CHECKS` but for the last module, which `load_deep_checks` adds.
"""

from importlib import import_module

from preflight.checks.registry import sort_by_module

MODULES = (
    "environment",
    "driver",
    "gpus",
    "compute_mode",
    "processes",
    "gpu_claims",
    "ports",
    "precision",
    "network",
    "limits",
    "paths",
    "gpu_faults",
    "health",
    "consistency",
    "script",
    "deepspeed",
    "fsdp",
    "deep",
)
"""The modules of this package that hold checks; a module of new checks is one more row."""
_NAMES = tuple(f"{__package__}.{name}" for name in MODULES)

for _name in _NAMES[:-1]:
    import_module(_name)
sort_by_module(_NAMES)


def load_deep_checks() -> None:
    """Add the deep checks: few launches measure anything, and all would wait for their modules."""
    import_module(_NAMES[-1])
