"""How long a measurement takes, calculated from the schedule and its sizes over slower hardware."""

import pytest

from launcher.deep.targets import DeepOptions
from launcher.onhost.deep.devices import GIB, GpuDevice
from launcher.onhost.deep.link_steps import EXCHANGES, FEWEST, PAIR_S, PINGS, REDUCTIONS, REPEATS
from launcher.onhost.deep.schedule import MOST_SUSPECTS, MOST_WITNESSES, pair_rounds
from launcher.onhost.deep.single_rank_steps import COPIES

# Bytes per second: memory below an A100's, PCIe Gen4 with four GPUs to a switch, no NVLink, 100 Gbit/s.
MEMORY, HOST_ALONE, HOST_SHARED, WITHIN, BETWEEN = 1.2e12, 20e9, 5e9, 20e9, 10e9
START_S = 35.0
"""Of preflight, launch, torch's import and NCCL's first communicator; measured on CPUs, assumed for GPUs."""
CONNECT_S = 0.5
"""Until NCCL has connected a pair; assumed."""
MEMORY_PASSES = 2 * 5
"""Over the bytes, for two patterns: written, and made again, read and compared."""


def exchange(rate: float) -> float:
    """Return the seconds of all exchanges of a pair."""
    once = GpuDevice.pair_bytes / rate
    count = max(FEWEST, min(EXCHANGES, int(PAIR_S / once)))
    return once * (1 + count) + PINGS * 1e-4


def reductions(members: int, rate: float) -> float:
    return (REDUCTIONS + 3) * 2 * (members - 1) / members * GpuDevice.collective_bytes / rate


def seconds(nodes: int, gpus: int, *, suspects: bool = False) -> float:
    """Return the seconds of a measurement of H100 with 80 GiB."""
    host = 4 * GpuDevice.host_copy_bytes * 12
    parts = [
        START_S,
        MEMORY_PASSES * 0.8 * 80 * GIB / MEMORY,
        DeepOptions().seconds,
        (COPIES + 2) * 2 * GpuDevice.copy_bytes / MEMORY,
        gpus * host / 2 / HOST_ALONE + host / 2 / HOST_SHARED,
        len(pair_rounds(gpus)) * (CONNECT_S + exchange(WITHIN)),
        reductions(gpus, WITHIN),
        reductions(nodes * gpus, BETWEEN) if nodes > 1 else 0.0,
        len(pair_rounds(nodes)) * 2 * (CONNECT_S + exchange(BETWEEN)),
    ]
    again = (MOST_SUSPECTS + MOST_WITNESSES) * REPEATS
    if suspects:
        parts.append(again * exchange(WITHIN) if gpus > 2 else 0.0)
        parts.append(again * 2 * exchange(BETWEEN) if nodes > 2 else 0.0)
    return sum(parts)


@pytest.mark.parametrize(
    ("nodes", "gpus", "limit_s"), [(1, 1, 90), (1, 8, 90), (2, 8, 180), (16, 8, 180), (150, 8, 180)]
)
def test_the_schedule_keeps_its_time(nodes: int, gpus: int, limit_s: float) -> None:
    healthy = seconds(nodes, gpus)
    assert healthy < limit_s
    assert healthy <= seconds(nodes, gpus, suspects=True) < limit_s + 60


def test_the_documented_times_are_those_of_the_schedule() -> None:
    assert [round(seconds(*shape)) for shape in ((1, 8), (16, 8))] == [66, 95]
