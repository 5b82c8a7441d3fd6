"""Why a host gave no answer of ours, where that is the login shell's or the interpreter's doing.

One rule for every program that is sent to hosts: what `preflight` says of a host, `run` and `ps` say too.
"""

import shlex
from pathlib import PurePosixPath

from launcher.errors import AgentProtocolError, HostError, LoginShellDisabled, PythonNotFound
from launcher.remote.program_source import EXIT_OLD_PYTHON, ISOLATED
from launcher.text import one_line, tail_lines
from launcher.transports.base import Connection
from preflight.checks.message_text import quote_path

_CANNOT_START = (126, 127)
_WRONG_USAGE = 2
_NO_SUCH_OPTION = f"Unknown option: {ISOLATED}"


def explain_no_answer(
    host: str,
    python: str,
    status: int | None,
    *,
    stderr: bytes,
    noise: bytes = b"",
    connection: Connection | None = None,
) -> HostError | None:
    """Return why nothing of ours ran, by its `noise`, None if it did; commands to type use `connection`."""
    said = tail_lines(stderr)
    if status in _CANNOT_START and (not said or PurePosixPath(python).name in said):
        return explain_no_python(host, python, said or f"exit status {status}")
    if status == EXIT_OLD_PYTHON:
        return _old_python(host, python, one_line(stderr.split(b"\n")[-1], 40))
    if status == _WRONG_USAGE and _NO_SUCH_OPTION.encode() in stderr:
        return _old_python(host, python, "2")
    fix = describe_login_check(host, python, connection)
    nothing = f"{python} ran nothing of gpulaunch"
    # Every program of ours that fails says why on stderr.
    if status in _CANNOT_START or (status is not None and 0 < status < _CANNOT_START[0] and not said):
        words = said or tail_lines(noise) or "it said nothing"
        return LoginShellDisabled(host, f"{nothing} (exit status {status}): {words}", fix)
    if status == 0:  # every program of ours that ends well has answered
        words = tail_lines(noise) or said
        return AgentProtocolError(host, nothing + (f", but: {words}" if words else "; it said nothing"), fix)
    return None


def describe_login_check(host: str, python: str, connection: Connection | None) -> str:
    """Return what to type where something else than the interpreter may have taken what gpulaunch sent."""
    line = (
        f"{quote_path(python)} -V on {host}"
        if connection is None
        else connection.command_line((python, "-V"))
    )
    return (
        f"{line} must print a version and ask nothing: a start-up file that fails, exits or asks, a forced"
        " command, or an account whose login shell is nologin takes what gpulaunch sends"
    )


def explain_no_python(host: str, python: str, output: str) -> PythonNotFound:
    """Return what is reported where the interpreter cannot be started."""
    fix = f"set `python:` of {host} in hosts.yaml to the training environment's interpreter ({_search(host)})"
    if any(words in output.lower() for words in ("is a directory", "permission denied")) and "/" in python:
        fix += f"; if {python} is an environment's directory, to {python.rstrip('/')}/bin/python"
    elif "shared librar" in output:
        fix += (
            "; or, where LD_LIBRARY_PATH names its libraries, set that above the line of ~/.bashrc at which"
            " shells that are not interactive leave it"
        )
    elif "/" in python:  # which a command has named, too
        fix += ", or to python3, or make this environment on the host"
    return PythonNotFound(host, f"{python} cannot be started on the host: {output}", fix)


def _old_python(host: str, python: str, version: str) -> PythonNotFound:
    message = f"{python} is Python {version}; gpulaunch needs 3.9 or newer"
    fix = f"set `python:` of {host} in hosts.yaml to a newer interpreter ({_search(host)})"
    return PythonNotFound(host, message, fix)


def _search(host: str) -> str:
    return f"gpulaunch init --hosts {shlex.quote(host)} looks for it"
