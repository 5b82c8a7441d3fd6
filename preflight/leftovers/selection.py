"""Which leftovers a cleaning may end: the choice, separate from the judgement and from the deed. Pure."""

import re

from preflight.frozen import dataclass
from preflight.leftovers.classify import ENDED_AFTER_YES, ENDED_BY_DEFAULT, ClassifiedProcess, ProcessClass
from preflight.leftovers.process_tree import INIT_PID, get_environ


@dataclass(frozen=True, slots=True)
class CleanFilter:
    """What the user asked to have cleaned. Empty tuples mean no restriction."""

    gpus: tuple[int, ...] = ()
    ports: tuple[int, ...] = ()
    pids: tuple[int, ...] = ()
    include_suspect: bool = False


@dataclass(frozen=True, slots=True)
class CleanSelection:
    """What may be ended at once, what after a yes, and what is only shown."""

    automatic: tuple[ClassifiedProcess, ...]
    needs_confirmation: tuple[ClassifiedProcess, ...]
    kept: tuple[ClassifiedProcess, ...]


def select_to_kill(classified: tuple[ClassifiedProcess, ...], filters: CleanFilter) -> CleanSelection:
    """Split the classified processes by what may be done with them under this wish.

    A process named by pid may be ended after a yes even when it is LIVE; FOREIGN, SYSTEM and STUCK never are,
    and a true zombie cannot be. Of what was named by pid, GPU or port nothing else is shown.
    """
    matching = [each for each in classified if _matches(each, filters)]
    at_once = tuple(each for each in matching if each.kind in ENDED_BY_DEFAULT)
    after_yes = tuple(each for each in matching if _after_yes(each, filters))
    chosen = {each.process.pid for each in (*at_once, *after_yes)}
    shown = (each for each in classified if each.process.pid not in chosen and _meant(each, filters))
    return CleanSelection(at_once, after_yes, tuple(shown))


def _after_yes(each: ClassifiedProcess, filters: CleanFilter) -> bool:
    named = each.process.pid in filters.pids
    if each.kind in ENDED_AFTER_YES:
        return True
    if each.kind is ProcessClass.SUSPECT:
        return filters.include_suspect or named
    return each.kind is ProcessClass.LIVE and named and not is_asking_session(each)


def is_asking_session(each: ClassifiedProcess) -> bool:
    """Whether it is the session that asks; naming it by pid does not change that."""
    return "it is part of the session that asks" in each.evidence


def _matches(each: ClassifiedProcess, filters: CleanFilter) -> bool:
    """Whether it may be ended under this wish: what only the driver says of its GPUs does not count."""
    return _meant(each, filters) and (not filters.gpus or bool(set(filters.gpus) & set(each.held.gpus)))


def _meant(each: ClassifiedProcess, filters: CleanFilter) -> bool:
    if filters.pids and each.process.pid not in filters.pids:
        return False
    if filters.gpus and not set(filters.gpus) & {*each.held.gpus, *each.held.listed}:
        return False
    return not filters.ports or bool(set(filters.ports) & set(each.held.ports))


def advise_on_leftover(each: ClassifiedProcess) -> str:
    """Return what to do about a process that is not ended."""
    match each.kind:
        case ProcessClass.FOREIGN:
            return f"ask {each.process.user}"
        case ProcessClass.SYSTEM:
            return "leave it; it is not a job"
        case ProcessClass.STUCK:
            return "wait for its kernel call to return; if it never does, the host needs a reboot"
        case ProcessClass.SUSPECT:
            return f"if it is yours to end: {clean_command(each, 'HOST')}"
        case ProcessClass.ZOMBIE:
            return "nothing to do: it holds nothing"
        case ProcessClass.LIVE if (each.held or each.held.listed) and not is_asking_session(each):
            return f"it lives; to end it all the same: {describe_how_to_end(each, 'HOST')}"
        case _:
            return ""


def advise_on_stranger(each: ClassifiedProcess, host: str) -> str:
    """Return what to do about a process that is neither rank nor launcher and holds nothing."""
    if each.process.pid == INIT_PID:
        return "leave it: the machine or container ends with it"
    if not each.process.argv:
        return "leave it: it is part of the kernel"
    if is_asking_session(each):
        return "leave it: it is part of the session that asks"
    return advise_on_leftover(each) or f"if it is yours to end, on {host}: kill {each.process.pid}"


def describe_how_to_end(each: ClassifiedProcess, host: str) -> str:
    """Return the command by which its owner ends a process that lives."""
    run = get_environ(each.process).get("GPULAUNCH_RUN_ID", "")
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}", run):  # a process may say anything of itself
        return f"gpulaunch stop {run}"
    return clean_command(each, host)


def clean_command(each: ClassifiedProcess, host: str) -> str:
    """Return the command that ends one process by its pid; a port by which it matters is named with it."""
    port = f" --port {each.held.ports[0]}" if each.held.ports and not each.held.gpus else ""
    return f"gpulaunch clean-zombies {host} --pid {each.process.pid}{port}"
