"""Reports of ranks, which are untrusted text of hosts, decoded into records."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from preflight.deep.measurements import (
    STEP_CODES,
    Copies,
    DeviceFacts,
    Digests,
    HostCopies,
    MemoryTest,
    Products,
    RankDeep,
    Reduction,
    Silent,
    Stuck,
    Transfers,
    Waits,
)
from preflight.errors import MalformedFacts
from preflight.facts.json_codec import decode

_MOST_VALUES = 4096
_SHAPES: Mapping[str, tuple[str, type[Any]]] = {
    "join": ("facts", DeviceFacts),
    "memory": ("memory", MemoryTest),
    "matmul": ("matmul", Products),
    "digest": ("digest", Digests),
    "copy": ("copy", Copies),
    "host": ("host_copies", HostCopies),
    "peer": ("peer", Transfers),
    "node": ("node", Reduction),
    "world": ("world", Reduction),
    "pairs": ("pairs", Transfers),
}


def add_reports(rank: RankDeep, reports: Iterable[Mapping[str, Any]]) -> RankDeep:
    """Return the rank with what it reported; a report that does not fit counts as a failed step."""
    for report in reports:
        rank = _add(rank, report)
    return rank


def _add(rank: RankDeep, report: Mapping[str, Any]) -> RankDeep:
    kind, step = report.get("kind"), str(report.get("step"))
    if kind == "result" and step == "end":
        return replace(rank, done=True)
    if step not in STEP_CODES:
        return rank
    if kind == "begin":
        return replace(rank, begun=(*rank.begun, step))
    if kind == "failed":
        return replace(rank, failed={**rank.failed, step: str(report.get("error"))[:1000]})
    try:
        if kind == "stuck":
            return replace(rank, stuck=decode(Stuck, dict(report)))
        if kind == "silent":
            return replace(rank, silent=decode(Silent, dict(report)))
        name, shape = _SHAPES[step]
        if kind == "result" and _is_bounded(report):
            waits = {**rank.waits, step: decode(Waits, dict(report))}
            return replace(rank, waits=waits, **{name: decode(shape, dict(report))})
    except MalformedFacts as misfit:
        return replace(rank, failed={**rank.failed, step: f"its report does not fit: {misfit.message}"})
    return replace(rank, failed={**rank.failed, step: "its report does not fit"})


def _is_bounded(value: object) -> bool:
    """Return whether numbers and lists are of a size that arithmetic with them cannot fail."""
    if isinstance(value, Mapping):
        return all(_is_bounded(each) for each in value.values())
    if isinstance(value, list):
        return len(value) <= _MOST_VALUES and all(_is_bounded(each) for each in value)
    if isinstance(value, float):
        return math.isfinite(value) and abs(value) < 1e15
    return True
