"""Saved outputs of nvidia-smi and its neighbours: every recording, and everything that is none."""

from dataclasses import replace
from pathlib import Path

import pytest

from preflight.errors import BadInput
from preflight.facts.gpu import Driver, Gpu, PciGpu
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from tests.extra_recordings import SMI, extra
from tests.hardware import gpus_of
from tests.lab.silicon.profile import GpuProfile
from tests.lab.silicon.recordings import CAPTURE, RECORDED, RECORDINGS, profile_of
from tests.preflight.smi_goldens import GOLDEN, Golden
from tests.smi_reading import parse_smi

OWN = [(name, form) for name, forms in RECORDED.items() for form in forms]
OF_GPUS = [(name, form) for name, form in OWN if not name.startswith("error_") and name != "8xh100-broken"]
FULL = ("q.xml", "q.txt", CAPTURE)
BESIDE = extra("*")


def own(name: str, form: str) -> HostFacts:
    return parse_smi((RECORDINGS / f"{name}.{form}").read_text(), "host")


def number(gpu: GpuProfile, key: str) -> int:
    return int(gpu.values[key], 0)


def holders(gpu: Gpu) -> list[tuple[int, object]] | None:
    if isinstance(gpu.processes, Missing):
        return None
    return [(one.pid, one.used_mib) for one in gpu.processes]


@pytest.mark.parametrize(("name", "form"), OF_GPUS)
def test_every_form_names_the_gpus_of_the_board(name: str, form: str) -> None:
    profile, found = profile_of(name), gpus_of(own(name, form))
    assert [gpu.index for gpu in found] == list(range(len(profile.gpus)))
    assert [gpu.name for gpu in found] == [gpu.values["name"] for gpu in profile.gpus]
    if form != "table.txt":
        assert [gpu.uuid for gpu in found] == [gpu.values["uuid"] for gpu in profile.gpus]


@pytest.mark.parametrize(
    ("name", "form"), [(n, f) for n, f in OF_GPUS if f not in ("list.txt", "nvlink.txt")]
)
def test_every_state_holds_the_memory_and_mode_of_the_board(name: str, form: str) -> None:
    modes = {"0": "default", "2": "prohibited", "3": "exclusive_process"}
    for gpu, board in zip(gpus_of(own(name, form)), profile_of(name).gpus, strict=True):
        assert not isinstance(gpu.memory, Missing)
        assert gpu.memory.total_mib == number(board, "memory.total_mib")
        assert gpu.memory.used_mib == number(board, "memory.used_mib")
        assert gpu.compute_mode == modes[board.values["compute_mode"]]


@pytest.mark.parametrize(("name", "form"), [(n, f) for n, f in OF_GPUS if f in FULL])
def test_a_full_state_holds_driver_capability_and_mig(name: str, form: str) -> None:
    profile, facts = profile_of(name), own(name, form)
    assert isinstance(facts.driver, Driver)
    assert facts.driver.version == profile.system["driver_version"]
    for gpu, board in zip(gpus_of(facts), profile.gpus, strict=True):
        assert gpu.capability == (number(board, "capability.major"), number(board, "capability.minor"))
        assert gpu.mig_enabled == (board.values.get("mig.enabled") == "1") or isinstance(
            gpu.mig_enabled, Missing
        )


@pytest.mark.parametrize(("name", "form"), [(n, f) for n, f in OF_GPUS if f in (*FULL, "table.txt")])
def test_processes_are_on_their_gpus(name: str, form: str) -> None:
    for gpu, board in zip(gpus_of(own(name, form)), profile_of(name).gpus, strict=True):
        listed = sorted((one.pid, one.used_mib) for one in board.processes or ())
        found = holders(gpu)
        assert (
            found is None
            or sorted((pid, mib if isinstance(mib, int) else None) for pid, mib in found) == listed
        )
        assert found is not None or not listed


def test_a_capture_of_several_commands_says_what_its_fullest_says() -> None:
    capture, full = gpus_of(own("2xl40s-busy", CAPTURE)), gpus_of(own("2xl40s-busy", "q.xml"))
    assert [replace(gpu, nvlinks=()) for gpu in capture] == [replace(gpu, nvlinks=()) for gpu in full]


def check_golden(golden: Golden) -> None:
    facts = parse_smi((SMI / golden.file).read_text(), "host")
    gpus = gpus_of(facts)
    gpu = next(gpu for gpu in gpus if isinstance(gpu.name, str))  # a file may hold one of several
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


def check_accounted(path: Path) -> None:
    if path.name.startswith(NOT_GPU_OUTPUT):
        with pytest.raises(BadInput):
            parse_smi(path.read_text(), "host")
        return
    known = {golden.file for golden in GOLDEN} | NO_GPU_STATE
    assert path.name in known or path.name.startswith(OTHER_OUTPUT)
    assert parse_smi(path.read_text(), "host").host == "host"


if BESIDE:  # more cases; without them nothing is left untested

    @pytest.mark.parametrize("path", BESIDE, ids=lambda path: path.name)
    def test_every_recording_of_a_real_host_is_accounted_for(path: Path) -> None:
        check_accounted(path)

    @pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.file)
    def test_a_recording_of_a_real_host_gives_what_it_holds(golden: Golden) -> None:
        check_golden(golden)


PS = "USER   PID %CPU %MEM STAT START TIME COMMAND\nada   4242 99.0  1.0 Rl   10:00 0:01 python train.py\n"
SS = 'State  Recv-Q Send-Q Local Address:Port\nLISTEN 0 128 0.0.0.0:29500 users:(("python",pid=4242,fd=3))\n'


@pytest.mark.parametrize("text", [PS, SS, "NVIDIA L4\nsome words\n"])
def test_the_output_of_another_program_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="nvidia-smi"):
        parse_smi(text, "host")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("8xh100-broken.table.txt", "gpu-lost"),
        ("error_not-loaded.table.txt", "not-loaded"),
        ("error_library-mismatch.table.txt", "library-mismatch"),
        ("error_no-devices.q.txt", "no-devices"),
    ],
)
def test_nvidia_smis_own_errors_have_codes(name: str, code: str) -> None:
    facts = parse_smi((RECORDINGS / name).read_text(), "host")
    assert isinstance(facts.gpus, Missing)
    assert facts.gpus.code == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\n", "library-mismatch"),
        ("No devices were found\n", "no-devices"),
        ("zsh: command not found: nvidia-smi\n", "no-library"),
        ("sh: 1: nvidia-smi: not found\n", "no-library"),
        ("'nvidia-smi' is not recognized as an internal or external command,\n", "no-library"),
        ("nvidia-smi : The term 'nvidia-smi' is not recognized as the name of a cmdlet\n", "no-library"),
    ],
)
def test_errors_of_older_drivers_have_codes(text: str, code: str) -> None:
    facts = parse_smi(text, "host")
    assert isinstance(facts.driver, Missing)
    assert isinstance(facts.gpus, Missing)
    assert (facts.driver.code, facts.gpus.code) == (code, code)


def test_what_a_file_does_not_hold_is_not_asked() -> None:
    facts = own("titan-rtx", "q.xml")
    for name in ("identity", "processes", "ports", "network", "limits", "kernel_log", "python"):
        assert getattr(facts, name) == Missing("the file does not hold it", "not-asked")


@pytest.mark.parametrize("form", ["q.xml", "q.txt"])
def test_health_is_read(form: str) -> None:
    (h100,) = gpus_of(own("h100-remap-pending", form))
    assert not isinstance(h100.remap, Missing)
    assert (h100.remap.uncorrectable, h100.remap.pending, h100.remap.failed) == (4, True, False)
    assert h100.throttle == ("hw_slowdown", "hw_power_brake")
    assert not isinstance(h100.fabric, Missing)
    assert h100.fabric.state == "completed"
    assert not isinstance(h100.pcie, Missing)
    assert (h100.pcie.generation, h100.pcie.width) == (5, 16)
    (p100,) = gpus_of(own("p100", form))
    assert not isinstance(p100.retired_pages, Missing)
    assert p100.retired_pages.single_bit == 2


OLD_TABLE = """\
Mon May 21 10:00:00 2018
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 390.25                 Driver Version: 390.25                    |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  GeForce GTX 108...  Off  | 00000000:04:00.0 Off |                  N/A |
| 53%   75C    P2   223W / 250W |  10807MiB / 11178MiB |     98%      Default |
+-------------------------------+----------------------+----------------------+
|   1  GeForce GTX 108...  Off  | 00000000:05:00.0 Off |                  N/A |
|ERR!   83C    P2   237W / 250W |    783MiB / 11178MiB |    100%   E. Process |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0      1032      C   ...ware/some long name/bin/python          10781MiB |
|    1     11021      C   python3                                      700MiB |
|    1     11022      C   python3                                       65MiB |
+-----------------------------------------------------------------------------+
"""


def test_the_table_of_an_old_driver_is_read() -> None:
    facts = parse_smi(OLD_TABLE, "host")
    first, second = gpus_of(facts)
    assert isinstance(facts.driver, Driver)
    assert facts.driver.version == "390.25"
    assert (first.name, first.compute_mode, second.compute_mode) == (
        "GeForce GTX 108...",
        "default",
        "exclusive_process",
    )
    assert holders(first) == [(1032, 10781)]
    assert holders(second) == [(11021, 700), (11022, 65)]


def test_links_are_read_from_nvlink_s() -> None:
    for gpu in gpus_of(own("8xa100-mig", "nvlink.txt")):
        assert not isinstance(gpu.nvlinks, Missing)
        assert [link.active for link in gpu.nvlinks] == [True] * 12


def test_a_cut_text_counts_the_gpus_it_lost() -> None:
    text = (RECORDINGS / "8xa100-mig.q.txt").read_text()
    gpus = gpus_of(parse_smi(text[: len(text) * 3 // 8], "host"))
    assert len(gpus) == 8
    assert not isinstance(gpus[0].uuid, Missing)
    assert gpus[7].uuid == Missing(
        "the host has 8 GPUs, and the file holds 4 GPUs, not this one", "not-asked"
    )


LSPCI_NN = (
    "00:01.0 VGA compatible controller [0300]: Red Hat, Inc. Virtio GPU [1af4:1050] (rev 01)\n"
    "06:00.0 3D controller [0302]: NVIDIA Corporation GA102GL [A10] [10de:2236] (rev a1)\n"
)
LSPCI = "0000:00:00.0 PCI bridge: NVIDIA Corporation Device 22b2\n" + "".join(
    f"00{bus:02}:01:00.0 3D controller: NVIDIA Corporation Device 2941 (rev a1)\n" for bus in (8, 9, 18, 19)
)


def test_lspci_gives_the_bus() -> None:
    (gpu,) = _pci(LSPCI_NN)
    assert (gpu.bus_id, gpu.device_id) == ("0000:06:00.0", "2236")
    assert [gpu.device_id for gpu in _pci(LSPCI)] == ["2941"] * 4
    for mark in ("    ", "2024-06-03T10:00:01.123Z ", "Jun  3 10:00:01 gpu7 lspci[991]: "):
        assert _pci("".join(f"{mark}{line}\n" for line in LSPCI.splitlines())) == _pci(LSPCI)


def _pci(text: str) -> tuple[PciGpu, ...]:
    found = parse_smi(text, "host").pci_gpus
    assert not isinstance(found, Missing)
    return found


_UUID = "GPU-0a1b2c3d-0000-1111-2222-333344445550"


def test_a_query_as_csv_is_read() -> None:
    text = (
        "name, uuid, pci.bus_id, compute_cap, compute_mode, memory.total [MiB], memory.used [MiB], "
        "memory.free [MiB]\n"
        f"NVIDIA L40S, {_UUID}, 00000000:01:00.0, 8.9, Exclusive_Process, 46068 MiB, 1 MiB, 45539 MiB\n"
    )
    (gpu,) = gpus_of(parse_smi(text, "host"))
    assert (gpu.capability, gpu.compute_mode, gpu.uuid) == ((8, 9), "exclusive_process", _UUID)


def test_the_last_readings_of_dmon_are_those_of_its_gpus() -> None:
    text = "# gpu    pwr  gtemp  mtemp     sm\n# Idx      W      C      C      %\n"
    rows = "    0     68     34      -      0\n    1     70     35     38     12\n"
    first, second = gpus_of(
        parse_smi(text + rows + "    0     99     51     60    100\n    1     70     3", "h")
    )
    assert (first.power_w, first.temperature_c, first.utilization_percent) == (99, 51, 100)
    assert (second.power_w, second.temperature_c, second.utilization_percent) == (70, 35, 12)
    assert "at least 2 GPUs" in str(first.memory)


def test_pmon_gives_the_memory_of_processes_where_it_measures_it() -> None:
    text = "# gpu     pid   type     fb     sm   command\n# Idx       #    C/G     MB      %   name\n"
    rows = "    0    4242     C    1024     99   python\n    1    4243     C       -     99   python\n"
    first, second = map(holders, gpus_of(parse_smi(text + rows, "h")))
    assert first == [(4242, 1024)]
    assert second is not None
    assert second[0][0] == 4243
    assert isinstance(second[0][1], Missing)


def test_a_value_that_is_a_reset_says_that_the_gpu_needs_one() -> None:
    text = "index, name, pstate, utilization.gpu [%]\n0, NVIDIA L4, P0, 7 %\n"
    text += "1, NVIDIA L4, [GPU requires reset], [N/A]\n"
    assert [gpu.recovery_action for gpu in gpus_of(parse_smi(text, "h"))][1] == "gpu_reset"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("\x1f\ufffd\x08\0", "gzip"),
        ('{\n "schema": "gpulaunch.record/1"}', "recording of gpulaunch"),
        ("timestamp, power.draw [W]\n2025/04/24 16:02:12.560, 21.76 W\n", "names no GPU"),
        ("GPU: 0\n    BDF: 0000:0c:00.0\n    KFD_ID: 51140\n    NODE_ID: 1\n", "AMD"),
        ("GPU: 0\n    USAGE:\n        GFX_ACTIVITY: 0 %\n    POWER:\n        SOCKET_POWER: 9 W\n", "AMD"),
        ("GPU  POWER   GPU_T   GFX%      VRAM_USAGE\n  0   139 W   42 C   0 %   0.3/192.0 GB\n", "AMD"),
        ("---------\n    mthreads-gmi:1.10.0          Driver Version:2.5.0\n---------\n", "mthreads-gmi"),
        ("===== ROCm System Management Interface =====\nGPU  Temp\n0    38.0c\n", "AMD"),
        (
            "GPU  Temp  AvgPwr  SCLK    MCLK  Fan    Perf\n0    48c   N/A  1114Mhz 2100Mhz 60.7%  auto\n",
            "AMD",
        ),
        ('{"card0": {"Temperature (Sensor edge) (C)": "31.0", "GPU use (%)": "19"}}\n', "AMD"),
        ('[{"device_name": "AMD Radeon RX 7900 XTX", "gpu_util": "73%"}]\n', "AMD"),
        ("timestamp, gpu_name, pid, gpu_utilization [%], max_memory_usage [MiB]\n", "accounting"),
        (
            "gpu_name, pid, time [ms], gpu_utilization [%], max_memory_usage [MiB]\nA, 1, 2 ms, 3 %, 4 MiB\n",
            "accounting",
        ),
        ("# gpu   pwr\n# Idx     W\n", "no values"),
        ("nvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...\n\n  LIST OPTIONS:\n", "the help of nvidia-smi"),
        ("    FB Memory Usage\n        Used        : 4 MiB\n", "without the line that names its GPU"),
        ("0, G1, GPU-2f2e3d4c-5111-6222-7333-844455556667, NVIDIA L4, 20 MiB\n", "is cut, and the next one"),
        (
            "GPU-1f2e3d4c-5111-6222-7333-84445555666, NVIDIA L4, GPU-2f2e3d4c-5111-6222-7333-844455556667\n",
            "is cut, and the next one",
        ),
        ("        GPU1    GPU0    CPU Affinity\nGPU1 X SYS 0-7\n", "unrecognised"),
        ("employee_id,name,email\n1,Ada,ada@example.org\n", "unrecognised"),
        ("index,old,new\n0,a,b\n1,b,c\n", "unrecognised"),
        ("[![Paper 2.1](https://a.b)](https://a.c)\n\nNeeds an nvidia GPU.\n", "unrecognised"),
        ("0,0,0,0\n0,0,0,0\n", "without the names of its columns"),
        ("\n".join(f"word{number}" for number in range(20_000)), "unrecognised"),
    ],
)
def test_a_refused_file_is_named_by_what_it_is(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        parse_smi(text, "host")


def test_absurd_numbers_are_no_values() -> None:
    text = (RECORDINGS / "titan-rtx.q.xml").read_text().replace("<gpu_temp>", "<gpu_temp>" + "9" * 400)
    (gpu,) = gpus_of(parse_smi(text, "host"))
    assert isinstance(gpu.temperature_c, Missing)


def test_windows_line_ends_and_marks_do_not_matter() -> None:
    text = (RECORDINGS / "2xl40s-busy.q.txt").read_text()
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
