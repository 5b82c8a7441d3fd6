"""Results of clean-zombies as text and as JSON."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from launcher.cleanup.clean import CleanResult, GpuMemoryChange, list_unreadable, list_unseen
from launcher.config.host_access_args import complete_commands
from launcher.config.node_sets import fold_hosts
from launcher.text import format_memory, group_alike, one_line, spell_duration
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import encode
from preflight.facts.missing import Missing
from preflight.facts.redaction import redact_words
from preflight.leftovers.classify import ENDED_AFTER_YES, ClassifiedProcess, ProcessClass
from preflight.leftovers.selection import CleanFilter, CleanSelection, advise_on_leftover

SCHEMA = "gpulaunch.clean/1"
_ARGV_WIDTH = 60


def render_selection(facts: HostFacts, choice: CleanSelection, words: Sequence[str] = ()) -> list[str]:
    """Return what was found on one host and what may be ended, one process on two lines.

    The commands of advice have `words`; those that processes run are as they run.
    """
    lines = [f"{facts.host}: {_headline(facts, choice)}"]
    for each in choice.automatic:
        lines += _process_lines("end", facts, each, words)
    for each in choice.needs_confirmation:
        lines += _process_lines("end?", facts, each, words)
    for each in _worth_showing(choice):
        lines += _process_lines("keep", facts, each, words)
    lines += [f"  not seen: {one_line(text)}" for text in list_unseen(facts)]
    return lines


def render_selections(
    hosts: Iterable[tuple[HostFacts, CleanSelection]], filters: CleanFilter, access: Sequence[str] = ()
) -> Iterator[str]:
    """Yield what was found on each host; hosts with the same words and no process share their lines."""

    def words(facts: HostFacts, choice: CleanSelection) -> tuple[str, ...]:
        shown = render_selection(facts, choice, access)
        head, *rest = (*shown, *render_named_pids(facts, choice, filters, access))
        shows = choice.automatic or choice.needs_confirmation or _worth_showing(choice)
        return (facts.host if shows else "", head.removeprefix(f"{facts.host}: "), *rest)

    alike = group_alike((words(facts, choice), facts.host) for facts, choice in hosts)
    for (_, head, *rest), names in alike.items():
        yield f"{fold_hosts(names)}: {head}"
        yield from rest


def render_question(count: int) -> str:
    """Return what a person is asked before anything is ended."""
    return f"End {count} process" + ("?" if count == 1 else "es?")


def render_named_pids(
    facts: HostFacts, choice: CleanSelection, filters: CleanFilter, words: Sequence[str] = ()
) -> Iterator[str]:
    """Yield lines on a named process or GPU that `render_selection` does not show."""
    shown_above = {
        each.process.pid for each in (*choice.automatic, *choice.needs_confirmation, *_worth_showing(choice))
    }
    kept = {each.process.pid: each for each in choice.kept}
    everybody = (*choice.automatic, *choice.needs_confirmation, *choice.kept)
    for pid in filters.pids:
        if pid in kept and pid not in shown_above:
            yield from _process_lines("keep", facts, kept[pid], words)
    for index in filters.gpus:
        if not any(index in (*each.held.gpus, *each.held.listed) for each in everybody):
            lists = (gpu.processes for gpu in facts.known_gpus if gpu.index == index)
            pids = [str(each.pid) for rows in lists if not isinstance(rows, Missing) for each in rows]
            named = f"; the driver names pid {', '.join(pids)}" if pids else ""
            yield f"  gpu{index}: no process holds it, as far as can be seen{named}"
    for port in filters.ports:
        if not any(port in each.held.ports for each in everybody):
            yield f"  port {port}: {_unheld(facts, port)}"


def _unheld(facts: HostFacts, port: int) -> str:
    """Say of a port that no process in sight holds whether it is free."""
    if isinstance(facts.ports, Missing):
        return f"not known: {facts.ports.reason}"
    bind = next((test for test in facts.ports.binds if test.port == port), None)
    if bind is None or bind.ok:
        return "free" if bind else "not tested"
    users = sorted({socket.owner for socket in facts.ports.sockets if socket.port == port})
    whose = f" by {', '.join(users)}" if users else ""
    return f"held{whose}, by no process that can be seen: {bind.error}"


def _headline(facts: HostFacts, choice: CleanSelection) -> str:
    proven = [each for each in choice.needs_confirmation if each.kind in ENDED_AFTER_YES]
    suspect = [each for each in choice.needs_confirmation if each.kind is ProcessClass.SUSPECT]
    counts = [
        (len(choice.automatic), "left by dead runs of gpulaunch"),
        (len(proven), "left over, ended after a yes"),
        (len(suspect), "left over as it seems, ended after a yes"),
        (
            len(choice.needs_confirmation) - len(proven) - len(suspect),
            "named by --pid though it lives, ended after a yes",
        ),
    ]
    present = [f"{count} {what}" for count, what in counts if count]
    if present:
        return "; ".join(present)
    return (
        "not everything could be judged" if list_unreadable(facts) else "nothing left over that may be ended"
    )


def _worth_showing(choice: CleanSelection) -> list[ClassifiedProcess]:
    """Launchers and ranks that live and hold nothing are not shown."""
    quiet = (ProcessClass.LIVE, ProcessClass.SYSTEM)
    return [each for each in choice.kept if each.kind not in quiet or each.held or each.held.listed]


def _process_lines(verb: str, facts: HostFacts, each: ClassifiedProcess, words: Sequence[str]) -> list[str]:
    process = each.process
    argv = "" if isinstance(process.argv, Missing) else " ".join(redact_words(process.argv))
    command = one_line(argv, _ARGV_WIDTH) or f"[{one_line(process.comm)}]"
    who = f"pid {process.pid}  {one_line(process.user)}  {command}"
    head = f"  {verb:<5} {who}  {spell_duration(process.age_s)}  state {process.state}"
    parts = [f"gpu{index}{_share(facts, index, each.process.pid)}" for index in each.held.gpus]
    parts += [f"gpu{index} (as the driver says)" for index in each.held.listed if index not in each.held.gpus]
    parts += [f"port {port}" for port in each.held.ports]
    held = "holds " + ", ".join(parts) if parts else ""
    why = "; ".join(one_line(text) for text in each.evidence)
    lines = [head + (f"  {held}" if held else ""), f"        {each.kind.value}: {why}"]
    advice = advise_on_leftover(each)
    if verb == "keep" and advice:
        lines.append(f"        {complete_commands(advice.replace('HOST', facts.host), words)}")
    return lines


def _share(facts: HostFacts, index: int, pid: int) -> str:
    for gpu in facts.known_gpus:
        for listed in () if gpu.index != index or isinstance(gpu.processes, Missing) else gpu.processes:
            if listed.pid == pid and not isinstance(listed.used_mib, Missing):
                return f" ({format_memory(listed.used_mib)})"
    return ""


def render_result(cleaned: CleanResult) -> list[str]:
    """Return what was done on one host and what came free."""
    lines = []
    for each in cleaned.killed:
        signals = f" ({', '.join(each.signals)})" if each.signals else ""
        lines.append(f"{cleaned.host}: pid {each.pid}: {one_line(each.result)}{signals}")
    shown = [gpu for gpu in cleaned.gpus if gpu.before_mib != gpu.after_mib or gpu.after_mib is None]
    lines += [f"{cleaned.host}: GPU {gpu.index}: {_memory(gpu)}" for gpu in shown]
    lines += [f"{cleaned.host}: port {port}: held -> free" for port in cleaned.ports_freed]
    lines += [f"{cleaned.host}: port {port} is still held" for port in cleaned.ports_still_held]
    if cleaned.audit:
        lines.append(f"{cleaned.host}: audit log: {one_line(cleaned.audit)}")
    return lines


def _memory(gpu: GpuMemoryChange) -> str:
    before, after = (
        "unknown" if value is None else format_memory(value) for value in (gpu.before_mib, gpu.after_mib)
    )
    return f"{before} -> {after}"


def encode_process(each: ClassifiedProcess, verb: str) -> dict[str, Any]:
    """Return one process as the documented JSON object."""
    process = each.process
    return {
        "pid": process.pid,
        "start_ticks": process.start_ticks,
        "ppid": process.ppid,
        "uid": process.uid,
        "user": process.user,
        "state": process.state,
        "comm": process.comm,
        "argv": None if isinstance(process.argv, Missing) else list(redact_words(process.argv)),
        "age_s": process.age_s,
        "class": each.kind.value,
        "evidence": list(each.evidence),
        "gpus": list(each.held.gpus),
        "ports": list(each.held.ports),
        "action": verb,
        "advice": advise_on_leftover(each),
    }


def encode_host(facts: HostFacts, choice: CleanSelection, cleaned: CleanResult | None) -> dict[str, Any]:
    """Return one host's part of the document."""
    return {
        "processes": [
            *(encode_process(each, "end") for each in choice.automatic),
            *(encode_process(each, "end-after-yes") for each in choice.needs_confirmation),
            *(encode_process(each, "keep") for each in choice.kept),
        ],
        "visibility_limits": list(list_unseen(facts)),
        "cleaned": None if cleaned is None else encode_result(cleaned),
    }


def encode_result(cleaned: CleanResult) -> dict[str, Any]:
    """Return what was done on one host."""
    return {
        "complete": cleaned.complete,
        "killed": encode(cleaned.killed),
        "gpus": encode(cleaned.gpus),
        "ports_freed": list(cleaned.ports_freed),
        "ports_still_held": list(cleaned.ports_still_held),
        "audit": cleaned.audit,
    }


def encode_clean(
    hosts: dict[str, Any], errors: Iterable[tuple[str, str, str, str]], exit_code: int
) -> dict[str, Any]:
    """Return the whole document; errors are (host, code, message, fix)."""
    return {
        "schema": SCHEMA,
        "hosts": hosts,
        "errors": [dict(zip(("host", "code", "message", "fix"), error, strict=True)) for error in errors],
        "exit_code": exit_code,
    }
