"""Values that cannot be whole, whatever form they come from: names, UUIDs, versions, sums of memory. Pure."""

from collections import Counter
from typing import Any

from preflight import regex as re
from preflight.probes.nvidia_smi.values import CUT, LOST_VALUES, SHARED, UNEQUAL
from preflight.smi_reports.headerless_csv import UUID
from preflight.smi_reports.repeated_recordings import list_gpus

Tree = dict[str, Any]

_WORD = (
    r"None|On|Off|Yes|No|(?:Not )?Active|Enabled|Disabled|Default|Supported|WDDM|TCC|Prohibited|Exclusive_.*"
)
"""Values of other keys."""
_UUID = re.compile(rf"(?!(?i:{UUID})$)(?:(?=\S*?[-\d])[^\s\[\]]+|\d.*|GPU-.*|GP?U?|{_WORD})")
"""What holds digits as a UUID does and is not a whole one; other words are reasons why there is none."""
_WHOLE_UUID = re.compile(UUID, re.IGNORECASE)
_NAME = re.compile(
    r"(?:VIDIA|IDIA|DIA|IA|A|esla|sla|la|eForce|Force|orce|rce|ce|uadro|adro|dro|ro|ITAN|TAN|AN) .*"
    r"|\s.*|(?:\u2026|\.\.).*|.*\.{3}.+|.*[?*#~^_<>{}&\"\ufffd].*|.*[^.]\.{1,2}|.*\dMi?B\b.*|.*\d:\d.*"
    r"|.* (?:Off?|On?|ff?|n)\.{0,3}"
    r"|[^\[]+\[.*"
    r"|(?!NVIDIA )[A-Z]{1,6} (?:GeForce|Tesla|Quadro)\b.*|.*(?:\s{2}|\s:|:\s|[=|]|-{3}|\([^()]*$).*"
)
"""What is left of a maker's name where a line lacks its start, what runs into another cell, and characters of
which no name has one."""
_PART_OF_NAME = re.compile(
    r".*\b(?:GeF(?!orce\b)|Gen(?!eration\b)|Bla(?!ck(?:well)?\b)|Wor(?!kstation Edition\b)|Edi(?!tion\b)"
    r"|Lap(?!top(?! G(?!PU))\b)|Qua(?!dro\b)|Ser(?!(?:ver|ies)\b)|Gra(?!(?:phics|ce)\b)|PRO\d|TIT(?!AN\b)"
    r"|SX(?!M)|PCI(?!e|E)|with(?! Max-Q Design\b)|Blackwell Server(?! Edition\b)|NVIDIA A[13-9]$"
    r"|(?<!\d)GB\b).*"
    r"|.*\d (?:W|C|MiB|MHz)|.*-(?:SXM\d?|PCIE)-\d{0,3}"
    r"|(?!nvidia|geforce|tesla|quadro)[a-z]{1,8} .*|[(/].*|\d.*"
    r"|.{1,3}|[a-z]{1,20}|RO \d.*|NVIDIA RTX \d{1,3}|.* Ge"
    rf"|{_WORD}"
    r"|NVIDIA(?: [A-Za-z]{1,2})?|(?:gpu_)?name|NV(?!(?:IDIA|S)\b).*|.*%|[^\[]*\].*"
    r"|(?!.*TITAN).*\b(?:GeForce|RTX|GTX|Quadro|Tesla|PRO)|.*GeForce (?:RTX \d{1,3}|GTX (?:\d{1,2}|1\d\d))"
)
"""What no name has: a maker's word without its end or with a number at it, no number behind the line of a
product, one of too few digits; and values of other columns."""
_VERSION = re.compile(r"\d{3}\.(?:\d?|\d\.|\d{2,3}\.\d?)|\d{1,3}|(?:\d{1,2}|\d{4,})\..*")
"""Drivers are 535.98 or 535.104.05, on a Jetson 540.4.0."""

_PARTS = (("uuid", _UUID), ("gpu_uuid", _UUID), ("product_name", _NAME), ("product_name", _PART_OF_NAME))
_MIB = re.compile(r"(\d{1,9})(?: MiB)?")
_FEW = 3
_ROUNDED_MIB = 2  # by which three sizes that are rounded may miss their sum
_ROUNDED_SHARE = 400  # and by hand: a part of the total that no decision depends on


def mark_cut_values(tree: Tree) -> None:
    """Mark the driver's version, and names, UUIDs and sizes of GPUs, where a part of them is missing."""
    _mark_shared_uuids(list_gpus(tree))
    names = {str(gpu.get("product_name", "")) for gpu in list_gpus(tree)}
    for gpu in list_gpus(tree):
        for key, part in _PARTS:
            _mark(gpu, key, part)
        if any(_lacks_inside(str(gpu.get("product_name", "")), name) for name in names):
            gpu["product_name"] = CUT
        _mark_unequal_sums(gpu.get("fb_memory_usage"))
    for key in ("driver_version", "kmd_version"):
        _mark(tree, key, _VERSION)


def _lacks_inside(name: str, whole: str) -> bool:
    """Whether a name is another one's without a few characters in its middle, as no two products' are."""
    gap = len(whole) - len(name)
    parts = (whole[:at] + whole[at + gap :] for at in range(1, len(name)))
    return 0 < gap <= _FEW and not whole.startswith(name) and name in parts


def _mark_shared_uuids(gpus: list[Tree]) -> None:
    """Mark a UUID that several GPUs have: of all but one it is another's."""
    count = Counter(str(gpu.get("uuid", "")).lower() for gpu in gpus)
    for gpu in gpus:
        uuid = str(gpu.get("uuid", ""))
        if count[uuid.lower()] > 1 and _WHOLE_UUID.fullmatch(uuid):
            gpu["uuid"] = SHARED


def _mark(inside: Any, key: str, part: re.Pattern[str]) -> None:
    value = inside.get(key) if isinstance(inside, dict) else None
    is_short = part is _PART_OF_NAME and str(value).endswith("...")  # as a table prints a long one
    if isinstance(value, str) and value not in LOST_VALUES and not is_short and part.fullmatch(value):
        inside[key] = CUT


def _mark_unequal_sums(sizes: Any) -> None:
    """Mark sizes of which one is that of another group: what is used and free is no more than the total.

    With what is reserved (since driver 510) it is the total.
    """
    if not isinstance(sizes, dict):
        return
    held = {name: int(match[1]) for name, text in sizes.items() if (match := _MIB.fullmatch(str(text)))}
    if not held.keys() >= {"total", "used", "free"}:
        return
    unused = held["total"] - held["used"] - held["free"] - held.get("reserved", 0)
    rounded = max(_ROUNDED_MIB, held["total"] // _ROUNDED_SHARE)
    if unused < -rounded or ("reserved" in held and unused > rounded):
        sizes.update(dict.fromkeys(held, UNEQUAL))
