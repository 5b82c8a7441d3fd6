"""Outputs as authors of pages quote them: parts side by side, marks gone, a GPU lost between others."""

import pytest

from preflight.errors import BadInput
from preflight.facts.gpu import Gpu, RowRemap
from preflight.facts.missing import Missing
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_SGLANG = """GPU 0,1: NVIDIA GB200
GPU 0,1 Compute Capability: 10.0
CUDA Driver Version: 570.172.08
"""
_UNLIKE = _SGLANG.replace("GPU 0,1: NVIDIA GB200", "GPU 0: NVIDIA GB200\nGPU 1: NVIDIA H200")
_TOPOLOGY = "NVIDIA Topology:\n" + "".join(
    f"{name}\t" + "\t".join(cells) + "\n"
    for name, cells in (
        ("", ["GPU0", "GPU1", "GPU2", "CPU Affinity"]),
        *((f"GPU{at}", ["X" if at == to else "NV18" for to in range(3)] + ["0-3"]) for at in range(3)),
    )
)
_Q = "==============NVSMI LOG==============\n\nDriver Version : 610.57.04\nAttached GPUs : 3\n" + "".join(
    f"GPU 00000000:{bus}:00.0\n    FB Memory Usage\n        Total : 46068 MiB\n"
    f"        Used : {used} MiB\n        Free : {46068 - used} MiB\n"
    for bus, used in (("24", 1), ("44", 20001))
)


def _known(gpus: tuple[Gpu, ...], name: str) -> list[object]:
    return [None if isinstance(getattr(gpu, name), Missing) else getattr(gpu, name) for gpu in gpus]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (_SGLANG, ["NVIDIA GB200"] * 2),
        (_UNLIKE, [None] * 2),  # CUDA's order is its own
        (_SGLANG + _TOPOLOGY, [None] * 3),  # and which two of three it shows is not said
        ("[0] Tesla K20c | 43'C, 0 % | 0 / 4742 MB |\n[1] Tesl K20c | 44'C, 0 % | 0 / 4742 MB |\n",
         ["Tesla K20c", None]),
    ],
)  # fmt: skip
def test_names_are_those_that_the_text_is_sure_of(text: str, names: list[str | None]) -> None:
    facts = parse_smi(text, "host")
    assert _known(gpus_of(facts), "name") == names
    if "CUDA" in text:
        assert not isinstance(facts.driver, Missing)
        assert facts.driver.version == "570.172.08"


@pytest.mark.parametrize(
    ("said", "buses"),
    [
        ("Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error\n", ["24", "34", "44"]),
        ("Unable to determine the device handle for GPU 0000:34:00.0: GPU is lost.\n", ["24", "34", "44"]),
        ("Unable to determine the device handle for GPU2: 0000:34:00.0: Unknown Error\n", ["24", "44", "34"]),
        ("Unable to determine the device handle for GPU 0000:64:00.0: GPU is lost.\n", ["24", "44", "64"]),
    ],
)
def test_a_lost_gpu_of_q_is_at_the_number_that_is_said_or_that_its_bus_has(
    said: str, buses: list[str]
) -> None:
    gpus = gpus_of(parse_smi(said + _Q, "host"))
    assert [str(bus)[5:7] for bus in _known(gpus, "pci_bus_id")] == buses
    lost = [
        gpu.uuid for gpu in gpus if "20001" not in str(gpu.memory) and "used_mib=1," not in str(gpu.memory)
    ]
    assert [uuid.code for uuid in lost if isinstance(uuid, Missing)] == ["gpu-lost"]


def test_remapped_rows_are_read_of_gpus_named_by_their_bus() -> None:
    names = ", ".join(
        f"remapped_rows.{each}" for each in ("failure", "pending", "correctable", "uncorrectable")
    )
    text = f"gpu_name, gpu_bus_id, {names}\nNVIDIA A100-SXM4-80GB, 00000000:87:00.0, 0, 1, 2, 1\n"
    assert gpus_of(parse_smi(text, "host"))[0].remap == RowRemap(2, 1, pending=True, failed=False)


@pytest.mark.parametrize("mark", ["", "#"])
def test_pmon_lists_processes_of_each_type_commented_out_or_not(mark: str) -> None:
    text = f"# gpu  pid  type  fb  command\n{mark} 0  9001  C  40  llama\n{mark} 0  9002  G+C  1  firefox\n"
    processes = gpus_of(parse_smi(text, "host"))[0].processes
    assert not isinstance(processes, Missing)
    assert [(each.pid, each.kind) for each in processes] == [(9001, "compute"), (9002, "compute")]


def test_mig_devices_without_their_indent_are_mig_devices() -> None:
    uuid = "2b7ade45-837c-5f13-89b3-5436b5c394e9"
    text = f"GPU 0: NVIDIA A100 40GB PCIe (UUID: GPU-{uuid})\nMIG 1g.5gb     Device  0: (UUID: MIG-{uuid})\n"
    assert gpus_of(parse_smi(text, "host"))[0].mig_enabled is True


def test_rows_without_names_beside_pmon_name_its_gpus() -> None:
    rows = "".join(
        f"{at}, GPU-a, NVIDIA RTX 6000 Ada Generation, 97, 00000000:0{6 + at}:00.0\n" for at in (0, 1)
    )
    text = rows + "---\n# gpu  pid  type  fb  command\n    0  12345  C  40  python\n    1  -  -  -  -\n"
    gpus = gpus_of(parse_smi(text, "host"))
    assert _known(gpus, "name") == ["NVIDIA RTX 6000 Ada Generation"] * 2
    assert [len(gpu.processes) for gpu in gpus if not isinstance(gpu.processes, Missing)] == [1, 0]


def test_an_index_that_rows_of_one_time_share_is_not_that_of_the_gpus() -> None:
    rows = "".join(f"2025-09-08T17:26:{at // 8:02d}, {at % 8}, 0, 4, 81559\n" for at in range(24))
    with pytest.raises(BadInput, match="share an index"):
        parse_smi("timestamp,gpu,index,memory.used,memory.total\n" + rows, "host")


def test_readings_doubled_below_dots_are_no_other_gpu() -> None:
    first = "|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                    0 |\n"
    second = "| N/A   33C    P0             72W /  400W |       0MiB /  40960MiB |      0%      Default |\n"
    assert len(gpus_of(parse_smi(first + second + "...\n" + second, "host"))) == 1


_ROWS = "index, name, memory.used [MiB], memory.total [MiB]\n0, NVIDIA L4, 5 MiB, 23034 MiB\n"


@pytest.mark.parametrize(
    ("text", "used"),
    [
        (_ROWS.replace("23034 MiB", "23034 MiB  # 91 % used"), [5]),
        (_ROWS + "...\n3, NVIDIA L4, 7 MiB, 23034 MiB\n", [5, None, None, 7]),
        (_ROWS + "```\nRaw prompts, responses, timings and logs, saved in results.json\n", [5]),
    ],
)
def test_what_an_author_writes_among_rows_is_none_of_them(text: str, used: list[int | None]) -> None:
    gpus = gpus_of(parse_smi(text, "host"))
    assert [None if isinstance(gpu.memory, Missing) else gpu.memory.used_mib for gpu in gpus] == used


_LISTED = "GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-1208a58e-ad58-45c4-394a-d9f8723071de)\n"


@pytest.mark.parametrize(
    "text",
    [
        f"nvidia-smi --list-gpus\n\t{_LISTED}module load anaconda3\n",
        f"> ```\n> {_LISTED}> ```\n\nMonitor the GPU activity:\n\n```\nnvidia-smi -l\n```\nand so on\n",
    ],
)
def test_a_list_is_read_where_its_lines_alone_have_a_mark(text: str) -> None:
    assert _known(gpus_of(parse_smi(text, "host")), "name") == ["Tesla V100-SXM2-16GB"]


def test_an_error_in_a_log_with_times_is_what_nvidia_smi_said() -> None:
    said = "2026-11-27T10:00:01.000Z Failed to initialize NVML: Driver/library version mismatch\n"
    gpus = parse_smi(said, "host").gpus
    assert isinstance(gpus, Missing)
    assert gpus.code == "library-mismatch"


def test_a_log_that_names_nvidia_is_no_kernel_log_without_xids() -> None:
    with pytest.raises(BadInput):
        parse_smi("2026-11-27T10:00:01.000Z pulling nvidia/cuda:12.8.0-base\n", "host")


_MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"', '"'),
        ('**"', '"**\nWhat now?'),
        ("- ", ""),
        ("Step 1: nvidia-smi\nStep 1: ", ""),
        ("RuntimeError: cuda: ", "\n"),
        ("| node | said |\n| --- | --- |\n| n1 | ", " |\n| n2 | well |"),
        ("ERROR - command ['nvidia-smi', '-q'] returned b\"", '\\n\\n"\nTraceback (most recent call last):'),
    ],
)
def test_an_error_in_a_short_note_is_read_without_the_marks_around_it(before: str, after: str) -> None:
    driver = parse_smi(f"{before}{_MISMATCH}{after}\n", "host").driver
    assert isinstance(driver, Missing)
    assert (driver.code, driver.reason) == ("library-mismatch", f"nvidia-smi: {_MISMATCH}")


@pytest.mark.parametrize(
    "text",
    [
        f"NVML: it may print: {_MISMATCH}\n" + "Then read the next chapter.\n" * 40,
        f"If nvidia-smi prints {_MISMATCH}\nreboot.\n",
        f"`nvidia-smi` with `{_MISMATCH}` needs a reboot.\n",
        "Error of adb - No devices were found\n",
        "adb: No devices were found\nThe Shield (an NVIDIA Tegra) is in recovery.\n",
        f"- nvidia plugin: fixed a crash with {_MISMATCH}\n- new icons\n",
        f"No {_MISMATCH}\n",
        f"## {_MISMATCH}\n\nReload the modules.\n",
        f"nvidia-smi: any of\n- {_MISMATCH}\n- No devices were found\n",
        f'MESSAGES = [\n    "{_MISMATCH}",\n]  # of nvidia-smi\n',
        f'modprobe nvidia\n[ -e /dev/nvidia0 ] || echo "{_MISMATCH}"\n',
        f'if broken():\n    raise RuntimeError("{_MISMATCH}")\n',
    ],
)
def test_a_text_that_is_about_an_error_is_no_recording_of_it(text: str) -> None:
    with pytest.raises(BadInput, match="unrecognised"):
        parse_smi(text, "host")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("nvml error: driver/library version mismatch: unknown.", "library-mismatch"),
        ("nvml error: driver not loaded: unknown.", "not-loaded"),
    ],
)
def test_the_container_tools_words_for_the_driver_are_its_error(error: str, code: str) -> None:
    driver = parse_smi(
        "$ docker run --gpus all cuda:12 nvidia-smi\ndocker: Error response from daemon: runc create failed\n"
        f"nvidia-container-cli: initialization error: {error}\n",
        "host",
    ).driver
    assert isinstance(driver, Missing)
    assert driver.code == code


def test_marks_of_a_span_of_several_lines_are_no_part_of_its_values() -> None:
    log = "`=====NVSMI LOG=====\n\nAttached GPUs : 1\nGPU 00000000:24:00.0\n    Processes : None`\n"
    (gpu,) = gpus_of(parse_smi(f" - [x] nvidia-smi -a:\n{log} - [ ] docker version\n", "host"))
    assert gpu.processes == ()


def test_lines_that_a_page_counted_are_read() -> None:
    rows = ("| Processes: |", f"|{'=' * 30}|", "| 0 N/A N/A 991 C python 3974MiB |", f"+{'-' * 30}+")
    (gpu,) = gpus_of(parse_smi("".join(f"  {at}. {row}\n" for at, row in enumerate(rows, 1)), "host"))
    assert not isinstance(gpu.processes, Missing)
    assert [process.pid for process in gpu.processes] == [991]


@pytest.mark.parametrize("mark", ["  # free", "  // one", "   \u2190 the new one", " <- it works"])
def test_what_an_author_remarks_beside_a_table_is_no_part_of_it(mark: str) -> None:
    lines = (
        "+-----------------------------------------+------------------------+----------------------+",
        "| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |",
        "|=========================================+========================+======================|",
        "|   0  NVIDIA L40S                    On  |   00000000:91:00.0 Off |                    0 |",
        "| N/A   32C    P0             77W /  350W |     657MiB /  46068MiB |      0%      Default |",
        "+-----------------------------------------+------------------------+----------------------+",
    )
    (gpu,) = gpus_of(parse_smi("".join(f"{line}{mark}\n" for line in lines), "host"))
    assert (gpu.name, gpu.compute_mode) == ("NVIDIA L40S", "default")
    assert not isinstance(gpu.memory, Missing)
    assert gpu.memory.used_mib == 657
