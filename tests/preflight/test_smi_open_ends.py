"""Values whose end may be missing are reported as cut: of the last line, of a width, of a damaged file."""

import pytest

from preflight.facts.missing import Missing
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_COLLECTED = "GPU models and configuration:\nGPU 0: NVIDIA A100\nGPU 1: NVIDIA A100"
_Q = """==============NVSMI LOG==============

Timestamp                                 : Mon Nov 16 10:00:00 2026
Driver Version                            : 550.90.07
CUDA Version                              : 12.4

Attached GPUs                             : 1
GPU 00000000:07:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    Product Brand                         : NVIDIA
    Display Mode                          : Enabled
    Persistence Mode                      : Enabled
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (_COLLECTED + "-SXM4-80GB\n", ["NVIDIA A100", "NVIDIA A100-SXM4-80GB"]),
        (_COLLECTED, ["NVIDIA A100", "NVIDIA A100..."]),
        (_COLLECTED + "-\nSXM4\n\n", ["NVIDIA A100", "NVIDIA A100-..."]),
        ("index, name\n0, NVIDIA L4\n1, NVIDIA A10", ["NVIDIA L4", "NVIDIA A10..."]),
        ("index, name\n0, NVIDIA L4\n1, NVIDIA A10\n", ["NVIDIA L4", "NVIDIA A10"]),
        ("index, name\n0, NVIDIA L4\n1, NVIDIA L4", ["NVIDIA L4", "NVIDIA L4"]),
        ("index, name\n0, NVIDIA L4\n1, NVIDIA \x17\ufffdA10\n", ["NVIDIA L4", None]),
    ],
)
def test_a_name_is_exact_only_where_it_ends(text: str, names: list[str | None]) -> None:
    found = [gpu.name for gpu in gpus_of(parse_smi(text, "h"))]
    assert [None if isinstance(name, Missing) else name for name in found] == names


@pytest.mark.parametrize("width", [53, 57, 60])
def test_a_name_of_an_excerpt_that_a_width_cuts_is_unknown(width: int) -> None:
    text = "\n".join(line[:width] for line in _Q.split("\n"))
    name = gpus_of(parse_smi(text, "h"))[0].name
    assert isinstance(name, Missing)
    assert "cut" in name.reason


def test_a_name_of_a_whole_excerpt_is_known() -> None:
    assert gpus_of(parse_smi(_Q, "h"))[0].name == "NVIDIA A100-SXM4-80GB"


_SIZES = "index, name, memory.used [MiB], memory.total [MiB]\n0, NVIDIA L4, 5, 23034\n1, NVIDIA {}, 5, {}"


@pytest.mark.parametrize(
    ("last", "total"),
    [(("A40", "460"), None), (("A40", "460\n"), 460), (("L4", "23034"), 23034), (("A40", "46068 "), 46068)],
)
def test_the_last_number_is_exact_where_its_line_ends_or_another_row_has_it(
    last: tuple[str, str], total: int | None
) -> None:
    memory = gpus_of(parse_smi(_SIZES.format(*last), "h"))[1].memory
    assert (None if isinstance(memory, Missing) else memory.total_mib) == total


_ROW = "[0] NVIDIA A100-SXM4-80GB | 35'C,   0 % |     4 / 81920 MB | ann/12(4M)\n"


@pytest.mark.parametrize(("width", "version"), [(200, "560.35.03"), (63, None), (64, None)])
def test_the_driver_in_the_head_of_gpustat_may_be_cut_by_a_width(width: int, version: str | None) -> None:
    text = f"node1{' ' * 25}Mon Nov 16 10:00:00 2026  560.35.03\n{_ROW}"
    driver = parse_smi("\n".join(line[:width] for line in text.split("\n")), "h").driver
    assert (None if isinstance(driver, Missing) else driver.version) == version


_MIG = "<mig_mode><current_mig>{}</current_mig>{}</mig_mode>"
_PENDING = "<pending_mig>{}</pending_mig>"


@pytest.mark.parametrize(
    ("modes", "enabled"),
    [
        (_MIG.format("Disabled", _PENDING.format("Disabled")), False),
        (_MIG.format("Disabled", ""), None),
        (_MIG.format("Disabled", _PENDING.format("Enabled")), None),
        (_MIG.format("Enabled", ""), True),
    ],
)
def test_mig_is_off_only_where_the_pending_mode_is_known(modes: str, *, enabled: bool | None) -> None:
    gpu = f"<gpu id='00000000:07:00.0'><product_name>NVIDIA A100</product_name>{modes}</gpu>"
    text = f"<nvidia_smi_log><attached_gpus>1</attached_gpus>{gpu}</nvidia_smi_log>"
    found = gpus_of(parse_smi(text, "h"))[0].mig_enabled
    assert (None if isinstance(found, Missing) else found) is enabled
    words = modes.replace("<mig_mode>", "    MIG Mode\n").replace("<current_mig>", "        Current   : ")
    words = words.replace("<pending_mig>", "        Pending   : ")
    for tag in ("</current_mig>", "</pending_mig>", "</mig_mode>"):
        words = words.replace(tag, "\n" * (tag != "</mig_mode>"))
    found = gpus_of(parse_smi(f"Attached GPUs : 1\nGPU 00000000:07:00.0\n{words}    Fan Speed : N/A\n", "h"))[
        0
    ].mig_enabled
    assert (None if isinstance(found, Missing) else found) is enabled


_UUIDS = [f"GPU-0a1b2c3d-0000-1111-2222-33334444555{at}" for at in range(3)]


def test_a_row_without_its_start_has_no_value_of_another_column() -> None:
    rows = "".join(f"{at}, NVIDIA L40S, {uuid}, 46068 MiB\n" for at, uuid in enumerate(_UUIDS))
    found = gpus_of(parse_smi(rows[3:], "h"))
    assert [gpu.uuid for gpu in found] == _UUIDS
    assert {gpu.name for gpu in found} == {"NVIDIA L40S"}


_LISTED = """index, name, memory.total [MiB], driver_version
0, NVIDIA A40, 46068 MiB, 535.104.05
1, NVIDIA A40, 46068 MiB, 535.104.05
"""


@pytest.mark.parametrize("width", [33, 34, 35])
def test_the_last_value_of_a_row_that_a_terminal_wrapped_is_whole(width: int) -> None:
    pieces = [line[at : at + width] for line in _LISTED.split("\n") for at in range(0, len(line), width)]
    facts = parse_smi("\n".join([*pieces, ""]), "h")
    assert facts == parse_smi(_LISTED, "h")


_ENVIRONMENT = """OS: Ubuntu 22.04.3 LTS (x86_64)
CUDA_MODULE_LOADING set to: LAZY
GPU models and configuration:
GPU 0: NVIDIA A100-SXM4-80GB
Nvidia driver version: 535.104.05
cuDNN version: /usr/lib/x86_64-linux-gnu/libcudnn.so.8.9
"""
_INFORMATION = f"Model: NVIDIA A100-SXM4-40GB\nIRQ: 18\nGPU UUID: {_UUIDS[0]}\nBus Location: 0000:07:00.0\n"


@pytest.mark.parametrize(("width", "version"), [(200, "535.104.05"), (30, None), (31, None)])
def test_the_driver_of_a_report_of_an_environment_may_be_cut_by_a_width(
    width: int, version: str | None
) -> None:
    driver = parse_smi("\n".join(line[:width] for line in _ENVIRONMENT.split("\n")), "h").driver
    assert (None if isinstance(driver, Missing) else driver.version) == version


@pytest.mark.parametrize(("width", "name"), [(200, "NVIDIA A100-SXM4-40GB"), (26, "NVIDIA A100-SXM4-40...")])
def test_a_model_of_the_kernel_may_be_cut_where_a_uuid_is(width: int, name: str) -> None:
    text = "\n".join(line[:width] for line in _INFORMATION.split("\n"))
    assert gpus_of(parse_smi(text, "h"))[0].name == name


_LIST = f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {_UUIDS[0]})\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (_LIST, "NVIDIA A100-SXM4-80GB"),
        (f"\0\0{_LIST}\0\0", "NVIDIA A100-SXM4-80GB"),
        ("".join(f"{letter}\0" for letter in _LIST), "NVIDIA A100-SXM4-80GB"),
        (_LIST.replace("A A100-S", "\0\0\0\0"), None),
        (_LIST.replace("NVIDIA", "IDIA"), None),
        (_LIST.replace("A100-SXM4-80GB", "A100  Off"), None),
        (_LIST.replace("A100-SXM4-80GB", "A100 (S"), None),
        (_ROW.replace("NVIDIA A100", "…VIDIA A100"), None),
    ],
)
def test_a_name_of_which_a_part_is_lost_is_unknown(text: str, name: str | None) -> None:
    found = gpus_of(parse_smi(text, "h"))[0].name
    assert (None if isinstance(found, Missing) else found) == name


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("Driver Version                            : 550.90", ".07"),
        ("    Product Name                          : NVIDIA A100-SXM4", "-80GB"),
        ("    Product Name                          : NVIDIA A100-SXM4", " 80GB"),
    ],
)
def test_a_value_with_its_rest_on_the_next_line_is_not_exact(line: str, rest: str) -> None:
    """A terminal wrapped the lines, and a longer one hides its width."""
    whole = next(each for each in _Q.split("\n") if each.startswith(line))
    facts = parse_smi(_Q.replace(whole, f"{line}\n{rest}") + "# a longer line of somebody's notes" * 3, "h")
    value = facts.driver if "Driver" in line else gpus_of(facts)[0].name
    assert isinstance(value, Missing)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("    Temperature\n        GPU Current Temp                  : 3", "temperature_c"),
        ("    GPU Power Readings\n        Current Power Limit               : 40", "power_limit_w"),
        ("    GPU UUID                              : GPU-0a1b2c3d", "uuid"),
        ("    MIG Mode\n        Current : Disabled\n        Pending :", "mig_enabled"),
    ],
)
def test_a_value_without_its_unit_or_its_end_is_cut(line: str, field: str) -> None:
    assert isinstance(getattr(gpus_of(parse_smi(_Q + line, "h"))[0], field), Missing)


@pytest.mark.parametrize("version", ["535.104.0", "535.1", "535", "12.4"])
def test_a_version_that_no_driver_has_is_cut(version: str) -> None:
    assert isinstance(parse_smi(_Q.replace("550.90.07", version), "h").driver, Missing)


def test_the_limit_of_power_that_a_table_cuts_is_unknown() -> None:
    text = """| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2 |
|   0  NVIDIA A40          On  | 00000000:17:00.0 Off |       0 |
|  0%   29C    P8   19W / 30"""
    (gpu,) = gpus_of(parse_smi(text, "h"))
    assert gpu.power_w == 19
    assert isinstance(gpu.power_limit_w, Missing)


def test_names_alone_end_with_their_line() -> None:
    found = gpus_of(parse_smi("NVIDIA A100-SXM4-80GB\nNVIDIA A100-SXM4-8", "h"))
    assert [gpu.name for gpu in found] == ["NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-8..."]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("index, name, driver_version\n0, NVIDIA GeForce RTX 3090, 53\n5.104.05\n", None),
        ("index, name, driver_version\n0, NVIDIA GeForce RTX 3090, 53\nDone\n", None),
        ("index, name, driver_version\n0, NVIDIA A2, 535.104.05\nDone\n", "535.104.05"),
        ("index, name, driver_version\n" + "{}, NVIDIA GeForce RTX 3090, 53\n5.104.05\n" * 2, "535.104.05"),
    ],
)
def test_the_driver_of_a_csv_without_a_wrapped_header_is_exact_or_unknown(
    text: str, version: str | None
) -> None:
    facts = parse_smi(text.format(0, 1), "h")
    assert (None if isinstance(facts.driver, Missing) else facts.driver.version) == version
    assert len(gpus_of(facts)) == text.count("NVIDIA")


def test_a_lost_gpu_beside_rows_without_names_swallows_no_other() -> None:
    lost = "Unable to determine the device handle for GPU{}: 0000:{}:00.0: GPU is lost.  Reboot the system\n"
    first = gpus_of(parse_smi(lost.format(0, 24) + "1, NVIDIA GeForce RTX 3090, 34.61 W\n", "h"))
    last = gpus_of(parse_smi("0, NVIDIA GeForce RTX 3090, 34.61 W\n" + lost.format(1, 24), "h"))
    for gpu, other in (first, reversed(last)):
        assert isinstance(gpu.name, Missing)
        assert (gpu.name.code, other.name) == ("gpu-lost", "NVIDIA GeForce RTX 3090")


def test_a_line_that_is_no_row_of_a_csv_is_no_gpu() -> None:
    rows = "NVIDIA A40, 46068 MiB, 5 MiB, 0 %\n---\nName  RAM\nNVIDIA A40 42939\n"
    names = "name, memory.total [MiB], memory.used [MiB], utilization.gpu [%]\n"
    assert len(gpus_of(parse_smi(rows, "h"))) == 1
    (gpu,) = gpus_of(parse_smi(f"[result] {names}{rows}", "h"))
    assert not isinstance(gpu.memory, Missing)
    assert gpu.memory.used_mib == 5


def test_of_two_listings_with_text_between_the_last_counts() -> None:
    names = "index, name, memory.total [MiB], memory.used [MiB]\n"
    text = (
        f"before:\n{names}0, NVIDIA L4, 23034 MiB, 5 MiB\n\nafter:\n{names}0, NVIDIA L4, 23034 MiB, 900 MiB\n"
    )
    (gpu,) = gpus_of(parse_smi(text, "h"))
    assert not isinstance(gpu.memory, Missing)
    assert gpu.memory.used_mib == 900


def test_an_indented_error_is_one() -> None:
    text = (
        "  ++ sudo nvidia-smi\n  Unable to determine the device handle for GPU 0000:03:00.0: GPU is lost.\n"
    )
    gpus = parse_smi(text, "h").gpus
    assert isinstance(gpus, Missing)
    assert gpus.code == "gpu-lost"


def test_a_short_row_of_a_lost_gpu_among_rows_without_names_is_one_of_its_own() -> None:
    row = "NVIDIA GeForce RTX 3060, 00000000:0{}:00.0\n"
    text = f"{row.format(5)}GPU1: GPU is lost\n{row.format(6)}"
    first, lost, last = gpus_of(parse_smi(text, "h"))
    assert (first.pci_bus_id, last.pci_bus_id) == ("0000:05:00.0", "0000:06:00.0")
    assert isinstance(lost.name, Missing)
    assert lost.name.code == "gpu-lost"


def test_a_last_row_that_is_cut_before_its_name_is_a_gpu() -> None:
    row = "{0}, GPU-{0}f2e3d4c-1111-2222-3333-444455556666, NVIDIA L4\n"
    gpus = gpus_of(parse_smi(row.format(0) + row.format(1) + "2, GPU-2f2e3d\n", "h"))
    assert [isinstance(gpu.uuid, Missing) for gpu in gpus] == [False, False, True]


def test_a_version_with_its_rest_on_the_next_line_is_unknown() -> None:
    rows = "".join(f"{at}, NVIDIA L40S, 610.43\n.02, 46068 MiB\n" for at in range(2))
    driver = parse_smi(rows, "h").driver
    assert isinstance(driver, Missing) or isinstance(driver.version, Missing)


@pytest.mark.parametrize(
    ("end", "may_be_more"),
    [("...\n", True), (" …", True), ("......\n$ exit\n", True), ("", False), ("...\n2, NVIDIA L4\n", False)],
)
def test_dots_behind_the_rows_of_a_csv_are_gpus_that_are_left_out(end: str, *, may_be_more: bool) -> None:
    gpus = gpus_of(parse_smi(f"index, name\n0, NVIDIA L4\n1, NVIDIA L4\n{end}", "h"))
    said = {gpu.processes.reason for gpu in gpus if isinstance(gpu.processes, Missing)}
    assert any(f"at least {len(gpus)} GPUs" in reason for reason in said) == may_be_more
