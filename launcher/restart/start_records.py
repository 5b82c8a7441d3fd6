"""The record of a start that is over, made from its outcome. Pure."""

from launcher.follow.outcome import Outcome
from launcher.follow.restart_history import StartRecord


def build_start_record(
    outcome: Outcome, logs: str, resumed_from: str, changes: tuple[str, ...] = ()
) -> StartRecord:
    """Return a start that is over; what it failed of is not judged yet."""
    return StartRecord(
        run_id=outcome.plan.run_id,
        verdict=outcome.verdict,
        exit_code=outcome.exit_code,
        why=outcome.why,
        identity=("", "", ""),
        world_size=outcome.plan.world_size,
        mixed_precision=outcome.plan.precision.mixed_precision,
        hosts=tuple(node.host for node in outcome.plan.nodes),
        seconds=outcome.seconds,
        logs=logs,
        resumed_from=resumed_from,
        changes=changes,
    )
