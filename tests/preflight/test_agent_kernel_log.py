"""Kernel logs in every form in which people have them."""

from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.checks.health import the_kernel_killed_nothing
from preflight.facts.host import KernelLog
from preflight.facts.json_codec import decode
from preflight.facts.missing import Missing
from preflight.probes.kernel_log_parser import _FALLEN, _NAMED, _OTHER, _WORDS, _XID, parse_kernel_log
from preflight.probes.pci import format_bus_id
from tests.extra_recordings import SMI
from tests.hardware import titan

ASCII = st.characters(codec="ascii")
EXPRESSIONS = (_XID, _OTHER, _FALLEN, _NAMED)
XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def read(text: str) -> KernelLog:
    return decode(KernelLog, {"source": "file", **parse_kernel_log(text)})


@pytest.mark.parametrize(
    ("line", "uptime_s"),
    [
        (f"[ 5140.900123] {XID}", 5140.900123),
        (f"6,339,5140900123,-;{XID}", 5140.900123),
        (f"[ 5140.900123] host kernel: {XID}", 5140.900123),
        (f"Oct  2 12:00:00 host kernel: [ 5140.900123] {XID}", 5140.900123),
        (f"[Wed Oct  2 12:00:00 2024] {XID}", None),
        (XID, None),
    ],
)
def test_an_xid_is_read_from_every_form(line: str, uptime_s: float | None) -> None:
    (xid,) = read(line).xids
    assert (xid.code, xid.pci_bus_id) == (79, "0000:9b:00.0")
    assert (None if isinstance(xid.at_uptime_s, Missing) else xid.at_uptime_s) == uptime_s


@pytest.mark.parametrize(
    "lines",
    [
        "NVRM: The NVIDIA GPU 0000:9b:00.0\n   NVRM: (PCI ID: 10de:26b5)\n  NVRM: fallen off the bus",
        "[   49.2] NVRM: GPU at 0000:9b:00.0 has fallen off the bus.\nNVRM: os_pci_init_handle",
        f"{XID}\nNVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.",
    ],
)
def test_a_gpu_that_fell_off_the_bus_without_a_number_is_an_xid_79(lines: str) -> None:
    assert [(xid.code, xid.pci_bus_id) for xid in read(lines).xids] == [(79, "0000:9b:00.0")]


def test_an_old_xid_without_pci_word_is_read() -> None:
    assert read("NVRM: Xid (0000:01:00): 31, Ch 00000010").xids[0].pci_bus_id == "0000:01:00.0"


@pytest.mark.parametrize(
    "line",
    [
        "[1.0] Out of memory: Killed process 4242 (python) total-vm:1kB, anon-rss:1kB",
        "[1.0] Memory cgroup out of memory: Killed process 4242 (python) total-vm:1kB",
        "[1.0] Out of memory: Kill process 4242 (python) score 900 or sacrifice child",
        "[1.0] Out of memory: Kill process 4242 (python) score 9\n[1.1] Killed process 4242 (python)",
        "[1.0] python invoked oom-killer: order=0\n[1.1] Out of memory: Killed process 4242 (python)",
    ],
)
def test_the_oom_killers_victim_is_read(line: str) -> None:
    (kill,) = read(line).oom_kills
    assert "4242 (python)" in kill


def test_a_kill_is_of_the_process_that_ended_and_a_pid_may_come_again() -> None:
    lines = (
        "[1.0] Out of memory: Kill process 4242 (python) score 9 or sacrifice child",
        "[1.1] Killed process 4250 (worker) total-vm:1kB",
        "[9.0] Out of memory: Killed process 4250 (python) total-vm:9kB",
        "[9.0] Out of memory: Killed process 4250 (python) total-vm:9kB",  # of dmesg, and of the journal
    )
    assert [kill[:5] for kill in read("\n".join(lines)).oom_kills] == ["[1.1]", "[9.0]"]


@pytest.mark.parametrize(
    ("source", "since"), [("file", ", as far as the kernel log reaches"), ("journal", " since boot")]
)
def test_a_count_says_since_when_and_that_there_may_be_more(
    source: Literal["file", "journal"], since: str
) -> None:
    kills = "".join(f"[1.0] Out of memory: Killed process {pid} (python)\n" for pid in range(250))
    facts = replace(titan(), kernel_log=replace(read(kills), source=source))
    said = next(problem.message for problem in the_kernel_killed_nothing(facts))
    assert said.startswith(f"processes ended for lack of memory{since}: 200 or more; the last: ")


GSP = (  # a firmware that answers nothing, with the history that the driver prints below its Xid
    "[Sun Nov 22 10:00:00 2026] NVRM: GPU at PCI:0000:9b:00: GPU-1b0dc2e1-0000-4000-8000-7b1cf2a5a0de\n"
    "[Sun Nov 22 10:00:00 2026] NVRM: Xid (PCI:0000:9b:00): 119, pid=4242, name=nvidia-smi, Timeout after"
    " 6s of waiting for RPC response from GPU4 GSP! Expected function 103 (GSP_RM_ALLOC) (0x2081 0x4).\n"
    "[Sun Nov 22 10:00:00 2026] NVRM: GPU4 RPC history (CPU -> GSP):\n"
    "[Sun Nov 22 10:00:00 2026] NVRM:     -1    103  GSP_RM_ALLOC   0x0000000000002080 0x0000000000000004\n"
    "[Sun Nov 22 10:00:00 2026] CPU: 17 PID: 4242 Comm: nvidia-smi Tainted: P   OE  5.15.0-112-generic\n"
    "[Sun Nov 22 10:00:00 2026] Call Trace:\n"
)
PEERMEM = (
    "kern  :err   : 2026-11-22T10:00:0{},502716+00:00 nvidia-peermem nv_get_p2p_free_callback:127 ERROR x\n"
)


def recorded(extra: str, own: str) -> list[str]:
    """Return our own log, and a recorded one where it lies beside this checkout."""
    path = SMI / extra
    return [own, *([path.read_text()] if path.exists() else [])]


def test_a_firmware_that_answers_nothing_is_one_xid() -> None:
    for text in recorded("dmesg_xid-119-gsp-timeout.txt", GSP):
        log = read(text)
        assert {xid.code for xid in log.xids} == {119}
        assert {xid.pci_bus_id for xid in log.xids} == {"0000:9b:00.0"}


def test_errors_of_a_module_beside_the_driver_are_kept() -> None:
    own = "".join(PEERMEM.format(second) for second in range(7))
    for text in recorded(
        "dmesg_nvidia-peermem-error.txt", own + "kern  :err   : 2026-11-22T10:00:08,0+00:00 x\n"
    ):
        log = read(text)
        assert log.xids == ()
        assert len(log.other) == 7


def test_a_flood_of_one_kind_is_cut_to_the_newest_and_counted() -> None:
    flood = (f"[{n}.0] NVRM: Xid (PCI:0000:01:00): 13, x" for n in range(1000))
    log = read("\n".join(["[0.5] NVRM: Xid (PCI:0000:9b:00): 79, x", *flood]))
    assert [(xid.code, xid.count) for xid in (log.xids[0], log.xids[-1])] == [(79, 1), (13, 1000)]
    assert len(log.xids) == 200
    kinds = [(bus, code) for bus in range(16) for code in (13, 31, 43)] * 90
    floods = (f"[9.0] NVRM: Xid (PCI:0000:{bus:02x}:00): {code}, x" for bus, code in kinds)
    log = read("\n".join(["[0.5] NVRM: Xid (PCI:0000:9b:00): 79, x", *floods]))
    assert (log.xids[0].code, len(log.xids), {xid.code for xid in log.xids}) == (79, 200, {79, 13, 31, 43})


@pytest.mark.parametrize(
    ("line", "uptime_s"),
    [
        (f"[{'9' * 400}.0] NVRM: Xid (PCI:0000:01:00): 13, x", None),
        (f"4,1,{'9' * 5000},-;NVRM: Xid (PCI:0000:01:00): 13, x", None),
        ("4,1,1500000,-;NVRM: Xid (PCI:0000:01:00): 13, x", 1.5),
    ],
)
def test_numbers_that_no_kernel_writes_are_none(line: str, uptime_s: float | None) -> None:
    (xid,) = read(f"{line}\nNVRM: Xid (PCI:0000:01:00): {'9' * 5000}, x").xids
    assert (xid.code, None if isinstance(xid.at_uptime_s, Missing) else xid.at_uptime_s) == (13, uptime_s)


@given(
    st.text()
    | st.lists(st.sampled_from(["NVRM: ", "Xid (PCI:", "0000:9b:00", "): ", "79", "[1.5] ", "\n"])).map(
        "".join
    )
)
def test_any_text_gives_a_log(text: str) -> None:
    log = read(text)
    assert len(log.xids) <= text.count("Xid")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:9b:00", "0000:9b:00.0"),
        ("00000008:01:00.0", "0008:01:00.0"),
        ("3B:00.0", "0000:3b:00.0"),
        ("Nonsense", "nonsense"),
    ],
)
def test_bus_ids_have_one_form(text: str, expected: str) -> None:
    assert format_bus_id(text) == expected


@settings(max_examples=60, deadline=None)
@given(st.one_of(*(st.from_regex(each, alphabet=ASCII) for each in EXPRESSIONS)))
def test_no_line_that_matters_lacks_the_words_that_are_searched_first(line: str) -> None:
    assert not any(each.search(line) for each in EXPRESSIONS) or any(word in line.lower() for word in _WORDS)
