"""What lines of a kernel log say of GPUs and memory. `preflight/smi_reports` reads saved logs with it."""

import re
from collections import Counter
from typing import Any

from .fact import MOST_LINES, Json, missing, truncate
from .pci import format_bus_id

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): (\d{1,9})\b(.*)")
_FALLEN = re.compile(r"NVRM:.*fallen off the bus")
_NAMED = re.compile(
    r"NVRM:.*\bGPU (?:at )?(?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)"
)
_OFF_THE_BUS = 79
_OOM = re.compile(r"\bKill(ed)? process (\d.*)")
"""Kernels before 5.0 say first which process they will end, and then which they have: it or its child."""
_OTHER = re.compile(
    r"fallen off the bus|\bSXid\b|nvidia[-_]peermem.*(error|fail|invalid)|API mismatch|RmInitAdapter failed"
    r"|\bGSP\b.*(time-?out|error)|Timeout .*GSP|NVRM:.*(fail|error|lost|shutdown|unable)|limited by .*PCIe"
    r"|blocked for more than \d+ seconds|available PCIe bandwidth, limited|infoROM is corrupted",
    re.IGNORECASE,
)
_WORDS = (
    *("xid", "kill", "fallen off the bus", "peermem", "api mismatch", "rminitadapter", "gsp", "nvrm:"),
    *("pcie", "blocked for more than", "inforom"),
)
"""In lower case; no line without one of them matches an expression above. A search for words is ten times as
fast, and a host that has been up for months has a hundred thousand lines."""
_KMSG = re.compile(r"^\d+,\d+,(\d{1,18}),[^;]*;")
_STAMP = re.compile(r"\[\s*(\d{1,12}\.\d+)\]")


def parse_kernel_log(text: str) -> Json:
    """Return xids, oom_kills and other of facts.KernelLog: the newest 200 of each.

    Takes dmesg (with seconds, dates or none), /dev/kmsg records, journalctl -k and syslog lines.
    """
    xids: list[Json] = []
    oom_kills: dict[str, str] = {}
    other: list[str] = []
    bus = announced = ""
    fallen_off: set[str] = set()
    for line in _lines_of_interest(text):
        named = _NAMED.search(line)
        bus = format_bus_id(named.group(1)) if named else bus
        xid = _XID.search(line) if "Xid" in line else None
        oom = _OOM.search(line)
        fallen = _FALLEN.search(line) if bus and xid is None else None
        if xid:
            xids.append(_xid(int(xid.group(2)), format_bus_id(xid.group(1)), line, xid.group(0)))
        elif fallen and bus not in fallen_off:
            xids.append(_xid(_OFF_THE_BUS, bus, line, fallen.group(0)))  # the driver gives some no number
        elif oom:
            for known in (announced, oom.group(2)):  # and none that dmesg and the journal both have
                oom_kills.pop(known, None)
            oom_kills[oom.group(2)] = truncate(_body(line))
            announced = "" if oom.group(1) else oom.group(2)
        elif _OTHER.search(line):
            other.append(truncate(_body(line)))
        fallen_off.update(each["pci_bus_id"] for each in xids[-1:] if each["code"] == _OFF_THE_BUS)
    kills = list(oom_kills.values())[-MOST_LINES:]
    return {"xids": _newest(xids), "oom_kills": kills, "other": other[-MOST_LINES:]}


def _newest(xids: list[Json]) -> list[Json]:
    """Return the newest Xids, counted, as many of each GPU and code: a flood hides no other."""
    counts: Counter[tuple[str, int]] = Counter()
    for xid in xids:
        counts[_kind(xid)] += 1
        xid["count"] = counts[_kind(xid)]
    places = range(len(xids))
    kept = sorted(places, key=lambda at: (counts[_kind(xids[at])] - xids[at]["count"], -at))[:MOST_LINES]
    return [xids[at] for at in sorted(kept)]


def _kind(xid: Json) -> tuple[str, int]:
    return xid["pci_bus_id"], xid["code"]


def _xid(code: int, bus: str, line: str, text: str) -> Json:
    return {"code": code, "pci_bus_id": bus, "at_uptime_s": _uptime_of(line), "text": truncate(text)}


def _lines_of_interest(text: str) -> list[str]:
    """Return the lines that hold one of _WORDS."""
    lowered = text.lower()
    words = [word for word in _WORDS if word in lowered]
    if not words:
        return []
    pairs = zip(text.split("\n"), lowered.split("\n"))  # noqa: B905 - Python 3.9 has no strict
    return [line for line, low in pairs if any(word in low for word in words)]


def _uptime_of(line: str) -> Any:
    """Return the seconds since boot that a log line carries."""
    kmsg = _KMSG.match(line)
    if kmsg:
        return int(kmsg.group(1)) / 1e6
    stamp = _STAMP.search(line)
    return float(stamp.group(1)) if stamp else missing("the line has no time since boot", "not-found")


def _body(line: str) -> str:
    return _KMSG.sub("", line).strip()
