"""Who holds each GPU of a host, by its facts: the same classes as clean-zombies has. Pure."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from launcher.text import one_line
from launcher.top.views import Holder
from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.facts.redaction import redact_words
from preflight.frozen import dataclass
from preflight.job import Expect
from preflight.leftovers.classify import ClassifiedProcess, ProcessClass, classify_processes
from preflight.leftovers.process_tree import get_environ

_COMMAND = 200
_RANK_PROGRAM = "rank.py"  # what gpulaunch starts as a rank; the user's script is its first argument
_NOBODY = frozenset({ProcessClass.SYSTEM, ProcessClass.ZOMBIE})
"""A display server or a driver's service takes no GPU from a launch; a zombie holds nothing."""


@dataclass(frozen=True, slots=True)
class GpuHolders:
    """The processes on one GPU, those that hold it first; `held` None: it cannot be seen."""

    processes: tuple[Holder, ...]
    held: bool | None
    claimed_by: tuple[str, str] | None


def find_holders(facts: HostFacts, expect: Expect) -> Mapping[int, GpuHolders]:
    """Return who is on each GPU, by its index; `expect` is of the host in hosts.yaml."""
    classified = classify_processes(facts, stopped_s=expect.stopped_s)
    blind = isinstance(facts.processes, Missing)
    claims = {} if isinstance(facts.claims, Missing) else {_bare(c.gpu_uuid): c for c in facts.claims}
    found: dict[int, GpuHolders] = {}
    for gpu in facts.known_gpus:
        holders = _holders(facts, gpu, classified)
        claim = None if isinstance(gpu.uuid, Missing) else claims.get(_bare(gpu.uuid))
        busy = any(holder.kind not in _NOBODY for holder in holders)
        unknown = isinstance(gpu.processes, Missing) or blind
        held = True if busy else (None if unknown else False)
        found[gpu.index] = GpuHolders(holders, held, (claim.user, claim.run_id) if claim else None)
    return found


def _bare(uuid: str) -> str:
    """Return a UUID as the name of a claim's file spells it."""
    return "".join(each if each.isalnum() or each == "-" else "_" for each in uuid)


def _holders(facts: HostFacts, gpu: Gpu, classified: tuple[ClassifiedProcess, ...]) -> tuple[Holder, ...]:
    listed = {} if isinstance(gpu.processes, Missing) else {each.pid: each for each in gpu.processes}
    used = {
        pid: None if isinstance(each.used_mib, Missing) else each.used_mib for pid, each in listed.items()
    }
    own = [each for each in classified if gpu.index in each.held.gpus or gpu.index in each.held.listed]
    known = [_holder(facts, each, used.get(each.process.pid)) for each in own]
    seen = {holder.pid for holder in known}
    initial = not isinstance(facts.identity, Missing) and facts.identity.initial_pid_namespace
    if not initial and any(each.held.gpus for each in own):
        seen |= set(listed)  # the driver's pids are of another namespace: these are the same processes
    unseen = "named by the driver, cannot be seen" if initial else "outside of this container"
    other = [
        Holder(pid, "", unseen, None, None, used[pid], "", mine=False)
        for pid, each in listed.items()
        if pid not in seen and each.kind == "compute"
    ]
    return tuple(sorted([*known, *other], key=_weight))


def _weight(holder: Holder) -> tuple[bool, int, int]:
    return holder.kind in _NOBODY, -(holder.used_mib or 0), holder.pid


def _holder(facts: HostFacts, each: ClassifiedProcess, used_mib: int | None) -> Holder:
    process = each.process
    argv = () if isinstance(process.argv, Missing) else tuple(redact_words(process.argv))
    uid = -1 if isinstance(facts.identity, Missing) else facts.identity.uid
    return Holder(
        process.pid,
        process.user,
        one_line(shorten_command(argv), _COMMAND) or f"[{one_line(process.comm, 40)}]",
        process.age_s,
        each.kind,
        used_mib,
        get_environ(process).get("GPULAUNCH_RUN_ID", "")[:100],
        process.uid == uid,
    )


def shorten_command(argv: tuple[str, ...]) -> str:
    """Return a command with what distinguishes it first: no directories, no interpreter before a script."""
    if not argv:
        return ""
    words = [PurePosixPath(argv[0]).name or argv[0], *argv[1:]]
    script = next((at for at, word in enumerate(words[1:], 1) if not word.startswith("-")), 0)
    if words[0].startswith("python") and script and words[script - 1] not in ("-c", "-m", "-X", "-W"):
        words = [PurePosixPath(words[script]).name, *words[script + 1 :]]
    if words[0] == _RANK_PROGRAM and len(words) > 1:
        words = [PurePosixPath(words[1]).name, *words[2:]]
    return " ".join(words)
