"""Which hosts continue: without those that have gone bad, spares in their places. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from launcher.config.inventory import HostEntry
from launcher.host_checks.result import PreflightResult
from preflight import regex as re
from preflight.checks.finding import Finding, blocks_launch
from preflight.decide.usable_gpus import select_gpus
from preflight.facts.host import NOT_LISTENING
from preflight.facts.missing import Missing
from preflight.frozen import dataclass
from preflight.job import Job

_GPU = re.compile(r"gpu(\d+)")
_REACHES_MAIN = "NET004"


@dataclass(frozen=True, slots=True)
class HostAssignment:
    """Hosts in the order of their node ranks, and what was changed for it."""

    entries: tuple[HostEntry, ...]
    spares: tuple[HostEntry, ...] = ()  # not used so far, in order
    excluded: Mapping[str, str] = field(default_factory=dict)  # host left out -> why
    replaces: Mapping[str, str] = field(default_factory=dict)  # host that came in -> whose place it has
    # Host -> why it continues without some of its GPUs.
    reduced_gpus: Mapping[str, str] = field(default_factory=dict)
    # Left out, could continue with fewer GPUs.
    fallbacks: Mapping[str, HostEntry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostFault:
    """The faults of a host, or only against some of its GPUs."""

    host: str
    why: str
    gpus: tuple[int | str, ...] = ()  # indices (a lost GPU reports no UUID) and UUIDs


def replace_host(lineup: HostAssignment, host: str, why: str) -> HostAssignment:
    """Leave a host out; the next spare takes its place, else the others close up."""
    whose = lineup.replaces.get(host, host)  # a spare that does not fit gives its place on
    came = lineup.spares[:1]
    without = {name: words for name, words in lineup.reduced_gpus.items() if name != host}
    if not came and whose in lineup.fallbacks and whose != host:
        came = (lineup.fallbacks[whose],)
        without[whose] = lineup.excluded[whose]
    places = {name: place for name, place in lineup.replaces.items() if name != host}
    return replace(
        lineup,
        entries=tuple(one for each in lineup.entries for one in (came if each.name == host else (each,))),
        spares=lineup.spares[1:],
        excluded={**lineup.excluded, host: why},
        replaces=places | {entry.name: whose for entry in came},
        reduced_gpus=without,
    )


def exclude_faulty(
    lineup: HostAssignment, result: PreflightResult, job: Job, condemned: Sequence[HostFault] = ()
) -> HostAssignment:
    """Return the lineup without what this preflight, or `condemned`, says is bad; itself if nothing is."""
    for fault in (*condemned, *list_host_faults(lineup, result)):
        entry = next((entry for entry in lineup.entries if entry.name == fault.host), None)
        if entry is None:
            continue
        rest = _rest(entry, result, fault, job)
        if rest is not None and lineup.spares:
            lineup = replace(lineup, fallbacks={**lineup.fallbacks, fault.host: rest})
        if rest is None or lineup.spares:
            lineup = replace_host(lineup, fault.host, fault.why)
        elif rest.gpus != entry.gpus:
            entries = tuple(rest if each.name == fault.host else each for each in lineup.entries)
            lineup = replace(
                lineup, entries=entries, reduced_gpus={**lineup.reduced_gpus, fault.host: fault.why}
            )
    return lineup


def list_host_faults(lineup: HostAssignment, result: PreflightResult) -> tuple[HostFault, ...]:
    """Return what stops a launch and can be left out; of what hosts say about each other one guess."""
    stopping = [
        each for each in result.findings if blocks_launch(each) and not set(each.hosts) & set(result.errors)
    ]
    alone = [each for each in stopping if len(each.hosts) == 1 and each.code != _REACHES_MAIN]
    accused = dict.fromkeys(each.hosts[0] for each in alone)
    found = (
        *(HostFault(host, f"cannot be used: {error.detail}") for host, error in result.errors.items()),
        *(_fault(host, [each for each in alone if each.hosts[0] == host]) for host in accused),
    )
    return found or _guess(lineup, [each for each in stopping if each not in alone])


def _fault(host: str, findings: Sequence[Finding]) -> HostFault:
    said = (f"{each.subject}: {each.message}" if each.subject else each.message for each in findings)
    words = "; ".join(dict.fromkeys(said))  # what could not be read is a finding of each check that needs it
    indices = [int(match[1]) for each in findings if (match := _GPU.fullmatch(each.subject))]
    only_gpus = len(indices) == len(findings)
    return HostFault(host, words, tuple(dict.fromkeys(indices)) if only_gpus else ())


def _guess(lineup: HostAssignment, findings: Sequence[Finding]) -> tuple[HostFault, ...]:
    """Return which host to replace: a main host that no other host reaches, else who came last."""
    findings = [each for each in findings if NOT_LISTENING not in each.message]  # no host is bad for it
    if not findings:
        return ()
    cut_off = [each for each in findings if each.code == _REACHES_MAIN]
    main, others = lineup.entries[0].name, {entry.name for entry in lineup.entries[1:]}
    if cut_off and len(others) > 1 and {host for each in cut_off for host in each.hosts} == others:
        return (HostFault(main, "no other host reaches it"),)
    if cut_off:
        return (HostFault(cut_off[0].hosts[0], cut_off[0].message),)
    newest = [entry.name for entry in lineup.entries if entry.name in lineup.replaces]
    return (HostFault(newest[-1], f"does not fit the others: {findings[0].message}"),) if newest else ()


def _rest(entry: HostEntry, result: PreflightResult, fault: HostFault, job: Job) -> HostEntry | None:
    """Return the host with the GPUs that are left to it; None when it cannot continue with those."""
    facts = result.facts.get(entry.name)
    if facts is None or not fault.gpus or isinstance(facts.gpus, Missing) or job.gpus not in ("all", "auto"):
        return None
    candidates = select_gpus(facts, replace(job, gpus="all"), entry.gpus).candidates
    offered, bad = [gpu for gpu in facts.gpus if gpu.index in candidates], set(fault.gpus)
    left = [gpu.uuid for gpu in offered if isinstance(gpu.uuid, str) and not {gpu.index, gpu.uuid} & bad]
    return replace(entry, gpus=tuple(left)) if left else None


def rank_counts_after(job: Job, lineup: HostAssignment) -> Job:
    """Return the job with as many CPU ranks on a spare as the host had whose place it takes."""
    counts = job.processes_per_host
    if not isinstance(counts, dict):
        return job
    came = {
        name: counts[whose]
        for name, whose in lineup.replaces.items()
        if name not in counts and whose in counts
    }
    return replace(job, processes_per_host={**counts, **came})
