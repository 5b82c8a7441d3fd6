"""How right lint and diagnose are on public scripts and logs: false errors, missed faults, calibration.

    python -m bench.judgement fetch             # texts of repositories, once
    python -m bench.judgement                   # both tools on the set to work on
    python -m bench.judgement lint --set held   # the set that is looked at once a week
    python -m bench.judgement diagnose --each   # what was wrong, log by log

Texts lie outside the repository (--texts); a label without its text is counted as absent and
is no part of a figure.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import judgement_texts as sets
from bench.common import Target, tell
from bench.judgement_faults import plant
from bench.judgement_plants import PlantedFault
from bench.judgement_texts import BENIGN, LogLabel, ScriptLabel
from launcher.local.source_files import read_source
from preflight.diagnosis.diagnose import diagnose
from preflight.diagnosis.result import Diagnosis
from preflight.script.lint import LintFinding, lint_for
from preflight.script.rules.registry import Level
from preflight.script.target import RankTarget

TEXTS = Path.home() / ".cache" / "gpulaunch-judgement"
GITHUB = "https://github.com/{owner}/{name}.git"
VERSIONS = frozenset({"V301", "V302", "V304"})
"""True of some versions and not of others; a script is labelled for the one it was written for."""
MEASURED = (Level.ERROR, Level.WARNING)
_RANKS = 4
_AMPERE = (8, 0)


@dataclass(slots=True)
class LintScore:
    """What lint said of a set of scripts. Counters are by code."""

    scripts: int = 0
    absent: int = 0
    correct: int = 0
    required: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    false: dict[Level, Counter[str]] = field(default_factory=lambda: {level: Counter() for level in MEASURED})
    blamed: dict[Level, int] = field(default_factory=lambda: dict.fromkeys(MEASURED, 0))
    planted: Counter[str] = field(default_factory=Counter)
    reported: Counter[str] = field(default_factory=Counter)
    each: list[str] = field(default_factory=list)
    lines: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class DiagnosisScore:
    """What diagnose said of a set of logs. `said` and `right` count first causes by confidence."""

    logs: int = 0
    absent: int = 0
    failed: int = 0
    first: int = 0
    among_three: int = 0
    healthy: int = 0
    cleared: int = 0
    said: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    by_cause: Counter[str] = field(default_factory=Counter)
    first_by_cause: Counter[str] = field(default_factory=Counter)
    each: list[str] = field(default_factory=list)


def main() -> int:
    """Measure and print; return 1 where a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", default="both", choices=("both", "lint", "diagnose", "fetch"))
    parser.add_argument("--set", dest="part", default="work", choices=("work", "held"), help="which set")
    parser.add_argument("--texts", type=Path, default=TEXTS, metavar="DIR", help="where the texts lie")
    parser.add_argument(
        "--from", dest="source", default=GITHUB, metavar="URL", help="with fetch: {owner}, {name}"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only repositories with this in their names"
    )
    parser.add_argument("--each", action="store_true", help="name what was wrong")
    given = parser.parse_args()
    if given.what == "fetch":
        failed = sets.fetch(given.texts, given.source)
        print("\n".join(failed))
        return int(bool(failed))
    targets: list[Target] = []
    if given.what in ("both", "lint"):
        scripts = score_scripts(
            [
                each
                for each in sets.script_labels()
                if each.part == given.part and given.only in each.repository
            ],
            given.texts,
        )
        print("\n".join([*lint_lines(scripts), *(scripts.each if given.each else ())]))
        targets += lint_targets(scripts)
    if given.what in ("both", "diagnose"):
        logs = score_logs(
            [each for each in sets.log_labels() if each.part == given.part and given.only in each.repository],
            given.texts,
        )
        print("\n".join([*diagnosis_lines(logs), *(logs.each if given.each else ())]))
        targets += diagnosis_targets(logs)
    return tell(targets)


def score_scripts(labels: Sequence[ScriptLabel], texts: Path) -> LintScore:
    """Lint each script as it is launched, then with each fault that can be planted in it."""
    score = LintScore()
    for label in labels:
        path = sets.script_path(texts, label)
        text = read_source(str(path))
        if text is None:
            score.absent += 1
            continue
        _score_script(score, label, text, path)
        before = {(item.code, item.place.line) for item in _lint(text, path, _target(label))}
        if label.launch == "ranks":
            for fault in plant(text):
                _score_plant(score, label, path, fault, before)
    return score


def _target(label: ScriptLabel) -> RankTarget:
    return RankTarget(capability=_AMPERE, processes=_RANKS if label.launch == "ranks" else 1)


def _lint(text: str, path: Path, target: RankTarget) -> list[LintFinding]:
    found = lint_for(text, str(path), [target], certain=True, find=read_source).findings
    return [item for item in found if item.level in MEASURED]


def _score_script(score: LintScore, label: ScriptLabel, text: str, path: Path) -> None:
    score.scripts += 1
    started = time.process_time()
    result = lint_for(text, str(path), [_target(label)], certain=True, find=read_source)
    score.seconds += time.process_time() - started
    score.lines += sum((read_source(name) or "").count("\n") for name in result.files)
    found = [item for item in result.findings if item.level in MEASURED]
    codes = {item.code for item in found}
    score.required.update(label.required)
    score.found.update(label.required & codes)
    for code in sorted(label.required - codes):
        score.each.append(f"missed   {label.repository} {label.path}: {code}")
    right = label.required | label.tolerated | VERSIONS
    false = [item for item in found if item.code not in right]
    for level in MEASURED:
        of_level = [item for item in false if item.level is level]
        score.false[level].update(item.code for item in of_level)
        score.blamed[level] += bool(of_level)
    for item in false:
        place = f"{item.place.path.removeprefix(str(path.parent))}:{item.place.line}"
        score.each.append(
            f"false {item.level.value} {label.repository} {label.path} {place}: {item.code} {item.message}"
        )


def _score_plant(
    score: LintScore, label: ScriptLabel, path: Path, fault: PlantedFault, before: set[tuple[str, int]]
) -> None:
    score.planted[fault.kind] += 1
    target = RankTarget(_AMPERE, _RANKS, fault.launch)
    found = lint_for(fault.text, str(path), [target], certain=True, find=read_source).findings
    places = {
        spot.line
        for item in found
        if item.code in fault.codes and item.level in MEASURED and (item.code, item.place.line) not in before
        for spot in (item.place, *item.related)
    }
    if any(abs(line - fault.line) <= 1 for line in places):
        score.reported[fault.kind] += 1
    else:
        score.each.append(f"missed   {label.repository} {label.path}:{fault.line}: planted {fault.kind}")


def lint_lines(score: LintScore) -> Iterator[str]:
    """Yield what is printed of a lint score, by code and severity."""
    yield f"lint: {score.scripts} scripts, {score.absent} absent"
    for level in MEASURED:
        counts = ", ".join(f"{code} {count}" for code, count in sorted(score.false[level].items())) or "none"
        yield f"  false {level.value}s: in {score.blamed[level]} scripts; by code: {counts}"
    for code, count in sorted(score.required.items()):
        yield f"  {code}: {score.found[code]} of {count} labelled faults reported"
    for kind, count in sorted(score.planted.items()):
        yield f"  {kind}: {score.reported[kind]} of {count} planted faults reported"
    per_line = 1e6 * score.seconds / max(1, score.lines)
    yield f"  {per_line:.1f} ms of CPU per 1,000 lines, those of imported own modules included"


def lint_targets(score: LintScore) -> list[Target]:
    """Return the goals of lint with what was measured; none without scripts."""
    if not score.scripts:
        return []
    wanted = score.required.total() + score.planted.total()
    reported = score.found.total() + score.reported.total()
    return [
        Target("lint: scripts with a false error", score.blamed[Level.ERROR] / score.scripts, 0.01),
        Target("lint: scripts with a false warning", score.blamed[Level.WARNING] / score.scripts, 0.03),
        Target("lint: faults reported", reported / max(1, wanted), 0.95, at_least=True),
    ]


def score_logs(labels: Sequence[LogLabel], texts: Path) -> DiagnosisScore:
    """Diagnose each log and compare its causes with the label's."""
    score = DiagnosisScore()
    for label in labels:
        text = sets.read_log(texts, label)
        if text is None:
            score.absent += 1
            continue
        _score_log(score, label, diagnose(text))
    return score


def _score_log(score: DiagnosisScore, label: LogLabel, found: Diagnosis) -> None:
    score.logs += 1
    names = [{cause.code, cause.slug} for cause in found.causes]
    confidence = found.causes[0].confidence if found.causes else ""
    if label.causes == {BENIGN}:
        score.healthy += 1
        right = found.verdict == BENIGN
        score.cleared += right
    else:
        score.failed += 1
        names = names or [{found.verdict}]
        right = bool(names[0] & label.causes)
        among_three = any(name & label.causes for name in names[:3])
        score.first += right
        score.among_three += among_three
        cause = min(label.causes)
        score.by_cause[cause] += 1
        score.first_by_cause[cause] += right
    if confidence:
        score.said[confidence] += 1
        score.right[confidence] += right
    if not right:
        said = ", ".join(f"{each.code} {each.confidence}" for each in found.causes[:3]) or found.verdict
        score.each.append(f"wrong    {label.name}: {said}; labelled {'|'.join(sorted(label.causes))}")


def diagnosis_lines(score: DiagnosisScore) -> Iterator[str]:
    """Yield what is printed of a diagnosis score, by cause and confidence."""
    kinds = f"{score.failed} failed, {score.healthy} healthy"
    yield f"diagnose: {score.logs} logs, {score.absent} absent; {kinds}"
    yield f"  healthy and called so: {score.cleared} of {score.healthy}"
    for word in ("certain", "likely", "possible"):
        yield f"  {word}: {score.right[word]} of {score.said[word]} right"
    for cause, count in sorted(score.by_cause.items()):
        yield f"  {cause}: first in {score.first_by_cause[cause]} of {count}"


def diagnosis_targets(score: DiagnosisScore) -> list[Target]:
    """Return the goals of diagnose with what was measured; none without logs."""
    if not score.logs:
        return []
    said, right = score.said, score.right
    shares = [
        ("diagnose: right cause first", score.first, score.failed, 0.95),
        ("diagnose: right cause among three", score.among_three, score.failed, 0.99),
        ("diagnose: healthy logs called so", score.cleared, score.healthy, 1.0),
        ("diagnose: certain and right", right["certain"], said["certain"], 0.99),
        ("diagnose: likely and right", right["likely"], said["likely"], 0.85),
    ]
    return [Target(name, part / whole, goal, at_least=True) for name, part, whole, goal in shares if whole]


if __name__ == "__main__":
    sys.exit(main())
