"""What a command imports before it needs it: a module that only some runs use would be paid for by all."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from launcher.exit_codes import ExitCode
from launcher.local.installed_version import read_installed_version
from launcher.rundir.layout import read_run_metrics
from launcher.transports.ssh.paramiko_import import _VersionAlone

IMPORTED = "import sys, {modules}; print(*sys.modules)"

ONLY_SOME_RUNS = (
    "launcher.engines.command_line.parse",  # a `command:`
    "launcher.engines.command_line.request",
    "launcher.engines.command_line.tables.accelerate",
    "launcher.cleanup.render",  # leftovers
    "launcher.commands._job_end",  # in a job of Slurm
    "launcher.slurm.requeue",
    "launcher.commands._plan_output",  # --dry-run
    "launcher.report.command",
    "launcher.rehearsal.rehearse",  # --rehearse
    "launcher.remote.client_pack",  # `restart:`
    "launcher.restart.decision",
    "launcher.rundir.log_metrics",  # a rank that has printed
    "launcher.transports.on_end_command",  # `on_end:`
    "click.shell_completion",  # a person who types
    "preflight.checks.deep",  # --deep
    "preflight.deep.measurements",
    "preflight.diagnosis.lines",  # a failure
    "preflight.diagnosis.stack_analysis",  # a hang
    "preflight.diagnosis.signatures.table",
    "concurrent.futures",  # programs of hosts, which gpulaunch takes constants from
    "difflib",  # a mistake
    "preflight.script.interpreter",  # a script to read
    "shutil",
    "statistics",
    "yaml",  # a run config or a hosts.yaml
)

AFTER_THE_CONNECTION = (
    "launcher.host_checks.evaluation",  # judges answers: imported while the first host works on its own
    "launcher.host_checks.render_text",
    "launcher.slurm.srun_step",  # in a job of Slurm
    "paramiko",  # after the host is dialled
    "preflight.checks.runner",
    "secrets",
)


def imported(modules: str) -> frozenset[str]:
    argv = [sys.executable, "-c", IMPORTED.format(modules=modules)]
    return frozenset(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("module", ONLY_SOME_RUNS)
def test_a_run_imports_later_what_only_some_runs_need(module: str, of_run: frozenset[str]) -> None:
    assert module not in of_run


@pytest.mark.parametrize(
    "module",
    [
        "launcher.cleanup.before_launch",
        "launcher.host_checks.evaluation",
        "launcher.launch.attempt",
        "launcher.report.outcome",
    ],
)
def test_a_run_asks_its_hosts_before_it_imports_what_judges_and_starts(
    module: str, of_run: frozenset[str]
) -> None:
    assert module not in of_run


@pytest.mark.parametrize("module", ["importlib.metadata", "yaml"])
def test_lint_imports_later_what_only_run_configs_need(module: str) -> None:
    assert module not in imported("launcher.commands.lint; launcher.commands.lint._installed()")


@pytest.fixture(scope="module")
def of_run() -> frozenset[str]:
    return imported("launcher.commands.run, launcher.commands._launch")


@pytest.mark.parametrize(
    ("log", "read"),
    [("up\n", False), ("Loss/train: 2.5\n", True), ("LOSS 2.5", True), ("step 1 grad_norm: 0.5\n", True)],
)
def test_the_end_of_a_run_imports_what_reads_numbers_where_a_rank_may_have_printed_them(
    log: str, tmp_path: Path, *, read: bool
) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "rank-0.log").write_text(log)
    curves = (
        f"pathlib, launcher.report.sparkline as s; list(s.render_curves(pathlib.Path({str(tmp_path)!r})))"
    )
    assert ("launcher.rundir.log_metrics" in imported(curves)) is read
    assert (read_run_metrics(tmp_path) is not None) is read


@pytest.mark.parametrize("module", AFTER_THE_CONNECTION)
def test_a_preflight_connects_before_it_imports_what_only_answers_need(
    module: str, of_preflight: frozenset[str]
) -> None:
    assert module not in of_preflight


@pytest.fixture(scope="module")
def of_preflight() -> frozenset[str]:
    return imported("launcher.commands.preflight, launcher.commands._preflight, launcher.transports.ssh.dial")


PARAMIKO = "from launcher.transports.ssh.paramiko_import import import_paramiko as get; get(); import sys"


def answer(code: str) -> str:
    argv = [sys.executable, "-c", f"{PARAMIKO}; {code}"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def test_paramiko_comes_without_invoke_which_others_can_import_later() -> None:
    modules = answer("import paramiko; print(paramiko.__version__, *sys.modules)").split()
    assert modules[0] == version("paramiko")
    assert "invoke" not in modules
    assert answer("import invoke; print(invoke.__name__)") == "invoke"


def test_paramiko_comes_without_the_reader_of_metadata_which_others_can_import_later() -> None:
    assert not {"importlib.metadata", "email", "zipfile"}.intersection(answer("print(*sys.modules)").split())
    later = "from importlib import metadata; print(metadata.__file__, metadata.version('click'))"
    file, found = answer(later).split()
    assert file.endswith("__init__.py")
    assert found == version("click")


def test_who_imports_metadata_meanwhile_gets_all_of_it() -> None:
    stand_in = _VersionAlone("paramiko", "1.2.3")
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "importlib.metadata", stand_in)
        assert stand_in.version("paramiko") == "1.2.3"
        assert sys.modules["importlib.metadata"] is stand_in
        assert stand_in.version("click") == version("click")
        assert sys.modules["importlib.metadata"] is not stand_in
        assert issubclass(stand_in.PackageNotFoundError, ImportError)


@pytest.mark.parametrize(
    ("folders", "expected"),
    [(("odd-2.1.dist-info",), "2.1"), ((), ""), (("odd-2.1.dist-info", "odd-2.0.dist-info"), "")],
)
def test_a_version_is_taken_from_a_folder_only_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: tuple[str, ...], expected: str
) -> None:
    for folder in folders:
        (tmp_path / folder).mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert read_installed_version("odd") == expected
    assert read_installed_version("odd_and_absent") == ""


def test_a_ctrl_c_while_modules_are_imported_prints_no_traceback() -> None:
    code = """
import os, signal, sys
class Interrupt:
    def find_spec(name, path=None, target=None):
        if name == "launcher.terminal":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt)
import gpulaunch
sys.argv = ["gpulaunch", "checks"]
gpulaunch.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INTERRUPTED, "", "")


def test_an_interpreter_without_docstrings_starts_again_with_them_or_refuses() -> None:
    """`--help`, `explain` and the checks of a preflight print docstrings."""
    code = """
import os, sys
import gpulaunch
sys.argv = ["gpulaunch", "explain", "PROC001"]
try:
    gpulaunch.main()
finally:
    print(sys.flags.optimize, {k: v for k, v in os.environ.items() if k.endswith("OPTIMIZE")})
"""

    def explained(*options: str, level: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *options, "-c", code]
        env = os.environ | {"PYTHONOPTIMIZE": level}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=env)

    again = explained(level="2")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.startswith("PROC001: No process computes on a GPU")
    assert again.stdout.endswith("0 {'PYTHONOPTIMIZE': '2'}\n")
    refused = explained("-OO", level="2")
    assert refused.returncode == ExitCode.USAGE
    assert refused.stderr == (
        "error: python -OO leaves out the texts that gpulaunch prints\n  fix: leave out -OO\n"
    )


def test_a_shell_that_gives_no_memory_is_named_before_threads_lack_it() -> None:
    """A thread that could not import ended without a word, and the command waited for it."""
    limited = (
        "bash",
        "-c",
        'ulimit -v 200000; exec "$@"',
        "-",
        sys.executable,
        "-m",
        "gpulaunch",
        "ps",
        "--json",
    )
    done = subprocess.run(limited, capture_output=True, text=True, check=False, timeout=60.0)
    assert done.returncode == ExitCode.ABORTED, done.stderr
    assert "gives a process 200000 KiB of memory (ulimit -v)" in done.stderr
    assert json.loads(done.stdout)["error"]["fix"].startswith("ulimit -v unlimited")
