"""queue: hold a ticket among the clients that wait for GPUs of this host, and say who is before it.

The client's words: "join" takes the ticket; any other line only says that the client lives.
"""

import contextlib
import os
import select
import time
from typing import Any

from preflight.probes.claim_files import CLAIMS_DIR

from ..files import write_all
from ..gpu_claims import release_file
from ..protocol import RequestRefused, encode_frame, send_header
from ..wait_tickets import is_own, list_tickets_ahead, make_queue_id, make_ticket

LOOK_S = 1.0
SAY_S = 10.0  # at most so long between two frames
SILENT_S = 120.0  # a client that says nothing for so long is gone
MAX_SHOWN = 20


def serve(request: dict[str, Any]) -> int:
    """Serve one client until it is gone. Raises RequestRefused."""
    directory = str(request.get("directory") or CLAIMS_DIR)
    try:
        send_header({"queue": make_queue_id(directory), "t": time.time()})
        QueueSession(directory, str(request["name"]), [str(gpu) for gpu in request["gpus"]]).run()
    except OSError as error:
        raise RequestRefused("no place in the queue: %s: %s" % (directory, error.strerror)) from None
    return 0


class QueueSession:
    """The ticket of one client, from its word "join" on."""

    def __init__(self, directory: str, name: str, gpus: list[str]) -> None:
        self._directory = directory
        self._name = name
        self._gpus = gpus
        self._ticket: tuple[str, int] | None = None
        self._reported: list[list[str]] | None = None
        self._say_at = 0.0
        self._unread = b""

    def run(self) -> None:
        """Hold the ticket while the client lives and its file exists. Raises OSError."""
        heard = time.monotonic()
        try:
            while time.monotonic() - heard < SILENT_S:
                if select.select([0], [], [], LOOK_S)[0]:
                    data = os.read(0, 4096)
                    if not data:
                        return
                    heard = time.monotonic()
                    self._obey(data)
                if not self._look():
                    return
        finally:
            if self._ticket is not None:
                release_file(*self._ticket)

    def _obey(self, data: bytes) -> None:
        *words, self._unread = (self._unread[-100:] + data).split(b"\n")
        if b"join" in words and self._ticket is None:
            self._ticket = make_ticket(self._directory, self._name, self._gpus)

    def _look(self) -> bool:
        """Say who is before the ticket; return whether it is still held."""
        if self._ticket is None:
            return True
        if not is_own(*self._ticket):
            return False
        ahead = [[each.user, each.name] for each in list_tickets_ahead(self._directory, self._ticket[0])]
        now = time.monotonic()
        if ahead != self._reported or now >= self._say_at:
            self._reported, self._say_at = ahead, now + SAY_S
            with contextlib.suppress(BrokenPipeError):
                write_all(
                    1, bytes(encode_frame({"ahead": len(ahead), "who": ahead[:MAX_SHOWN], "t": time.time()}))
                )
        return True
