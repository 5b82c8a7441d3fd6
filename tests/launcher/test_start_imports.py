"""What a command imports before it needs it: a module that only some runs use would be paid for by all."""

import subprocess
import sys

import pytest

IMPORTED = "import sys, {modules}; print(*sys.modules)"

ONLY_SOME_RUNS = (
    "launcher.engines.command_line.parse",  # a `command:`
    "launcher.engines.command_line.request",
    "launcher.rehearsal.rehearse",  # --rehearse
    "launcher.rundir.metrics",  # a rank that has printed
    "launcher.transports.end_command",  # `on_end:`
    "preflight.diagnosis.lines",  # a failure
    "preflight.script.interpreter",  # a script to read
    "statistics",
)


def imported(modules: str) -> frozenset[str]:
    argv = [sys.executable, "-c", IMPORTED.format(modules=modules)]
    return frozenset(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("module", ONLY_SOME_RUNS)
def test_a_run_imports_later_what_only_some_runs_need(module: str, of_run: frozenset[str]) -> None:
    assert module not in of_run


@pytest.fixture(scope="module")
def of_run() -> frozenset[str]:
    return imported("launcher.commands.run, launcher.commands._launch")
