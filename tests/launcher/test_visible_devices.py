"""What a shell or a scheduler leaves to a launch on this machine."""

import pytest

from launcher.config.inventory import HostEntry
from launcher.config.local_entries import limit_to_visible, parse_visible_devices
from preflight.decide.gpu_assignment import RanksRefused, map_ranks
from preflight.job import GpuRequest, Job
from tests.hardware import gpu, host

HERE = HostEntry("localhost")


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("0", (0,)),
        (" 2, 1 ", (2, 1)),
        ("0,2,-1,1", (0, 2)),  # CUDA stops at the first word that names no GPU
        ("1,1", (1,)),
        ("GPU-1234,3", ("GPU-1234", 3)),
        ("", "none"),
        ("-1", "none"),
        ("NoDevFiles", "none"),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(text: str, gpus: GpuRequest) -> None:
    assert parse_visible_devices(text) == gpus


def test_only_this_machine_is_bound_by_the_variable_here_and_hosts_yaml_wins() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "1"}
    assert limit_to_visible(HERE, environ).gpus == (1,)
    assert limit_to_visible(HERE, {}) == HERE
    for entry in (HostEntry("titan"), HostEntry("localhost", gpus=(0,))):
        assert limit_to_visible(entry, environ) == entry


def test_ranks_get_no_gpu_that_is_not_visible_and_the_plan_says_why() -> None:
    facts = host("localhost", [gpu(0), gpu(1), gpu(2)])
    entry = limit_to_visible(HERE, {"CUDA_VISIBLE_DEVICES": "2,0"})
    ranks = map_ranks(facts, Job(), allowed=entry.gpus, allowed_by=entry.gpus_source)
    assert [slot.gpu_index for slot in ranks.slots] == [2, 0]
    assert ("localhost offers 2 of its 3 GPUs", "CUDA_VISIBLE_DEVICES=2,0") in [
        (why.text, why.source) for why in ranks.reasons
    ]
    nothing = limit_to_visible(HERE, {"CUDA_VISIBLE_DEVICES": ""})
    with pytest.raises(RanksRefused, match="CUDA_VISIBLE_DEVICES= leaves it no GPU") as caught:
        map_ranks(facts, Job(), allowed=nothing.gpus, allowed_by=nothing.gpus_source)
    assert caught.value.fix == "run with --gpus none, or change CUDA_VISIBLE_DEVICES"
