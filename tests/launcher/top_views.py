"""Hosts, GPUs and holders for tests of `gpulaunch top`."""

from dataclasses import replace
from typing import Any

from launcher.top.views import FleetView, GpuView, Holder, HostView, RunView
from preflight.leftovers.classify import ProcessClass

GPU = GpuView(
    index=0,
    uuid="GPU-1",
    model="NVIDIA L40S",
    busy_percent=0.0,
    used_mib=0.0,
    total_mib=46068.0,
    power_w=34.0,
    power_limit_w=350.0,
    temperature_c=31.0,
    throttle=("idle",),
    holders=(),
    claimed_by=None,
    held=False,
    problem="",
)
HOLDER = Holder(
    pid=4242,
    user="ada",
    command="train.py --lr 1e-4",
    age_s=7200.0,
    kind=ProcessClass.LIVE,
    used_mib=40000,
    run_id="train-1",
    mine=True,
)
RUN = RunView("train-1", "running", ("titan", "l40s"), 3, 40, 120, 2.345678, 372.0, 41.0)


def gpu(index: int = 0, **fields: Any) -> GpuView:
    return replace(GPU, index=index, uuid=f"GPU-{index}", **fields)


def busy(index: int = 0, percent: float = 97.0, used_mib: float = 40000.0, **fields: Any) -> GpuView:
    holder = replace(HOLDER, **fields)
    held = {"held": True, "throttle": ("sw_power_cap",), "power_w": 340.0}
    return gpu(index, busy_percent=percent, used_mib=used_mib, holders=(holder,), **held)


def host(name: str, *gpus: GpuView, phase: Any = "live", note: str = "", **fields: Any) -> HostView:
    return HostView(name, phase, 1.0, gpus, note, **fields)


def fleet(*hosts: HostView, runs: tuple[RunView, ...] = ()) -> FleetView:
    return FleetView(1_795_000_000.0, hosts, runs)
