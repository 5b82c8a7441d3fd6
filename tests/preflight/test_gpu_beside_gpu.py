"""What cannot be read of one GPU hides no finding of the GPU beside it."""

from dataclasses import fields, replace
from typing import Any

import pytest

from preflight.checks.runner import check_host
from preflight.facts.gpu import (
    ComputeProcess,
    Ecc,
    Fabric,
    Gpu,
    GpuMemory,
    NvLink,
    PcieLink,
    RetiredPages,
    RowRemap,
)
from preflight.facts.missing import Missing
from preflight.job import Expect, Job
from tests.hardware import gpu, host

_SOUND = gpu(
    0,
    minor=0,
    pci_bus_id="00000000:3B:00.0",
    memory=GpuMemory(24576, 1, 24575, 300),
    utilization_percent=0,
    persistence=True,
    ecc=Ecc(enabled=True, corrected_volatile=0, uncorrected_volatile=0, uncorrected_aggregate=0),
    remap=RowRemap(0, 0, pending=False, failed=False),
    retired_pages=RetiredPages(0, 0, pending=False),
    temperature_c=40,
    temperature_slowdown_c=90,
    throttle=("idle",),
    pcie=PcieLink(4, 4, 16, 16),
    nvlinks=(NvLink(0, active=True, errors=0),),
    fabric=Fabric("completed", "success"),
)
_FAULTY = gpu(
    1,
    ecc=Ecc(enabled=True, corrected_volatile=0, uncorrected_volatile=3, uncorrected_aggregate=3),
    remap=RowRemap(0, 1, pending=True, failed=True),
    retired_pages=RetiredPages(0, 1, pending=True),
    throttle=("hw_thermal",),
    temperature_c=99,
    temperature_slowdown_c=90,
    pcie=PcieLink(4, 4, 4, 16),
    nvlinks=(NvLink(0, active=False, errors=0), NvLink(1, active=True, errors=0)),
    fabric=Fabric("in_progress", "success"),
    recovery_action="gpu_reset",
    processes=(ComputeProcess(4242, "compute", 500, "python"),),
    compute_mode="prohibited",
    mig_enabled=True,
)


def _findings_of_the_second(first: Gpu, second: Gpu) -> set[tuple[str, str]]:
    found = check_host(host(gpus=[first, second]), Job(), Expect())
    return {(each.code, each.message) for each in found if each.subject == "gpu1"}


@pytest.mark.parametrize(
    "name", [each.name for each in fields(Gpu) if not isinstance(getattr(_SOUND, each.name), Missing | int)]
)
def test_a_value_that_one_gpu_lacks_hides_no_finding_of_the_next(name: str) -> None:
    lacking: dict[str, Any] = {name: Missing("the driver does not say", "error")}
    hidden = replace(_SOUND, **lacking)
    assert _findings_of_the_second(hidden, _FAULTY) == _findings_of_the_second(_SOUND, _FAULTY)


def test_the_faulty_gpu_has_findings_of_many_checks_and_the_sound_one_none() -> None:
    codes = {code for code, _ in _findings_of_the_second(_SOUND, _FAULTY)}
    health = {f"HEAL0{number:02}" for number in (1, 3, 4, 5, 8, 9, 10, 13)}
    assert codes >= health | {"GPU005", "MODE001", "PROC001"}
    assert _findings_of_the_second(replace(_FAULTY, index=0), replace(_SOUND, index=1)) == set()


@pytest.mark.parametrize("name", ["/usr/bin/nvidia-cuda-mps-server", "nvidia-cuda-mps", "nvidia-cuda-mp..."])
def test_a_process_listed_after_the_mps_server_is_reported(name: str) -> None:
    server = ComputeProcess(4241, "compute", 30, name)
    rank = ComputeProcess(4242, "mps", 500, "python")
    found = _findings_of_the_second(_SOUND, replace(_SOUND, index=1, processes=(server, rank)))
    assert [(code, "pid 4242" in message) for code, message in found] == [("PROC001", True)]
