"""The result of each start of a run, for its summary and its JSON."""

from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class StartRecord:
    """One start that is over."""

    run_id: str
    verdict: str
    exit_code: int
    why: str
    identity: tuple[str, str, str]  # nature, signature code, host; "" where not known
    world_size: int
    mixed_precision: str
    hosts: tuple[str, ...]
    seconds: float
    logs: str
    resumed_from: str = ""  # "" = from the start
    last_checkpoint: str = ""  # the last whole one when it had ended
    last_step: int = -1
    checkpoint_known: bool = False
    changes: tuple[str, ...] = ()  # what was different from the start before it, in words


@dataclass(frozen=True, slots=True)
class RestartHistory:
    """How often a run was started, and why not once more."""

    max: int
    starts: tuple[StartRecord, ...]  # all of them, in order
    stop_reason: str  # why there was no further start; "" when the last one ended well

    @property
    def count(self) -> int:
        """The number of restarts."""
        return max(0, len(self.starts) - 1)
