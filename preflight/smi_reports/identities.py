"""Names, UUIDs and versions that cannot be whole, whatever form they come from. Pure."""

import re
from typing import Any

from preflight.probes.nvidia_smi.values import CUT
from preflight.smi_reports.bare_csv import UUID

Tree = dict[str, Any]

_UUID = re.compile(rf"(?!(?i:{UUID})$)[^\s\[\]]*[-\d][^\s\[\]]*|GP?U?")
"""What holds digits as a UUID does and is not a whole one; other words are reasons why there is none."""
_NAME = re.compile(
    r"(?:VIDIA|IDIA|DIA|IA|A|esla|sla|la|eForce|Force|orce|rce|ce|uadro|adro|dro|ro|ITAN|TAN|AN) .*"
    r"|(?:\u2026|\.\.).*|.*(?:\s{2}|\s:|:\s|[=|]|-{3}|\([^)]*$).*"
)
"""What is left of a maker's name where a line lacks its start, and what runs into another cell."""
_VERSION = re.compile(r"\d{3}\.(?:\d?|\d\.|\d{2,3}\.\d?)|\d{1,3}|\d{1,2}\..*")
"""Drivers are 535.98 or 535.104.05, on a Jetson 540.4.0."""


def mark_cut_identities(tree: Tree) -> None:
    """Mark the driver's version, and names and UUIDs of GPUs, where a part of them is missing."""
    gpus = tree.get("gpu", [])
    for gpu in gpus if isinstance(gpus, list) else [gpus]:
        for key, part in (("uuid", _UUID), ("gpu_uuid", _UUID), ("product_name", _NAME)):
            _mark(gpu, key, part)
    for key in ("driver_version", "kmd_version"):
        _mark(tree, key, _VERSION)


def _mark(inside: Any, key: str, part: re.Pattern[str]) -> None:
    value = inside.get(key) if isinstance(inside, dict) else None
    if isinstance(value, str) and value != CUT and part.fullmatch(value):
        inside[key] = CUT
