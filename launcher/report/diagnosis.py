"""What killed a run, told to people on one screen and to programs as one document."""

from typing import Any

from launcher.report.text import one_line
from preflight.diagnosis.diagnose import BENIGN, UNKNOWN, Cause, Diagnosis

SCHEMA = "gpulaunch.diagnosis/1"
_SHOWN_CAUSES = 3
_SHOWN_EVIDENCE = 3
_WIDTH = 150


def lines(diagnosis: Diagnosis) -> list[str]:
    """Return the answer for a person, the first cause in full."""
    if diagnosis.verdict == BENIGN:
        told = ["no failure found in this log"]
    elif diagnosis.verdict == UNKNOWN:
        told = ["it failed, but this log does not say why; look at the other ranks' and hosts' logs"]
    else:
        told = _cause_lines(diagnosis.causes[0], full=True)
        told += [
            text for cause in diagnosis.causes[1:_SHOWN_CAUSES] for text in _cause_lines(cause, full=False)
        ]
    for warned in diagnosis.warnings:
        label = "harmless" if warned.safe else "look"
        told.append(f"{label:<9} {warned.code} line {warned.number}: {warned.verdict}")
    return told


def _cause_lines(cause: Cause, *, full: bool) -> list[str]:
    rank = f", rank {cause.rank}" if cause.rank is not None else ""
    head = f"{cause.slug} ({cause.code}, {cause.confidence}{rank}): {one_line(cause.cause, 400)}"
    if not full:
        return [f"also      line {cause.evidence[0].number}: {head}"]
    told = [head]
    told += [
        f"  line {each.number}: {one_line(each.text, _WIDTH)}" for each in cause.evidence[:_SHOWN_EVIDENCE]
    ]
    if cause.place:
        told.append(f"  in your code: {one_line(cause.place, _WIDTH)}")
    told.append(f"  fix: {cause.fix}")
    return told


def document(diagnosis: Diagnosis, sources: tuple[str, ...]) -> dict[str, Any]:
    """Return the documented JSON document."""
    return {
        "schema": SCHEMA,
        "sources": list(sources),
        "verdict": diagnosis.verdict,
        "causes": [
            {
                "code": cause.code,
                "class": cause.slug,
                "confidence": cause.confidence,
                "cause": cause.cause,
                "fix": cause.fix,
                "place": cause.place,
                "rank": cause.rank,
                "evidence": [
                    {"line": each.number, "rank": each.rank, "text": each.text} for each in cause.evidence
                ],
            }
            for cause in diagnosis.causes
        ],
        "warnings": [
            {"code": each.code, "safe": each.safe, "verdict": each.verdict, "line": each.number}
            for each in diagnosis.warnings
        ],
    }
