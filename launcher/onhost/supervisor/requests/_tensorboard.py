"""TensorBoard over the output of a run, on the loopback of this host, for as long as a client forwards it.

Its port is in the process table seconds before it listens: another user of the host may have taken it by
then, and would be shown to the client in its place. So a connection is passed on only where a socket of this
user listens.
"""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
from functools import partial
from typing import Any

from ..processes import PR_SET_PDEATHSIG, call_prctl
from ..protocol import RequestRefused
from ._fetch_paths import OUTPUT, run_places

START_S = 90.0  # it imports for long from a slow disk
LOOK_S = 0.1
OUTPUT_SHOWN = 300
FIX = (
    "for the next run: output: DIR in its run config; for this one: start tensorboard --logdir DIR on the"
    " host, then: gpulaunch forward %s"
)
LOCAL = "127.0.0.1"
LISTEN = "0A"
CONNECT_S = 1.0


class TensorBoard:
    """The process, which ends with this one."""

    def __init__(self, spec: dict[str, Any], run_dir: str) -> None:
        self._python = os.path.expanduser(str((spec.get("argv") or ["python3"])[0]))
        self._logs = run_places(spec, run_dir).get(OUTPUT, "")
        if not self._logs:
            raise RequestRefused(
                "the run did not say where its script writes", FIX % os.path.basename(run_dir)
            )
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> "TensorBoard":  # noqa: PYI034 - Python 3.9 has no Self
        """Start it and wait until it accepts connections. Raises RequestRefused."""
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._output.close()

    def _start(self) -> None:
        self.port = free_port()
        words = ["--logdir", self._logs, "--host", LOCAL, "--port", str(self.port)]
        try:
            self._process = subprocess.Popen(
                [self._python, "-m", "tensorboard.main", *words],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                cwd="/",  # nothing of a working directory is imported
                env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
                start_new_session=True,
                preexec_fn=partial(call_prctl, PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509 - it has one thread
            )
        except OSError as error:
            raise RequestRefused("TensorBoard cannot be started by %s: %s" % (self._python, error)) from None
        give_up = time.monotonic() + START_S
        while time.monotonic() < give_up:
            if self._process.poll() is not None:
                raise RequestRefused("TensorBoard ended at once: %s" % self._last_words())
            with contextlib.suppress(RequestRefused):
                self.connect().close()
                return
            time.sleep(LOOK_S)
        raise RequestRefused("TensorBoard did not answer within %d s: %s" % (START_S, self._last_words()))

    def connect(self) -> socket.socket:
        """Connect to it. Raises RequestRefused where it does not listen, or another user does."""
        try:
            sock = socket.create_connection((LOCAL, self.port), timeout=CONNECT_S)
        except OSError as error:
            raise RequestRefused("TensorBoard does not answer: %s" % error) from None
        if os.geteuid() not in list_listeners(self.port):
            sock.close()
            raise RequestRefused("another user listens on port %d" % self.port)
        return sock

    def _last_words(self) -> str:
        self._output.seek(0)
        return self._output.read()[-OUTPUT_SHOWN:].decode("utf-8", "replace").strip() or "it said nothing"


def list_listeners(port: int, table: str = "/proc/net/tcp") -> set[int]:
    """Return whose sockets listen on a port of 127.0.0.1 (uids); none where that cannot be read."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(table, encoding="ascii") as lines:
        # sl local_address rem_address st tx:rx tr:when retrnsmt uid, see proc(5); words in the host's order
        wanted = "%08X:%04X" % (struct.unpack("=I", socket.inet_aton(LOCAL))[0], port)
        rows = [line.split() for line in lines]
        return {int(row[7]) for row in rows[1:] if row[1] == wanted and row[3] == LISTEN}
    return set()


def free_port() -> int:
    """Return a port of the loopback that is free now."""
    with socket.socket() as sock:
        sock.bind((LOCAL, 0))
        return int(sock.getsockname()[1])
