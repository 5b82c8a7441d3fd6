"""What a launch that findings stop says to do."""

from typing import Any

import pytest

from launcher.config.inventory import HostEntry
from launcher.host_checks.evaluation import evaluate_facts
from launcher.launch.launch import CheckedLaunch
from launcher.launch.request import LaunchRequest
from launcher.remote.agent import GatherResult
from launcher.remote.connection_pool import ConnectionPool
from launcher.transports.base import Connection
from preflight.job import Job
from tests.preflight.golden_cases import host


def open_nothing(entry: HostEntry) -> Connection:
    raise AssertionError(entry.name)


IN_SPITE = "or launch in spite of it with --ignore"
NO_USE = "--ignore does not help, no ranks can be placed"


@pytest.mark.parametrize(
    ("overlay", "job", "said"),
    [
        ({"python.packages": {}}, Job(), IN_SPITE),
        ({}, Job(gpus=(17,)), NO_USE),
        ({"python.packages": {}}, Job(gpus=64), NO_USE),
    ],
)
def test_ignore_is_offered_only_where_a_launch_is_possible(
    overlay: dict[str, Any], job: Job, said: str
) -> None:
    entry = HostEntry("a")
    result = evaluate_facts([entry], GatherResult({"a": host(overlay, "a")}, {}), job)
    refusal = CheckedLaunch(
        LaunchRequest((entry,), job, ConnectionPool(open_nothing)), result, None
    ).refusal()
    assert refusal is not None
    assert said in refusal.fix
