"""A fix is one that its reader can type: by the rights of the user, in a container or not."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from launcher.commands._preflight import parse_gpus
from preflight.checks.finding import Finding, Severity
from preflight.checks.runner import check_cluster, check_host
from preflight.job import Expect, GpuRequest, Job
from tests.preflight.golden_cases import all_cases, host

ROOT: dict[str, Any] = {"identity.uid": 0, "identity.user": "root"}
BOX: dict[str, Any] = {"identity.container": "docker", "identity.initial_pid_namespace": False}
NO_DEVICES = {"missing": "driver not loaded", "code": "not-loaded"}


def fix_of(code: str, facts: Mapping[str, Any], gpus: GpuRequest = "all") -> str:
    """The fix of the one finding of a check on a host."""
    said = check_host(host(dict(facts)), Job(gpus=gpus), Expect())
    (found,) = (finding for finding in said if finding.code == code)
    return found.fix


def test_root_needs_no_sudo() -> None:
    off: dict[str, Any] = {"gpus.0.persistence": False}
    assert fix_of("HEAL012", off).startswith("sudo nvidia-smi -pm 1")
    assert fix_of("HEAL012", off | ROOT).startswith("nvidia-smi -pm 1")


@pytest.mark.parametrize("user", [{}, ROOT])
def test_what_a_container_may_not_is_for_the_machine_and_names_the_gpu_by_its_place(
    user: dict[str, Any],
) -> None:
    """A container counts its own GPUs, and its root sets no mode of the driver."""
    bad: dict[str, Any] = {"gpus.0.compute_mode": "prohibited", "gpus.0.pci_bus_id": "00000000:CA:00.0"}
    fix = fix_of("MODE001", bad | BOX | user, (0, 1))
    assert "gpus:; outside the container (by the provider of a rented one), to use it: " in fix
    assert "sudo nvidia-smi -i 00000000:CA:00.0 -c DEFAULT" in fix


@pytest.mark.parametrize("user", [{}, ROOT])
def test_of_two_ways_the_one_of_the_host_is_named(user: dict[str, Any]) -> None:
    lost: dict[str, Any] = {"driver": NO_DEVICES, "gpus": NO_DEVICES, **user}
    assert fix_of("DRV001", lost | BOX).startswith("start the container again with --gpus all")
    assert "modprobe" not in fix_of("DRV001", lost | BOX)
    assert fix_of("DRV001", lost).startswith(f"{'' if user else 'sudo '}modprobe nvidia")


def test_a_host_of_which_nothing_is_known_gets_both_ways() -> None:
    unknown: dict[str, Any] = {"identity": {"missing": "the probe ended early", "code": "error"}}
    fix = fix_of("DRV001", {"driver": NO_DEVICES, "gpus": NO_DEVICES, **unknown})
    assert "in a container: start the container again" in fix
    assert "on a host: sudo modprobe nvidia" in fix


def test_a_fix_for_one_host_of_a_launch_is_fitted_to_it() -> None:
    hosts = {"a": host({}, "a"), "b": host(ROOT | BOX, "b"), "c": host({}, "c")}
    clocks = {"a": (0.0, 0.1), "b": (500.0, 500.1), "c": (0.0, 0.1)}
    (late,) = (found for found in check_cluster(hosts, Job(), (), clocks=clocks) if found.code == "SYS003")
    assert late.fix.startswith("outside the container")


def test_who_uses_another_gpu_already_is_not_sent_to_another_one() -> None:
    holder = {"pid": 4242, "kind": "compute", "used_mib": 9000, "name": "python", "start_ticks": 5}
    held = {"gpus.0.processes": [holder]} | BOX
    said = [found for found in check_host(host(held), Job(gpus=1), Expect()) if found.code == "PROC001"]
    assert [found.severity for found in said] == [Severity.WARNING]
    assert "use other GPUs" not in said[0].fix


def all_findings() -> list[Finding]:
    """What the checks say in all of their cases."""
    return [finding for case in all_cases() for finding in case.said() if finding.fix]


def test_every_choice_of_gpus_in_a_fix_is_one_that_the_option_takes() -> None:
    texts = [re.findall(r"--gpus ('[^']*'|[\w,-]+)", finding.fix) for finding in all_findings()]
    given = sorted({word.strip("',") for words in texts for word in words} - {"and", "or", "gpus"})
    assert "[0]" in given
    for word in given:
        if re.match(r"[\[\d]|all$|none$|auto$", word):
            parse_gpus(word)


QUERY_TYPES = {
    *("MEMORY", "UTILIZATION", "ECC", "TEMPERATURE", "POWER", "CLOCK", "COMPUTE", "PIDS", "PERFORMANCE"),
    *("SUPPORTED_CLOCKS", "PAGE_RETIREMENT", "ACCOUNTING", "ENCODER_STATS", "ROW_REMAPPER"),
}
"""What `nvidia-smi -q -d` takes on all drivers of today; another word, such as PCI, ends it with status 2."""


def test_nvidia_smi_takes_what_a_fix_lets_it_show() -> None:
    fixes = " ".join(finding.fix for finding in all_findings())
    asked = {word for words in re.findall(r"-q -d ([A-Z_,]+)", fixes) for word in words.split(",") if word}
    assert {"ECC", "PERFORMANCE"} <= asked <= QUERY_TYPES


def test_wsl2_has_its_driver_from_windows() -> None:
    lost: dict[str, Any] = {"driver": NO_DEVICES, "gpus": NO_DEVICES, "identity.container": "wsl2"}
    assert fix_of("DRV001", lost) == "in Windows: wsl --shutdown, or a newer driver"
    assert fix_of(
        "LIM001", {"identity.container": "wsl2", "limits.shm_free_mib": 60, "limits.shm_total_mib": 64}
    ).startswith("sudo mount -o remount")
