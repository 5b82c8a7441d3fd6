"""Saved outputs of nvidia-smi and its neighbours: every recording, and everything that is none."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.absence import Missing
from preflight.errors import BadInput
from preflight.facts import HostFacts
from preflight.gpu_facts import Driver, Gpu, PciGpu
from preflight.smi import parse_smi
from tests.preflight.agent_runs import FIXTURES

pytestmark = pytest.mark.skipif(not FIXTURES.exists(), reason="../shared is absent")


def read(name: str) -> HostFacts:
    return parse_smi((FIXTURES / name).read_text(), "host")


def gpus_of(facts: HostFacts) -> tuple[Gpu, ...]:
    assert not isinstance(facts.gpus, Missing)
    return facts.gpus


class Golden(NamedTuple):
    """What a recording says, read by eye: of its last state where it holds several."""

    file: str
    gpus: int
    driver: str | None
    cuda: str | None
    name: str
    capability: tuple[int, int] | None
    used_mib: int
    reserved_mib: int | None
    processes: int | None  # on GPU 0
    compute_mode: str = "default"


H100 = "NVIDIA H100 80GB HBM3"
TURING_SUPER = "NVIDIA GeForce RTX 2080 SUPER"
BLACKWELL = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
GOLDEN = (
    Golden(
        "2xgtx-1080ti_driver-440.82_memory-used-no-process-table.txt",
        2,
        "440.82",
        "10.2",
        "GeForce GTX 108...",
        None,
        10916,
        None,
        0,
    ),
    Golden(
        "2xrtx-2080_driver-590.44.01.xml",
        2,
        "590.44.01",
        "13.1",
        "NVIDIA GeForce RTX 2080",
        (7, 5),
        1,
        406,
        0,
    ),
    Golden(
        "2xrtx-a5000_driver-590.44.01.xml", 2, "590.44.01", "13.1", "NVIDIA RTX A5000", (8, 6), 22437, 450, 1
    ),
    Golden(
        "8xgtx-1080ti_driver-390.25_busy-table.txt",
        8,
        "390.25",
        None,
        "GeForce GTX 108...",
        None,
        10807,
        None,
        1,
    ),
    Golden("8xh100-80gb-hbm3_driver-535.161.08_q.txt", 8, "535.161.08", "12.2", H100, (9, 0), 0, 551, 0),
    Golden("8xh100-80gb-hbm3_driver-550.90.07_table.txt", 8, "550.90.07", "12.4", H100, (9, 0), 1, None, 0),
    Golden(
        "8xrtx-4090_driver-535.154.05_busy_q.txt",
        8,
        "535.154.05",
        "12.2",
        "NVIDIA GeForce RTX 4090",
        (8, 9),
        20328,
        346,
        1,
    ),
    Golden(
        "a100-sxm4-80gb_driver-535.54.03_mig.xml",
        1,
        "535.54.03",
        "12.2",
        "NVIDIA A100-SXM4-80GB",
        (8, 0),
        50,
        869,
        0,
    ),
    Golden(
        "a10_driver-535.129.03_remap-pending_q.txt", 1, "535.129.03", "12.2", "NVIDIA A10", (8, 6), 4, 512, 0
    ),
    Golden("a10g_driver-515.105.01.xml", 1, "515.105.01", "11.7", "NVIDIA A10G", (8, 6), 22, 435, 1),
    Golden("gt-1030_driver-470.74.xml", 1, "470.74", "11.4", "NVIDIA GeForce GT 1030", (6, 1), 875, None, 10),
    Golden(
        "gtx-1070-ti_driver-unknown_v10-trimmed.xml",
        1,
        None,
        None,
        "GeForce GTX 1070 Ti",
        (6, 1),
        42,
        None,
        None,
    ),
    Golden(
        "h100-80gb-hbm3_driver-590.48.01_capture.txt", 1, "590.48.01", "13.1", H100, (9, 0), 19818, 479, 3
    ),
    Golden(
        "h100-80gb-hbm3_driver-590.48.01_mig_capture.txt", 1, "590.48.01", "13.1", H100, (9, 0), 11125, 479, 3
    ),
    Golden("l40s_driver-595.80_capture.txt", 1, "595.80", "13.2", "NVIDIA L40S", (8, 9), 1235, 609, 2),
    Golden("quadro-p2000_driver-525.125.06.xml", 1, "525.125.06", "12.0", "Quadro P2000", (6, 1), 1, 66, 0),
    Golden("quadro-p400_driver-418.43.xml", 1, "418.43", "10.1", "Quadro P400", (6, 1), 0, None, 0),
    Golden(
        "rtx-2080-super_driver-610.57.04_capture.txt",
        1,
        "610.57.04",
        "13.3",
        TURING_SUPER,
        (7, 5),
        815,
        400,
        4,
    ),
    Golden(
        "rtx-2080-super_windows_driver-591.86_capture.txt",
        1,
        "591.86",
        "13.1",
        TURING_SUPER,
        (7, 5),
        1296,
        205,
        12,
    ),
    Golden(
        "rtx-2080-super_windows_driver-610.62_capture.txt",
        1,
        "610.62",
        "13.3",
        TURING_SUPER,
        (7, 5),
        1366,
        205,
        21,
    ),
    Golden(
        "rtx-3060_driver-570.124.04.xml",
        1,
        "570.124.04",
        "12.8",
        "NVIDIA GeForce RTX 3060",
        (8, 6),
        116,
        368,
        0,
    ),
    Golden(
        "rtx-3080_driver-536.40.xml", 1, "536.40", "12.2", "NVIDIA GeForce RTX 3080", (8, 6), 1128, 173, 5
    ),
    Golden(
        "rtx-3080_driver-595.58.03.xml",
        1,
        "595.58.03",
        "13.2",
        "NVIDIA GeForce RTX 3080",
        (8, 6),
        9184,
        397,
        0,
    ),
    Golden(
        "rtx-3090_driver-525.147.05.xml",
        1,
        "525.147.05",
        "12.0",
        "NVIDIA GeForce RTX 3090",
        (8, 6),
        1,
        316,
        0,
    ),
    Golden(
        "rtx-3090_driver-590.44.01.xml", 1, "590.44.01", "13.1", "NVIDIA GeForce RTX 3090", (8, 6), 7, 450, 0
    ),
    Golden(
        "rtx-4000-sff-ada_driver-595.84.xml",
        1,
        "595.84",
        "13.2",
        "NVIDIA RTX 4000 SFF Ada Generation",
        (8, 9),
        3534,
        460,
        4,
    ),
    Golden(
        "rtx-4080-super_driver-595.71.05_capture.txt",
        1,
        "595.71.05",
        "13.2",
        "NVIDIA GeForce RTX 4080 SUPER",
        (8, 9),
        1474,
        434,
        7,
    ),
    Golden(
        "rtx-4090_driver-525.125.06_err-fan_exclusive-process-table.txt",
        1,
        "525.125.06",
        "12.0",
        "NVIDIA GeForce ...",
        None,
        2021,
        None,
        None,
        "exclusive_process",
    ),
    Golden(
        "rtx-pro-6000-maxq-blackwell_driver-590.44.01.xml",
        1,
        "590.44.01",
        "13.1",
        BLACKWELL,
        (12, 0),
        65720,
        637,
        1,
    ),
    Golden("t4_driver-515.105.01.xml", 1, "515.105.01", "11.7", "Tesla T4", (7, 5), 1032, 388, 2),
    Golden(
        "turing-unnamed-graphics-device_driver-418.43.xml",
        1,
        "418.43",
        "10.1",
        "Graphics Device",
        None,
        0,
        None,
        0,
    ),
)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.file)
def test_a_recording_gives_what_it_holds(golden: Golden) -> None:
    facts = read(golden.file)
    gpus = gpus_of(facts)
    gpu = gpus[0]
    driver = facts.driver if isinstance(facts.driver, Driver) else None
    assert len(gpus) == golden.gpus
    assert [gpu.index for gpu in gpus] == list(range(golden.gpus))
    assert (driver.version if driver else None) == golden.driver
    cuda = driver.cuda_version if driver else None
    assert (None if isinstance(cuda, Missing) else cuda) == golden.cuda
    assert gpu.name == golden.name
    assert (None if isinstance(gpu.capability, Missing) else gpu.capability) == golden.capability
    assert not isinstance(gpu.memory, Missing)
    reserved = gpu.memory.reserved_mib
    assert (gpu.memory.used_mib, None if isinstance(reserved, Missing) else reserved) == (
        golden.used_mib,
        golden.reserved_mib,
    )
    assert (None if isinstance(gpu.processes, Missing) else len(gpu.processes)) == golden.processes
    assert gpu.compute_mode == golden.compute_mode


NO_GPU_STATE = {
    "8xa100-sxm4-80gb_nvlink-s.txt",
    "8xh100_driver-535.183.01_truncated-edited_q.txt",
    "wsl2_query-compute-apps_not-found.csv",
}
NOT_GPU_OUTPUT = ("ps_", "ss-", "fabricmanager", "SOURCES")
OTHER_OUTPUT = ("error_", "dmesg_", "lspci")


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*")), ids=lambda path: path.name)
def test_every_recording_is_accounted_for(path: Path) -> None:
    known = {golden.file for golden in GOLDEN} | NO_GPU_STATE
    if path.name.startswith(NOT_GPU_OUTPUT):
        with pytest.raises(BadInput, match="no output of nvidia-smi that gpulaunch knows"):
            read(path.name)
        return
    assert path.name in known or path.name.startswith(OTHER_OUTPUT)
    assert read(path.name).host == "host"


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("error_gpu-is-lost.txt", "gpu-lost"),
        ("error_driver-not-communicating.txt", "not-loaded"),
        ("error_driver-library-mismatch_driver-470.txt", "library-mismatch"),
        ("error_driver-library-mismatch_with-nvml-version.txt", "library-mismatch"),
        ("error_no-devices.txt", "no-devices"),
    ],
)
def test_nvidia_smis_own_errors_have_codes(file: str, code: str) -> None:
    facts = read(file)
    assert isinstance(facts.driver, Missing)
    assert isinstance(facts.gpus, Missing)
    assert (facts.driver.code, facts.gpus.code) == (code, code)


def test_what_a_file_does_not_hold_is_not_asked() -> None:
    facts = read("t4_driver-515.105.01.xml")
    for name in ("identity", "processes", "ports", "network", "limits", "kernel_log", "python"):
        assert getattr(facts, name) == Missing("the file does not hold it", "not-asked")


def test_health_is_read() -> None:
    (gpu,) = gpus_of(read("a10_driver-535.129.03_remap-pending_q.txt"))
    assert not isinstance(gpu.remap, Missing)
    assert (gpu.remap.uncorrectable, gpu.remap.pending, gpu.remap.failed) == (4, True, False)
    h100 = gpus_of(read("8xh100-80gb-hbm3_driver-535.161.08_q.txt"))[0]
    assert h100.throttle == ("hw_slowdown", "hw_power_brake")
    assert not isinstance(h100.fabric, Missing)
    assert h100.fabric.state == "completed"
    assert not isinstance(h100.pcie, Missing)
    assert (h100.pcie.generation, h100.pcie.width) == (5, 16)
    (a100,) = gpus_of(read("a100-sxm4-80gb_driver-535.54.03_mig.xml"))
    assert a100.mig_enabled is True


def test_processes_lie_on_their_gpus() -> None:
    gpus = gpus_of(read("8xgtx-1080ti_driver-390.25_busy-table.txt"))
    counts = [len(gpu.processes) for gpu in gpus if not isinstance(gpu.processes, Missing)]
    assert counts == [1, 1, 1, 2, 4, 1, 2, 1]
    first = gpus[0].processes
    assert not isinstance(first, Missing)
    assert (first[0].pid, first[0].used_mib, first[0].name) == (1032, 10781, "python")


def test_links_are_read_from_nvlink_s() -> None:
    gpus = gpus_of(read("8xa100-sxm4-80gb_nvlink-s.txt"))
    for gpu in gpus:
        assert not isinstance(gpu.nvlinks, Missing)
        assert [link.active for link in gpu.nvlinks] == [True] * 12


def test_a_cut_text_counts_the_gpus_it_lost() -> None:
    gpus = gpus_of(read("8xh100_driver-535.183.01_truncated-edited_q.txt"))
    assert len(gpus) == 8
    assert not isinstance(gpus[0].uuid, Missing)
    assert gpus[7].uuid == Missing("the file is cut: it counts 8 GPUs", "not-asked")


def test_lspci_gives_the_bus() -> None:
    (gpu,) = _pci("lspci-nn_a10.txt")
    assert (gpu.bus_id, gpu.device_id) == ("0000:06:00.0", "2236")
    assert [gpu.device_id for gpu in _pci("lspci_gb200.txt")] == ["2941"] * 4


def _pci(name: str) -> tuple[PciGpu, ...]:
    found = read(name).pci_gpus
    assert not isinstance(found, Missing)
    return found


def test_a_query_as_csv_is_read() -> None:
    text = (
        "name, uuid, pci.bus_id, compute_cap, compute_mode, memory.total [MiB], memory.used [MiB], "
        "memory.free [MiB]\n"
        "NVIDIA L40S, GPU-1, 00000000:01:00.0, 8.9, Exclusive_Process, 46068 MiB, 1 MiB, 45539 MiB\n"
    )
    (gpu,) = gpus_of(parse_smi(text, "host"))
    assert (gpu.capability, gpu.compute_mode, gpu.uuid) == ((8, 9), "exclusive_process", "GPU-1")


def test_absurd_numbers_are_no_values() -> None:
    text = (FIXTURES / "t4_driver-515.105.01.xml").read_text().replace("<gpu_temp>", "<gpu_temp>" + "9" * 400)
    (gpu,) = gpus_of(parse_smi(text, "host"))
    assert isinstance(gpu.temperature_c, Missing)


def test_windows_line_ends_and_marks_do_not_matter() -> None:
    text = (FIXTURES / "8xrtx-4090_driver-535.154.05_busy_q.txt").read_text()
    assert parse_smi("\ufeff" + text.replace("\n", "\r\n"), "host") == parse_smi(text, "host")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "<nvidia_smi_log>",
        "<nvidia_smi_log><gpu></nvidia_smi_log>",
        "<nvidia_smi_log></nvidia_smi_log>",
        '<!DOCTYPE x [<!ENTITY a "b">]><nvidia_smi_log>&a;</nvidia_smi_log>',
        "<html>nvidia_smi_log</html>",
        "==============NVSMI LOG==============\n",
        "| NVIDIA-SMI 550.90.07 |\n",
        "<nvidia_smi_log>" + "<a>" * 5000 + "</a>" * 5000 + "</nvidia_smi_log>",
        "name, uuid\nonly-one\n",
    ],
)
def test_what_is_no_whole_recording_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as refusal:
        parse_smi(text, "host")
    assert "nvidia-smi -q -x" in refusal.value.fix


def _texts() -> list[str]:
    return [path.read_text() for path in sorted(FIXTURES.glob("*")) if path.stat().st_size < 60_000]


def _count(text: str) -> int:
    try:
        return len(gpus_of(parse_smi(text, "host")))
    except (BadInput, AssertionError):
        return 0


def _never_raises(text: str, most: int) -> None:
    """Where a damaged text is cut, the GPUs that it counts itself are there as unknown ones."""
    most = max([most, *(int(count) for count in re.findall(r"Attached GPUs *: (\d{1,4})", text))])
    try:
        facts = parse_smi(text, "host")
    except BadInput:
        return
    if not isinstance(facts.gpus, Missing):
        assert len(facts.gpus) <= most


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_recording_never_gains_a_gpu(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    most = _count(text)
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 400))
    junk = data.draw(st.text(max_size=20))
    _never_raises(text[:start] + junk + text[start + length :], most)
    _never_raises(text[:start], most)


@settings(max_examples=200, deadline=None)
@given(st.text() | st.text().map(lambda text: f"<nvidia_smi_log>{text}</nvidia_smi_log>"))
def test_any_text_is_refused_or_holds_no_gpu(text: str) -> None:
    _never_raises(text, 0)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_values_in_a_recording_are_values_or_reasons(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    lines = text.split("\n")
    words = st.sampled_from(
        ["N/A", "ERR!", "[GPU is lost]", "-1", "9" * 400, "1e999", "Yes", "", "\x1b[31m", "é"]
    )
    mangle: Callable[[str], str] = lambda line: line.partition(" : ")[0] + " : " + data.draw(words)  # noqa: E731
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at] = mangle(lines[at]) if " : " in lines[at] else lines[at].replace("0", data.draw(words))
    _never_raises("\n".join(lines), _count(text))


TEXTS = _texts() if FIXTURES.exists() else [""]
