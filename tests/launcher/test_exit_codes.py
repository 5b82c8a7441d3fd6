"""Exit codes: one table for the code, the documentation and what --json says of an error."""

import ast
import inspect
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from launcher import cli, errors
from launcher.exit_codes import ExitCode
from preflight import errors as preflight_errors
from preflight.errors import GpulaunchError

ROOT = Path(__file__).parents[2]
COMMANDS = sorted((ROOT / "launcher" / "commands").glob("*.py"))
CLASSES = sorted(
    {
        item
        for module in (errors, preflight_errors)
        for item in vars(module).values()
        if inspect.isclass(item) and issubclass(item, GpulaunchError)
    },
    key=lambda item: item.__name__,
)


def made(kind: type[GpulaunchError]) -> GpulaunchError:
    """Return an error of a class; hosts come first where it is about them."""
    if kind is errors.HostsUnusable:
        return kind([errors.ConnectionLost("titan", "gone")], "titan: gone")
    words: dict[str, Any] = {
        "host": "titan",
        "program": "python3",
        "why": "absent",
        "message": "it failed",
        "status": 127,
    }
    names = list(inspect.signature(kind.__init__).parameters)[1:]
    return kind(*(words[name] for name in names if name in words))


def failing(error: BaseException) -> click.Command:
    """Return a command that takes any words and fails."""

    def callback() -> None:
        raise error

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command("x", callback=callback, context_settings=settings)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_has_a_code_of_the_table_and_one_document(
    kind: type[GpulaunchError], capsys: pytest.CaptureFixture[str]
) -> None:
    error = made(kind)
    assert cli.run_command_line(["--json"], failing(error)) == error.exit_code
    assert error.exit_code in set(ExitCode)
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["schema"] == "gpulaunch.error/1"
    assert document["exit_code"] == error.exit_code
    assert set(document["error"]) == {"code", "message", "fix", "hosts"}
    assert document["error"]["message"] == error.message
    assert document["error"]["fix"]
    assert err.startswith("error: ")
    if isinstance(error, errors.HostError | errors.HostsUnusable):
        assert document["error"]["hosts"] == ["titan"]
    assert document["error"]["code"] not in ("", "error") or kind is GpulaunchError


@pytest.mark.parametrize(
    ("raised", "code", "name"),
    [
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "interrupted"),
        (click.UsageError("no such thing"), ExitCode.USAGE, "usage"),
        (ZeroDivisionError("oh"), ExitCode.BUG, "bug"),
        (OSError(28, "No space left on device", "a/b"), ExitCode.ABORTED, "aborted"),
        (EOFError(), ExitCode.USAGE, "no-answer"),
    ],
)
def test_what_is_no_class_of_ours_has_a_code_too(
    raised: BaseException,
    code: ExitCode,
    name: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert cli.run_command_line(["--json"], failing(raised)) == code
    document = json.loads(capsys.readouterr().out)
    assert (document["exit_code"], document["error"]["code"]) == (code, name)


def test_without_json_nothing_of_an_error_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command_line(["--", "--json"], failing(errors.LaunchRefused("no"))) == ExitCode.NEGATIVE
    assert capsys.readouterr().out == ""


def test_what_a_command_had_to_say_and_its_error_are_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    refused = errors.LaunchRefused("findings").with_document(
        {"schema": "x/1", "exit_code": 0, "findings": [1]}
    )
    assert cli.run_command_line(["--json"], failing(refused)) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["exit_code"], document["findings"]) == ("x/1", 1, [1])
    assert document["error"]["code"] == "refused"


def test_a_mistake_on_a_real_command_line_is_one_document() -> None:
    command = [sys.executable, "-m", "launcher.cli", "preflight", "--jsno", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    document = json.loads(done.stdout)
    assert (done.returncode, document["exit_code"], document["error"]["code"]) == (2, 2, "usage")
    assert document["error"]["fix"] == "did you mean --json?"
    assert "--jsno" in done.stderr


def test_the_documentation_has_each_code_and_knows_the_commands() -> None:
    written = (ROOT / "docs" / "exit-codes.md").read_text()
    codes = [int(row) for row in re.findall(r"^\| (\d+) \| \S", written, re.MULTILINE)]
    assert codes == sorted(ExitCode)
    commands = re.findall(r"^\| `([\w-]+)` \| \S", written, re.MULTILINE)
    assert commands
    assert set(commands) <= set(cli.COMMANDS)


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_commands_return_codes_by_their_names(path: Path) -> None:
    tree = ast.parse(path.read_text())
    returned = [
        (node.lineno, leaf.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Return) and node.value is not None
        for leaf in _choices(node.value)
        if isinstance(leaf, ast.Constant) and isinstance(leaf.value, int) and not isinstance(leaf.value, bool)
    ]
    assert [place for place in returned if place[1] != 0] == []
    assert "EXIT_" not in path.read_text()


def _choices(value: ast.expr) -> list[ast.expr]:
    """Return what `a if b else c` and `a or b` may be."""
    if isinstance(value, ast.IfExp):
        return [*_choices(value.body), *_choices(value.orelse)]
    if isinstance(value, ast.BoolOp):
        return [leaf for part in value.values for leaf in _choices(part)]
    return [value]


@pytest.mark.parametrize("name", sorted(set(cli.COMMANDS) - {"schema"}))  # schema prints JSON in any case
def test_every_command_has_json(name: str) -> None:
    command = cli.cli.get_command(click.Context(cli.cli), name)
    assert command is not None
    assert "--json" in {word for param in command.params for word in param.opts}


@pytest.mark.parametrize("words", [("preflight",), ("run", "--hosts")])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_there_is_a_run_ends_the_client_as_any_program(
    tmp_path: Path, words: tuple[str, ...], number: signal.Signals
) -> None:
    (tmp_path / "t.py").write_text("print(1)\n")
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"ada@127.0.0.1:{silent.getsockname()[1]}"
        script = ["t.py"] if words[0] == "run" else []
        argv = [sys.executable, "-m", "gpulaunch", *words, host, *script]
        with subprocess.Popen(argv, cwd=tmp_path, env=environment, stdout=subprocess.PIPE) as client:
            silent.settimeout(60)
            with silent.accept()[0]:  # it waits for a banner
                client.send_signal(number)
                assert client.wait(60) == -number
    assert not (tmp_path / "gpulaunch-runs").exists()
