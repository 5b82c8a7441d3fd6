"""What a parent proves: that it runs its child, or that it adopted an orphan. Pure.

The kernel gives an orphan to the nearest subreaper above it, else to PID 1 of its PID namespace. In a
container PID 1 is whatever the image starts: torchrun, a shell, `sleep infinity`. Such a PID 1 may have
started its children itself, and a subreaper cannot be distinguished from any other process, so only an init
that is known proves that an orphan is one.
"""

from enum import Enum
from pathlib import PurePosixPath

from preflight.facts.host import Process
from preflight.facts.missing import Missing
from preflight.frozen import dataclass
from preflight.leftovers import process_tree as tree_of
from preflight.leftovers.process_tree import COMM_LENGTH, INIT_PID, ProcessTree
from preflight.probes.processes import COMMAND_INITS

# What starts services as processes of their own and adopts what loses its parent. `pause` is PID 1 of a pod
# whose containers share a PID namespace; it starts nothing.
_SERVICE_INITS = frozenset({"systemd", "init", "openrc-init", "runit", "runit-init", "s6-svscan", "pause"})
# Parents that start ranks as well as adopt them: shells, supervisors, and what a shell becomes to keep a
# container alive (`torchrun ... & exec sleep infinity`).
_EITHER = frozenset(
    {
        "bash", "sh", "dash", "ash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox", "sleep", "tail", "cat",
        "supervisord", "circusd", "my_init", "runsvdir", "monit", "sshd", *_SERVICE_INITS, *COMMAND_INITS,
    }
)  # fmt: skip
# They hold a container for its engine: they start it, and adopt where it shares the host's PID namespace.
_SHIMS = ("containerd-shim", "conmon")


class Bond(Enum):
    """What is between a process and its parent."""

    RUN = "run"  # nothing says that the parent is not the one that started it
    ADOPTED = "adopted"  # the one that started it is gone
    UNCLEAR = "unclear"  # the parent may have started it or adopted it


@dataclass(frozen=True, slots=True)
class Parentage:
    """What the parent of a process proves, and a clause that says why."""

    bond: Bond
    why: str


def judge_parentage(tree: ProcessTree, process: Process) -> Parentage:
    """Say what the parent of a process proves."""
    if process.ppid == 0:
        return Parentage(Bond.RUN, "its parent is outside this PID namespace")
    parent = tree.parent(process)
    if parent is None:
        bond = Bond.UNCLEAR if process.ppid == INIT_PID else Bond.RUN
        return Parentage(bond, f"its parent, pid {process.ppid}, cannot be seen")
    named = f"pid {parent.pid} ({parent.comm})"
    if is_reaper(parent):
        return _under_reaper(tree, parent, process, named)
    if _may_adopt(parent, process):
        return Parentage(Bond.UNCLEAR, f"{named} may have started it or adopted it")
    return Parentage(Bond.RUN, f"its parent, {named}, is alive")


def is_reaper(process: Process) -> bool:
    """Return whether a process is known to collect orphans: a known init, or a user's systemd."""
    if tree_of.is_launcher(process) or tree_of.is_rank(process):
        return False
    if is_init(process):
        return bool(_names(process) <= _SERVICE_INITS | COMMAND_INITS)
    return _names(process) == {"systemd"} and "--user" in tree_of.get_argv(process)


def is_init(process: Process) -> bool:
    """Return whether it is PID 1 of its PID namespace."""
    pids = process.namespace_pids
    return process.pid == INIT_PID or (not isinstance(pids, Missing) and pids[-1:] == (INIT_PID,))


def _under_reaper(tree: ProcessTree, parent: Process, process: Process, named: str) -> Parentage:
    if not _same_depth(parent, process):
        return Parentage(Bond.UNCLEAR, f"{named} is in another PID namespace")
    if _is_the_command(tree, parent, process):
        return Parentage(Bond.RUN, f"it is the command that {named} runs")
    if tree_of.get_environ(process).get("SYSTEMD_EXEC_PID") == str(_own_pid(process)):
        return Parentage(Bond.RUN, f"it is a service of {named}")
    return Parentage(Bond.ADOPTED, f"its parent is now {named}")


def _is_the_command(tree: ProcessTree, parent: Process, process: Process) -> bool:
    """Whether an init of one command started it: the oldest child is that command, and they end together."""
    if not _names(parent) & COMMAND_INITS:
        return False
    children = [each for each in tree.by_pid.values() if each.ppid == parent.pid]
    return all(process.start_ticks <= each.start_ticks for each in children)


def _same_depth(parent: Process, process: Process) -> bool:
    """Whether both are in one PID namespace; where that cannot be read, nothing is proven."""
    above, below = parent.namespace_pids, process.namespace_pids
    if isinstance(above, Missing) or isinstance(below, Missing):
        return False
    return len(above) == len(below)


def _may_adopt(parent: Process, process: Process) -> bool:
    """Whether a parent gets orphans and is not plainly what starts such a child."""
    if parent.comm.startswith(_SHIMS):
        return True
    if not is_init(parent):
        return False
    # Only a rank or a training forks DataLoader workers; a launcher above them has adopted them.
    strange = tree_of.is_data_worker(process) and tree_of.is_launcher(parent)
    return strange or bool(_names(parent) & _EITHER)


def _own_pid(process: Process) -> int:
    pids = process.namespace_pids
    return process.pid if isinstance(pids, Missing) or not pids else pids[-1]


def _names(process: Process) -> set[str]:
    """Return its names, of which a script or a launcher that is called `init` has another as well."""
    words = [word for text in tree_of.get_argv(process)[:2] for word in text.split()[:1]]
    names = [PurePosixPath(word.lstrip("-")).name[:COMM_LENGTH] for word in words]
    if names[:1] == ["busybox"]:
        return {names[1] if len(names) > 1 else process.comm}
    return {process.comm, *names[:1]} if names else {process.comm, ""}
