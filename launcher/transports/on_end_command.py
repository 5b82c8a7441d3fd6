"""`on_end:` of a run config: runs locally once the run is over, with the outcome as JSON on its stdin."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from launcher.errors import BadInput
from launcher.local.home import expand_home
from launcher.onhost.exit_status import describe_exit
from launcher.text import one_line

TIMEOUT_S = 60.0
_KILL_S = 2.0
_PART = 4096
_SHOWN = 200


def check_end_command(words: tuple[str, ...]) -> None:
    """Raise BadInput for a command that cannot be started: after a long run that is learned too late."""
    if shutil.which(_program(words)) is None:
        raise BadInput(
            f"on_end: {one_line(words[0], 80)}: no such program, or it is not executable",
            "correct it; or run without it: --set on_end=",
        )


def _program(words: tuple[str, ...]) -> str:
    return str(expand_home(words[0])) if words[0].startswith("~/") else words[0]


def run_end_command(
    words: tuple[str, ...], document: Mapping[str, Any], *, cwd: str = "", timeout_s: float = TIMEOUT_S
) -> str:
    """Run the command; return why it failed in one line, "" when it did not. Raises nothing of its own.

    `cwd`: the directory that the run was launched in; "" is the current one.
    It is the leader of a session, whose processes are killed when the time is up. What it prints goes into
    that line only. Ctrl-C ends it, too.
    """
    name = one_line(shlex.join(words), 80)
    last: deque[bytes] = deque(maxlen=2)
    reading, writing = os.pipe2(os.O_CLOEXEC)
    reader = threading.Thread(target=_drain, args=(reading, last), daemon=True)
    reader.start()
    try:
        program = _program(words)
        with tempfile.TemporaryFile() as stdin:
            stdin.write(json.dumps(document).encode())
            stdin.seek(0)
            process = subprocess.Popen(
                (program, *words[1:]),
                stdin=stdin,
                stdout=writing,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=cwd or None,
            )
    except (OSError, BadInput) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else error.message
        return f"on_end: {name}: cannot be started: {why}"
    finally:
        os.close(writing)
    why = _wait(process, timeout_s)
    reader.join(0.3)  # what it left in the background may hold the pipe for long
    said = one_line(b"".join(last)[-_SHOWN:].decode("utf-8", "replace").strip(), _SHOWN)
    return f"on_end: {name}: {why}" + (f": {said}" if said else "") if why else ""


def _drain(pipe: int, last: deque[bytes]) -> None:
    while data := os.read(pipe, _PART):
        last.append(data)
    os.close(pipe)


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> str:
    """Wait for the command's end; return why it failed, "" when it did not."""
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        return f"ended after {timeout_s:g} s, which is all it has"
    except KeyboardInterrupt:
        _kill(process)
        return "ended by Ctrl-C"
    return describe_exit(code) if code else ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        process.wait(_KILL_S)
