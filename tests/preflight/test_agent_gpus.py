"""GPUs through the real pynvml and a simulated libnvidia-ml.so.1, healthy and wedged."""

import dataclasses
import os
import shutil
from pathlib import Path

import psutil
import pytest

from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from tests.extra_recordings import extra
from tests.hardware import gpus_of, shown_gpus
from tests.lab.silicon import Profile, load_profile, stage
from tests.lab.silicon.from_xml import profile_from_xml
from tests.lab.silicon.recordings import RECORDINGS
from tests.preflight.agent_runs import Answer, ask_until, is_given_up, run_agent
from tests.smi_reading import parse_smi

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="the simulated NVML needs a C compiler"),
]

XML = [*sorted(RECORDINGS.glob("*.xml")), *extra("*.xml")]


def ask(profile: Profile, folder: Path, **request: object) -> Answer:
    stage(profile, folder)
    environ = {"SILICON_STATE": str(folder), "LD_LIBRARY_PATH": str(folder / "lib")}
    return run_agent(request, environ=environ)


def with_calls(profile: Profile, index: int, calls: dict[str, str]) -> Profile:
    gpus = list(profile.gpus)
    gpus[index] = dataclasses.replace(gpus[index], calls={**gpus[index].calls, **calls})
    return dataclasses.replace(profile, gpus=tuple(gpus))


def test_a_lost_gpu_keeps_its_index(tmp_path: Path) -> None:
    gpus = gpus_of(ask(load_profile("8xh100-broken"), tmp_path).facts)
    assert [gpu.index for gpu in gpus] == list(range(8))
    lost = gpus[2]
    facts = set(Gpu.__dataclass_fields__) - {"index", "processes_cut"}  # the latter is of a printed table
    assert {getattr(lost, name).code for name in facts} == {"gpu-lost"}
    assert gpus[4].recovery_action == "gpu_reset"
    assert isinstance(gpus[4].power_w, Missing)
    assert gpus[4].power_w.code == "reset-required"
    assert not isinstance(gpus[6].remap, Missing)
    assert gpus[6].remap.pending
    assert gpus[0].capability == (9, 0)


def test_exclusive_process_mode_is_read(tmp_path: Path) -> None:
    gpus = gpus_of(ask(load_profile("2xl40s-exclusive"), tmp_path).facts)
    assert [gpu.compute_mode for gpu in gpus] == ["exclusive_process"] * 2


@pytest.mark.parametrize(
    ("code", "expected"), [(9, "not-loaded"), (18, "library-mismatch"), (4, "no-permission"), (999, "error")]
)
def test_a_driver_that_refuses_is_named(tmp_path: Path, code: int, expected: str) -> None:
    profile = dataclasses.replace(load_profile("t4"), calls={"nvmlInit": f"return {code}"})
    facts = ask(profile, tmp_path).facts
    assert isinstance(facts.driver, Missing)
    assert isinstance(facts.gpus, Missing)
    assert (facts.driver.code, facts.gpus.code) == (expected, expected)
    assert "kernel module" in facts.driver.reason


def test_a_driver_without_gpus_says_no_devices(tmp_path: Path) -> None:
    facts = ask(dataclasses.replace(load_profile("t4"), gpus=()), tmp_path).facts
    assert not isinstance(facts.driver, Missing)
    assert isinstance(facts.gpus, Missing)
    assert facts.gpus.code == "no-devices"


def test_a_driver_that_never_answers_is_given_up_and_the_others_answer(tmp_path: Path) -> None:
    profile = dataclasses.replace(load_profile("t4"), calls={"nvmlInit": "hang"})
    facts = ask_until(
        lambda deadline_s: ask(profile, tmp_path, deadline_s=deadline_s),
        lambda facts: not isinstance(facts.processes, Missing) and not isinstance(facts.python, Missing),
    )
    assert is_given_up(facts.gpus)
    assert not isinstance(facts.processes, Missing)
    assert not isinstance(facts.python, Missing)


def test_one_wedged_gpu_costs_the_others_nothing(tmp_path: Path) -> None:
    profile = with_calls(load_profile("8xh100"), 3, {"nvmlDeviceGetTotalEccErrors": "hang"})

    def is_told(facts: HostFacts) -> bool:
        return not isinstance(facts.gpus, Missing) and not any(
            isinstance(fact, Missing)
            for gpu in facts.gpus
            for fact in ((gpu.uuid,) if gpu.index == 3 else (gpu.ecc, gpu.nvlinks))
        )

    facts = ask_until(lambda deadline_s: ask(profile, tmp_path, deadline_s=deadline_s), is_told)
    assert is_told(facts)
    wedged = gpus_of(facts)[3]
    assert wedged.uuid != ""
    assert is_given_up(wedged.ecc)
    assert is_given_up(wedged.nvlinks)


def test_one_call_that_fails_costs_one_field(tmp_path: Path) -> None:
    profile = with_calls(load_profile("t4"), 0, {"nvmlDeviceGetMemoryInfo_v2": "return 999"})
    (gpu,) = gpus_of(ask(profile, tmp_path).facts)
    assert isinstance(gpu.memory, Missing)
    assert gpu.memory.code == "error"
    assert gpu.capability == (7, 5)


def test_memory_of_an_old_driver_has_no_reserve(tmp_path: Path) -> None:
    profile = with_calls(load_profile("t4"), 0, {"nvmlDeviceGetMemoryInfo_v2": "return 13"})
    (gpu,) = gpus_of(ask(profile, tmp_path).facts)
    assert not isinstance(gpu.memory, Missing)
    assert isinstance(gpu.memory.reserved_mib, Missing)
    assert (gpu.total_mib or 0) > 15000


def test_without_nvml_nvidia_smi_is_asked(tmp_path: Path) -> None:
    stage(load_profile("2xl40s-exclusive"), tmp_path)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    facts = run_agent({}, environ={"SILICON_STATE": str(tmp_path), "PATH": path}).facts
    assert not isinstance(facts.driver, Missing)
    assert facts.driver.source == "nvidia-smi"
    gpus = gpus_of(facts)
    assert [(gpu.name, gpu.capability, gpu.compute_mode) for gpu in gpus] == [
        ("NVIDIA L40S", (8, 9), "exclusive_process")
    ] * 2


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("sleep 600", "timeout"),
        ("echo No devices were found; exit 6", "no-devices"),
        ("echo Failed to initialize NVML: Driver/library version mismatch; exit 18", "library-mismatch"),
        ("echo surprise; exit 1", "error"),
    ],
)
def test_an_nvidia_smi_that_fails_is_named(tmp_path: Path, script: str, code: str) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    facts = ask_until(
        lambda deadline_s: run_agent(
            {"deadline_s": deadline_s}, environ={"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        ),
        lambda facts: isinstance(facts.gpus, Missing) and facts.gpus.code == code,
    )
    assert isinstance(facts.gpus, Missing)
    assert facts.gpus.code == code
    left = [each for each in psutil.process_iter(["cmdline"]) if str(program) in (each.info["cmdline"] or ())]
    assert psutil.wait_procs(left, timeout=5)[1] == []  # what has been killed may not be collected yet


def test_cuda_is_started_beside_nvml_and_lists_the_same_gpus(tmp_path: Path) -> None:
    facts = ask(load_profile("8xh100"), tmp_path).facts
    assert not isinstance(facts.cuda, Missing)
    assert (facts.cuda.library, facts.cuda.code, facts.cuda.error) == ("libcuda.so.1", 0, "")
    assert list(facts.cuda.uuids) == [gpu.uuid for gpu in gpus_of(facts)]


def test_what_a_launch_chooses_itself_does_not_hide_gpus_from_cuda(tmp_path: Path) -> None:
    stage(load_profile("t4"), tmp_path)
    environ = {"SILICON_STATE": str(tmp_path), "LD_LIBRARY_PATH": str(tmp_path / "lib")}
    facts = run_agent({}, environ=environ | {"CUDA_VISIBLE_DEVICES": ""}).facts
    assert not isinstance(facts.cuda, Missing)
    assert len(facts.cuda.uuids) == 1


def test_cuda_is_looked_for_where_the_loader_of_a_rank_will(tmp_path: Path) -> None:
    stage(dataclasses.replace(load_profile("t4"), missing=("cuInit",)), tmp_path / "without")
    stage(load_profile("t4"), tmp_path / "with")
    state = {"SILICON_STATE": str(tmp_path / "with")}
    ours = state | {"LD_LIBRARY_PATH": str(tmp_path / "without" / "lib")}
    launch = {"env": {"LD_LIBRARY_PATH": f"/nonexistent::{tmp_path}/with/lib/"}}
    assert isinstance(run_agent({}, environ=ours).facts.cuda, Missing)
    facts = run_agent(launch, environ=ours).facts
    assert not isinstance(facts.cuda, Missing)
    assert (facts.cuda.library, len(facts.cuda.uuids)) == ("libcuda.so.1", 1)


@pytest.mark.parametrize(
    ("code", "words"),
    [(802, "CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized"), (77, "CUDA error 77")],
)
def test_an_error_at_the_start_of_cuda_has_its_name(tmp_path: Path, code: int, words: str) -> None:
    profile = dataclasses.replace(load_profile("t4"), calls={"cuInit": f"return {code}"})
    facts = ask(profile, tmp_path).facts
    assert not isinstance(facts.cuda, Missing)
    assert (facts.cuda.code, facts.cuda.error, facts.cuda.uuids) == (code, words, ())
    assert gpus_of(facts)


def test_a_driver_without_its_cuda_library_says_so(tmp_path: Path) -> None:
    facts = ask(dataclasses.replace(load_profile("t4"), missing=("cuInit",)), tmp_path).facts
    assert isinstance(facts.cuda, Missing)
    assert facts.cuda.code == "no-library"
    assert "libcuda.so.1" in facts.cuda.reason


def test_a_cuda_that_hangs_costs_the_others_nothing(tmp_path: Path) -> None:
    profile = dataclasses.replace(load_profile("t4"), calls={"cuInit": "hang"})
    facts = ask_until(
        lambda deadline_s: ask(profile, tmp_path, deadline_s=deadline_s),
        lambda facts: not isinstance(facts.gpus, Missing),
    )
    assert is_given_up(facts.cuda)
    assert gpus_of(facts)


def test_a_gpu_whose_file_this_user_may_not_open_is_not_among_those_of_cuda(tmp_path: Path) -> None:
    facts = ask(load_profile("2xl40s-exclusive").with_gpu(0, hidden_from_cuda="1"), tmp_path).facts
    assert not isinstance(facts.cuda, Missing)
    assert list(facts.cuda.uuids) == [gpus_of(facts)[1].uuid]


def _plain(gpu: Gpu) -> dict[str, object]:
    """The values of a GPU, nested reasons of absence left out: NVML and nvidia-smi word them differently."""

    def known(value: object) -> object:
        if isinstance(value, Missing):
            return None
        if dataclasses.is_dataclass(value):
            return {f.name: known(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return tuple(known(item) for item in value) if isinstance(value, tuple) else value

    return {name: known(getattr(gpu, name)) for name in Gpu.__dataclass_fields__}


@pytest.mark.parametrize("path", XML, ids=lambda path: path.stem)
def test_a_recording_through_nvml_and_from_the_file_agree(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    live = gpus_of(ask(profile_from_xml(text), tmp_path, skip=["processes", "ports", "system"]).facts)
    saved = shown_gpus(parse_smi(text, "host"))
    for one, other in zip(live, saved, strict=True):
        left, right = _plain(one), _plain(other)
        known = {name for name in left if left[name] is not None and right[name] is not None}
        if "trimmed" in path.name:
            known.discard("memory")  # its reserve is absent, where the simulation has to say a number
        assert {name: left[name] for name in known} == {name: right[name] for name in known}
        masked = text.count(f"<uuid>{one.uuid}</uuid>") > 1  # a file that names two GPUs alike names neither
        assert known >= {"name", "compute_mode", "pci_bus_id", *([] if masked else ["uuid"])}
