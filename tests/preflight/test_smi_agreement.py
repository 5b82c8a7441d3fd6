"""Values of a damaged recording that disagree with what is around them are reported as cut, not as facts."""

import pytest

from preflight.errors import BadInput
from preflight.facts.missing import Missing
from preflight.smi_reports.repeated_recordings import Tree, keep_processes
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_UUID = "GPU-0a1b2c3d-0000-1111-2222-333344445555"


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX 6000 Ada Generation"),
        ("NVIDIA RTX 6000 Ada Gen", None),
        ("GeForce GTX TITAN Black", "GeForce GTX TITAN Black"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
        ("NVIDIA RTX PRO 6000 Blac...", "NVIDIA RTX PRO 6000 Blac..."),
        ("NVIDIA RTX PRO 6000 Blac39a7", None),
        ("NVIDIA RTX PRO0 Blackwell Server Edition", None),
        ("NVIDIA GeF0", None),
        ("NVIDIA GeForce RTX", None),
        ("NVIDIA TITAN RTX", "NVIDIA TITAN RTX"),
        ("NVIDIA GeForce RTX 409", None),
        ("NVIDIA RTX 500 Ada Generation Laptop GPU", "NVIDIA RTX 500 Ada Generation Laptop GPU"),
        ("GeForce GTX 980", "GeForce GTX 980"),
        ("a P40", None),
        ("(nvgpu)", None),
        ("Orin (nvgpu)", "Orin (nvgpu)"),
        ("NVIDIA Ge", None),
        ("NVIDIA L4", "NVIDIA L4"),
        ("/usr/bin/python3", None),
        ("None", None),
        ("NVS 510", "NVS 510"),
        ("On", None),
        ("NVID1", None),
        ("Tesla ?100-SXM2-32GB", None),
        ("Tesla V100-SXM2.", None),
        ("Tesla K20m ff", None),
        ("TGB", None),
        ("python", None),
        ("NVIDIA RTX 400", None),
        ("NVIDIA RTX 6000 Ada Ge", None),
        ("RO 6000 Blackwell Workstation Edition", None),
        ("NVIDIA GeForce RTX 4090 Of...", None),
        ("NVIDIA A100-SX", None),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("NA GeForce RTX 4090", None),
        ("NVIDIA L40S 0MiB / 46068MiB 0%...", None),
        ("NVIDIA H100 NVL &nbs", None),
        ("NVIDIA GeForce ... W...", None),
        ("NVIDIA A100-GB", None),
        ("NVIDIA A4", None),
        ("NVIDIA A2", "NVIDIA A2"),
        ("NVIDIA A100 80GB", "NVIDIA A100 80GB"),  # as people write it
        ("NVIDIA GH200 480GB", "NVIDIA GH200 480GB"),
        ("NVIDIA RTX A5500 Laptop GP", None),
        ("NVIDIA RTX PRO 6000 Blackwell Server", None),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",) * 2,
        ("NVIDIA RTX6000-Ada-2Q", "NVIDIA RTX6000-Ada-2Q"),
        ("Quadro RTX 5000 with Max-Q Design", "Quadro RTX 5000 with Max-Q Design"),
        ("NVIDIA GeForce RTX 5070 00 W", None),
    ],
)
def test_a_name_that_no_product_has_is_cut(printed: str, name: str | None) -> None:
    (gpu,) = gpus_of(parse_smi(f"index, name, uuid\n0, {printed}, {_UUID}\n", "h"))
    assert (None if isinstance(gpu.name, Missing) else gpu.name) == name


_SIZES = (
    "    FB Memory Usage\n        Total    : {} MiB\n{}        Used     : {} MiB\n        Free     : {} MiB\n"
)
_RESERVED = "        Reserved : 685 MiB\n"


@pytest.mark.parametrize(
    ("sizes", "used"),
    [
        ((46068, _RESERVED, 4, 45379), 4),
        ((46068, _RESERVED, 5, 45377), 5),  # each of them rounded
        ((685, "", 4, 45379), None),
        ((46068, _RESERVED, 1, 45000), None),
        ((11519, "", 55, 11464), 55),
        ((46068, "", 1, 65535), None),
    ],
)
def test_sizes_are_exact_where_their_sum_is_the_total(sizes: tuple[object, ...], used: int | None) -> None:
    text = f"Attached GPUs : 1\nGPU 00000000:5E:00.0\n{_SIZES.format(*sizes)}    Fan Speed : N/A\n"
    (gpu,) = gpus_of(parse_smi(text, "h"))
    assert (None if isinstance(gpu.memory, Missing) else gpu.memory.used_mib) == used


_NAMES = "name, memory.total [MiB], memory.used [MiB], temperature.gpu, power.draw [W]"
_VALUES = "NVIDIA A40, 46068 MiB, 5 MiB, 39, 30.50 W"


def test_a_value_with_the_unit_of_another_column_is_refused() -> None:
    assert gpus_of(parse_smi(f"{_NAMES}\n{_VALUES}\n", "h"))[0].temperature_c == 39
    with pytest.raises(BadInput, match="under temperature"):
        parse_smi(f"{_NAMES}\nNVIDIA A40, 5 MiB, 39 MiB, 30.50 W, 39\n", "h")


def test_names_again_behind_a_mark_are_no_gpu() -> None:
    text = f"[tool_result] {_NAMES}\n[tool_result] {_NAMES}\n{_VALUES}\n"
    assert [gpu.name for gpu in gpus_of(parse_smi(text, "h"))] == ["NVIDIA A40"]


@pytest.mark.parametrize(
    ("rows", "version"),
    [
        (["NVIDIA A40, 46068 MiB, 19.00 W, 300.00, 566.26"], None),  # a limit without its unit
        (["NVIDIA A40, 46068 MiB, 19.00 W, 300.00 W, 566.26"], "566.26"),
        (["NVIDIA A40, 97, 289.51, 300.00"], None),
        (["NVIDIA A40, 97, 289.51, 300.00, 535.104.05"], "535.104.05"),
        (["NVIDIA A40, 566.26", "NVIDIA A40, 566.26"], "566.26"),
        (["NVIDIA A40, 266.26", "NVIDIA A40, 266.21"], None),
    ],
)
def test_a_version_of_rows_without_names_is_no_power(rows: list[str], version: str | None) -> None:
    driver = parse_smi("\n".join([*rows, ""]), "h").driver
    assert (None if isinstance(driver, Missing) else driver.version) == version


_PMON = """# gpu         pid   type     sm    mem    fb   command
# Idx           #    C/G      %      %    MB   name
    0       4321     C     71     40  5120   python3
    1          -     -      -      -     -   -
"""


def test_a_wrapped_list_of_processes_is_read_or_refused() -> None:
    busy, idle = gpus_of(parse_smi(_PMON, "h"))
    assert idle.processes == ()
    assert not isinstance(busy.processes, Missing)
    assert [process.pid for process in busy.processes] == [4321]
    pieces = [line[at : at + 35] for line in _PMON.split("\n") for at in range(0, len(line), 35)]
    assert [gpu.processes for gpu in gpus_of(parse_smi("\n".join(pieces), "h"))] == [busy.processes, ()]
    with pytest.raises(BadInput, match="wrapped"):  # where the blanks at their ends are lost
        parse_smi("\n".join(piece.rstrip() for piece in pieces), "h")


def test_a_row_of_a_process_without_a_type_and_an_idle_one_with_values_are_none() -> None:
    for row in (
        "    1         12     -      -    300     0   ffmpeg",
        "    1          -     -     35      -     -   -",
    ):
        gpus = gpus_of(parse_smi(_PMON.replace("    1          -     -      -      -     -   -", row), "h"))
        assert len(gpus) == 1


def test_the_memory_of_a_process_that_a_width_cuts_is_unknown() -> None:
    other = _UUID.replace("5555", "6666")
    gpus = f"index, uuid\n0, {_UUID}\n1, {other}\n\ngpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
    rows = f"{_UUID}, 1328667, python, 130004 MiB\n{other}, 1328668, python, 130044 MiB\n"
    for width, used in ((200, 130004), (64, None)):
        text = "\n".join(line[:width] for line in (gpus + rows).split("\n"))
        gpu = gpus_of(parse_smi(text, "h"))[0]
        assert not isinstance(gpu.processes, Missing)
        (process,) = gpu.processes
        assert (None if isinstance(process.used_mib, Missing) else process.used_mib) == used


def test_the_driver_of_a_list_is_taken_from_a_csv_beside_it() -> None:
    text = f"GPU 0: NVIDIA A40 (UUID: {_UUID})\n\nindex, uuid, driver_version\n0, {_UUID}, 535.104.05\n"
    driver = parse_smi(text, "h").driver
    assert not isinstance(driver, Missing)
    assert driver.version == "535.104.05"


def test_processes_of_unknown_memory_are_not_kept_from_an_earlier_table() -> None:
    sizes = {"total": "100", "used": "50", "free": "50"}
    for used, kept in (({"used_memory": "40 MiB"}, 1), ({}, 0)):
        listed = {"process_info": [{"pid": "7", **used}]}
        earlier = {"fb_memory_usage": sizes, "processes": listed}
        last: Tree = {"fb_memory_usage": sizes, "processes": {"process_info": []}}
        keep_processes([{"gpu": [earlier]}, {"gpu": [last]}])
        assert len(last["processes"]["process_info"]) == kept


@pytest.mark.parametrize(("pids", "kept"), [(["7"], 1), (["7", "7"], 0), (["7", "8"], 1)])
def test_a_process_that_a_loop_lists_no_more_has_ended(pids: list[str], kept: int) -> None:
    sizes = {"total": "100", "used": "50", "free": "50"}
    lists = [*([{"pid": pid, "used_memory": "40 MiB"}] for pid in pids), []]
    gpus: list[Tree] = [{"fb_memory_usage": sizes, "processes": {"process_info": each}} for each in lists]
    keep_processes([{"gpu": [gpu]} for gpu in gpus])
    assert len(gpus[-1]["processes"]["process_info"]) == kept


_TABLE = """| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2 |
|   0  NVIDIA A40          On  | 00000000:17:00.0 Off |       0 |
|  0%   29C    P8   19W / {} |   5MiB / 46068MiB |   0%   Default |
| Processes:                                                              |
|    0   N/A  N/A     1500      G   /usr/lib/xorg/Xorg{}     4MiB |
+-------------------------------------------------------------------------+
"""


@pytest.mark.parametrize(("limit", "watts"), [("300W", 300), ("\ufffd\ufffd 46068MiB", None)])
def test_a_limit_of_power_is_in_watts(limit: str, watts: int | None) -> None:
    (gpu,) = gpus_of(parse_smi(_TABLE.format(limit, ""), "h"))
    assert (None if isinstance(gpu.power_limit_w, Missing) else gpu.power_limit_w) == watts


def test_a_row_of_a_process_with_a_hole_has_no_memory_of_another() -> None:
    for hole, used in (("", 4), ("\ufffd" * 9 + " 1600 G gnome-shell", None)):
        (gpu,) = gpus_of(parse_smi(_TABLE.format("300W", hole), "h"))
        assert not isinstance(gpu.processes, Missing)
        (process,) = gpu.processes
        assert (None if isinstance(process.used_mib, Missing) else process.used_mib) == used
