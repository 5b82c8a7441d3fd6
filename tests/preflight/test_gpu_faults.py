"""Xids as NVIDIA's catalogue has them: whose failure each is, and what is said to do about it."""

from dataclasses import replace
from typing import Literal

import pytest

from preflight.checks.finding import Finding
from preflight.checks.runner import check_host
from preflight.job import Expect
from preflight.probes.kernel_log_parser import parse_kernel_log
from tests.preflight.golden_cases import host, make_job

_OLD_DRIVER = {"missing": "Not Supported", "code": "not-supported"}
_RECOVERY = ", GPU recovery action changed from "
_RESET = "sudo nvidia-smi --gpu-reset -i 0"


def _said_of(*xids: tuple[int, str]) -> list[Finding]:
    """Return what is said of these Xids on a GPU whose driver does not know recovery actions."""
    facts = host(
        {
            "gpus.0.recovery_action": _OLD_DRIVER,
            "kernel_log.xids": [
                {"code": code, "pci_bus_id": "0000:65:00", "at_uptime_s": 863000.0, "text": text}
                for code, text in xids
            ],
        }
    )
    return [found for found in check_host(facts, make_job({}), Expect()) if found.code == "HEAL002"]


@pytest.mark.parametrize(
    ("code", "text", "severity", "fix"),
    [
        *((code, "", "info", "compute-sanitizer") for code in (11, 13, 25, 31, 43, 69, 137)),
        (45, "", "info", "what came before"),
        *((code, "", "warning", "start the program that ran then again") for code in (8, 32, 68, 80)),
        *((code, "", "warning", "nothing to do at once") for code in (38, 44, 63, 92, 121)),
        (94, "", "warning", "when the GPU is free: " + _RESET),
        (151, "", "warning", "virtual machine"),
        *((code, "", "critical", _RESET) for code in (46, 48, 62, 64, 74, 95, 109, 119, 120, 136, 140)),
        *((code, "", "critical", _RESET) for code in (143, 158)),
        *((code, "", "critical", "power-cycle") for code in (79, 110)),
        (145, ", RLW_REMAP Nonfatal XC0 i0 Link 00", "warning", "nvlink -s -i 0"),
        (149, ", NETIR_LINK_EVT Fatal XC0 i0 Link 08", "critical", "nvlink -s -i 0"),
        (154, _RECOVERY + "0x0 (None) to 0x1 (GPU Reset Required)", "critical", _RESET),
        (154, _RECOVERY + "0x0 (None) to 0x2 (Node Reboot Required)", "critical", "reboot the host"),
        (154, _RECOVERY + "0x0 (None) to 0x4 (Drain and Reset)", "critical", "all processes"),
        (154, _RECOVERY + "0x1 (GPU Reset Required) to 0x0 (None)", "info", "nothing to do"),
        (154, _RECOVERY + "0x0 (No", "warning", "grep -i recovery"),
        (999, "", "warning", "xid-errors says what to do for 999"),
    ],
)
def test_an_xid_weighs_as_nvidias_catalogue_says(code: int, text: str, severity: str, fix: str) -> None:
    (found,) = _said_of((code, text))
    assert (found.severity.value, fix in found.fix) == (severity, True), found


def test_xids_that_a_flood_left_out_are_counted() -> None:
    flood = "\n".join("NVRM: Xid (PCI:0000:65:00): 13, x" for _ in range(558))
    for source, since in (("dmesg", "since boot"), ("file", "in the saved log")):
        facts = host({"kernel_log": {"source": source, **parse_kernel_log(flood)}})
        (found,) = (each for each in check_host(facts, make_job({}), Expect()) if each.code == "HEAL002")
        assert found.message.endswith(f" 558 times {since}")


def test_a_recovery_that_was_done_ends_what_asked_for_it() -> None:
    done = (154, _RECOVERY + "0x1 (GPU Reset Required) to 0x0 (None)")
    assert {found.severity.value for found in _said_of((119, ""), done)} == {"warning", "info"}
    assert {found.severity.value for found in _said_of(done, (119, ""))} == {"critical", "info"}, (
        "a new fault"
    )


def test_a_driver_that_does_not_report_recovery_has_a_way_on_after_it() -> None:
    (found,) = _said_of((119, ""))
    assert "--ignore HEAL002" in found.fix


@pytest.mark.parametrize(
    ("gpus", "node", "fix"),
    [
        ("all", "only", "-i 0; or leave it out: --gpus 1 takes the other"),
        (2, "only", "-i 0; or leave it out: --gpus 1 takes the other"),
        (2, "main", "-i 0; or leave it out: gpus: [1] of this host in hosts.yaml takes the other"),
        ((0, 1), "only", "-i 0"),  # by their numbers: which others, the user knows
    ],
)
def test_the_fix_of_one_bad_gpu_says_how_to_launch_without_it(
    gpus: object, node: Literal["only", "main"], fix: str
) -> None:
    sick, job = host({"gpus.0.recovery_action": "gpu_reset"}), make_job({"gpus": gpus})
    found = check_host(sick, job, Expect(), node=node)
    assert [each.fix.endswith(fix) for each in found if each.code == "HEAL001"] == [True]


@pytest.mark.parametrize(("others", "severity"), [(1, "info"), (2, "warning")])
def test_a_narrow_link_is_a_warning_where_most_gpus_have_wide_ones(others: int, severity: str) -> None:
    facts = host({"gpus.0.pcie.width": 4})
    narrow, wide = facts.known_gpus
    gpus = (narrow, *(replace(wide, index=index) for index in range(1, others + 1)))
    found = check_host(replace(facts, gpus=gpus), make_job({}), Expect())
    assert [each.severity.value for each in found if each.code == "HEAL010"] == [severity]
