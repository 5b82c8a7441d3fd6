"""A host that does not answer us any more: has it died, or are only we cut off from it? The others are asked.

A run of several hosts gets nowhere without one of them, and the rest waits in a collective for minutes: a
dead host must end the run soon. A broken way from the client to a living one must not. So up to three other
hosts of the run are asked whether they reach the silent one, and believed only if they did so while all was
well: where hosts may not reach each other's SSH port, nothing is concluded. One that reaches it is enough for
it to live.
"""

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import TypeAlias

from launcher.errors import HostError

SSH_PORT = 22
PROBE_INTERVAL_S = 6.0
MAX_FAILED_PROBES = 3  # about 20 s, which a short fault of a switch does not last
MAX_ASKERS = 3  # a power supply may take two hosts at once; three connections burden none
RETRY_PAUSES_S = (15.0, 30.0, 60.0, 120.0, 240.0)
"""Before a question of the start is asked again whose answer did not come, or was that nothing answers."""

PeerAddress: TypeAlias = tuple[str, int]
ProbePeers: TypeAlias = "Callable[[str, tuple[PeerAddress, ...]], tuple[bool, ...]]"
"""Asks a host which of these addresses answer it, if only with a refusal. Raises HostError."""


class PeerCheck:
    """Watches over hosts whose link is broken, with the eyes of the others."""

    def __init__(
        self,
        targets: Mapping[str, PeerAddress],
        probe: ProbePeers,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`targets` has an address of every host that has one the others may reach, the main host first."""
        self._targets = dict(targets)
        self._probe = probe
        self._clock = clock
        self._answers: queue.SimpleQueue[tuple[str, Mapping[str, bool]]] = queue.SimpleQueue()
        self._reaches: set[tuple[str, str]] = set()  # (who asks, whom) when all was well
        self._failed: dict[str, dict[str, int]] = {}  # of a silent host, by who asked: since its last answer
        self._reported: set[str] = set()
        self._next: dict[str, float] = {}
        self._retries: list[float] = []

    def start(self) -> None:
        """Find out who reaches whom while all is well: each of the first hosts asks for all others."""
        at = self._clock()
        self._retries = [at := at + pause for pause in RETRY_PAUSES_S]
        self._ask_unknown(())

    def step(self, dropped: Collection[str]) -> Iterator[tuple[str, str]]:
        """Continue asking about hosts whose link is broken; yield (host, why) of those that have died."""
        self._take(dropped)
        for host in [host for host in self._failed if host not in dropped]:
            del self._failed[host]
            self._reported.discard(host)
        if self._retries and self._clock() >= self._retries[0]:
            self._retries.pop(0)
            self._ask_unknown(dropped)
        due = [host for host in dropped if self._clock() >= self._next.get(host, 0.0)]
        for asker in self._askers(dropped):
            hosts = tuple(host for host in due if (asker, host) in self._reaches)
            self._next.update(dict.fromkeys(hosts, self._clock() + PROBE_INTERVAL_S))
            self._ask(asker, hosts)
        for host, failed in self._failed.items():
            counts = {asker: failed[asker] for asker in self._askers(dropped) if asker in failed}
            sure = [asker for asker, count in counts.items() if count >= MAX_FAILED_PROBES]
            if sure and all(counts.values()) and host not in self._reported:
                self._reported.add(host)
                yield host, f"{sure[0]}, which could connect to it before, gets no answer from it either"

    def _take(self, dropped: Collection[str]) -> None:
        with suppress(queue.Empty):
            while True:
                asker, answers = self._answers.get_nowait()
                for host, alive in answers.items():
                    if host in dropped:
                        failed = self._failed.setdefault(host, {})
                        failed[asker] = 0 if alive else failed.get(asker, 0) + 1
                    elif alive:
                        self._reaches.add((asker, host))

    def _askers(self, dropped: Collection[str]) -> tuple[str, ...]:
        return tuple(host for host in tuple(self._targets)[:MAX_ASKERS] if host not in dropped)

    def _ask_unknown(self, dropped: Collection[str]) -> None:
        for asker in self._askers(dropped):
            living = (host for host in self._targets if host != asker and host not in dropped)
            self._ask(asker, tuple(host for host in living if (asker, host) not in self._reaches))

    def _ask(self, asker: str, hosts: tuple[str, ...]) -> None:
        if not hosts:
            return
        threading.Thread(target=self._answer, args=(asker, hosts), daemon=True).start()

    def _answer(self, asker: str, hosts: tuple[str, ...]) -> None:
        with suppress(HostError):  # who cannot be asked has said nothing
            answers = self._probe(asker, tuple(self._targets[host] for host in hosts))
            self._answers.put((asker, dict(zip(hosts, answers, strict=True))))
