"""How a run was lost whose supervisor is gone, by where and when that began."""

from typing import Any

import pytest

from launcher.onhost.supervisor.node import node_location
from launcher.onhost.supervisor.processes import ticks_of
from launcher.onhost.supervisor.run_dir import loss_of


@pytest.mark.parametrize(
    ("of_state", "loss"),
    [
        ({"supervisor": [7, ticks_of(1)]}, "killed"),
        # A restarted container gets the number of its former namespace again.
        ({"supervisor": [7, ticks_of(1) - 1]}, "container"),
        ({"supervisor": [7, ticks_of(1)], "pid_ns": "1"}, "container"),
        ({"boot_id": "another"}, "host"),
        ({"boot_id": ""}, None),
    ],
)
def test_a_loss_is_told_by_where_and_when_the_supervisor_began(
    of_state: dict[str, Any], loss: str | None
) -> None:
    assert loss_of({**node_location(), **of_state}) == loss
