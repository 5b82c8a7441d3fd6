"""One host that receives the tree: the other end of launcher/onhost/sync/main.py."""

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from launcher.errors import AgentProtocolError, GpulaunchError, HostError, ProgramNotStarted, SyncFailed
from launcher.onhost.sync.target_state import TreeEntry
from launcher.remote.program_source import build_stdin_command, read_program_source
from launcher.remote.rpc import Answers, encode_line
from launcher.remote.shell_errors import explain_no_python
from launcher.sync import rsync
from launcher.sync.tree import CHUNK, STATE
from launcher.text import one_line
from launcher.transports.base import Closing, Connection, Stream
from launcher.transports.ssh.ssh_command import format_login
from launcher.transports.step.stream import StepStream
from preflight.errors import MalformedFacts
from preflight.facts.json_codec import decode
from preflight.frozen import dataclass

Value = TypeVar("Value")

START_S = 30.0
ANSWER_S = 120.0
"""Hashing a large tree on a slow file server takes minutes, once, and the host says meanwhile that it works;
what says nothing for so long hangs in a file server that does not answer."""
_LEVEL = 1
_BATCH = 1 << 18  # bytes that are collected before they are sent: small files travel together
_LAST_WORDS_S = 5.0


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What a sync did on one host."""

    written: int = 0
    kept: tuple[str, ...] = ()  # replaced files that no sync had sent
    kept_in: str = ""
    deleted: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()  # sent by a former sync, no longer in the tree
    edited: tuple[str, ...] = ()  # such ones that were edited on the host: never deleted
    former: str = ""  # whose tree the last sync had sent, where it was another one


class SyncClient(Closing):
    """A sync that continues with one host. Closing it before `commit` leaves the host as it was."""

    def __init__(self, connection: Connection, python: str) -> None:
        self._connection = connection
        self.host = connection.name
        self.login = format_login(connection)
        self._python = python
        self._stream: Stream | None = None
        self._answers: Answers | None = None
        self.nonce = ""
        self.root = ""
        self._rsync = ""
        self._batch = bytearray()
        self._is_clean = False  # the host has removed what was for this sync alone

    def close(self) -> None:
        """End it; idempotent. Waits a moment, so that the host has removed what was not committed."""
        stream, self._stream = self._stream, None
        if stream is not None:
            try:
                stream.close_stdin()
                if not self._is_clean:
                    stream.wait(_LAST_WORDS_S)
            except (GpulaunchError, OSError):
                pass  # the connection is gone; the host sees that too
            finally:
                stream.close()
        self._connection.close()

    def start(self) -> None:
        """Start the program on the host, which changes nothing before `begin`. Raises HostError."""
        argv, stdin = build_stdin_command(self._python, read_program_source("sync"), b"", name="sync.py")
        try:
            self._stream = self._connection.start(argv)
        except ProgramNotStarted as failure:
            raise explain_no_python(self.host, self._python, failure.why) from None
        self._answers = Answers(self._stream, self.host, self._python, "the receiver")
        self._send(stdin)

    def begin(self, target: str, nonce: str) -> str:
        """Open the directory on the host; return its real path. Raises SyncFailed, HostError."""
        if self._stream is None:
            self.start()
        answer = self._answer_to(encode_line({"target": target, "nonce": nonce}), "root", START_S)
        self.nonce, self.root, self._rsync = nonce, str(answer["root"]), str(answer.get("rsync", ""))
        return self.root

    def list_seen(self, nonces: Iterable[str]) -> frozenset[str]:
        """Return which of these the host sees in its directory."""
        return frozenset(self._ask(tuple[str, ...], encode_line({"nonces": list(nonces)}), "seen", START_S))

    def stamps(self, paths: Sequence[str]) -> tuple[tuple[int, int] | None, ...]:
        """Return size and time (s) of each path as the host sees it, None for what it does not see."""
        packed = zlib.compress(json.dumps(list(paths)).encode(), _LEVEL)
        request = encode_line({"stamps": len(packed)}) + packed
        found = self._ask(tuple[tuple[int, int] | None, ...], request, "stamps", ANSWER_S)
        if len(found) != len(paths):
            raise AgentProtocolError(self.host, "the receiver's answer is not understood")
        return found

    def compare(self, entries: Sequence[Sequence[object]], *, delete: bool) -> tuple[int, ...]:
        """Return the indices of the entries that the host lacks with this content; takes the lock on it."""
        packed = zlib.compress(json.dumps(entries).encode(), _LEVEL)
        request = encode_line({"entries": len(packed), "delete": delete}) + packed
        needed = self._ask(tuple[int, ...], request, "need", ANSWER_S)
        return tuple(index for index in needed if 0 <= index < len(entries))

    def upload(self, index: int, entry: TreeEntry, root: Path, on_bytes: Callable[[int], None]) -> None:
        """Send one entry. Raises SyncFailed when it cannot be read any more or has changed its size."""
        self._collect(encode_line({"put": index}))
        if entry.kind == "l":
            return
        left = entry.size  # of what has grown since it was read, as it was then: a log
        try:
            with (root / entry.path).open("rb") as file:
                while left and (data := file.read(min(CHUNK, left))):
                    left -= len(data)
                    packed = zlib.compress(data, _LEVEL)
                    self._collect(b"%d\n%s" % (len(packed), packed))
                    on_bytes(len(data))
        except OSError as error:
            raise SyncFailed(f"{root / entry.path} cannot be read any more: {error.strerror}") from None
        if left:
            raise SyncFailed(f"{entry.path} changed while it was sent; nothing was written", "run it again")
        self._collect(b"0\n")

    def upload_with_rsync(
        self,
        indices: Sequence[int],
        entries: Sequence[TreeEntry],
        root: Path,
        on_bytes: Callable[[int], None],
    ) -> tuple[frozenset[int], int]:
        """Send files by rsync where both sides have it; return those that came whole, and the bytes sent.

        Not to a task of a step: what rsync sends is another stream for each host, and every task gets all of
        them, while what `upload` sends is the same for all and travels once.
        """
        if not self._rsync or isinstance(self._stream, StepStream) or not rsync.has_rsync():
            return frozenset(), 0
        stage = f"{self.root}/{STATE}/incoming-{self.nonce}/tree"
        there = rsync.RsyncTarget(self._rsync, stage, self.root)
        paths = [entries[index].path for index in indices]
        sent = rsync.transfer_files(self._connection, there, root, paths, on_bytes)
        adopted = self._ask(tuple[int, ...], encode_line({"adopt": list(indices)}), "adopted", ANSWER_S)
        return frozenset(adopted), sent or 0

    def finish_staging(self) -> int:
        """Make sure that the host has all, whole and not yet in place; return how many files change."""
        return self._ask(int, encode_line({"staged": True}), "staged", ANSWER_S)

    def live_runs(self) -> tuple[str, ...]:
        """Return the runs with a process in the directory on this host."""
        found = self._ask(tuple[str, ...], encode_line({"live": True}), "live", ANSWER_S)
        return tuple(one_line(run_id, 80) for run_id in found)

    def commit(self, source: str = "") -> SyncResult:
        """Put all in place; `source` says whose tree it is."""
        answer = self._answer_to(encode_line({"commit": source}), "written", ANSWER_S)
        self._is_clean = True
        return self._fit(SyncResult, answer)

    def _ask(self, kind: type[Value], data: bytes, key: str, timeout_s: float) -> Value:
        return self._fit(kind, self._answer_to(data, key, timeout_s)[key])

    def _fit(self, kind: type[Value], answer: object) -> Value:
        try:
            return decode(kind, answer)
        except MalformedFacts as misfit:
            words = f"the receiver's answer is not understood: {one_line(misfit.message)}"
            raise AgentProtocolError(self.host, words) from None

    def _answer_to(self, data: bytes, key: str, timeout_s: float) -> dict[str, Any]:
        self._flush()
        self._send(data)
        answer = self._answer(timeout_s)
        if key not in answer:
            raise AgentProtocolError(self.host, "the receiver's answer is not understood")
        return answer

    def _collect(self, data: bytes) -> None:
        self._batch += data
        if len(self._batch) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        data, self._batch = bytes(self._batch), bytearray()
        if data:
            self._send(data)

    def _send(self, data: bytes) -> None:
        """Write; where the host has stopped reading it has said why."""
        if self._stream is None:
            raise HostError(self.host, "the sync is closed")
        try:
            self._stream.write(data)
        except HostError as failure:
            self._answer(_LAST_WORDS_S)
            raise failure from None

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        """Return the next answer. Raises SyncFailed with the host's own words."""
        if self._answers is None:
            raise HostError(self.host, "the sync is closed")
        while "busy" in (answer := self._answers.next(timeout_s)):
            pass
        if "error" in answer:
            message = f"{self.host}: {one_line(str(answer['error']), 500)}"
            failure = SyncFailed(message, one_line(str(answer.get("fix", "")), 300))
            failure.hosts = (self.host,)
            raise failure
        return answer
