"""What can happen to a run, as values: the one queue of the loop holds nothing else, so it can be replayed.

Times (`at`) are seconds of this machine's wall clock; a host's own times are moved onto it when they arrive.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class HostStarted:
    """The host's supervisor runs and has started the launcher, now or (attached to) some time ago."""

    host: str
    run_dir: str
    sizes: Mapping[str, int] = field(default_factory=dict)  # of the logs that existed already


@dataclass(frozen=True, slots=True)
class StartRefused:
    """The host's supervisor could not be started, or could not start the launcher."""

    host: str
    why: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class LogOutput:
    """Bytes of a log, exactly as they were written on the host."""

    host: str
    log: str  # "rank-3.log", "launcher.log", "supervisor.log"
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class HostReport:
    """One line of the host's events.jsonl or usage.jsonl, by the supervisor, its gauge or a rank."""

    host: str
    event: str
    fields: Mapping[str, Any]
    at: float

    @property
    def exit_code(self) -> int | None:
        """How what it is about has ended, where that is known."""
        code = self.fields.get("code")
        return code if isinstance(code, int) else None


@dataclass(frozen=True, slots=True)
class RankDigest:
    """What a rank's log, which stays on its host, has so far: all its lines count."""

    lines: int
    last: str
    said: Mapping[str, int]  # alarming lines that differ in more than digits, and how many of each


@dataclass(frozen=True, slots=True)
class DigestReport:
    """Digests that have changed, by rank."""

    host: str
    ranks: Mapping[int, RankDigest]


@dataclass(frozen=True, slots=True)
class HostEnded:
    """Nothing of the run is left on the host, or `state` says what; its local logs are complete."""

    host: str
    state: Mapping[str, Any]
    at: float | None = None  # when it had ended, None where the host does not know


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection broke; it is being opened again."""

    host: str
    why: str
    fix: str = ""
    is_final: bool = False  # waiting does not help: a changed host key, a key that is no longer let in

    @property
    def message(self) -> str:
        """What is said of it, once."""
        if self.is_final:
            return f"{self.host}: not connected again: {self.why}; {self.fix}"
        then = "reconnecting; the run continues on the host, if it lives"
        return f"{self.host}: connection lost ({self.why}); {then}"


@dataclass(frozen=True, slots=True)
class Reconnected:
    """The connection is back, and following continues at the exact byte."""

    host: str

    @property
    def message(self) -> str:
        """What is said of it."""
        return f"{self.host}: connected again, nothing was lost"


@dataclass(frozen=True, slots=True)
class HostLost:
    """The host could not be reached again in time; `still_running`: its ranks may still run.

    `answers`: it is reached, and its part of the run does not end. `forgotten`: it is reached, and
    has nothing of the run any more.
    """

    host: str
    why: str
    still_running: bool = False
    answers: bool = False
    forgotten: bool = False

    @property
    def text(self) -> str:
        """What has become of the host."""
        return f"{self.host}: {self.why}" if self.answers else f"{self.host}: lost: {self.why}"


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Ctrl-C, or another signal that asks to end."""

    signal: str = "Ctrl-C"
    who: str = ""  # user@machine


@dataclass(frozen=True, slots=True)
class JobEnds:
    """Slurm has announced the end of the run's job; what failed since `at` follows from that."""

    why: str
    at: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""

    at: float


RunEvent: TypeAlias = (
    HostStarted
    | StartRefused
    | LogOutput
    | HostReport
    | DigestReport
    | HostEnded
    | Disconnected
    | Reconnected
    | HostLost
    | Interrupted
    | JobEnds
    | Tick
)
