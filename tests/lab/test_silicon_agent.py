"""The agent on simulated silicon: a recording read as a file and through NVML give the same facts."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from tests.extra_recordings import extra
from tests.hardware import gpus_of, shown_gpus
from tests.lab.silicon.ask import environment, smi
from tests.lab.silicon.from_xml import profile_from_xml
from tests.lab.silicon.profile import Profile, load_profile, profile_names
from tests.lab.silicon.recordings import RECORDINGS
from tests.lab.silicon.state import stage
from tests.preflight.agent_runs import Answer, ask_until, is_given_up, run_agent
from tests.smi_reading import parse_smi

pytestmark = pytest.mark.slow

XML = [*sorted(RECORDINGS.glob("*.xml")), *extra("*.xml")]
every_recording = pytest.mark.parametrize("path", XML, ids=lambda path: path.stem)
ONLY_GPUS = {
    "skip": ["python", "processes", "ports", "network", "paths", "kernel_log", "system", "infiniband"]
}


def ask_agent(profile: Profile, directory: Path, request: Mapping[str, Any] = ONLY_GPUS) -> Answer:
    """The agent's answer on a host with these GPUs."""
    return run_agent(request, environ=environment(stage(profile, directory)))


def disagreements(one: Any, other: Any, where: str) -> Iterator[str]:
    """Every place where both hold a value and the values differ."""
    if isinstance(one, Missing) or isinstance(other, Missing):
        return
    if is_dataclass(one) and is_dataclass(other):
        for field in fields(one):
            name = f"{where}.{field.name}"
            yield from disagreements(getattr(one, field.name), getattr(other, field.name), name)
    elif isinstance(one, tuple) and isinstance(other, tuple) and one and is_dataclass(one[0]):
        if len(one) != len(other):
            yield f"{where}: {len(one)} and {len(other)}"
        for at, (left, right) in enumerate(zip(one, other, strict=False)):
            yield from disagreements(left, right, f"{where}[{at}]")
    elif one != other:
        yield f"{where}: {one!r} and {other!r}"


def held_by(gpu: Gpu) -> set[str]:
    """Names of the fields that were read."""
    return {field.name for field in fields(Gpu) if not isinstance(getattr(gpu, field.name), Missing)}


def in_order(found: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The same GPUs with their processes by pid: no source promises an order."""

    def ordered(gpu: Gpu) -> Gpu:
        if isinstance(gpu.processes, Missing):
            return gpu
        return replace(gpu, processes=tuple(sorted(gpu.processes, key=lambda one: (one.pid, one.kind))))

    return tuple(ordered(gpu) for gpu in found)


@every_recording
def test_a_recording_gives_the_same_facts_as_a_file_and_through_nvml(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    from_file = parse_smi(text, "recorded")
    from_nvml = ask_agent(profile_from_xml(text, path.stem), tmp_path).facts
    assert list(disagreements(from_file.driver, replace_source(from_nvml).driver, "driver")) == []
    pairs = list(zip(in_order(shown_gpus(from_file)), in_order(gpus_of(from_nvml)), strict=True))
    assert [found for at, pair in enumerate(pairs) for found in disagreements(*pair, f"gpu{at}")] == []
    reckoned = {"temperature_slowdown_c"}  # of margins, by the reader of files alone
    assert all(held_by(as_file) - reckoned <= held_by(as_nvml) for as_file, as_nvml in pairs)


def replace_source(facts: HostFacts) -> HostFacts:
    """The same, with a driver that is said to come from a file."""
    if isinstance(facts.driver, Missing):
        return facts
    return replace(facts, driver=replace(facts.driver, source="file"))


@pytest.mark.parametrize("name", profile_names())
def test_the_agent_reads_every_profile(name: str, tmp_path: Path) -> None:
    profile = load_profile(name)
    answer = ask_agent(profile, tmp_path)
    found = gpus_of(answer.facts)
    assert len(found) == len(profile.gpus)
    for gpu, ours in zip(found, profile.gpus, strict=True):
        if "nvmlDeviceGetHandleByIndex" in ours.calls:
            assert isinstance(gpu.name, Missing)
            assert gpu.name.code == "gpu-lost"
            continue
        assert gpu.name == ours.values["name"]
        assert gpu.uuid == ours.values["uuid"]
        assert gpu.capability == (int(ours.values["capability.major"]), int(ours.values["capability.minor"]))
        assert not isinstance(gpu.memory, Missing)
        assert gpu.memory.total_mib == int(ours.values["memory.total_mib"])


@pytest.mark.parametrize("name", ["2xl40s-exclusive", "8xa100-mig", "p100", "8xb200"])
def test_the_agent_says_the_same_through_nvidia_smi(name: str, tmp_path: Path) -> None:
    profile = load_profile(name)
    through_nvml = gpus_of(ask_agent(profile, tmp_path).facts)
    printed = smi(tmp_path, "-q", "-x").stdout
    through_smi = gpus_of(parse_smi(printed, "printed"))
    pairs = list(zip(in_order(through_nvml), in_order(through_smi), strict=True))
    assert [found for at, pair in enumerate(pairs) for found in disagreements(*pair, f"gpu{at}")] == []


@pytest.mark.parametrize("name", ["2xl40s-exclusive", "rtx-2080+gtx-750-ti"])
def test_without_pynvml_the_agent_asks_nvidia_smi(name: str, tmp_path: Path) -> None:
    profile = load_profile(name)
    through_nvml = ask_agent(profile, tmp_path).facts
    through_smi = run_agent(ONLY_GPUS, environ=environment(tmp_path), pynvml=b"").facts
    assert not isinstance(through_smi.driver, Missing)
    assert through_smi.driver.source == "nvidia-smi"
    pairs = list(zip(in_order(gpus_of(through_nvml)), in_order(gpus_of(through_smi)), strict=True))
    assert [found for at, pair in enumerate(pairs) for found in disagreements(*pair, f"gpu{at}")] == []


def test_a_mode_and_a_holder_reach_the_facts(tmp_path: Path) -> None:
    profile = load_profile("8xa100-mig")
    found = gpus_of(ask_agent(profile, tmp_path).facts)
    assert [gpu.mig_enabled for gpu in found] == [False] * 3 + [True] + [False] * 4
    assert not isinstance(found[3].processes, Missing)
    assert [process.pid for process in found[3].processes] == [22107]


def test_trouble_reaches_the_facts(tmp_path: Path) -> None:
    found = gpus_of(ask_agent(load_profile("8xh100-broken"), tmp_path).facts)
    assert found[4].recovery_action == "gpu_reset"
    assert isinstance(found[4].utilization_percent, Missing)
    assert found[4].utilization_percent.code == "reset-required"
    assert not isinstance(found[6].remap, Missing)
    assert found[6].remap.pending
    assert {gpu.recovery_action for gpu in found[:2]} == {"none"}


@pytest.mark.parametrize(
    ("code", "word"), [(9, "not-loaded"), (12, "no-library"), (18, "library-mismatch"), (4, "no-permission")]
)
def test_a_driver_that_does_not_start_is_missing_for_its_reason(code: int, word: str, tmp_path: Path) -> None:
    profile = replace(load_profile("2xl40s"), calls={"nvmlInit": f"return {code}"})
    facts = ask_agent(profile, tmp_path).facts
    assert isinstance(facts.gpus, Missing)
    assert facts.gpus.code == word


def test_a_gpu_that_hangs_costs_the_others_nothing(tmp_path: Path) -> None:
    profile = load_profile("2xl40s")
    hanging = replace(profile.gpus[0], calls={"nvmlDeviceGetUtilizationRates": "hang"})
    profile = replace(profile, gpus=(hanging, profile.gpus[1]))

    def is_told(facts: HostFacts) -> bool:
        found = () if isinstance(facts.gpus, Missing) else facts.gpus
        return [(gpu.name, gpu.utilization_percent) for gpu in found[1:]] == [("NVIDIA L40S", 0)]

    facts = ask_until(
        lambda deadline_s: ask_agent(profile, tmp_path, {**ONLY_GPUS, "deadline_s": deadline_s}), is_told
    )
    assert is_told(facts)
    first = gpus_of(facts)[0]
    assert (first.name, is_given_up(first.utilization_percent)) == ("NVIDIA L40S", True)


def test_a_driver_that_hangs_at_the_start_is_a_timeout(tmp_path: Path) -> None:
    profile = replace(load_profile("2xl40s"), calls={"nvmlInit": "hang"})
    answer = ask_agent(profile, tmp_path, {**ONLY_GPUS, "deadline_s": 1.0})
    assert isinstance(answer.facts.gpus, Missing)
    assert answer.facts.gpus.code == "timeout"
