"""What lint found, for people (with the source), for programs (JSON) and for code hosts (SARIF)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from launcher.version import read_version
from preflight.facts.script import CodeLocation
from preflight.script.lint import LintFinding, LintResult
from preflight.script.rules.registry import RULES, Level

LINT_SCHEMA = "gpulaunch.lint/1"
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

Lines = Callable[[str], Sequence[str]]  # returns the lines of a file that was read

_SARIF_LEVEL = {Level.ERROR: "error", Level.WARNING: "warning", Level.INFO: "note"}


def lint_lines(results: Sequence[LintResult], lines: Lines) -> list[str]:
    """Return findings as `file:line:col CODE message` with excerpt, reason and fix, and a closing line."""
    parts: list[str] = []
    shown = [item for result in results for item in result.findings if item.part_of is None]
    for finding in shown:
        parts += [*_finding_lines(finding, lines), ""]
    parts += [f"not judged: {problem}" for result in results for problem in result.problems]
    parts += [
        f"no training was reached; read as if the script used it: {', '.join(result.read_alone)}"
        for result in results
        if result.read_alone
    ]
    judged = not any(result.problems for result in results)
    parts.append(_summary(shown, judged=judged))
    return parts


def lint_json(results: Sequence[LintResult]) -> dict[str, Any]:
    """Return findings as plain JSON types, schema gpulaunch.lint/1."""
    return {
        "schema": LINT_SCHEMA,
        "findings": [_json(item) for result in results for item in result.findings],
        "problems": [problem for result in results for problem in result.problems],
        "read_alone": [name for result in results for name in result.read_alone],
        "files": [path for result in results for path in result.files],
    }


def render_sarif(results: Sequence[LintResult]) -> dict[str, Any]:
    """Return findings as SARIF 2.1.0."""
    codes = sorted({item.code for result in results for item in result.findings})
    driver = {
        "name": "gpulaunch",
        "version": read_version(),
        "rules": [{"id": code, "shortDescription": {"text": RULES[code].title}} for code in codes],
    }
    found = [_sarif_result(item) for result in results for item in result.findings if item.part_of is None]
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "invocations": [_invocation(results)], "results": found}],
    }


def _invocation(results: Sequence[LintResult]) -> dict[str, Any]:
    """What was not judged: SARIF's place for a tool that could not do all of its work."""
    problems = [problem for result in results for problem in result.problems]
    notifications = [
        {"level": "error", "message": {"text": f"not judged: {problem}"}} for problem in problems
    ]
    return {"executionSuccessful": not problems, "toolExecutionNotifications": notifications}


def _finding_lines(finding: LintFinding, lines: Lines) -> Iterator[str]:
    place = finding.place
    yield f"{place}:{place.column} {finding.code} {finding.level.value}: {finding.message}"
    text = lines(place.path)
    if 0 < place.line <= len(text):
        source = text[place.line - 1]
        indent = len(source) - len(source.lstrip())
        yield f"    | {source.strip()}"
        yield f"    | {' ' * max(0, place.column - 1 - indent)}^"
    for spot in finding.related:
        yield f"    see: {spot}:{spot.column}{_excerpt(spot, lines)}"
    yield f"    why: {finding.title}"
    if finding.fix:
        yield f"    fix: {finding.fix}"


def _excerpt(place: CodeLocation, lines: Lines) -> str:
    text = lines(place.path)
    return f"  {text[place.line - 1].strip()}" if 0 < place.line <= len(text) else ""


def _summary(found: Sequence[LintFinding], *, judged: bool) -> str:
    if not found:
        return "no faults found" if judged else "no faults found in what was judged"
    counts = [(sum(item.level is level for item in found), level.value) for level in reversed(Level)]
    words = [
        f"{number} {name}{'s' if number != 1 and name != 'info' else ''}" for number, name in counts if number
    ]
    return f"{', '.join(words)}; gpulaunch explain CODE says more"


def _json(finding: LintFinding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.level.value,
        "file": finding.place.path,
        "line": finding.place.line,
        "column": finding.place.column,
        "message": finding.message,
        "why": finding.title,
        "fix": finding.fix,
        "related": [
            {"file": spot.path, "line": spot.line, "column": spot.column} for spot in finding.related
        ],
        "part_of": str(finding.part_of) if finding.part_of else "",
    }


def _sarif_result(finding: LintFinding) -> dict[str, Any]:
    message = f"{finding.message}. Fix: {finding.fix}" if finding.fix else finding.message
    return {
        "ruleId": finding.code,
        "level": _SARIF_LEVEL[finding.level],
        "message": {"text": message},
        "locations": [_location(finding.place)],
        "relatedLocations": [_location(spot) for spot in finding.related],
    }


def _location(place: CodeLocation) -> dict[str, Any]:
    region = {"startLine": place.line, "startColumn": place.column}
    return {"physicalLocation": {"artifactLocation": {"uri": place.path}, "region": region}}
