"""What a signal means in the pause before a restart: the same as while the run is followed."""

from dataclasses import replace

from launcher.exit_codes import ExitCode
from launcher.follow.outcome import Outcome
from launcher.launch.request import FollowOptions
from launcher.launch.signals import CTRL_C, InterruptChoice, choose_detach, choose_stop


def name_stop(stop: BaseException | None) -> str:
    """Return what asks to end."""
    return str(stop or "") or CTRL_C


def choose_interrupt(stop: BaseException, follow: FollowOptions, *, is_kept: bool) -> InterruptChoice:
    """Return what a signal means; a run that no host keeps has ended for a client that leaves it."""
    choice = follow.unasked
    if name_stop(stop) == CTRL_C:
        choice = "stop" if follow.choose is None else follow.choose()
    return "stop" if choice == "detach" and not is_kept else choice


def stops_run(error: BaseException | None, follow: FollowOptions) -> bool:
    """Return whether a signal between two starts leaves the run ended, where no question can be asked."""
    by_hand = name_stop(error) == CTRL_C and follow.choose in (None, choose_stop)
    return isinstance(error, KeyboardInterrupt) and (by_hand or follow.unasked != "detach")


def describe_ctrl_c(follow: FollowOptions, *, is_kept: bool) -> str:
    """Return what Ctrl-C does in a pause."""
    if follow.choose in (None, choose_stop) or not is_kept:
        return "leaves it ended"
    return "leaves that to others" if follow.choose is choose_detach else "asks: stop, detach or stay"


def interrupt_outcome(outcome: Outcome, by: str) -> Outcome:
    """Return how a run ended that is not started again because a signal stopped it."""
    why = f"{by} before the next start"
    return replace(outcome, verdict="interrupted", exit_code=ExitCode.INTERRUPTED, why=why)


def describe_next(outcome: Outcome) -> str:
    """Return who makes the next start of a run that its client has left in the pause."""
    client = f"the next gpulaunch attach {outcome.plan.run_id}"
    makers = f"its host or {client}" if len(outcome.plan.nodes) == 1 else client
    return f"left before the next start, which {makers} makes; gpulaunch stop {outcome.plan.run_id} ends it"
