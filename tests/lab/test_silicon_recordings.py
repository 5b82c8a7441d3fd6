"""Recorded `nvidia-smi -q -x` becomes a profile, and the simulated NVML then says what was recorded."""

import re
from collections.abc import Callable
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest

from tests.extra_recordings import extra
from tests.lab.silicon import main
from tests.lab.silicon.ask import Call, ask, smi
from tests.lab.silicon.families import capability_of
from tests.lab.silicon.from_xml import functions_missing, profile_from_xml
from tests.lab.silicon.profile import (
    Profile,
    ProfileError,
    load_profile,
    parse_profile,
    profile_names,
    profile_yaml,
)
from tests.lab.silicon.recordings import RECORDINGS, recordings
from tests.lab.silicon.smi_rows import AFTER_THROTTLE, ALSO_READ, BEFORE_THROTTLE
from tests.lab.silicon.state import stage
from tests.lab.silicon_expectations import ALL, differences

pytestmark = pytest.mark.slow

XML = [*sorted(RECORDINGS.glob("*.xml")), *extra("*.xml")]
MIB = 1 << 20
DRAWS = (
    "power_readings/power_draw",
    "gpu_power_readings/power_draw",
    "gpu_power_readings/average_power_draw",
    "gpu_power_readings/instant_power_draw",
)
every_recording = pytest.mark.parametrize("path", XML, ids=lambda path: path.stem)
PRINTED_KEYS = {row[2] for row in (*BEFORE_THROTTLE, *AFTER_THROTTLE) if row[1] is not None}
# What an idle simulated GPU has and no nvidia-smi prints, or prints in a form that says less.
NOT_PRINTED = re.compile(
    r"capability\.|cores|memory_bus_width|fans|numa_node|power_management|throttle_supported|utilization\.period"
    r"|nvlink\.|c2c\.|ecc\.default|fabric\.health_mask"
)


@cache
def recorded(path: Path) -> Profile:
    """The profile of one recording."""
    return profile_from_xml(path.read_text(), path.stem)


def number(text: str | None) -> int | None:
    """`20475 MiB`, `38 C`, `16x`, `70.00 W` (in mW); None for N/A and words."""
    match = re.fullmatch(r"(-?\d+)(?:\.(\d\d))?(x| MiB| C| %| MHz| W)?", (text or "").strip())
    if match is None:
        return None
    whole, cents, unit = match.groups()
    return int(whole) * 1000 + int(cents) * 10 if unit == " W" else int(whole)


# Read here straight from the XML, without the table that the conversion uses.
CHECKED: tuple[tuple[str, str, list[Any]], ...] = (
    ("temperature/gpu_temp", "nvmlDeviceGetTemperature", [0]),
    ("temperature/gpu_temp_slow_threshold", "nvmlDeviceGetTemperatureThreshold", [1]),
    ("clocks/sm_clock", "nvmlDeviceGetClockInfo", [1]),
    ("max_clocks/mem_clock", "nvmlDeviceGetMaxClockInfo", [2]),
    ("pci/pci_gpu_link_info/pcie_gen/current_link_gen", "nvmlDeviceGetCurrPcieLinkGeneration", []),
    ("pci/pci_gpu_link_info/link_widths/max_link_width", "nvmlDeviceGetMaxPcieLinkWidth", []),
    ("fan_speed", "nvmlDeviceGetFanSpeed", []),
)


COMMON: tuple[Call, ...] = (
    ("nvmlDeviceGetName", []),
    ("nvmlDeviceGetUUID", []),
    ("nvmlDeviceGetMemoryInfo", []),
    ("nvmlDeviceGetPowerUsage", []),
    *((function, arguments) for _, function, arguments in CHECKED),
)


class Answers(NamedTuple):
    """What NVML says of each GPU of a recording: to COMMON, of compute and graphics processes, and to ALL."""

    common: list[list[Any]]
    processes: list[list[Any]]
    every: list[list[Any]]


def process_calls(profile: Profile) -> tuple[Call, ...]:
    version = "_v2" if "nvmlDeviceGetComputeRunningProcesses_v3" in profile.missing else "_v3"
    return tuple((f"nvmlDeviceGet{kind}RunningProcesses{version}", []) for kind in ("Compute", "Graphics"))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Answers]:
    """One process for each recording answers all that the tests ask of it."""

    @cache
    def answers_of(path: Path) -> Answers:
        profile = recorded(path)
        groups = (COMMON, process_calls(profile), [question.call for question in ALL])
        read = ask(
            stage(profile, tmp_path_factory.mktemp("gpus")), [call for calls in groups for call in calls]
        )
        ends = [0, *accumulate(len(calls) for calls in groups)]
        return Answers(*([gpu[start:end] for gpu in read["gpu"]] for start, end in pairwise(ends)))

    return answers_of


@every_recording
def test_nvml_says_what_the_recording_says(path: Path, answers: Callable[[Path], Answers]) -> None:
    gpus = ET.fromstring(path.read_text()).findall("gpu")
    read = answers(path).common
    assert len(read) == len(gpus)
    for gpu, (name, uuid, memory, power, *numbers) in zip(gpus, read, strict=True):
        assert name == gpu.findtext("product_name")
        assert uuid == gpu.findtext("uuid")
        used = sum(number(gpu.findtext(f"fb_memory_usage/{part}")) or 0 for part in ("used", "reserved"))
        assert memory["total"] == (number(gpu.findtext("fb_memory_usage/total")) or 0) * MIB
        assert memory["used"] == used * MIB
        for (element, function, _), value in zip(CHECKED, numbers, strict=True):
            wanted = number(gpu.findtext(element))
            assert value == wanted if wanted is not None else "error" in value, (element, function)
        watts = next((found for draw in DRAWS if (found := number(gpu.findtext(draw))) is not None), None)
        assert power == watts if watts is not None else "error" in power


@every_recording
def test_nvml_lists_the_processes_of_the_recording(path: Path, answers: Callable[[Path], Answers]) -> None:
    profile = recorded(path)
    gpus = ET.fromstring(path.read_text()).findall("gpu")
    if process_calls(profile)[0][0] in profile.missing:
        pytest.skip("this driver's process list is older than pynvml's oldest call")
    for gpu, listed in zip(gpus, answers(path).processes, strict=True):
        for letter, found in zip("CG", listed, strict=True):
            infos = gpu.findall("processes/process_info")
            wanted = [info for info in infos if letter in (info.findtext("type") or "")]
            if not infos and isinstance(found, dict):
                assert found["error"] == 3
                continue
            assert [process["pid"] for process in found] == [
                int(info.findtext("pid") or 0) for info in wanted
            ]
            mib = [number(info.findtext("used_memory")) for info in wanted]
            assert [process["usedGpuMemory"] for process in found] == [
                one if one is None else one * MIB for one in mib
            ]


@every_recording
def test_every_call_answers_as_the_profile_of_the_recording(
    path: Path, answers: Callable[[Path], Answers]
) -> None:
    assert list(differences(recorded(path), answers(path).every)) == []


@every_recording
def test_a_recordings_profile_survives_its_yaml(path: Path) -> None:
    profile = recorded(path)
    assert parse_profile(profile_yaml(profile), profile.name) == profile


@every_recording
def test_the_stand_in_prints_a_recording_that_reads_the_same(path: Path, tmp_path: Path) -> None:
    profile = recorded(path)
    again = profile_from_xml(smi(stage(profile, tmp_path), "-q", "-x").stdout)
    assert len(again.gpus) == len(profile.gpus)
    for before, after in zip(profile.gpus, again.gpus, strict=True):
        keys = PRINTED_KEYS | {row[2] for row in ALSO_READ if row[2].startswith("ecc.")}
        kept = {key: value for key, value in before.values.items() if key in keys}
        assert kept.items() <= after.values.items()
        assert after.processes == before.processes


@pytest.mark.parametrize("name", [name for name in profile_names() if name != "8xh100-broken"])
def test_the_stand_in_and_nvml_hold_one_truth(name: str, tmp_path: Path) -> None:
    profile = load_profile(name)
    done = smi(stage(profile, tmp_path), "-q", "-x")
    assert done.returncode == 0, done.stderr
    printed = profile_from_xml(done.stdout)
    for key in ("driver_version", "cuda_version"):
        assert printed.system[key] == profile.system[key]
    for ours, theirs in zip(profile.gpus, printed.gpus, strict=True):
        plain = {key: value for key, value in ours.values.items() if not NOT_PRINTED.match(key)}
        wanted = {key: _same(value) for key, value in plain.items()}
        assert wanted == {key: _same(theirs.values.get(key, "absent")) for key in wanted}
        capability = {key: value for key, value in ours.values.items() if key.startswith("capability.")}
        assert capability.items() <= theirs.values.items()
        assert theirs.processes == ours.processes


def _same(value: str) -> str:
    """A value so that 0x10 and 16 are equal."""
    return str(int(value, 0)) if re.fullmatch(r"0x[0-9a-fA-F]+", value) else value


@pytest.mark.parametrize("name", ["2xl40s", "8xa100-mig"])
def test_the_stand_in_lists_gpus(name: str, tmp_path: Path) -> None:
    profile = load_profile(name)
    lines = smi(stage(profile, tmp_path), "-L").stdout.splitlines()
    for index, gpu in enumerate(profile.gpus):
        assert f"GPU {index}: {gpu.values['name']} (UUID: {gpu.values['uuid']})" in lines
        for mig in gpu.migs:
            assert any(line.startswith("  MIG 3g.40gb") and mig.values["uuid"] in line for line in lines)


def test_the_recordings_are_what_the_simulated_boards_print() -> None:
    kept = {path.name: path.read_text() for path in RECORDINGS.iterdir()}
    assert dict(recordings()) == kept, "run: python -m tests.lab.silicon.recordings"


def test_the_stand_in_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    done = smi(stage(load_profile("t4"), tmp_path), "-q", "-d", "MEMORY")
    assert done.returncode == 2
    assert "-q -x" in done.stderr


@every_recording
def test_the_command_prints_a_profile_that_can_be_loaded(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(path)]) == 0
    saved = tmp_path / "saved.yaml"
    saved.write_text(capsys.readouterr().out)
    assert load_profile(saved).gpus == recorded(path).gpus == load_profile(path).gpus


@pytest.mark.parametrize("text", ["No devices were found\n", "<html/>", "<nvidia_smi_log>"])
def test_the_command_says_what_is_no_recording(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "saved.xml"
    path.write_text(text)
    assert main([str(path)]) == 1
    assert "saved" in capsys.readouterr().err
    with pytest.raises(ProfileError):
        profile_from_xml(text)


def test_the_command_without_a_file_lists_the_profiles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()] == list(profile_names())


DEVICES = {
    0x1B06: (6, 1),  # GTX 1080 Ti
    0x15F8: (6, 0),  # P100
    0x1DB5: (7, 0),  # V100
    0x1EB8: (7, 5),  # T4
    0x2184: (7, 5),  # GTX 1660
    0x20B2: (8, 0),  # A100
    0x2204: (8, 6),  # RTX 3090
    0x26B9: (8, 9),  # L40S
    0x2330: (9, 0),  # H100
    0x2901: (10, 0),  # B200
    0x2B85: (12, 0),  # RTX 5090
    0x0000: None,
}


@pytest.mark.parametrize(("device_id", "capability"), DEVICES.items())
def test_a_device_id_tells_the_capability(device_id: int, capability: tuple[int, int] | None) -> None:
    assert capability_of(device_id) == capability


def test_a_newer_driver_lacks_fewer_functions() -> None:
    lacking = [set(functions_missing(f"{major}.1")) for major in (418, 470, 515, 535, 580)]
    assert all(newer < older for older, newer in pairwise(lacking))
    assert functions_missing("580.1") == ()
    assert functions_missing("") == ()
