"""Which failure was the first: the root cause of a run's end. Pure."""

import signal
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from launcher.onhost.exit_status import signal_of
from preflight import regex as re
from preflight.checks.message_text import format_gib
from preflight.diagnosis.free_memory import FreeMemory
from preflight.frozen import dataclass

# What a rank says when a peer has died: its own exception, but not its own fault.
_CONSEQUENCE = re.compile(
    r"(?i)connection (?:closed|reset)(?: by peer)?|broken pipe|remote process exited|"
    r"peer .{0,40}(?:closed|disconnected)|NCCL communicator (?:was|encountered) .{0,40}(?:abort|error)|"
    r"watchdog caught collective operation timeout|timed out waiting \d+ms for (?:recv|send)|"
    r"socket ?timeout|DistNetworkError|recvValue failed|store .{0,40}(?:closed|gone)"
)

# torch's store (c10d) and accelerate's own check, when another process took the port after preflight.
_PORT_TAKEN = re.compile(
    r"(?i)EADDRINUSE|address already in use|Tried to launch distributed communication on port"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that went wrong on its own. `code` None: it was not seen; negative: ended by that signal."""

    host: str
    at: float
    rank: int | None  # None: the launcher, the supervisor or the host
    code: int | None
    summary: str  # one line
    location: str = ""  # file:line of the user's code
    last_lines: tuple[str, ...] = ()
    exception: Mapping[str, Any] = field(default_factory=dict)
    hung: bool = False  # nothing showed life any more; what else failed is its end
    kernel_oom: str = ""  # what the kernel's count of out-of-memory kills says of it
    oom_counted: bool = False  # that count could be read as it ended; without a rise the kill was another's
    early_end: str = ""  # which ranks had ended well when this one lost its peer
    room: FreeMemory | None = None  # the memory that was free a moment before; None: no sample is so young

    @property
    def is_consequence(self) -> bool:
        """Whether it looks like the echo of another rank's death."""
        if not self.exception:
            return signal_of(self.code) == signal.SIGTERM
        text = f"{self.exception.get('type', '')}: {self.exception.get('message', '')}"
        return _CONSEQUENCE.search(text) is not None

    def with_early_end(self, early_end: str) -> "Failure":
        """Return it as what followed from the end of ranks without an error, if there were any."""
        if not early_end:
            return self
        return replace(self, early_end=early_end, summary=f"{early_end} before {self.summary}")


def find_root_cause(failures: Iterable[Failure]) -> Failure | None:
    """Return the first failure in time; ranks before what is not a rank, causes before echoes."""
    return min(
        failures,
        key=lambda failure: (not failure.hung, failure.is_consequence, failure.rank is None, failure.at),
        default=None,
    )


def explain_oom(kills: Mapping[str, Any] | None, code: int | None) -> tuple[str, str]:
    """Return how a SIGKILL is reported, and the evidence, when the kernel has just counted a kill for memory.

    `kills` is the host's event; the count of the run's own group means the run, the host's anything on it.
    """
    if kills is None or signal_of(code) != signal.SIGKILL:
        return "", ""
    if kills.get("scope") == "group":
        evidence = "the kernel counted an out-of-memory kill in the run's control group just then"
        what = "was ended by the kernel's OOM killer (SIGKILL): its memory ran out"
        limit = kills.get("limit")
        if not isinstance(limit, int) or limit <= 0:
            return what, evidence
        bound = f"its control group may use {format_gib(limit / 2**20)}, and has used them"
        return f"{what}: {bound}", f"{evidence}: {bound}"
    evidence = "the kernel counted an out-of-memory kill on this host just then"
    return f"was ended by signal 9 (SIGKILL); {evidence}", evidence


def is_port_conflict(lines: Iterable[str]) -> bool:
    """Return whether a log says that another process took the main port."""
    return any(_PORT_TAKEN.search(line) for line in lines)


def read_shell_exit_code(code: int | None) -> int:
    """Return an exit code as a shell gives it: 128 + signal; 1 when it was not seen."""
    if code is None:
        return 1
    return 128 - code if code < 0 else code & 0xFF
