"""Judges a training script by reading it: `gpulaunch lint`, and part of every preflight with a script."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.bounds import pause_collector
from preflight.script.findings import LintFinding as LintFinding  # noqa: PLC0414 - what lint() returns
from preflight.script.findings import LintResult as LintResult  # noqa: PLC0414
from preflight.script.findings import list_places
from preflight.script.optional_branches import find_behind_options
from preflight.script.rules.all_rules import RULES
from preflight.script.rules.certainty import OF_OLD_GPUS, SEVERITY, concerns_target
from preflight.script.rules.registry import Level, RuleHit
from preflight.script.source import Finder, Source, Sources, spawns_ranks
from preflight.script.syntax_trees import Parser
from preflight.script.target import ASSUMED_CAPABILITIES, RankTarget, differ_by_gpu
from preflight.script.target_run import TargetRun, read_as

_IGNORE = re.compile(r"#\s*gpulaunch:\s*ignore(?:\[([A-Z0-9,\s]+)\])?")


def lint(
    text: str, path: str, targets: Sequence[RankTarget] | None = None, *, find: Finder | None = None
) -> LintResult:
    """Return the faults of a script, by place.

    `targets` are the kinds of ranks it will run as: one per compute capability of the launch. None: it is
    read for GPUs before and from Ampere on, and what depends on that is at most a warning. `find` reads the
    script's own modules. The script is never executed.
    """
    known = targets is not None
    kinds = (
        list(targets)
        if targets is not None
        else [RankTarget(capability=probe) for probe in ASSUMED_CAPABILITIES]
    )
    return lint_for(text, path, kinds, certain=known, find=find)


@pause_collector()
def lint_for(
    text: str,
    path: str,
    targets: Sequence[RankTarget],
    *,
    certain: bool,
    find: Finder | None = None,
    parser: Parser | None = None,
) -> LintResult:
    """Return the faults; `certain` False: capabilities are guesses; `parser`: trees of texts read before."""
    try:
        return _judge(text, path, targets, certain=certain, find=find, parser=parser or Parser())
    except SyntaxError as error:
        return judge_syntax_error(path, error)
    except (RecursionError, MemoryError):
        return LintResult((), (f"{path}: cannot be read: nested too deeply",), (path,))
    except ValueError as error:
        return LintResult((), (f"{path}: cannot be read: {error}",), (path,))
    except (ArithmeticError, LookupError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        return LintResult((), (f"{path}: not judged, through a fault of the linter ({why})",), (path,))


def _judge(
    text: str, path: str, targets: Sequence[RankTarget], *, certain: bool, find: Finder | None, parser: Parser
) -> LintResult:
    fresh = partial(Sources, lru_cache(maxsize=None)(find) if find else None, parser)
    if any(target.processes is None for target in targets):
        source = fresh().add(path, text)
        if spawns_ranks(source, parser):
            targets = [replace(target, spawns=True) for target in targets]

    def read(kind: RankTarget) -> TargetRun:
        return read_as(fresh(), text, path, kind)

    def findings(kind: RankTarget, run: TargetRun) -> list[LintFinding]:
        return _merged((kind,), (run,), certain=True)

    readings = _readings(targets, read)
    with_switches = find_behind_options(targets[-1], readings[-1], read, findings)
    problems = readings[0].sources.problems
    alone = () if with_switches else _read_rest(readings, targets, read)
    for reading in readings:
        reading.read_rest = list  # which holds the reading in turn: a circle of all that was read
    merged = _merged(targets, readings, certain=certain)
    merged += _disagreements(targets, readings, certain=certain)
    sources = readings[0].sources
    worse = list_places([item for item in with_switches if item.level is not Level.INFO])
    merged = [item for item in merged if (item.code, item.place) not in worse]
    merged += [item for item in with_switches if (item.code, item.place) not in list_places(merged)]
    merged += [*_notebook_lines(sources), *_newer_syntax(parser)]
    merged += _other_halves(merged)
    shown = [item for item in merged if not _ignored(item, sources)]
    problems += [item for reading in readings for item in reading.excesses]
    if not all(reading.complete for reading in readings):
        problems.append(f"{path}: too many paths; what was not followed is not judged")
    order = sorted(shown, key=lambda item: (item.place.path != path, *_position(item.place), item.code))
    files = tuple(source.path for source in sources.files())
    return LintResult(tuple(order), tuple(dict.fromkeys(problems)), files, alone)


def _read_rest(
    readings: list[TargetRun], targets: Sequence[RankTarget], read: Callable[[RankTarget], TargetRun]
) -> tuple[str, ...]:
    """Read what may train and was not reached, where nothing trains that was; return the names of it."""
    if any(reading.reached or not reading.complete for reading in readings):
        return ()
    names: dict[str, None] = {}
    done: set[int] = set()
    for number, target in enumerate(targets):
        if id(readings[number]) in done and readings[number].asked_gpu:
            readings[number] = read(target)  # the rest asks what nothing before it did
        if id(readings[number]) not in done:
            done.add(id(readings[number]))
            names |= dict.fromkeys(readings[number].read_rest())
    return tuple(names)


_MISTAKES = (
    (r"\n(?:<{7}|={7}|>{7})", "keep one side of the merge, and remove its <<<<<<<, ======= and >>>>>>>"),
    (r"\basync *=", "non_blocking= in place of async=, which is a keyword from Python 3.7 on"),
    (r"\n(?:print|exec) [^=(]|\nexcept [\w.]+, ", "write it for Python 3: this is Python 2"),
    (
        r"is not utf-8|invalid or missing encoding",
        "save it as UTF-8, or declare its encoding in line 1: # -*- coding: latin-1 -*-",
    ),
    (r"indent", "indent the line as the block that it belongs to"),
)
"""What a line that is not Python often has, and what to do about it."""


def judge_syntax_error(path: str, error: SyntaxError) -> LintResult:
    """Return the result for a script that is not Python: it was not judged, and that is not a pass."""
    place = CodeLocation(path, error.lineno or 1, max(1, error.offset or 1))
    is_batch = path.endswith((".sh", ".bash", ".sbatch", ".slurm", ".job", ".sub"))
    line = (error.text or "").strip()
    known = (fix for form, fix in _MISTAKES if re.search(form, f"{error.msg}\n{line}"))
    fix = "lint the script that it starts" if is_batch else next(known, "repair the line, or that before it")
    fix = f"gpulaunch diagnose {path} judges a log" if path.endswith((".log", ".out", ".err")) else fix
    found = LintFinding("P100", Level.ERROR, place, RULES["P100"].title, f"not Python: {error.msg}", fix)
    return LintResult((found,), (f"{place}: not Python: {error.msg}",), (path,))


def _notebook_lines(sources: Sources) -> list[LintFinding]:
    message, fix = "not Python: a line of a notebook", "remove it, or export without magics"
    title = RULES["P100"].title
    return [LintFinding("P100", Level.ERROR, place, title, message, fix) for place in sources.magics]


def _newer_syntax(parser: Parser) -> list[LintFinding]:
    """Return where a file needs a newer Python than the one that reads it: the training may run on one."""
    found = []
    for path, error in parser.newer.items():
        place = CodeLocation(path, error.lineno or 1, max(1, error.offset or 1))
        message = f"Python 3.12 or newer reads this, and an older one stops at it: {error.msg}"
        fix = "Python 3.12 or newer on the hosts, or the older spelling"
        found.append(LintFinding("P100", Level.INFO, place, RULES["P100"].title, message, fix))
    return found


def _position(place: CodeLocation) -> tuple[str, int, int]:
    return place.path, place.line, place.column


def _readings(targets: Sequence[RankTarget], read: Callable[[RankTarget], TargetRun]) -> list[TargetRun]:
    """Return a reading for each target; most scripts read the same whatever the GPU, and need only one."""
    readings: list[TargetRun] = []
    for target in targets:
        same = (
            reading
            for known, reading in zip(targets, readings, strict=False)
            if not reading.asked_gpu and differ_by_gpu(known, target)
        )
        readings.append(next(same, None) or read(target))
    return readings


def _merged(
    targets: Sequence[RankTarget], readings: Sequence[TargetRun], *, certain: bool
) -> list[LintFinding]:
    keys = dict.fromkeys(key for reading in readings for key in reading.hits)
    found = []
    for code, place in keys:
        where = [
            (target, reading.hits[code, place])
            for target, reading in zip(targets, readings, strict=True)
            if (code, place) in reading.hits and concerns_target(target, code)
        ]
        if not where:
            continue
        hits = [hit for _, hit in where]
        worst = max(hits, key=lambda hit: SEVERITY.index(hit.level))
        if len(hits) < len(readings):
            worst = _only_some(worst, code, [target for target, _ in where], certain=certain)
        related = _elsewhere(place, [spot for hit in hits for spot in hit.related])
        title = RULES[code].title
        found.append(LintFinding(code, worst.level, place, title, worst.message, worst.fix, related))
    return found


def _only_some(hit: RuleHit, code: str, where: Sequence[RankTarget], *, certain: bool) -> RuleHit:
    if certain:
        names = ", ".join(_capability(target) for target in where)
        return replace(hit, message=f"{hit.message} (on {names})")
    level = Level.WARNING if hit.level is Level.ERROR and code not in OF_OLD_GPUS else Level.INFO
    kind = "GPUs before Ampere" if all(target.before_ampere for target in where) else "Ampere and newer GPUs"
    return replace(hit, level=level, message=f"{hit.message} (on {kind})")


def _other_halves(found: Sequence[LintFinding]) -> list[LintFinding]:
    """Return an info at the other half of each fault of two places, beside the one where it is judged."""
    reported = {(item.code, item.place.path, item.place.line) for item in found}
    halves: dict[tuple[str, str, int], LintFinding] = {}
    for item in found:
        for place in item.related:
            key = (item.code, place.path, place.line)
            if key not in reported:
                message = f"part of {item.code} at {item.place}: {item.message}"
                other = replace(item, place=place, related=(), part_of=item.place)
                halves.setdefault(key, replace(other, level=Level.INFO, message=message))
    return list(halves.values())


def _elsewhere(place: CodeLocation, related: Sequence[CodeLocation]) -> tuple[CodeLocation, ...]:
    """Return the places that are on another line, each line once."""
    lines = {(spot.path, spot.line): spot for spot in related}
    return tuple(spot for line, spot in lines.items() if line != (place.path, place.line))


def _capability(target: RankTarget) -> str:
    return "CPU" if target.capability is None else "compute capability {}.{}".format(*target.capability)


def _disagreements(
    targets: Sequence[RankTarget], readings: Sequence[TargetRun], *, certain: bool
) -> list[LintFinding]:
    """P120: the script chooses its precision from the GPU of this process, so ranks may disagree."""
    found = []
    places = dict.fromkeys(place for reading in readings for place in reading.requested)
    for place in places:
        values = [reading.requested[place] for reading in readings if place in reading.requested]
        if len(set(values)) < 2:
            continue
        level = Level.ERROR if certain and len(targets) > 1 else Level.INFO
        message = "each rank chooses its precision from its own GPU, so unlike GPUs disagree"
        fix = "decide once, in the launch: leave the argument out"
        related = next(reading.parts[place] for reading in readings if place in reading.parts)
        found.append(
            LintFinding("P120", level, place, RULES["P120"].title, message, fix, _elsewhere(place, related))
        )
    return found


def _ignored(finding: LintFinding, sources: Sources) -> bool:
    source: Source | None = sources.get(finding.place.path)
    lines = source.lines if source else ()
    if not 0 < finding.place.line <= len(lines):
        return False
    match = _IGNORE.search(lines[finding.place.line - 1])
    if match is None:
        return False
    return match[1] is None or finding.code in re.split(r"[,\s]+", match[1].strip())
