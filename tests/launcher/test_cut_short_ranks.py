"""How a rank is reported that raised an exception and was ended before its interpreter had shut down."""

from typing import Any

import pytest

from launcher.follow.events import RunEvent
from launcher.follow.run_state import RunState
from tests.launcher.run_events import CPU, come_to, ended, host_report, replay
from tests.launcher.run_plans import plan

_BUG: dict[str, Any] = {"type": "ValueError", "message": "bad batch"}


@pytest.mark.parametrize(
    ("code", "exit_code", "how"),
    [
        pytest.param(-15, 1, "failed: ValueError", id="ended by our own SIGTERM"),
        pytest.param(-9, 1, "failed: ValueError", id="and by the SIGKILL after it"),
        pytest.param(-6, 134, "was ended by signal 6 (SIGABRT): ValueError", id="an abort of its own"),
        pytest.param(3, 3, "failed with exit code 3: ValueError", id="an exit of its own"),
    ],
)
def test_a_rank_that_raised_has_not_failed_by_the_signal_that_ended_its_shutdown(
    code: int, exit_code: int, how: str
) -> None:
    """Restarts, too, go by the exit code: 143 would be a scheduler's or a person's doing."""
    watch = RunState(plan(CPU, CPU))
    history: list[RunEvent] = [
        host_report("b", "exception", 3.9, rank=1, **_BUG),
        host_report("a", "exception", 4.0, rank=0, **_BUG),
        host_report("a", "rank_exit", 5.0, rank=0, code=1),
        host_report("b", "rank_exit", 5.3, rank=1, code=code, stopping=True),
        ended("a"),
        ended("b"),
    ]
    replay(watch, history)
    outcome = come_to(watch)
    assert outcome.exit_code == exit_code
    assert outcome.why == f"rank 1 on b {how}: bad batch"
    assert watch.rank_codes[1] == code
