"""A host that does not answer us any more: has it died, or are only we cut off from it? The others are asked.

A run of several hosts gets nowhere without one of them, and the rest waits in a collective for minutes: a
dead host must end the run soon. A broken way from the client to a living one must not. So another host of the
run is asked whether it reaches the silent one, and believed only if it did so while all was well: where hosts
may not reach each other's SSH port, nothing is concluded.
"""

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import TypeAlias

from launcher.errors import HostError

PROBE_INTERVAL_S = 6.0
MAX_FAILED_PROBES = 3
"""So often in a row nothing of it must answer: about 20 s, which a short fault of a switch does not last."""

PeerAddress: TypeAlias = tuple[str, int]
ProbePeers: TypeAlias = "Callable[[str, tuple[PeerAddress, ...]], tuple[bool, ...]]"
"""Asks a host which of these addresses answer it, if only with a refusal. Raises HostError."""


class PeerCheck:
    """Watches over hosts whose link is broken, with the eyes of the others."""

    def __init__(
        self,
        targets: Mapping[str, PeerAddress],
        knock: ProbePeers,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`targets` has an address of every host that has one the others may reach, the main host first."""
        self._targets = dict(targets)
        self._knock = knock
        self._clock = clock
        self._answers: queue.SimpleQueue[tuple[str, Mapping[str, bool]]] = queue.SimpleQueue()
        self._reaches: set[tuple[str, str]] = set()  # (who asks, whom) when all was well
        self._rounds: dict[str, int] = {}
        self._next: dict[str, float] = {}

    def start(self) -> None:
        """Find out who reaches whom while all is well: the main host the others, the second the main host."""
        for asker, hosts in self._pairs().items():
            self._ask(asker, hosts)

    def step(self, dropped: Collection[str]) -> Iterator[tuple[str, str]]:
        """Continue with the questions about hosts whose link is broken; yield (host, why) that has
        died.
        """
        self._take(dropped)
        for host in [host for host in self._rounds if host not in dropped]:
            del self._rounds[host]
        for asker, hosts in self._pairs().items():
            wanted = [host for host in hosts if host in dropped and (asker, host) in self._reaches]
            due = [host for host in wanted if self._clock() >= self._next.get(host, 0.0)]
            if due and asker not in dropped:
                self._next.update(dict.fromkeys(due, self._clock() + PROBE_INTERVAL_S))
                self._ask(asker, tuple(due))
        for host, rounds in list(self._rounds.items()):
            if rounds == MAX_FAILED_PROBES:
                self._rounds[host] += 1  # said once
                asker = next(asker for asker, hosts in self._pairs().items() if host in hosts)
                yield host, f"{asker}, which could connect to it before, gets no answer from it either"

    def _take(self, dropped: Collection[str]) -> None:
        with suppress(queue.Empty):
            while True:
                asker, answers = self._answers.get_nowait()
                for host, alive in answers.items():
                    if alive and host not in dropped:
                        self._reaches.add((asker, host))
                    self._rounds[host] = 0 if alive else self._rounds.get(host, 0) + 1

    def _pairs(self) -> dict[str, tuple[str, ...]]:
        hosts = tuple(self._targets)
        return {} if len(hosts) < 2 else {hosts[0]: hosts[1:], hosts[1]: hosts[:1]}

    def _ask(self, asker: str, hosts: tuple[str, ...]) -> None:
        threading.Thread(target=self._answer, args=(asker, hosts), daemon=True).start()

    def _answer(self, asker: str, hosts: tuple[str, ...]) -> None:
        with suppress(HostError):  # who cannot be asked has said nothing
            answers = self._knock(asker, tuple(self._targets[host] for host in hosts))
            self._answers.put((asker, dict(zip(hosts, answers, strict=True))))
