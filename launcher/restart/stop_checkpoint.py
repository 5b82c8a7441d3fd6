"""Whether a run that was stopped has written a checkpoint after its SIGTERM."""

import time

from launcher.config.restart_options import CHECKPOINTS, RestartOptions
from launcher.errors import GpulaunchError
from launcher.follow.outcome import Outcome, StopCheckpoint
from launcher.follow.phases import END
from launcher.launch.request import LaunchRequest
from launcher.restart.checkpoints import list_checkpoints

_SLACK_S = 1.0


def find_stop_checkpoint(
    outcome: Outcome, launch: LaunchRequest, spec: RestartOptions | None, ended_at: float
) -> StopCheckpoint:
    """Return the last whole checkpoint on the main host that was written to since the stop began.

    `ended_at` is when the run had ended, by time.monotonic().
    """
    stopping_s = sum(phase.seconds for phase in outcome.measurements.phases if phase.name == END)
    age_s = stopping_s + time.monotonic() - ended_at + _SLACK_S
    main = launch.entries[:1]
    patterns = spec.checkpoints if spec is not None else CHECKPOINTS
    try:
        found = list_checkpoints(main, launch.job, patterns, launch.connections.borrow, age_s=age_s)[
            main[0].name
        ]
    except GpulaunchError as error:
        return StopCheckpoint(known=False, why=error.message)
    newest = next((each for each in found if each.complete), None)
    if newest is not None:
        return StopCheckpoint(newest.path, newest.step)
    partial = next((f"{each.path} {each.why}" for each in found), "")
    return StopCheckpoint(why=partial)
