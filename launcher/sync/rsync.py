"""rsync as the carrier of changed files, over the connection that is open already.

It writes into the receiver's staging directory, with the file that is in place as the basis, so only the
changed parts of a large file travel. What came is hashed by the receiver like everything else.

Both carriers stay: rsync takes two fifths of the client's CPU time and three quarters of the wall time for
5,000 files, a fifth and a third for 200 MB (bench/sync_carriers.py), and many containers have no rsync.
"""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from launcher.errors import HostError
from launcher.transports.base import Connection, Endpoint
from launcher.transports.local import LocalConnection, LocalStream
from launcher.transports.rsync_tunnel import open_tunnel
from preflight.frozen import dataclass

MIN_BYTES = 256 << 10  # below this much to send, rsync's own greeting costs more than it can save
_PROGRAM = "rsync"
_SILENCE_S = 60
_LAST_WORDS_S = 10.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class RsyncTarget:
    """The host's end: its rsync, the directory that gets the files, and where their old versions lie."""

    program: str
    stage: str
    basis: str


def has_rsync() -> bool:
    """Whether this machine has rsync."""
    return shutil.which(_PROGRAM) is not None


def transfer_files(
    connection: Connection,
    target: RsyncTarget,
    root: Path,
    paths: Sequence[str],
    on_bytes: Callable[[int], None],
) -> int | None:
    """Bring files of `root` into the stage on the host; return the bytes sent, None when it did not work.

    `on_bytes` gets the size of each file as it is done. A failure leaves at most some of the files on the
    host.
    """
    listed = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
    try:
        with open_tunnel(connection, target.program) as loan, tempfile.NamedTemporaryFile() as names:
            names.write(listed)
            names.flush()
            argv = _argv(target, root, names.name, " ".join(map(_quoted, loan.rsh)))
            rsync = LocalConnection(Endpoint("localhost", "local", "")).start(argv)
            try:
                rsync.close_stdin()
                status = _follow(rsync, on_bytes)
            finally:
                rsync.kill()
                rsync.close()
            return loan.sent if status == 0 else None
    except (HostError, OSError):
        return None  # the caller sends the files itself, and says what fails then


def _argv(target: RsyncTarget, root: Path, names: str, rsh: str) -> tuple[str, ...]:
    return (
        _PROGRAM,
        "--links",
        "--compress",
        "--ignore-times",  # an old file of the same size and time may hold something else
        "--no-implied-dirs",
        "--protect-args",  # paths travel inside the protocol: no shell on the host reads them
        "--from0",
        f"--files-from={names}",
        f"--copy-dest={target.basis}",
        f"--timeout={_SILENCE_S}",
        "--out-format=%l",
        f"--rsh={rsh}",
        f"{root}/",
        f"there:{target.stage}/",
    )


def _quoted(word: str) -> str:
    """Quote as rsync itself reads --rsh: it knows quotes, and a doubled one inside them as itself."""
    return "'" + word.replace("'", "''") + "'"


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
