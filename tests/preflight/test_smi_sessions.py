"""Sessions and logs around recordings: what is no kernel log, no host and no time of a recording."""

import pytest

from preflight.errors import BadInput
from preflight.facts.missing import Missing
from preflight.smi_reports import parse_hosts
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_NOISE = "".join(f"[{at}.000000] audit: type=1400 apparmor=ALLOWED profile=x\n" for at in range(45_000))
_FATAL = "[9.000000] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30\n"
_KILL = "[9.100000] Out of memory: Killed process {} (python) total-vm:1kB\n"


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (
            "[Mon Jun  3 10:00:09 2024] usb 1-1: new\n[Mon Jun  3 10:00:09 2024]" + _KILL.format(7)[10:],
            (0, 1, 0),
        ),
        ("2024-06-03T10:00:01Z gpu7 kernel: usb 1-1: new\n", (0, 0, 0)),
        ("2024-06-03T10:00:01Z gpu7 kernel: NVRM: Xid (PCI:0000:34:00): 31, pid=1\n", (1, 0, 0)),
        ("[0.1] nvidia-nvlink: Nvlink Core is being initialized, major device number 511\n", (0, 0, 0)),
        ("[...] NVRM: Xid (PCI:0000:34:00): 45, Ch 00000010\n", (1, 0, 0)),
        ("kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=1, caused by previous Xid 149\n", (1, 0, 0)),
        ("[Jun 3 10:00] NVRM: Xid (PCI:0000:34:00): 48, DBE\n[  +0.000012] usb 1-1: new\n", (1, 0, 0)),
        (
            '{"_HOSTNAME":"n","MESSAGE":"NVRM: Xid (PCI:0000:34:00): 79, pid=1"}\n{"MESSAGE":"usb"}\n',
            (1, 0, 0),
        ),
        # two lines of one moment are of no host of that name
        ("[123456.789012] NVRM: Xid (PCI:0000:34:00): 79, pid=1\n" * 2 + _FATAL, (2, 0, 1)),
        # of megabytes each line counts
        (_NOISE + _KILL.format(1) + _FATAL + _NOISE + _KILL.format(2) + "[9.2]" + _KILL.format(1), (0, 2, 1)),
    ],
)
def test_lines_of_a_kernel_are_read_whatever_is_around_them(log: str, found: tuple[int, int, int]) -> None:
    (facts,) = parse_hosts(log, "h")
    kernel = facts.kernel_log
    assert not isinstance(kernel, Missing)
    assert (len(kernel.xids), len(kernel.oom_kills), len(kernel.other)) == found


@pytest.mark.parametrize(
    "log",
    [
        "[2024-06-03 10:00:01,123] [INFO] [runner.py:568:main] cmd = python train.py --image nvidia/cuda\n",
        "2024-06-03T10:00:01Z Loading the fused kernel of Adam\n",
        "2024-06-03 10:00:01,123 INFO kernel compiled\n",
        "[2024-06-03 10:00:01] INFO compiling the kernel of flash-attn\n",
        "[91169.504647] [INFO]Configured driver: nvidia\n[91169.521387] [DEBUG]Killing all processes\n",
        "Jun  3 10:00:01 gpu7 systemd[1]: Started NVIDIA Persistence Daemon, listening to the kernel\n",
    ],
)
def test_a_log_of_a_program_is_no_kernel_log_without_xids(log: str) -> None:
    with pytest.raises(BadInput):
        parse_smi(log, "h")


def test_a_log_of_several_hosts_is_read_by_host() -> None:
    lines = "".join(
        f"Jun  3 10:00:0{at} {host} kernel: NVRM: Xid (PCI:0000:34:00): {code}, pid=1\n"
        for at, (host, code) in enumerate((("gpu1", 79), ("gpu2", 31), ("gpu2", 45)))
    )
    found = {facts.host: facts.kernel_log for facts in parse_hosts(lines, "h")}
    codes = {
        host: [] if isinstance(log, Missing) else [xid.code for xid in log.xids]
        for host, log in found.items()
    }
    assert codes == {"gpu1": [79], "gpu2": [31, 45]}
    (booted,) = parse_hosts(lines.replace("gpu1", "localhost"), "h")
    assert not isinstance(booted.kernel_log, Missing)


def _table(degrees: int) -> str:
    return (
        "| NVIDIA-SMI 550.54.15      Driver Version: 550.54.15      CUDA Version: 12.4     |\n"
        "|   0  NVIDIA L4                      On  |   00000000:3C:00.0 Off |            0 |\n"
        f"| N/A   {degrees}C    P0      36W /   72W |     304MiB /  23034MiB |      0%      Default |\n"
    )


def test_the_time_of_a_login_is_not_that_of_a_table() -> None:
    login = "Last login: Sun Jun  2 09:00:00 2024 from 10.0.0.1\n"
    text = (
        f"Mon Jun  3 10:00:01 2024\n{_table(41)}{login}$ nvidia-smi\nTue Jun  4 10:00:01 2024\n{_table(64)}"
    )
    assert gpus_of(parse_smi(text, "h"))[0].temperature_c == 64


_Q = "==============NVSMI LOG==============\n\nAttached GPUs : {}\n" + "".join(
    f"GPU 00000000:{bus}:00.0\n    FB Memory Usage\n        Total : 46068 MiB\n" for bus in ("24", "54")
)
_LOST = "Unable to determine the device handle for GPU{}: 0000:{}:00.0: Unknown Error\n"


@pytest.mark.parametrize(
    ("text", "buses"),
    [
        (_LOST.format(2, "44") + _LOST.format(1, "34") + _Q.format(4), ["24", "34", "44", "54"]),
        (_LOST.format(5, "E4") + _Q.format(6), ["24", "54", None, None, None, "e4"]),
        ("nvidia-smi -i 1,3 -q -d MEMORY\n" + _Q.format(4), [None, "24", None, "54"]),
        ("nvidia-smi -i 3 -pm 1\n" + _Q.format(4), ["24", "54", None, None]),
    ],
)
def test_gpus_of_a_part_are_at_the_numbers_that_are_said(text: str, buses: list[str | None]) -> None:
    found = [gpu.pci_bus_id for gpu in gpus_of(parse_smi(text, "h"))]
    assert [None if isinstance(bus, Missing) else bus[5:7] for bus in found] == buses


def test_rows_of_a_loop_that_a_program_saved_again_are_of_one_gpu() -> None:
    rows = "".join(f"2024-06-03T10:00:0{at}.5Z, {at} MiB, 23034 MiB\n" for at in range(4))
    (gpu,) = gpus_of(parse_smi(f"timestamp, memory.used [MiB], memory.total [MiB]\n{rows}", "h"))
    assert getattr(gpu.memory, "used_mib", None) == 3


@pytest.mark.parametrize("times", [("Date", "20240603"), ("Time", "10:00:01")])
def test_pmon_has_the_date_or_the_time_alone_in_front(times: tuple[str, str]) -> None:
    name, value = times
    text = f"#{name}    gpu    pid  type  sm  command\n {value}    0    12345    C    98    python\n"
    processes = gpus_of(parse_smi(text, "h"))[0].processes
    assert not isinstance(processes, Missing)
    assert [each.pid for each in processes] == [12345]


def test_rows_of_half_seconds_are_at_their_index() -> None:
    rows = "".join(f"2024/06/03 10:00:0{at // 4}, {at % 2}, {at} MiB\n" for at in range(8))
    gpus = gpus_of(parse_smi(f"timestamp, index, memory.total [MiB]\n{rows}", "h"))
    assert len(gpus) == 2


_LISTED = """+------------------------------------------------------------+
| Processes:                                                 |
|  GPU   GI   CI        PID   Type   Process name   GPU Memory |
|        ID   ID                                    Usage      |
|============================================================|
|    0   N/A  N/A     10734      C   foo_bar           160MiB |
|    2   N/A  N/A     18243      G   Unknown Error      64MiB |
+------------------------------------------------------------+
"""


def test_a_list_of_processes_alone_is_of_the_gpus_that_it_numbers() -> None:
    gpus = gpus_of(parse_smi(_LISTED, "h"))
    listed = [() if isinstance(gpu.processes, Missing) else gpu.processes for gpu in gpus]
    assert [[each.pid for each in processes] for processes in listed] == [[10734], [], [18243]]
    memory = gpus[0].memory
    assert isinstance(memory, Missing)
    assert memory.reason == "the file lists processes alone: the host has at least 3 GPUs"


def test_a_version_alone_is_that_of_the_driver() -> None:
    driver = parse_smi("NVIDIA-SMI version  : 570.133.20\nDRIVER version      : 570.133.20\n", "h").driver
    assert not isinstance(driver, Missing)
    assert driver.version == "570.133.20"


_UUIDS = [f"GPU-6304bf68-46a6-459f-2dc0-682f676a8d{at}" for at in (10, 11)]


@pytest.mark.parametrize(
    ("text", "field", "values"),
    [
        (
            f"It has GPU 0: NVIDIA L4 (UUID: {_UUIDS[0]}), GPU 1: NVIDIA L4 (UUID: {_UUIDS[1]})\n",
            "uuid",
            _UUIDS,
        ),
        ("as here:\n`[1] NVIDIA L4 | 52'C, 100 % | 10 / 23034 MB | (null)`\n", "temperature_c", [None, 52]),
        ("> \\# gpu   pwr  temp\n> \\# Idx     W     C\n>     0   111    83\n", "temperature_c", [83]),
    ],
)
def test_rows_within_a_sentence_are_read(text: str, field: str, values: list[object]) -> None:
    found = [getattr(gpu, field) for gpu in gpus_of(parse_smi(text, "h"))]
    assert [None if isinstance(value, Missing) else value for value in found] == values


def test_a_size_that_is_the_start_of_another_is_cut_whatever_is_behind_it() -> None:
    rows = "0, NVIDIA L4, 5, 23034\n1, NVIDIA L4, 5, 230\n"
    _, gpu = gpus_of(parse_smi(f"index, name, memory.used, memory.total\n{rows}", "h"))
    assert isinstance(gpu.memory, Missing)


def test_processes_without_their_pids_are_not_said_to_be_none() -> None:
    asked = "# nvidia-smi --query-compute-apps=gpu_uuid,name --format=csv\ngpu_uuid, process_name\n"
    with pytest.raises(BadInput):
        parse_smi(f"{asked}{_UUIDS[0]}, python\n", "h")
