"""The command line: a table, lazy imports, and one way to tell each kind of failure."""

import ast
import errno
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from unittest.mock import Mock

import click
import pytest
from click.shell_completion import ShellComplete

from launcher import cli
from launcher.commands import _usage_errors
from launcher.commands._examples import render_examples
from launcher.errors import ConfigError, ConnectionRefused, LaunchRefused
from launcher.exit_codes import ExitCode
from launcher.terminal.output import echo_json

ROOT = Path(__file__).parents[2]
HEAVY = (
    "yaml",
    "paramiko",
    "rich",
    "torch",
    "ClusterShell",
    "psutil",
    "jsonschema",
    "importlib.metadata",
    "json.tool",
)


def gpulaunch(*argv: str, **more: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "launcher.cli", *argv]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60, **more)  # type: ignore[call-overload,no-any-return]


def failing(error: BaseException) -> click.Command:
    @click.command()
    def command() -> None:
        raise error

    return command


@pytest.fixture(name="state", autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "gpulaunch"


def test_help_imports_no_command_and_no_heavy_library() -> None:
    code = f"""
import sys
from launcher import cli
assert cli.run_command_line(["--help"]) == 0
print([m for m in sys.modules if m in {HEAVY!r} or m.startswith(("launcher.commands.", "preflight.checks"))])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert "clean-zombies" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_without_a_command_the_help_is_the_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command_line([]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[0]) == ("", "Usage: gpulaunch [OPTIONS] COMMAND [ARGS]...")


def test_what_other_tools_call_a_command_means_one_that_exists() -> None:
    meant = {words.split()[0] for words in _usage_errors.OTHER_NAMES.values()}
    assert meant <= {*cli.COMMANDS, "--help", "--version"}
    assert not _usage_errors.OTHER_NAMES.keys() & cli.COMMANDS.keys()


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_row_names_a_command(name: str) -> None:
    command = import_module(cli.find_module(name)).command
    assert isinstance(command, click.Command)
    assert command.help


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_names_every_value_and_only_options_of_the_command(name: str) -> None:
    command = import_module(cli.find_module(name)).command
    context = click.Context(command, info_name=f"gpulaunch {name}")
    text = " ".join(command.get_help(context).split())
    assert not {"INTEGER", "TEXT", "FLOAT", "RANGE"}.intersection(re.split(r"\W+", text))
    ours = {spelling for param in command.params for spelling in param.opts if spelling.startswith("--")}
    assert f"gpulaunch {name}" in render_examples(name)
    condition = r"\b[Ww]ith (--[a-z-]+)"
    assert set(re.findall(condition, text)) <= ours
    assert max(map(len, command.get_help(context).split("Examples:")[0].splitlines())) <= cli.COLUMNS


@pytest.mark.parametrize(
    "line",
    [
        match[0]
        for name in cli.COMMANDS
        for match in re.finditer(r"gpulaunch [^|;>\n]*", render_examples(name))
    ],
)
def test_examples_in_help_use_options_that_exist(line: str) -> None:
    name, *words = shlex.split(line.split("   ", maxsplit=1)[0])[1:]
    command = import_module(cli.find_module(name)).command
    click.Command.make_parser(command, click.Context(command)).parse_args(words)


def test_every_command_has_its_row() -> None:
    modules = {path.stem for path in (ROOT / "launcher/commands").glob("*.py") if defines_command(path)}
    assert modules == {cli.find_module(name).rpartition(".")[2] for name in cli.COMMANDS}


def defines_command(path: Path) -> bool:
    return any(
        isinstance(node, ast.FunctionDef) and node.name == "command"
        for node in ast.parse(path.read_text()).body
    )


def test_the_version_is_the_projects(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command_line(["--version"]) == 0
    assert capsys.readouterr().out.startswith("gpulaunch 0.")


def test_a_misspelled_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command_line(["clean-zombie\x1b[2J"]) == 2
    message = capsys.readouterr().err
    assert "did you mean clean-zombies?" in message
    assert "\x1b" not in message


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ConfigError("hosts.yaml:3: prot: unknown key"), 2, "error: hosts.yaml:3: prot: unknown key\n"),
        (ConnectionRefused("titan", "refused", "ssh titan"), 3, "error: titan: refused\n  fix: ssh titan\n"),
        (LaunchRefused("no", "one\ntwo"), 1, "error: no\n  fix: one\n       two\n"),
        (ConfigError("\x1b[31mred\x07"), 2, "error: red\\x07\n"),
        (KeyboardInterrupt(), 130, ""),
        (click.UsageError("no such option"), 2, "no such option"),
        (SystemExit(7), 7, ""),
        (SystemExit(None), 0, ""),
        (BrokenPipeError(), 141, ""),
        (OSError(errno.ENOSPC, "No space left on device", "/x/log"), 5, "error: no space left: /x/log\n"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), 5, "error: no space left\n"),
        (PermissionError(errno.EACCES, "no", "/x"), 5, "error: no: /x\n  fix: name a file that you may read"),
        (OSError(errno.EROFS, "read-only", "/x"), 5, "error: read-only: /x\n  fix: name a place on another"),
        (OSError(errno.EIO, "Input/output error"), 5, "error: Input/output error\n"),
        (ConfigError("no check " + "x" * 70_000), 2, "x...x"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x\x1b" * 99), 2, "error: x\\x1bx\\x1b"),
    ],
)
def test_each_failure_has_its_words_and_exit_code(
    capsys: pytest.CaptureFixture[str], state: Path, error: BaseException, code: int, message: str
) -> None:
    assert cli.run_command_line([], failing(error)) == code
    assert message in capsys.readouterr().err
    assert not state.exists()


@pytest.mark.parametrize("command", ["run", "rehearse"])
def test_a_host_that_stops_a_launch_is_reported_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").touch()
    with socket.socket() as bound:  # it does not listen
        bound.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{bound.getsockname()[1]}"
        assert cli.run_command_line([command, "a.py", "--hosts", host]) == 3
    report, error = capsys.readouterr()
    assert (report.count("refused the connection"), report.count("fix:")) == (1, 1)
    assert error == f"error: nothing was started: {host} cannot be used (HOST003)\n"


@pytest.mark.parametrize("result", [0, 1, 42, None])
def test_a_commands_result_is_the_exit_code(result: int | None) -> None:
    assert cli.run_command_line([], click.Command("x", callback=lambda: result)) == (result or 0)


def test_a_prompt_without_anyone_to_answer_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    def ask() -> None:
        raise EOFError

    assert cli.run_command_line([], click.Command("x", callback=ask)) == 2
    assert "--yes" in capsys.readouterr().err


def test_a_bug_is_kept_in_a_file_and_told_in_one_line(
    capsys: pytest.CaptureFixture[str], state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret-in-the-environment")
    assert cli.run_command_line([], failing(ZeroDivisionError("oh"))) == ExitCode.BUG
    (log,) = state.iterdir()
    message = capsys.readouterr().err
    assert str(log) in message
    assert "Traceback" not in message
    kept = log.read_text()
    assert "ZeroDivisionError: oh" in kept
    assert "s3cret" not in kept
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_bug_with_nowhere_to_keep_it_is_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert cli.run_command_line([], failing(ZeroDivisionError("oh"))) == ExitCode.BUG
    assert "ZeroDivisionError: oh" in capsys.readouterr().err


def test_a_reader_that_left_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "launcher.cli", "schema", "hosts"]
    done = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "launcher.cli", "schema", "hosts"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert done.returncode == ExitCode.ABORTED
    assert done.stderr.startswith(b"error: no space left")


def test_names_that_are_no_utf8_do_not_end_in_an_encoding_error() -> None:
    command = [sys.executable.encode(), b"-m", b"launcher.cli", b"caf\xe9"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=60)
    assert done.returncode == ExitCode.USAGE
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        ([], "cl", ["clean-zombies"]),
        ([], "--v", ["--version"]),
        (["schema"], "h", ["hosts"]),
        (["run", "--precision"], "b", ["bf16"]),
        (["preflight", "--gpus"], "a", ["all", "auto"]),
        (["run", "--guard"], "", ["off", "stop", "warn"]),
        (["run", "--on-disconnect"], "c", ["continue"]),
        (["preflight", "--ignore"], "D20", []),  # lint's, which it refuses
        (["preflight", "--ignore"], "PROC001,MODE", ["PROC001,MODE001", "PROC001,MODE002"]),
        (["explain"], "D201", ["D201"]),
        (["init", "--hosts"], "loc", ["localhost"]),
    ],
)
def test_the_shell_completes(words: list[str], incomplete: str, expected: list[str]) -> None:
    completion = ShellComplete(cli.cli, {}, "gpulaunch", "_GPULAUNCH_COMPLETE")
    assert [item.value for item in completion.get_completions(words, incomplete)] == expected


@pytest.mark.parametrize(
    "words", [["run"], ["init"], ["rehearse"], ["run", "a.py", "--"], ["lint"], ["diagnose"], ["submit"]]
)
def test_the_shell_completes_files_where_one_is_named(words: list[str]) -> None:
    found = ShellComplete(cli.cli, {}, "gpulaunch", "_GPULAUNCH_COMPLETE").get_completions(words, "tr")
    assert [(item.type, item.value) for item in found] == [("file", "tr")]


def test_completion_works_through_the_real_program() -> None:
    environ = {
        **os.environ,
        "_GPULAUNCH_COMPLETE": "bash_complete",
        "COMP_WORDS": "gpulaunch sch",
        "COMP_CWORD": "1",
    }
    code = "import sys; sys.argv = ['gpulaunch']; from launcher.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "plain,schema\n"


def test_a_ctrl_c_after_the_last_word_changes_neither_the_exit_code_nor_the_words() -> None:
    code = (
        "import atexit, os, signal, sys; sys.argv = ['gpulaunch', '--version']; "
        "atexit.register(os.kill, os.getpid(), signal.SIGINT); from launcher.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("gpulaunch ")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_while_the_interpreter_ends_does_not_change_the_exit_code(name: str) -> None:
    code = (
        "import atexit, os, signal, sys; sys.argv = ['gpulaunch', 'nothing-such']\n"
        f"class Last:\n    def __del__(self, end=os.kill, pid=os.getpid()): end(pid, signal.{name})\n"
        "sys.modules['last'] = Last()\n"
        f"atexit.register(signal.raise_signal, signal.{name})\n"
        "from launcher.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")


def test_a_second_ctrl_c_while_the_first_is_reported_leaves_no_traceback() -> None:
    code = (
        "import sys; from launcher import cli; sys.argv[1:] = ['checks', '--json']\n"
        "def interrupt(*_, **__): raise KeyboardInterrupt\n"
        "cli._invoke = cli._print_document = interrupt\n"
        "cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"")


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 1), (ConnectionRefused("h", "x"), 3)])
def test_a_command_prints_one_document_whatever_ends_it(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def act() -> None:
        echo_json({"exit_code": 1})
        raise error

    command = click.Command("x", callback=act)
    command.params.append(click.Option(["--json"], is_flag=True, expose_value=False))
    assert cli.run_command_line(["--json"], command) == code
    assert json.loads(capsys.readouterr().out) == {"exit_code": 1}
    command.callback = Mock(side_effect=error)
    assert cli.run_command_line(["--json"], command) in (3, ExitCode.INTERRUPTED)
    assert json.loads(capsys.readouterr().out)["schema"] == "gpulaunch.error/1"


def test_a_port_as_ssh_takes_it_is_told_how_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["preflight", "root@titan", "-p", "41022"], ["run", "train.py", "-p", "41022"]):
        assert cli.run_command_line(words) == 2
        assert "write a port with its host: user@host:port" in capsys.readouterr().err


def test_an_exit_looks_for_no_circles_among_the_modules() -> None:
    at_exit = "import atexit, gc, sys; atexit.register(lambda: print(gc.get_freeze_count()))"
    code = f"{at_exit}; from launcher import cli; sys.argv[1:] = ['--version']; cli.main()"
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    version, frozen = done.stdout.splitlines()
    assert version.startswith("gpulaunch ")
    assert int(frozen) > 10_000
