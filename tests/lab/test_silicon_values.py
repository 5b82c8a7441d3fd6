"""The simulated NVML, asked by the real pynvml, says what the profile says."""

from pathlib import Path
from typing import Any

import pytest

from tests.lab.silicon.ask import Call, ask_profile
from tests.lab.silicon.profile import (
    Profile,
    ProfileError,
    load_profile,
    parse_profile,
    profile_names,
    profile_yaml,
)
from tests.lab.silicon_expectations import ALL, differences

pytestmark = pytest.mark.slow

MIB = 1 << 20
ASKED_FOR = [
    "titan-rtx",
    "2xl40s",
    "2xl40s-exclusive",
    "p100",
    "v100",
    "t4",
    "gtx-1660",
    "rtx-2080+gtx-750-ti",
    "8xrtx-4090",
    "8xa100-mig",
    "8xh100-broken",
    "h200",
    "4xgh200",
    "8xb200",
    "rtx-5090",
    "wsl2",
    "container",
]

every_profile = pytest.mark.parametrize("name", profile_names())


def answers(profile: Profile, tmp_path: Path, *calls: Call) -> Any:
    """One list of answers per GPU."""
    return ask_profile(profile, tmp_path, calls)["gpu"]


@pytest.mark.parametrize("name", ASKED_FOR)
def test_the_hardware_that_was_asked_for_is_there(name: str) -> None:
    assert load_profile(name).about


@every_profile
def test_pynvml_reads_every_value_of_the_profile(name: str, tmp_path: Path) -> None:
    profile = load_profile(name)
    read = answers(profile, tmp_path, *(question.call for question in ALL))
    assert len(read) == len(profile.gpus)
    assert list(differences(profile, read)) == []


@every_profile
def test_the_driver_names_its_versions(name: str, tmp_path: Path) -> None:
    profile = load_profile(name)
    names = ("nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion", "nvmlSystemGetCudaDriverVersion")
    said = ask_profile(profile, tmp_path, system=[(name, []) for name in names])["system"]
    keys = ("driver_version", "nvml_version", "cuda_version")
    assert [str(value) for value in said] == [profile.system[key] for key in keys]


@every_profile
def test_a_profile_survives_its_own_yaml(name: str) -> None:
    profile = load_profile(name)
    assert parse_profile(profile_yaml(profile), name) == profile


@every_profile
def test_no_two_gpus_share_a_uuid_or_a_bus(name: str) -> None:
    gpus = load_profile(name).gpus
    for key in ("uuid", "pci_bus_id"):
        assert len({gpu.values[key] for gpu in gpus}) == len(gpus)


def test_the_first_memory_call_counts_the_reserve_as_used(tmp_path: Path) -> None:
    v1, v2 = answers(load_profile("2xl40s"), tmp_path, ("nvmlDeviceGetMemoryInfo", []), ("memory_v2", []))[0]
    assert v2["total"] == v1["total"] == 46068 * MIB
    assert (v2["used"], v2["reserved"], v2["free"]) == (1 * MIB, 528 * MIB, 45539 * MIB)
    assert (v1["used"], v1["free"]) == (529 * MIB, 45539 * MIB)


def test_an_old_driver_has_no_second_memory_call(tmp_path: Path) -> None:
    profile = load_profile("titan-rtx")
    v1, v2 = answers(profile, tmp_path, ("nvmlDeviceGetMemoryInfo", []), ("memory_v2", []))[0]
    assert v2["error"] == 13
    assert v1["used"] == 1 * MIB


def test_ecc_totals_are_the_sum_of_their_places(tmp_path: Path) -> None:
    profile = load_profile("h200").with_gpu(
        0, ecc__volatile__uncorrected__dram="3", ecc__volatile__uncorrected__sram="4"
    )
    calls = [("nvmlDeviceGetTotalEccErrors", [1, 0]), ("nvmlDeviceGetTotalEccErrors", [0, 0])]
    places = [("nvmlDeviceGetMemoryErrorCounter", [1, 0, place]) for place in (2, 7, 3)]
    fields = [("field", [4]), ("field", [6])]
    read = answers(profile, tmp_path, *calls, *places, *fields)[0]
    assert read[:4] == [7, 0, 3, 4]
    assert read[4]["error"] == 3  # no register file counter on this board
    assert read[5:] == [7, 0]


def test_retired_pages_are_counted_by_cause(tmp_path: Path) -> None:
    single, double = answers(
        load_profile("p100"), tmp_path, ("nvmlDeviceGetRetiredPages", [0]), ("nvmlDeviceGetRetiredPages", [1])
    )[0]
    assert (len(single), len(double)) == (2, 0)


def test_nvlinks_say_their_state_and_errors(tmp_path: Path) -> None:
    profile = load_profile("v100").with_gpu(
        0, nvlink__2__active="0", nvlink__5__replay="11", nvlink__5__crc_data="2"
    )
    calls = [("nvmlDeviceGetNvLinkState", [link]) for link in range(7)]
    counters = [("nvmlDeviceGetNvLinkErrorCounter", [5, counter]) for counter in range(4)]
    dead = ("nvmlDeviceGetNvLinkErrorCounter", [2, 0])
    read = answers(profile, tmp_path, *calls, *counters, dead)[0]
    assert read[:6] == [1, 1, 0, 1, 1, 1]
    assert read[6]["error"] == 2  # there is no seventh link
    assert read[7:11] == [11, 0, 0, 2]
    assert read[11]["error"] == 3


def test_a_gpu_without_nvlink_does_not_support_its_calls(tmp_path: Path) -> None:
    read = answers(load_profile("2xl40s"), tmp_path, ("nvmlDeviceGetNvLinkState", [0]))
    assert [one[0]["error"] for one in read] == [3, 3]


def test_nvlink_5_has_no_data_link_counters(tmp_path: Path) -> None:
    read = answers(load_profile("8xb200"), tmp_path, ("nvmlDeviceGetNvLinkErrorCounter", [0, 0]))
    assert read[0][0]["error"] == 3


@pytest.mark.parametrize("version", [2, 3])
def test_the_fabric_says_state_status_and_cluster(version: int, tmp_path: Path) -> None:
    profile = load_profile("8xb200").with_gpu(1, fabric__state="2", fabric__status="18")
    first, second = (one[0] for one in answers(profile, tmp_path, ("fabric", [version]))[:2])
    assert (first["state"], first["status"], first["healthMask"]) == (3, 0, 2)
    assert bytes(first["clusterUuid"]).hex() == "5c1cb5b01a4c4f279d1e0c7c2b8e6a11"
    assert (second["state"], second["status"]) == (2, 18)
    assert first.get("healthSummary", 1) == 1


def test_mig_devices_hang_below_their_gpu(tmp_path: Path) -> None:
    profile = load_profile("8xa100-mig")
    read = answers(profile, tmp_path, ("mig", [0]), ("mig", [1]), ("mig", [2]))
    assert all(answer["error"] == 6 for answer in read[0])
    first, second, none = read[3]
    assert (first["gpu_instance"], second["gpu_instance"]) == (1, 2)
    assert first["memory"]["used"] == 8424 * MIB
    assert first["parent"] == profile.gpus[3].values["uuid"]
    assert none["error"] == 6


def test_listed_processes_go_to_the_lists_of_their_kind(tmp_path: Path) -> None:
    lists = ("Compute", "Graphics", "MPSCompute")
    calls: list[Call] = [(f"nvmlDeviceGet{kind}RunningProcesses_v3", []) for kind in lists]
    calls += [("nvmlDeviceGetComputeRunningProcesses_v2", [])]
    read = answers(load_profile("rtx-2080+gtx-750-ti"), tmp_path, *calls)
    assert [len(found) for found in read[0]] == [0, 2, 0, 0]
    assert read[0][1][0] == {
        "pid": 1187,
        "usedGpuMemory": 141 * MIB,
        "gpuInstanceId": 0xFFFFFFFF,
        "computeInstanceId": 0xFFFFFFFF,
    }
    mig = answers(load_profile("8xa100-mig"), tmp_path / "mig", *calls)[3][0][0]
    assert (mig["pid"], mig["gpuInstanceId"], mig["computeInstanceId"]) == (22107, 1, 0)


def test_memory_that_the_driver_does_not_tell_is_none(tmp_path: Path) -> None:
    read = answers(load_profile("wsl2"), tmp_path, ("nvmlDeviceGetGraphicsRunningProcesses_v3", []))
    assert [process["usedGpuMemory"] for process in read[0][0]] == [None]


def test_a_container_holds_memory_with_no_process(tmp_path: Path) -> None:
    memory, processes = answers(
        load_profile("container"),
        tmp_path,
        ("memory_v2", []),
        ("nvmlDeviceGetComputeRunningProcesses_v3", []),
    )[0]
    assert memory["used"] == 31022 * MIB
    assert processes == []


def test_a_gpu_is_found_by_uuid_by_bus_and_by_serial(tmp_path: Path) -> None:
    profile = load_profile("2xl40s")
    uuid = profile.gpus[1].values["uuid"]
    calls: list[tuple[str, list[Any]]] = [
        ("nvmlDeviceGetHandleByUUID", [uuid]),
        ("nvmlDeviceGetHandleByPciBusId", ["0000:c1:00.0"]),
        ("nvmlDeviceGetHandleByPciBusId", ["00000000:C1:00.0"]),
        ("nvmlDeviceGetHandleBySerial", ["1654123012346"]),
        ("nvmlDeviceGetHandleByUUID", ["GPU-of-another-host"]),
        ("nvmlDeviceGetHandleByIndex", [2]),
    ]
    said = ask_profile(profile, tmp_path, system=calls)["system"]
    assert all("error" not in one for one in said[:4])
    assert [one["error"] for one in said[4:]] == [6, 2]


def test_an_unknown_profile_names_the_known_ones() -> None:
    with pytest.raises(ProfileError, match="known: 2xl40s, "):
        load_profile("8xvoodoo2")
