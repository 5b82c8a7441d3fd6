"""A stand-in for kubectl exec, tsh ssh and their kind: starts a program, and carries bytes to and from it.

    python pipe_exec.py [--tty|--join|--deaf|--refuse|--log FILE] -- COMMAND...

--join hands the words to a shell, joined by spaces, as ssh and tsh do. --tty puts a pseudo terminal between,
--deaf passes no input on, --refuse fails before it starts anything; --log notes that it was started.
"""

import os
import pty
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

_CHUNK = 1 << 16


def main() -> int:
    """Return the exit status of the program, 128 + N after signal N."""
    at = sys.argv.index("--")
    options, command = sys.argv[1:at], sys.argv[at + 1 :]
    if "--log" in options:
        with Path(options[options.index("--log") + 1]).open("a", encoding="utf-8") as log:
            log.write(" ".join(command) + "\n")
    if "--refuse" in options:
        sys.stderr.write('Error from server (NotFound): pods "trainer-0" not found\n')
        return 1
    if "--tty" in options:
        return os.waitstatus_to_exitcode(pty.spawn(command))
    argv = ["sh", "-c", " ".join(command)] if "--join" in options else command
    try:
        stdin = subprocess.DEVNULL if "--deaf" in options else subprocess.PIPE
        child = subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, bufsize=0)
    except OSError as failure:
        sys.stderr.write(f"{failure}\n")
        return 1  # as kubectl: no status tells an absent program
    if child.stdin is not None:
        threading.Thread(target=_carry, args=(0, child.stdin), daemon=True).start()
    assert child.stdout is not None
    while data := child.stdout.read(_CHUNK):
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
    status = child.wait()
    return status if status >= 0 else 128 - status


def _carry(source: int, sink: IO[bytes]) -> None:
    try:
        while data := os.read(source, _CHUNK):
            view = memoryview(data)
            while view:
                view = view[sink.write(view) :]
    except BrokenPipeError:
        pass
    sink.close()


if __name__ == "__main__":
    os._exit(main())  # the thread that reads input may wait for ever
