"""What killed a run, as one screen of text and as one JSON document."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from launcher.config.inventory import LOCALHOST
from launcher.text import one_line
from preflight.diagnosis.result import BENIGN, UNKNOWN, Cause, Diagnosis, Evidence
from preflight.facts.json_codec import encode

if TYPE_CHECKING:
    from preflight.diagnosis.lines import Log

SCHEMA = "gpulaunch.diagnosis/1"
_SHOWN_CAUSES = 3
_SHOWN_EVIDENCE = 3
_SHOWN_WARNINGS = 5
_WIDTH = 150
_HOST_PROGRAMS = frozenset(
    {"df", "find", "hf", "ibstat", "ip", "ls", "lscpu", "mkdir", "nc", "quota", "rocminfo", "ss", "sudo"}
    | {"ulimit", "wandb"}
)


def render_diagnosis(diagnosis: Diagnosis) -> list[str]:
    """Return the answer for a person: the first cause in full, the next in a line each, then warnings."""
    lines = _verdict(diagnosis)
    for cause in diagnosis.causes[1:_SHOWN_CAUSES]:
        lines.append(f"also      {_where(cause.evidence[0])}: {_head(cause)}")
    for warned in diagnosis.warnings[:_SHOWN_WARNINGS]:
        label = "harmless" if warned.safe else "look"
        lines.append(f"{label:<9} {warned.code} line {warned.line}: {warned.verdict}")
    return lines


def _verdict(diagnosis: Diagnosis) -> list[str]:
    if diagnosis.verdict == BENIGN:
        return ["no failure found"]
    if not diagnosis.causes:
        return ["it failed, but this log does not say why; look at the other ranks' and hosts' logs"]
    first = diagnosis.causes[0]
    unknown = ["it failed; why is not in the table of known failures"] if first.slug == UNKNOWN else []
    return [*unknown, *_full(first)]


def _full(cause: Cause) -> list[str]:
    lines = [_head(cause)]
    lines += [f"  {_where(each)}: {one_line(each.text, _WIDTH)}" for each in cause.evidence[:_SHOWN_EVIDENCE]]
    if cause.location:
        lines.append(f"  in your code: {one_line(cause.location, _WIDTH)}")
    lines.append(f"  fix: {cause.fix}")
    if cause.command:
        lines.append(f"  {_where_to_type(cause)}: {one_line(cause.command, _WIDTH)}")
    return lines


def _where_to_type(cause: Cause) -> str:
    """Return whether a command is for the host that failed; others are code, words, or for this machine."""
    program = cause.command.partition(" ")[0].rpartition("/")[2]
    on_host = cause.host not in ("", LOCALHOST) and (
        program in _HOST_PROGRAMS or program.startswith("python")
    )
    return f"type on {one_line(cause.host, 60)}" if on_host else "how"


def _head(cause: Cause) -> str:
    host = f", {one_line(cause.host, 60)}" if cause.host else ""
    rank = f", rank {cause.rank}" if cause.rank is not None else ""
    return f"{cause.slug} ({cause.code}, {cause.confidence}{host}{rank}): {one_line(cause.cause, 400)}"


def _where(evidence: Evidence) -> str:
    place = f"line {evidence.line}" if evidence.line else ""
    return " ".join(word for word in (one_line(evidence.source, 60), place) if word)


def encode_diagnosis(diagnosis: Diagnosis, logs: "Sequence[Log]") -> dict[str, Any]:
    """Return the documented JSON document."""
    return {
        "schema": SCHEMA,
        "sources": [log.name for log in logs],
        "verdict": diagnosis.verdict,
        "causes": [_cause(cause, logs) for cause in diagnosis.causes],
        "warnings": encode(diagnosis.warnings),
    }


def _cause(cause: Cause, logs: "Sequence[Log]") -> dict[str, Any]:
    only = logs[0].name if len(logs) == 1 else ""
    return {
        "code": cause.code,
        "class": cause.slug,
        "confidence": cause.confidence,
        "cause": cause.cause,
        "fix": cause.fix,
        "command": cause.command,
        "location": cause.location,
        "host": cause.host,
        "rank": cause.rank,
        "evidence": encode([replace(line, source=line.source or only) for line in cause.evidence]),
    }
