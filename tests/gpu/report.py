"""The report of a run of the suite: a page for docs/hardware, with its JSON in it."""

import json
import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.gpu.ledger import Observation, Verdict, as_json
from tests.gpu.suite import Result, Status

SCHEMA = "gpulaunch.gpu-suite/1"


def machine(smi_facts: Mapping[str, str], torch: Mapping[str, Any], commit: str) -> dict[str, str]:
    """Return what the report says of the machine; no name of host or user, no UUID."""
    built = torch.get("error") or f"{torch.get('version')}, CUDA {torch.get('cuda')}"
    return {
        **smi_facts,
        "torch": str(built),
        "Python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "commit": commit,
    }


def document(about: Mapping[str, str], results: Sequence[Result], seconds: float) -> dict[str, Any]:
    """Return the report as JSON."""
    return {
        "schema": SCHEMA,
        "machine": dict(about),
        "seconds": round(seconds, 1),
        "counts": dict(Counter(each.status.value for each in results)),
        "cases": [
            {
                "name": each.name,
                "title": each.title,
                "status": each.status.value,
                "seconds": round(each.seconds, 1),
                "reason": each.reason,
                "observations": [as_json(one) for one in each.observations],
            }
            for each in results
        ],
    }


def page(
    title: str, about: Mapping[str, str], results: Sequence[Result], seconds: float, *, complete: bool
) -> str:
    """Return the report as Markdown. What the machine said is in code spans, so that it formats nothing."""
    counts = Counter(each.status for each in results)
    text = ", ".join(f"{counts[status]} {status.value}" for status in Status)
    unfinished = "" if complete else " **The suite has not ended: cases are missing.**"
    lines = [f"# {title}", "", f"`make test-gpu`: {text}, in {seconds:.0f} s.{unfinished}", ""]
    lines += ["| | |", "|---|---|", *(f"| {key} | {_code(value)} |" for key, value in about.items()), ""]
    lines += ["| case | result | s | |", "|---|---|---|---|"]
    lines += [
        f"| [{each.name}](#{each.name}) | {each.status.value} | {each.seconds:.0f} | {_code(each.reason)} |"
        for each in results
    ]
    for each in results:
        lines += ["", f"## {each.name}", "", f"{each.title}: {each.status.value}."]
        if each.reason:
            lines += ["", _code(each.reason)]
        lines += ["", *_table(each.observations)]
    return "\n".join(_without_double_blanks(lines)) + "\n"


def _table(seen: Sequence[Observation]) -> Iterable[str]:
    if not seen:
        return
    yield "| | observed | expected | |"
    yield "|---|---|---|---|"
    for each in seen:
        cells = (_plain(each.what), _code(each.observed), _code(each.expected), WORDS[each.verdict])
        yield f"| {' | '.join(cells)} |"


WORDS = {Verdict.OK: "ok", Verdict.WRONG: "**wrong**", Verdict.UNABLE: "cannot say", Verdict.NOTE: ""}


def _code(text: str) -> str:
    """Return a code span that no text can leave, in a table cell."""
    clean = _plain(text).replace("`", "'")
    return f"`{clean}`" if clean else ""


def _plain(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text).replace("|", "/").strip()


def _without_double_blanks(lines: Sequence[str]) -> Iterable[str]:
    before = ""
    for line in lines:
        if line or before:
            yield line
        before = line


def to_json(found: Mapping[str, Any]) -> str:
    """Return the text of the JSON file."""
    return json.dumps(found, indent=1) + "\n"
