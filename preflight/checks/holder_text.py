"""Who holds what a job needs: whose it is, since when, whether it lives, and what can be done about it."""

from preflight.checks.message_text import round_duration, shorten
from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts, Identity, Process
from preflight.facts.missing import Missing
from preflight.facts.redaction import redact_words
from preflight.job import Expect
from preflight.leftovers.classify import ClassifiedProcess, ProcessClass, classify_processes
from preflight.leftovers.selection import clean_command, describe_how_to_end, is_asking_session

LEFT_OVER = frozenset(
    {ProcessClass.DEAD_RUN, ProcessClass.ORPHAN, ProcessClass.HALF_DEAD, ProcessClass.STUCK}
)

_IS: dict[ProcessClass, str] = {
    ProcessClass.DEAD_RUN: "left over from a dead gpulaunch run",
    ProcessClass.ORPHAN: "an orphan",
    ProcessClass.HALF_DEAD: "half dead",
    ProcessClass.SUSPECT: "perhaps left over",
    ProcessClass.LIVE: "live",
    ProcessClass.FOREIGN: "another user's",
    ProcessClass.SYSTEM: "a service of the machine",
    ProcessClass.STUCK: "a leftover stuck in the kernel",
    ProcessClass.ZOMBIE: "a zombie",
}
_OTHER_GPUS = "use other GPUs with --gpus"


def classify_by_pid(facts: HostFacts, expect: Expect) -> dict[int, ClassifiedProcess]:
    """Return the classified processes of a host by pid."""
    return {item.process.pid: item for item in classify_processes(facts, stopped_s=expect.stopped_s)}


def find_process(facts: HostFacts, gpu: Gpu, item: ClassifiedProcess | None) -> ClassifiedProcess | None:
    """Return the process that the driver means by its pid.

    In a container the pid may be of another namespace: then only who has the GPU open itself is meant.
    """
    ours = isinstance(facts.identity, Identity) and facts.identity.initial_pid_namespace
    return item if item is not None and (ours or gpu.index in item.held.gpus) else None


def describe_command(process: Process) -> str:
    """Return what a process runs, its name where the command line is not known."""
    if isinstance(process.argv, Missing) or not process.argv:
        return process.comm
    return shorten(" ".join(redact_words(process.argv)), 60)


def name_holder(item: ClassifiedProcess) -> str:
    """Return "pid 4242 (ana, 3 h old, live)"."""
    process = item.process
    return f"pid {process.pid} ({process.user}, {round_duration(process.age_s)} old, {_IS[item.kind]})"


def describe_holder(item: ClassifiedProcess) -> str:
    """Return "pid 4242 (ana, 3 h old): python train.py; an orphan: its launcher is gone"."""
    process = item.process
    who = f"pid {process.pid} ({process.user}, {round_duration(process.age_s)} old)"
    return f"{who}: {describe_command(process)}; {_IS[item.kind]}: {', '.join(item.evidence)}"


def advise_on_holder(facts: HostFacts, item: ClassifiedProcess, otherwise: str = _OTHER_GPUS) -> str:
    """Return what its owner, or you, can do about a holder; `otherwise` is how to do without it."""
    host, process = facts.host, item.process
    match item.kind:
        case ProcessClass.DEAD_RUN | ProcessClass.ORPHAN | ProcessClass.HALF_DEAD:
            return f"gpulaunch clean-zombies {host}"
        case ProcessClass.STUCK:
            return "no signal reaches it: ask the administrator to reboot the host"
        case ProcessClass.SUSPECT:
            return f"if it is yours to end: {clean_command(item, host)}"
        case ProcessClass.SYSTEM:
            return f"leave it, it is not a job; {otherwise}"
        case ProcessClass.LIVE if is_asking_session(item):
            return (
                f"it is part of the session from which gpulaunch runs: end it in that session, or {otherwise}"
            )
        case ProcessClass.LIVE:
            return f"wait for it to end, end it ({describe_how_to_end(item, host)}), or {otherwise}"
        case _:
            return f"wait for it to end, ask {process.user}, or {otherwise}"
