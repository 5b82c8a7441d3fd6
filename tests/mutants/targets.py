"""The modules whose mutants are counted, the tests that are theirs, and the mutants that change nothing."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
LEAST_CRITICAL = 0.95
LEAST_SAMPLED = 0.85

_LEFTOVERS = (
    "tests/preflight/test_container_leftovers.py",
    "tests/preflight/test_leftover_choice.py",
    "tests/preflight/test_leftover_rules.py",
    "tests/preflight/test_leftovers.py",
    "tests/preflight/test_reapers.py",
)
CRITICAL = {
    "preflight/leftovers/classify.py": _LEFTOVERS,
    "preflight/leftovers/process_tree.py": _LEFTOVERS,
    "preflight/leftovers/reapers.py": _LEFTOVERS,
    "preflight/leftovers/selection.py": _LEFTOVERS,
    "preflight/decide/gpu_assignment.py": (
        "tests/preflight/test_gpu_assignment.py",
        "tests/launcher/test_visible_devices.py",
    ),
    "preflight/decide/precision.py": (
        "tests/preflight/test_precision.py",
        "tests/preflight/test_precision_table.py",
        "tests/preflight/test_script_args.py",
        "tests/preflight/test_precision_script.py",
    ),
    "preflight/decide/usable_gpus.py": (
        "tests/preflight/test_usable_gpus.py",
        "tests/preflight/test_registry.py",
    ),
    "launcher/planning/planner.py": (
        "tests/launcher/test_planner.py",
        "tests/launcher/test_planning_nodes.py",
        "tests/launcher/test_command_launch.py",
        "tests/launcher/test_engines.py",
    ),
    "launcher/restart/decision.py": ("tests/launcher/test_restart_decision.py",),
}
"""Modules that decide what is ended or started, and their own tests."""

SAMPLED = "preflight"
"""The package of which the other modules are sampled."""
SAMPLED_TESTS = ("tests/preflight", "tests/launcher/test_lint_command.py", "tests/launcher/test_lint_fix.py")
AGENT = "preflight/probes/"
AGENT_TESTS = "tests/preflight/test_agent"
"""What runs on hosts, and the tests that start it as a program: which lines they reach is not seen."""


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A mutant that no test can notice, and why."""

    module: str
    line: str  # the source line, stripped
    old: str
    new: str
    reason: str


def equivalents() -> list[Equivalent]:
    """Return the list of equivalent.toml."""
    return [Equivalent(**row) for row in tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])]


def sampled() -> list[str]:
    """Return the modules of which a random sample of the mutants is tried."""
    found = (str(path.relative_to(ROOT)) for path in (ROOT / SAMPLED).rglob("*.py"))
    return sorted(module for module in found if module not in CRITICAL)
