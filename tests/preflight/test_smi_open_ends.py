"""Values whose end may be missing are reported as cut: of the last line, of a width, of a damaged file."""

import pytest

from preflight.facts.missing import Missing
from preflight.smi_reports import parse_smi
from tests.hardware import gpus_of

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
