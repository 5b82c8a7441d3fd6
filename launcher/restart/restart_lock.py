"""The right to start a run again: one client at a time has it, from the main host, or that host itself."""

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError, HostError
from launcher.follow import protocol
from launcher.follow.exchange import open_exchange, read_next_frame
from launcher.follow.outcome import Outcome
from launcher.launch.request import LaunchRequest
from launcher.local.user import format_user_at_machine
from launcher.remote.connection_pool import OpenConnection
from launcher.restart.decision import NoRestart
from launcher.rundir.run_id import is_run_id
from launcher.runs.stop import stop_run
from launcher.text import one_line
from launcher.transports.base import Closing, Connection, Stream
from preflight.frozen import dataclass

BEAT_S = 5.0
ANSWER_S = 60.0
POLL_S = 1.0
TRIES = 3  # a link that breaks while another one decides says nothing of that


@dataclass(frozen=True, slots=True)
class OtherStart:
    """Another client, or the host, has started the run again."""

    run_id: str


class Hold(Closing):
    """The right to start a run again. Where it notes nothing, another process does."""

    @abstractmethod
    def confirm(self) -> bool:
        """Return whether the right is still held: the run was not stopped, no link was lost."""

    def note_restart(self, run_id: str) -> bool:
        """Note that the run continues as another one."""
        return bool(run_id)

    def end(self, why: str) -> bool:
        """Note that no further start follows."""
        return bool(why)

    def close(self) -> None:
        """Give the right back; what was not decided, the next client or the host decides."""


class RestartHold(Hold):
    """The right, for as long as the connection lives; `order` is what a restart needs, where it was asked."""

    def __init__(
        self, entry: HostEntry, connection: Connection, stream: Stream, reader: protocol.FrameReader
    ) -> None:
        self.order: object = None
        self._entry = entry
        self._connection = connection
        self._stream = stream
        self._reader = reader
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._beats = threading.Thread(target=self._beat, daemon=True)
        self._beats.start()

    def confirm(self) -> bool:
        """Return whether the right is still held: the run was not stopped, no link was lost."""
        return self._say("sure")

    def note_restart(self, run_id: str) -> bool:
        """Note that the run continues as another one."""
        return self._say(f"restarted {run_id}")

    def end(self, why: str) -> bool:
        """Note that no further start follows."""
        return self._say(f"ended {one_line(why, 400)}")

    def close(self) -> None:
        """Give the right back; what was not decided, the next client or the host decides."""
        if not self._closed.is_set():
            self._closed.set()
            self._stream.close()
            self._connection.close()

    def _say(self, message: str) -> bool:
        if self._closed.is_set():
            return False
        try:
            with self._lock:
                self._stream.write(f"{message}\n".encode())
                frame = read_next_frame(self._entry, self._stream, self._reader, ANSWER_S)
        except HostError:
            return False
        return frame.header.get("noted") is True

    def _beat(self) -> None:
        while not self._closed.wait(BEAT_S):
            with self._lock, suppress(HostError):
                self._stream.write(b"beat\n")


def take_hold(
    run_id: str,
    entry: HostEntry,
    open_entry: OpenConnection,
    say: Callable[[str], None],
    *,
    order: bool = False,
    whole: bool = True,
) -> "RestartHold | OtherStart | NoRestart | None":
    """Return the right, or what another one has decided; None where the host keeps nothing of the run.

    Waits while another one decides. A host that refuses has no such run any more. Raises HostError where
    the host cannot be asked. `whole`: all nodes had started, so a client that attaches may start it again.
    """
    said, broken = "", 0
    while True:
        try:
            hold, answer = _ask(run_id, entry, open_entry, order=order, whole=whole)
        except HostError:
            broken += 1
            if broken == TRIES:
                raise
            time.sleep(POLL_S)
            continue
        broken = 0
        if hold is not None:
            return hold
        following = answer.get("next")
        following = following if isinstance(following, Mapping) else {}
        state, other = following.get("state"), following.get("run_id")
        if state == "restarted" and isinstance(other, str) and is_run_id(other):
            return OtherStart(other)
        if state == "ended":
            return NoRestart(one_line(str(following.get("why") or "it was decided elsewhere"), 300))
        if not answer.get("kept"):
            return None
        who = "its host" if following.get("by") == "host" else one_line(str(following.get("by") or "?"), 80)
        if state == "restarting" and who != said:
            said = who
            say(f"{run_id} is being restarted by {who}; waiting for that")
        time.sleep(POLL_S)


def end_next(last: Outcome, launch: LaunchRequest, why: str) -> Iterator[str]:
    """Have no start follow this one, also where another one has the right to it; yield what is left to do."""
    run_id, main = last.plan.run_id, last.plan.nodes[0].host
    entries = [entry for entry in launch.entries if entry.name == main and main in last.run_dirs]
    for answer in stop_run(run_id, entries, launch.connections.acquire, grace_s=0.0, why=why):
        if isinstance(answer, GpulaunchError):
            yield f"{main} may start it again: {answer.message}: gpulaunch stop {run_id}"
        elif (answer.get("next") or {}).get("state") == "restarted":
            yield f"{run_id} was started again meanwhile, and that start continues: gpulaunch stop {run_id}"


def _ask(
    run_id: str, entry: HostEntry, open_entry: OpenConnection, **says: bool
) -> "tuple[RestartHold | None, Mapping[str, Any]]":
    request = {"mode": "restart", "run_id": run_id, "by": format_user_at_machine(), **says}
    with ExitStack() as held:
        connection = held.enter_context(open_entry(entry))
        stream, reader, header = open_exchange(connection, entry, request, ANSWER_S, dict)
        held.callback(stream.close)
        if header.get("granted") is not True:
            return None, header
        hold = RestartHold(entry, connection, stream, reader)
        hold.order = header.get("order")
        held.pop_all()
        return hold, header
