"""The one loop that runs all checks, so that none hides another.

Where a fact that a check names is Missing, the check is not called: an UNKNOWN finding with the reason takes
its place. A crash inside a check becomes an UNKNOWN finding too.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from preflight import regex as re
from preflight.checks.finding import Finding, Problem, Severity
from preflight.checks.registry import CHECKS, NOT_HELD, Check, ClockOffset, sort_by_module
from preflight.checks.unread_facts import fix_missing, is_container
from preflight.decide.decision import NodeRanks
from preflight.decide.usable_gpus import GpuSelection, select_gpus
from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts, Identity, Reach
from preflight.facts.missing import Missing
from preflight.facts.script import ScriptAnalysis
from preflight.frozen import dataclass
from preflight.job import Expect, GpuRequest, Job

if TYPE_CHECKING:
    from preflight.deep.measurements import DeepRun
    from preflight.script.syntax_trees import Parser


MODULES = (
    *("environment", "driver", "cuda", "gpus", "compute_mode", "processes", "ports"),
    *("precision", "network", "limits", "paths", "gpu_faults", "health", "interconnect", "consistency"),
    *("script", "script_args", "deepspeed", "deep"),
)
"""The modules of this package that hold checks; a module of new checks is one more row."""
_NAMES = tuple(f"{__package__}.{name}" for name in MODULES)

for _name in _NAMES[:-1]:
    import_module(_name)
sort_by_module(_NAMES)


def load_deep_checks() -> None:
    """Add the deep checks: few launches measure anything, and all would wait for their modules."""
    import_module(_NAMES[-1])


_DRIVER = "DRV001"  # its remedy for a silent driver is that of all checks that need its facts

_FACT_NAMES = frozenset(field.name for field in fields(HostFacts))
_Report: TypeAlias = tuple[Check, Problem]


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """What is known of a launch before it starts."""

    ranks: Mapping[str, NodeRanks] = field(default_factory=dict)  # by host; {}: no launch is possible
    script: ScriptAnalysis | None = None  # None: the script was not read
    find: Callable[[str], str | None] | None = None  # texts of its own modules; None: they lie elsewhere
    parser: "Parser | None" = None  # has the trees of all that was read
    allowed: Mapping[str, GpuRequest] = field(default_factory=dict)  # GPUs by host that hosts.yaml lets use

    def gpus_of(self, facts: HostFacts, job: Job) -> list[Gpu]:
        """Return a host's GPUs that ranks use; where no launch is possible, those that the job may use."""
        if facts.host in self.ranks:
            return self.ranks[facts.host].gpus_of(facts)
        candidates = select_gpus(facts, job, self.allowed.get(facts.host, "all")).candidates
        return [gpu for gpu in facts.known_gpus if gpu.index in candidates]


def load_checks() -> dict[str, Check]:
    """Return all checks, in the order of `MODULES`. An empty table would pass every host."""
    load_deep_checks()
    return CHECKS


def check_host(
    facts: HostFacts,
    job: Job,
    expect: Expect,
    *,
    ignore: frozenset[str] = frozenset(),
    allowed: GpuRequest = "all",
    node: Literal["only", "main", "other"] = "only",
    asked_only: bool = False,
) -> tuple[Finding, ...]:
    """Run every host check on one host's facts.

    `allowed` are the GPUs that hosts.yaml lets anybody use. `node`: which of the launch it is. `asked_only`
    leaves out the checks whose facts the source was never asked for (a saved nvidia-smi has no ports).
    """
    use = select_gpus(facts, job, allowed)
    supply: dict[str, Any] = {name: getattr(facts, name) for name in _FACT_NAMES}
    supply |= {"facts": facts, "job": job, "expect": expect, "use": use, "is_main": node != "other"}
    skip = frozenset(list_checks_without_facts(facts)) if asked_only else frozenset[str]()
    problems = [
        (check, fit_fix(problem, facts))
        for check in _applicable("host", job)
        if check.code not in skip
        for problem in _ask(check, supply)
    ]
    if asked_only:
        problems = list(_not_collected_once(problems))
    return tuple(
        _finding(check, problem, (facts.host,), ignore)
        for check, problem in demote_spare_gpus(problems, use, job, is_alone=node == "only")
    )


def check_cluster(
    hosts: Mapping[str, HostFacts],
    job: Job,
    reach: tuple[Reach, ...],
    *,
    expect: Mapping[str, Expect] | None = None,
    clocks: Mapping[str, ClockOffset] | None = None,
    launch: PlannedLaunch | None = None,
    ignore: Mapping[str, frozenset[str]] | None = None,
) -> tuple[Finding, ...]:
    """Run every cluster check on the hosts that answered.

    `launch` is what is planned on them; `expect` and `ignore`, the codes that stop nothing, are by host.
    """
    planned = launch or PlannedLaunch()
    supply = {
        "hosts": hosts,
        "job": job,
        "reach": reach,
        "expect": expect or {},
        "clocks": clocks or {},
        "ranks": planned.ranks,
        "script": planned.script,
        "launch": planned,
    }
    return tuple(
        _finding(check, problem, about, _ignored_by_all(about, ignore or {}))
        for check in _applicable("cluster", job)
        for said in _ask(check, supply)
        for about in [said.hosts or tuple(hosts)]
        for problem in [fit_fix(said, hosts[about[0]]) if len(about) == 1 else said]
    )


def check_deep(deep: "DeepRun", *, ignore: Mapping[str, frozenset[str]] | None = None) -> tuple[Finding, ...]:
    """Run every deep check; `ignore` are the codes that stop nothing, by host."""
    load_deep_checks()
    job = Job()
    return tuple(
        _finding(check, problem, hosts, _ignored_by_all(hosts, ignore or {}))
        for check in _applicable("deep", job)
        for problem in _ask(check, {"deep": deep})
        for hosts in [problem.hosts or deep.hosts]
    )


def _ignored_by_all(hosts: tuple[str, ...], ignore: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return what is ignored on every host that a finding is about."""
    sets = [ignore.get(host, frozenset()) for host in hosts]
    return frozenset.intersection(*sets) if sets else frozenset()


def list_checks_without_facts(facts: HostFacts) -> tuple[str, ...]:
    """Return the codes of the host checks whose facts this source does not hold at all."""
    absent = {
        name
        for name in _FACT_NAMES
        if isinstance(fact := getattr(facts, name), Missing) and fact.code == "not-asked"
    }
    return tuple(
        check.code
        for check in CHECKS.values()
        if check.scope == "host" and absent.intersection((*check.needs, *check.reads))
    )


def _applicable(scope: str, job: Job) -> Iterator[Check]:
    return (c for c in CHECKS.values() if c.scope == scope and (job.wants_gpus or not c.gpu_only))


def _ask(check: Check, supply: Mapping[str, Any]) -> list[Problem]:
    values = {name: supply[name] for name in check.needs}
    for name, value in values.items():
        if isinstance(value, Missing):
            driver = supply.get("driver")  # of which a file may hold nothing
            is_alone = isinstance(driver, Missing) and value.code != driver.code == "not-asked"
            by_driver = name in ("driver", "gpus") and check.code != _DRIVER and not is_alone
            fix = f"see {_DRIVER}, which is about the driver" if by_driver else fix_missing(value)
            return [Problem(f"not checked: {name}: {value.reason}", fix, severity=Severity.UNKNOWN)]
    try:
        return list(check.function(**values))
    except Exception as error:  # noqa: BLE001 - a crash of one check must hide no other and never count as a pass
        return [
            Problem(f"the check itself failed: {error!r}", "please report this", severity=Severity.UNKNOWN)
        ]


def _not_collected_once(problems: list[_Report]) -> Iterator[_Report]:
    """Report once per check, as information, what the source does not hold; a gate stays unknown."""
    codes: set[str] = set()
    for check, problem in problems:
        if not problem.not_collected or check.gate:
            yield check, problem
        elif check.code not in codes:
            codes.add(check.code)
            yield check, Problem(NOT_HELD, "run the preflight on the host itself", severity=Severity.INFO)


def _finding(check: Check, problem: Problem, hosts: tuple[str, ...], ignore: frozenset[str]) -> Finding:
    return Finding(
        code=check.code,
        severity=problem.severity or check.severity,
        hosts=hosts,
        subject=problem.subject or ("" if problem.gpu is None else f"gpu{problem.gpu}"),
        message=problem.message,
        fix=problem.fix,
        gate=check.gate,
        ignored=check.code in ignore,
        alike=problem.alike,
    )


_OUTSIDE = "outside the container (by the provider of a rented one)"
_OF_DRIVER = re.compile(r"\bsudo (?:modprobe|rmmod|reboot|nvidia-smi|nvidia-modprobe)\b|then reboot\b")
_OF_MACHINE = re.compile(rf"{_OF_DRIVER.pattern}|\bsudo (?:systemctl|dmesg|mount|timedatectl)\b")
"""What changes or reads the kernel, which root of a container may not; WSL2 leaves the driver to Windows."""
_IN_WINDOWS = "in Windows: wsl --shutdown, or a newer driver"


def fit_fix(problem: Problem, facts: HostFacts) -> Problem:
    """Return the problem with what of its fix holds on this host; all of it where the host is not known.

    "; " separates the parts of a fix. Root of a rented machine mostly has no `sudo`. A container numbers its
    GPUs itself, so what is typed outside names the GPU by its place on the bus.
    """
    who = facts.identity
    if not isinstance(who, Identity):
        return problem
    boxed, outside = is_container(who), False
    kept, other = ("in a container: ", "on a host: ")[:: 1 if boxed else -1]
    bus = next((gpu.pci_bus_id for gpu in facts.known_gpus if gpu.index == problem.gpu), "")
    parts: list[str] = []
    for part in (each.removeprefix(kept) for each in problem.fix.split("; ") if not each.startswith(other)):
        if boxed and _OF_MACHINE.search(part):
            named = part.replace(f" -i {problem.gpu}", f" -i {bus}") if isinstance(bus, str) and bus else part
            first = "" if outside else f"{_OUTSIDE}{':' if part.startswith('sudo') else ','} "
            parts.append(first + named)
            outside = True
        elif who.container == "wsl2" and _OF_DRIVER.search(part):
            parts += [_IN_WINDOWS] * (_IN_WINDOWS not in parts)
        else:
            parts.append(part.replace("sudo ", "") if who.uid == 0 else part)
    return replace(problem, fix="; ".join(parts) or problem.fix)


def demote_spare_gpus(
    problems: list[_Report], use: GpuSelection, job: Job, *, is_alone: bool
) -> Iterator[_Report]:
    """Turn what would stop a launch into a warning where it is about a GPU that the job can do without.

    Where it cannot, its fix says how many GPUs to ask for, so that it can.
    """
    stopping = (Severity.CRITICAL, Severity.UNKNOWN)
    bad = {p.gpu for check, p in problems if p.gpu is not None and (p.severity or check.severity) in stopping}
    left = sorted(use.candidates - bad)
    for check, problem in problems:
        severity = problem.severity or check.severity
        if problem.gpu is None or severity not in stopping:
            yield check, problem
        elif (is_unused := problem.gpu not in use.candidates) or len(left) >= use.needed:
            left_out = f"left out of this launch, which needs {use.needed} of the others"
            message = f"{problem.message} ({'this launch does not use it' if is_unused else left_out})"
            fix = problem.fix.replace(", or use other GPUs with --gpus", "")  # it does already
            yield check, replace(problem, severity=Severity.WARNING, message=message, fix=fix)
        else:
            named = isinstance(job.gpus, tuple)
            yield check, problem if named else replace(problem, fix=_leaving_out(problem.fix, left, is_alone))


def _leaving_out(fix: str, left: list[int], is_alone: bool) -> str:  # noqa: FBT001 - of one caller
    """Return the fix with what has a launch use the `left` good GPUs of a host alone.

    `--gpus` counts on every host of a launch: with others, hosts.yaml says it of one.
    """
    if not left:
        return fix.replace("other GPUs with --gpus", "another host with --hosts")
    option = f"--gpus {len(left)}" if is_alone else f"gpus: {left} of this host in hosts.yaml"
    instead = f"leave it out: {option} takes {'the other' if len(left) == 1 else 'the others'}"
    with_others = fix.replace("use other GPUs with --gpus", instead)
    return f"{fix}; or {instead}" if with_others == fix else with_others
