"""How a run ended, by rank, as one value: what is reported, and what the exit code comes from."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from launcher.exit_codes import ExitCode
from launcher.follow.failures import Failure, read_shell_exit_code
from launcher.follow.phases import Phase
from launcher.follow.restart_history import RestartHistory
from launcher.follow.run_state import RunState
from launcher.follow.usage import RankUsage
from launcher.planning.plan import Plan
from launcher.text import name_ranks
from preflight.diagnosis.result import Diagnosis
from preflight.frozen import dataclass

if TYPE_CHECKING:
    from preflight.diagnosis.stack_analysis import Hang

_NOTICE_SLACK_S = 2.0  # how long before Slurm's signal has reached us a rank may have ended of it
Verdict: TypeAlias = Literal[
    "finished", "failed", "interrupted", "verification_failed", "aborted", "detached"
]


@dataclass(frozen=True, slots=True)
class RankExit:
    """How one rank ended. `code` None: not seen; negative: ended by that signal."""

    rank: int
    host: str
    code: int | None


@dataclass(frozen=True, slots=True)
class EndCause:
    """Why a run did not finish, as far as is known."""

    failure: Failure | None = None  # the first one, where the run failed
    diagnosis: Diagnosis | None = None  # of the failing rank's last lines
    hang: "Hang | None" = None  # where the ranks of a hung run stood
    signalled: bool = False  # a host was sent SIGTERM by no client: a shutdown, a preemption


@dataclass(frozen=True, slots=True)
class Verification:
    """What the ranks reported of themselves, against the plan."""

    mismatches: tuple[str, ...] = ()
    remedy: str = ""  # what to do about them
    devices_verified: bool = False  # world, ranks and devices were seen to be as planned
    precision_verified: bool = False  # so was the mixed precision
    unreported_ranks: tuple[int, ...] = ()  # ranks that never reported their world
    ranks_without_device: tuple[int, ...] = ()  # ranks that reported their world, but not their device


@dataclass(frozen=True, slots=True)
class Cleanup:
    """What of a run is left on its hosts; mappings are by host."""

    lost: Mapping[str, str] = field(default_factory=dict)  # why
    still_running: tuple[str, ...] = ()  # lost hosts on which the run continues, as far as is known
    unending: frozenset[str] = frozenset()  # those of them that answer, and whose part does not end
    forgotten: frozenset[str] = frozenset()  # lost hosts that answer, and have nothing of the run
    vanished: tuple[str, ...] = ()  # hosts whose supervisor is gone and has not said how its part ended
    # Pids that could not be ended.
    remaining_pids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    port_free: bool | None = None  # the main port, on the main host; None: there is none, or unknown

    @property
    def is_clean(self) -> bool:
        """Whether every host confirmed that no process of the run is left and the port is free."""
        return not (self.lost or self.vanished or self.remaining_pids) and self.port_free is not False


@dataclass(frozen=True, slots=True)
class Measurements:
    """What was measured while it ran."""

    phases: tuple[Phase, ...] = ()  # where the time went, in order
    usage: tuple[RankUsage, ...] = ()  # mean use and peak memory of each measured rank
    usage_missing: Mapping[str, str] = field(default_factory=dict)  # host -> why its GPUs were not measured
    clock_offset_s: Mapping[str, float] = field(default_factory=dict)  # host -> to be added to its clock
    # By rank: what its guard measured.
    rehearsal: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    deep: Mapping[int, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)  # rank -> its reports
    guard_events: tuple[tuple[str, int, Mapping[str, Any]], ...] = ()  # host, rank, what its guard saw


@dataclass(frozen=True, slots=True)
class StopCheckpoint:
    """The checkpoint that a run with `before_stop` wrote after the signal; no path: none that is whole."""

    path: str = ""
    step: int = -1
    known: bool = True  # False: the host could not be asked
    why: str = ""  # it is not known, or the one that appeared is not whole

    @property
    def text(self) -> str:
        """What the end of the run says of it."""
        if self.path:
            return f"after the signal the run wrote {self.path}, and it is whole"
        if not self.known:
            return f"whether the run wrote a checkpoint after the signal is not known: {self.why}"
        partial = f" ({self.why})" if self.why else ""
        return f"the run wrote no whole checkpoint after the signal{partial}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run that is over."""

    plan: Plan
    verdict: Verdict
    exit_code: int
    why: str  # one line; "" when it finished
    cause: EndCause
    ranks: tuple[RankExit, ...]
    verification: Verification
    cleanup: Cleanup
    measurements: Measurements
    directory: Path  # the local logs
    run_dirs: Mapping[str, str]  # host -> run directory on it
    seconds: float
    attempts: int = 1
    restarts: RestartHistory | None = None  # None: there were to be none
    stop_checkpoint: StopCheckpoint | None = None  # None: none was requested
    slurm_job: str = ""  # the Slurm job that it was a step of: its nodes are not reached once the job is over
    logs_incomplete: str = ""  # why the local directory is not complete; the hosts have it

    @property
    def ranks_have_ended(self) -> bool:
        """Whether each rank has reported its end: a client that leaves then leaves no training behind."""
        return all(rank.code is not None for rank in self.ranks)


def build_outcome(state: RunState, directory: Path, seconds: float, attempts: int) -> Outcome:
    """Return what a watched run came to."""
    verdict, code, why = _verdict(state)
    hosts = {rank: node.host for rank, node, _ in state.plan.slots}
    guarding = state.guarding
    return Outcome(
        plan=state.plan,
        verdict=verdict,
        exit_code=code,
        why=why,
        cause=EndCause(
            state.root_cause if verdict == "failed" else None,
            signalled=state.signalled and why == state.stopped_by,
        ),
        ranks=tuple(RankExit(rank, host, state.rank_codes.get(rank)) for rank, host in sorted(hosts.items())),
        verification=Verification(
            state.verification.mismatches,
            state.verification.remedy,
            state.verification.devices_verified,
            state.verification.precision_verified,
            state.verification.unreported_ranks(),
            state.verification.ranks_without_device(),
        ),
        cleanup=_cleanup(state),
        measurements=Measurements(
            rehearsal=dict(guarding.rehearsal),
            deep=state.deep.group_by_rank(hosts),
            guard_events=tuple(guarding.events),
        ),
        directory=directory,
        run_dirs=state.nodes.run_dirs,
        seconds=seconds,
        attempts=attempts,
    )


def _cleanup(state: RunState) -> Cleanup:
    ends = {host: ended.state.get("exit") or {} for host, ended in state.nodes.ended.items()}
    return Cleanup(
        lost=state.nodes.lost,
        still_running=state.nodes.going_on,
        unending=state.nodes.unending,
        forgotten=frozenset(host for host in state.hosts if state.nodes[host].forgotten),
        vanished=state.nodes.vanished,
        remaining_pids={
            host: tuple(end["remaining_pids"]) for host, end in ends.items() if end.get("remaining_pids")
        },
        port_free=ends.get(state.hosts[0], {}).get("port_free"),
    )


def _verdict(state: RunState) -> tuple[Verdict, int, str]:
    if state.verification.mismatches:
        return "verification_failed", ExitCode.VERIFICATION_FAILED, state.verification.mismatches[0]
    if state.nodes.refused:
        first = state.nodes.refused[0]
        fix = f"; fix: {first.fix}" if first.fix else ""
        return "aborted", ExitCode.ABORTED, f"{first.host}: {first.why}{fix}"
    cause = state.root_cause
    if state.job_ends is not None and (cause is None or cause.at >= state.job_ends.at - _NOTICE_SLACK_S):
        return "interrupted", ExitCode.INTERRUPTED, state.job_ends.why
    if state.interrupts and (cause is None or state.stopped_by_interrupt):
        return "interrupted", ExitCode.INTERRUPTED, state.interrupted_by
    if state.stopped_by:
        return "interrupted", ExitCode.INTERRUPTED, state.stopped_by
    if state.ended_unattended:
        return "aborted", ExitCode.ABORTED, state.ended_unattended
    if cause is not None and cause.hung:
        return "failed", ExitCode.HUNG, cause.summary
    if cause is not None and cause.rank is not None:
        return "failed", read_shell_exit_code(cause.code), cause.summary
    if state.nodes.lost:
        host, why = next(iter(state.nodes.lost.items()))
        return "aborted", ExitCode.ABORTED, f"{host} was lost: {why}"
    if cause is not None:
        return "failed", ExitCode.ABORTED, cause.summary
    return "finished", 0, ""


def render_unverified(outcome: Outcome) -> Iterator[str]:
    """Yield what ranks did not report of themselves, and why."""
    if outcome.verification.unreported_ranks:
        ranks = name_ranks(outcome.verification.unreported_ranks)
        yield f"not verified: {ranks} never set up torch.distributed or accelerate"
    if outcome.verification.ranks_without_device and outcome.plan.world_size == 1:
        index = outcome.plan.nodes[0].ranks.slots[0].gpu_index
        yield f"not verified: whether the script used GPU {index}: it never started CUDA through torch"
    elif outcome.verification.ranks_without_device:
        without = outcome.verification.ranks_without_device
        use = "uses" if len(without) == 1 else "use"
        yield (
            f"world and ranks are as planned; not verified: which GPU {name_ranks(without)} {use} "
            "(accelerate and DistributedDataParallel report it, and the script uses neither)"
        )
