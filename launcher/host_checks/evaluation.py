"""Facts judged: the findings of each host and of all together, and what a launch would use. Pure.

What this module imports is most of a preflight; it is loaded while the first host answers.
"""

import hashlib
import posixpath
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from launcher.config.host_access_args import complete_commands
from launcher.config.host_ranges import expand_or_empty, split_ranges
from launcher.config.inventory import HostEntry
from launcher.config.node_sets import fold_hosts, format_host_range
from launcher.config.slurm_options import is_inside_job
from launcher.engines.choice import choose_engine
from launcher.errors import GpulaunchError, HostError
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.host_checks.result import LaunchPreview, PreflightResult
from launcher.planning.main_address_and_port import list_taken_ports
from launcher.planning.planner import LaunchDecisions, build_own_environment, decide_launch
from launcher.remote.agent import GatherResult
from launcher.text import count_noun
from preflight.checks.finding import Finding, Severity, blocks_launch
from preflight.checks.registry import CHECKS, ClockOffset
from preflight.checks.runner import PlannedLaunch, check_cluster, check_host, list_checks_without_facts
from preflight.decide.gpu_signs import resolve_gpus
from preflight.facts.host import HostFacts, Reach, ScriptFacts
from preflight.facts.missing import Missing
from preflight.facts.script import ScriptAnalysis
from preflight.job import Job

_MOST_NAMED = 4
_OF_SSH = frozenset(f"HOST{number:03}" for number in range(2, 8))


def evaluate_facts(
    entries: Sequence[HostEntry],
    gathered: GatherResult,
    job: Job,
    *,
    reach: tuple[Reach, ...] = (),
    options: PreflightOptions | None = None,
    clocks: Mapping[str, ClockOffset] | None = None,
) -> PreflightResult:
    """Judge what was gathered; pure."""
    how = options or PreflightOptions()
    gathered = _after_transfer(entries, gathered, job, how)
    facts = gathered.facts
    main = entries[0].name
    is_launch = how.as_one_launch and not how.from_file
    is_read = is_launch and main in facts
    planned = read_script(entries[0], facts[main], job, how.tree) if is_read else PlannedLaunch()
    script = planned.script
    reached = replace(job, receives_tree=how.makes_workdir, logins=gathered.logins)
    settled = resolve_gpus(reached, facts.values())
    if script is not None or job.script or job.module:
        settled, _ = choose_engine(settled, script, facts.values())
    use, decided = _would_use(entries, gathered, settled, script, reach) if is_launch else (None, None)
    settled = _without_needless_torch(settled, job, script, decided)
    ignored = {entry.name: how.ignore | entry.ignore for entry in entries}
    findings: list[Finding] = [_from_error(error, ignored[name]) for name, error in gathered.errors.items()]
    ordered = {entry.name: facts[entry.name] for entry in entries if entry.name in facts}
    findings += _check_hosts(entries, ordered, settled, how)
    if use is not None:
        findings += check_cluster(
            ordered,
            settled if decided is None else replace(settled, accelerate_config=decided.job.accelerate_config),
            reach,
            expect={entry.name: entry.expect for entry in entries},
            clocks=clocks or {},
            launch=replace(
                planned,
                ranks={} if decided is None else decided.ranks,
                allowed={entry.name: entry.gpus for entry in entries},
            ),
            ignore=ignored,
        )
        bad = {name for each in findings if blocks_launch(each) for name in each.hosts}.union(gathered.errors)
        if bad and not use.fix:
            use = replace(use, fix=name_others(entries, bad))
    return PreflightResult(
        job=settled,
        entries=tuple(entries),
        facts=ordered,
        errors=dict(gathered.errors),
        reach=reach,
        findings=_in_table_order(_complete(findings, how.access_words)),
        seconds=0.0,
        would_use=use and replace(use, fix=complete_commands(use.fix, how.access_words)),
        not_collected=_not_collected(ordered, settled) if how.from_file else (),
        script=script,
    )


def _check_hosts(
    entries: Sequence[HostEntry], facts: Mapping[str, HostFacts], job: Job, how: PreflightOptions
) -> Iterator[Finding]:
    """Yield the findings about one host each, for the variables that its ranks would get."""
    nodes = len(entries) if how.as_one_launch else 1
    for number, entry in enumerate(entries):
        if entry.name not in facts:
            continue
        host = facts[entry.name]
        yield from check_host(
            host,
            replace(job, env=build_own_environment(entry, host, job, nodes=nodes)),
            entry.expect,
            ignore=how.ignore | entry.ignore,
            allowed=entry.gpus,
            node="only" if nodes == 1 else "other" if number else "main",
            asked_only=how.from_file,
        )


def _without_needless_torch(
    settled: Job, original: Job, script: ScriptAnalysis | None, decided: LaunchDecisions | None
) -> Job:
    """Return the job with what it needs, where its script does without torch.

    Several ranks need torch's launcher all the same, and so does one rank whose launcher the user asks for.
    The number of ranks of a launch that is refused is not known.
    """
    if script is None or not script.without_torch or settled.engine is None:
        return settled
    named = original.engine is not None and not original.command.launched_by
    asked = named or bool(original.command.launcher_args or original.accelerate_config)
    if decided is not None:
        asked = asked or decided.world.size > 1 or bool(decided.job.accelerate_config)
    engine = settled.engine if asked else replace(settled.engine, packages=())
    return replace(settled, engine=engine, uses_torch=False)


def _complete(findings: Sequence[Finding], words: tuple[str, ...]) -> Sequence[Finding]:
    """Return findings whose fixes can be typed as they are."""
    if not words:
        return findings
    return [replace(finding, fix=complete_commands(finding.fix, words)) for finding in findings]


def _after_transfer(
    entries: Sequence[HostEntry], gathered: GatherResult, job: Job, options: PreflightOptions
) -> GatherResult:
    """Return the facts as they are once the script or the tree has arrived, a module's file among them."""
    arriving = options.sent or options.script_after_sync
    facts = dict(gathered.facts)
    for entry in (entry for entry in entries if entry.name in facts):
        found = (arriving.name, arriving.text) if arriving else _find_module(entry, job, options.tree)
        if found:
            raw = found[1].encode()
            script = ScriptFacts(found[0], hashlib.sha256(raw).hexdigest(), len(raw), found[1])
            facts[entry.name] = replace(facts[entry.name], script=script)
    return replace(gathered, facts=facts)


def _find_module(entry: HostEntry, job: Job, tree: Path | None) -> tuple[str, str] | None:
    """Return path and text of the module that a job runs (`-m`); None: its file is not on this machine."""
    here = job.directory_in(entry.workdir or str(Path.cwd())) if entry.is_local else ""
    if not job.module or not (entry.is_local or tree):
        return None
    from launcher.local.source_files import read_source  # noqa: PLC0415 - as below

    folder = posixpath.expanduser(here or str(tree))
    stem = job.module.replace(".", "/")
    for path in (f"{stem}.py", f"{stem}/__main__.py"):
        text = read_source(posixpath.join(folder, path))
        if text is not None:
            return posixpath.join(posixpath.expanduser(here), path), text
    return None


def _from_error(error: HostError, ignore: frozenset[str]) -> Finding:
    """Turn a host that could not be used into a finding with the error's own code."""
    by_step = "; a node of this Slurm job needs no ssh: --transport srun"
    return Finding(
        code=error.code,
        severity=Severity.CRITICAL,
        hosts=(error.host,),
        subject="",
        message=error.detail,
        fix=error.fix + by_step * (is_inside_job() and error.code in _OF_SSH),
        gate=True,
        ignored=error.code in ignore,
    )


def _in_table_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    order = {code: place for place, code in enumerate(CHECKS)}
    return tuple(sorted(findings, key=lambda finding: order.get(finding.code, -1)))


def _not_collected(facts: Mapping[str, HostFacts], job: Job) -> tuple[str, ...]:
    codes = {code for host in facts.values() for code in list_checks_without_facts(host)}
    return tuple(c.code for c in CHECKS.values() if c.code in codes and (job.wants_gpus or not c.gpu_only))


def name_others(entries: Sequence[HostEntry], bad: Collection[str]) -> str:
    """Return how a launch takes the hosts that are not bad, "" where there are none or Slurm gives them."""
    main, *others = names = [entry.name for entry in entries if entry.name not in bad] or [""]
    good = format_host_range(names)
    if good and main not in expand_or_empty(split_ranges(good)[0])[:1]:  # the main host stays the first
        good = ",".join(filter(None, (main, format_host_range(others))))
    without = fold_hosts(bad) if len(bad) <= _MOST_NAMED else count_noun(len(bad), "host")
    return f"without {without}: --hosts {shlex.quote(good)}" if good and not is_inside_job() else ""


def _would_use(
    entries: Sequence[HostEntry],
    gathered: GatherResult,
    job: Job,
    script: ScriptAnalysis | None,
    reach: tuple[Reach, ...],
) -> tuple[LaunchPreview, LaunchDecisions | None]:
    if gathered.errors:
        return LaunchPreview(problem=f"{fold_hosts(gathered.errors)} cannot be used"), None
    pairs = [(entry, gathered.facts[entry.name]) for entry in entries]
    try:
        taken = list_taken_ports(reach)
        settled = decide_launch(pairs, job, run_id="preflight", script=script, avoid_ports=taken)
    except GpulaunchError as refusal:
        return LaunchPreview(problem=refusal.message, fix=refusal.fix), None
    because = settled.precision.reasons
    preview = LaunchPreview(
        precision=settled.precision.mixed_precision,
        why_precision=because[0].text if because else "",
        main_port=settled.world.main_port,
        world_size=settled.world.size,
    )
    return preview, settled


def read_script(entry: HostEntry, main: HostFacts, job: Job, tree: Path | None) -> PlannedLaunch:
    """Read the training script as it is on the main host, and modules of its own; it may not be known."""
    if isinstance(main.script, Missing) or isinstance(main.script.text, Missing):
        return PlannedLaunch()
    from preflight.script.analyze import analyze_script  # noqa: PLC0415 - a third of our modules; only a script pays
    from preflight.script.syntax_trees import Parser  # noqa: PLC0415 - as above

    versions = {} if isinstance(main.python, Missing) else main.python.packages
    text, path = main.script.text, main.script.path
    above = path.rpartition(job.module.replace(".", "/"))[0] if job.module else None  # as python -m has it
    parser = Parser(above and above.rstrip("/"))
    find = _find_modules(entry, path, job, tree)
    script = analyze_script(text, path, find=find, args=job.args, versions=versions, parser=parser)
    return PlannedLaunch(script=script, find=find, parser=parser)


def _find_modules(
    entry: HostEntry, path: str, job: Job, tree: Path | None
) -> Callable[[str], str | None] | None:
    """Return what finds the script's modules, local or synced; None where the main host alone has them."""
    from launcher.local.source_files import read_source  # noqa: PLC0415 - as above

    if entry.is_local:
        return cache(read_source)
    if tree is None:
        return None
    there = path.removesuffix(job.script) if posixpath.isabs(path) else ""

    def find(path: str) -> str | None:
        inside = posixpath.normpath(path.removeprefix(there))
        return None if inside.startswith(("/", "..")) else read_source(str(tree / inside))

    return cache(find)
