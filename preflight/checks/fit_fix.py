"""A fix as it can be typed on one host: by its user, and in the container that the host may be."""

from dataclasses import replace

from preflight import regex as re
from preflight.checks.finding import Problem
from preflight.checks.unread_facts import is_container
from preflight.facts.host import HostFacts, Identity

_INSIDE, _ON_MACHINE = "in a container: ", "on a host: "
_OUTSIDE = "outside the container (by the provider of a rented one)"
_MACHINES_OWN = re.compile(
    r"\bsudo (?:modprobe|rmmod|reboot|systemctl|nvidia-smi|nvidia-modprobe|dmesg|mount|timedatectl)\b"
    r"|then reboot\b"
)
"""What changes or reads the kernel, which root of a container may not."""


def fit_fix(problem: Problem, facts: HostFacts) -> Problem:
    """Return the problem with what of its fix holds on this host; all of it where the host is not known.

    "; " separates the parts of a fix. Root of a rented machine mostly has no `sudo`. A container numbers its
    GPUs itself, so what is typed outside names the GPU by its place on the bus.
    """
    who = facts.identity
    if not isinstance(who, Identity):
        return problem
    boxed = is_container(who)
    kept, other = (_INSIDE, _ON_MACHINE) if boxed else (_ON_MACHINE, _INSIDE)
    parts = [part.removeprefix(kept) for part in problem.fix.split("; ") if not part.startswith(other)]
    outside = [boxed and bool(_MACHINES_OWN.search(part)) for part in parts]
    if True in outside:
        bus = next((gpu.pci_bus_id for gpu in facts.known_gpus if gpu.index == problem.gpu), "")
        first = outside.index(True)
        parts[first] = f"{_OUTSIDE}{':' if parts[first].startswith('sudo') else ','} {parts[first]}"
        if isinstance(bus, str) and bus:
            parts = [part.replace(f" -i {problem.gpu}", f" -i {bus}") for part in parts]
    if who.uid == 0:
        parts = [part if out else part.replace("sudo ", "") for part, out in zip(parts, outside, strict=True)]
    return replace(problem, fix="; ".join(parts) or problem.fix)
