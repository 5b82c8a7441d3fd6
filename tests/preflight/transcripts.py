"""What is reported of the scripts, logs and hosts of the tests, whole.

`python -m tests.preflight.transcripts` writes it, with names (`scripts logs`) only these. The other tests
compare what they are about, these all that is computed: each place, column, related place, level, number, fix
and command, so that any change shows in `git diff` and is read there. The titles of rules and the fixed text
of signatures are left out.
"""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path

from preflight.checks.runner import load_checks
from preflight.diagnosis.diagnose import diagnose
from preflight.diagnosis.result import Diagnosis
from preflight.diagnosis.signatures.table import find_signature
from preflight.facts.script import CodeLocation, ScriptAnalysis, ScriptParser
from preflight.script.analyze import analyze_script
from preflight.script.lint import LintFinding, lint_for
from preflight.script.target import RankTarget
from tests.preflight.case_limits import limits_transcript
from tests.preflight.diagnosis_logs import whole_logs
from tests.preflight.golden_cases import Case, all_cases
from tests.preflight.log_changes import (
    FORMS,
    LONG_LOGS,
    blanked_transcript,
    changed_logs,
    condensed_transcript,
    form_transcript,
)
from tests.preflight.script_cases import BAD, GOOD, HERE, SNIPPET, judged, read, snippets
from tests.preflight.script_readings import reading_transcript, scripts
from tests.preflight.smi_changes import smi_readings

_HERE = Path(__file__).parent / "transcripts"
_FOUR_RANKS = [RankTarget(capability=each, processes=4, args=()) for each in ((7, 5), (8, 0))]


def script_transcript(path: Path, text: str = "") -> str:
    """Return what lint reports of a script, for its targets and four ranks, and what the planner reads.

    `text` is judged as the file's where it is given.
    """
    source = text or path.read_text(encoding="utf-8")
    four = lint_for(source, str(path), _FOUR_RANKS, certain=True, find=read)
    rows = [_finding(each) for each in judged(path, text).findings]
    rows += [f"4 ranks: {row}" for row in map(_finding, four.findings) if row not in rows]
    rows += _analysis(analyze_script(source, str(path), find=read))
    return "\n".join(rows).replace(f"{path}:", ":").replace(f"{path.parent}/", "").replace(f"{HERE}/", "")


def _finding(finding: LintFinding) -> str:
    places = "".join(f", see {_place(each)}" for each in finding.related)
    part_of = f", part of {_place(finding.part_of)}" if finding.part_of else ""
    row = f"{finding.code} {finding.level.value} {_place(finding.place)}: {finding.message}{places}{part_of}"
    return row if part_of else f"{row}\n  fix: {finding.fix}"


def _place(place: CodeLocation) -> str:
    return f"{place}:{place.column}"


def _analysis(analysis: ScriptAnalysis) -> Iterable[str]:
    """Yield the fields that say something; records one by one, of a line of code only its place."""
    for name in ScriptAnalysis.__dataclass_fields__:
        value = getattr(analysis, name)
        if name == "path" or value in ("", (), None) or (name, value) == ("without_torch", False):
            continue
        if isinstance(value, ScriptParser):
            yield " ".join([f"parser: {_place(value.place)}", *(item.shown for item in value.arguments)])
            continue
        records = value if isinstance(value, tuple) and not isinstance(value[0], str) else (value,)
        for record in records:
            fields = getattr(record, "__dataclass_fields__", None)
            held = [getattr(record, each) for each in fields] if fields else [record]
            yield " ".join([f"{name}:", *map(_value, held)])


def _value(value: object) -> str:
    if isinstance(value, CodeLocation):
        return _place(value)
    line_of_code = re.match(r"/.*\.py:\d+(?=: )", value) if isinstance(value, str) else None
    return line_of_code[0] if line_of_code else repr(value)


def case_transcript(case: Case) -> str:
    """Return every finding of a case, those of other checks too."""
    rows = []
    for each in case.findings:
        flags = [name for name in ("gate", "ignored") if getattr(each, name)]
        rows.append(
            " ".join([each.code, each.severity.value, *flags, *each.hosts, f"{each.subject}:", each.message])
        )
        rows += [f"  {line}" for line in each.fix.splitlines()]
    return "\n".join(rows)


diagnose_once = cache(diagnose)
"""For whole logs, which several tests diagnose."""


def log_transcript(log: str, find: Callable[[str], Diagnosis] = diagnose) -> str:
    """Return the verdict on a log, the causes with place, command and evidence, and the harmless warnings."""
    found = find(log)
    rows = [found.verdict]
    for cause in found.causes:
        whose = f"rank {cause.rank}{cause.host and f' of {cause.host}'}"
        rows.append(f"{cause.code} {cause.slug} {cause.confidence} at {cause.location!r} {whose}")
        row = find_signature(cause.code)
        rows += [f"  cause: {cause.cause}"] if row is None or cause.cause != row.cause else []
        rows += [f"  fix: {cause.fix}"] if row is None or cause.fix != row.fix else []
        rows += [f"  $ {line}" for line in cause.command.splitlines()]
        rows += [f"  {each.line} [{each.rank}] {each.text[:60]!r}" for each in cause.evidence]
    rows += [f"{each.code} {'safe' if each.safe else 'unsafe'} {each.line}" for each in found.warnings]
    return "\n".join(rows)


def log_changes() -> dict[str, Callable[[], str]]:
    """Return {heading: what makes its transcript}: logs without a line, one log in each form, long logs."""
    return {
        **{f"read: {form}": partial(form_transcript, form) for form in FORMS},
        **{
            f"left in blocks of {block}: {name}": partial(condensed_transcript, name, block)
            for name in LONG_LOGS
            for block in (5000, 1 << 20)
        },
        **{
            f"without a line: {heading}": partial(blanked_transcript, log, log_transcript)
            for heading, log in changed_logs().items()
        },
    }


@cache
def kept_transcripts(name: str) -> dict[str, str]:
    """Return {key: transcript} of a file."""
    parts = (_HERE / f"{name}.txt").read_text(encoding="utf-8").split("#### ")[1:]
    return {key: text.rstrip("\n") for key, _, text in (part.partition("\n") for part in parts)}


def _findings() -> dict[str, str]:
    found = {path.relative_to(HERE).as_posix(): script_transcript(path) for path in [*BAD, *GOOD]}
    return found | {name: script_transcript(SNIPPET, text) for name, text in snippets().items()}


def _made(changes: dict[str, Callable[[], str]]) -> dict[str, str]:
    return {heading: make() for heading, make in changes.items()}


WRITTEN: dict[str, Callable[[], dict[str, str]]] = {
    "scripts": _findings,
    "readings": lambda: {heading: reading_transcript(text) for heading, text in scripts().items()},
    "logs": lambda: {key: log_transcript(log, diagnose_once) for key, log in whole_logs().items()},
    "log_changes": lambda: _made(log_changes()),
    "cases": lambda: {str(case): case_transcript(case) for case in all_cases()},
    "limits": lambda: {code: limits_transcript(code) for code in sorted(load_checks())},
    "smi": lambda: _made(smi_readings()),
}


WRITES_ANEW = "read what python -m tests.preflight.transcripts changes, in git diff"


def changed_transcripts(name: str) -> dict[str, tuple[str | None, str | None]]:
    """Return {key: (transcript now, kept one)} where they differ; None is for one that is missing."""
    made, kept = WRITTEN[name](), kept_transcripts(name)
    both = ((key, (made.get(key), kept.get(key))) for key in {**kept, **made})
    return {key: pair for key, pair in both if pair[0] != pair[1]}


def main(names: Sequence[str]) -> None:
    """Write the transcripts of these names, or all."""
    for name in names or WRITTEN:
        text = "".join(f"#### {key}\n{value}\n" for key, value in WRITTEN[name]().items())
        (_HERE / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
