"""rsync as the carrier of changed files, over the connection that is open already.

rsync starts bridge.py where it would start ssh, so host keys, jump hosts and passwords are asked once and by
our rules. It writes into the receiver's staging directory, with the file that is in place as the basis, so
only the changed parts of a large file travel. What came is hashed by the receiver like everything else.
"""

import json
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from launcher.errors import HostError
from launcher.syncing import bridge
from launcher.transports.base import Connection, Endpoint, Stream
from launcher.transports.local import LocalConnection, LocalStream

WORTH_BYTES = 256 << 10
"""Below this much to send, rsync's own greeting costs more than it can save."""
_PROGRAM = "rsync"
_START_S = 20.0
_SILENCE_S = 60
_LAST_WORDS_S = 10.0
_POLL_S = 0.1
_CHUNK = 1 << 16
_MAX_COMMAND = 1 << 16


@dataclass(frozen=True, slots=True)
class There:
    """The host's end: its rsync, the directory that gets the files, and where their old versions lie."""

    program: str
    stage: str
    basis: str


def is_here() -> bool:
    """Whether this machine has rsync, and it can be told what to start instead of ssh."""
    return shutil.which(_PROGRAM) is not None and not {"'", '"'} <= {*sys.executable, *bridge.__file__}


def carry(
    connection: Connection, there: There, root: Path, paths: Sequence[str], on_bytes: Callable[[int], None]
) -> int | None:
    """Bring files of `root` into the stage there; return the bytes that left here, None when it did not work.

    `on_bytes` is told the size of each file as it is done. A failure leaves at most some of the files there.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="gpulaunch-rsync-") as private:
            return _carry(connection, there, root, paths, on_bytes, Path(private))
    except (HostError, OSError, ValueError):
        return None  # the caller sends the files itself, and says what fails then


def _carry(
    connection: Connection,
    there: There,
    root: Path,
    paths: Sequence[str],
    on_bytes: Callable[[int], None],
    private: Path,
) -> int | None:
    names, meeting = private / "names", private / "socket"
    names.write_bytes(b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(meeting))
        listener.listen(1)
        listener.settimeout(_START_S)
        rsync = LocalConnection(Endpoint("localhost", "local", "")).start(_argv(there, root, names, meeting))
        try:
            rsync.close_stdin()
            with listener.accept()[0] as link:
                wire = _Wire(link, connection, there.program)
                threading.Thread(target=wire.carry, daemon=True).start()
                status = _follow(rsync, on_bytes)
            return wire.sent if status == 0 else None
        finally:
            rsync.kill()
            rsync.close()


def _argv(there: There, root: Path, names: Path, meeting: Path) -> tuple[str, ...]:
    rsh = " ".join(map(_quoted, (sys.executable, "-IS", bridge.__file__, str(meeting))))
    return (
        _PROGRAM,
        "--links",
        "--compress",
        "--ignore-times",  # an old file of the same size and time may hold something else
        "--no-implied-dirs",
        "--protect-args",  # paths travel inside the protocol: no shell there reads them
        "--from0",
        f"--files-from={names}",
        f"--copy-dest={there.basis}",
        f"--timeout={_SILENCE_S}",
        "--out-format=%l",
        f"--rsh={rsh}",
        f"{root}/",
        f"there:{there.stage}/",
    )


def _quoted(word: str) -> str:
    """Quote as rsync itself reads --rsh: it knows quotes, and no escapes inside them."""
    return f'"{word}"' if "'" in word else f"'{word}'"


def _follow(rsync: LocalStream, on_bytes: Callable[[int], None]) -> int | None:
    """Return rsync's exit status, telling the size of each file that it names as done."""
    rest = b""
    while (data := rsync.read(_POLL_S)) != b"":
        rsync.read_stderr()
        *lines, rest = (rest + (data or b"")).split(b"\n")
        for line in lines:
            if line.strip().isdigit():
                on_bytes(int(line))
    return rsync.wait(_LAST_WORDS_S)


class _Wire:
    """Joins rsync's socket to the rsync that it wants to have started on the host."""

    def __init__(self, link: socket.socket, connection: Connection, program: str) -> None:
        self.sent = 0
        self._link = link
        self._connection = connection
        self._program = program

    def carry(self) -> None:
        """Carry bytes both ways until the far side ends; the near one then sees its end too."""
        with suppress(HostError, OSError, ValueError):
            stream = self._connection.start((self._program, *self._command()[1:]))
            try:
                threading.Thread(target=self._send, args=(stream,), daemon=True).start()
                while (data := stream.read(_POLL_S)) != b"":
                    stream.read_stderr()
                    self._link.sendall(data or b"")
            finally:
                stream.close()
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)

    def _command(self) -> list[str]:
        line = b""
        while not line.endswith(b"\n"):
            byte = self._link.recv(1)
            if not byte or len(line) > _MAX_COMMAND:
                raise ValueError("rsync asked for no command")
            line += byte
        return [str(word) for word in json.loads(line)]

    def _send(self, stream: Stream) -> None:
        with suppress(HostError, OSError):
            self._link.settimeout(None)
            while data := self._link.recv(_CHUNK):
                stream.write(data)
                self.sent += len(data)
            stream.close_stdin()
