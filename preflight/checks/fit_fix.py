"""A fix as it can be typed on one host: by its user, and in the container that the host may be."""

from dataclasses import replace

from preflight import regex as re
from preflight.checks.finding import Problem
from preflight.checks.unread_facts import is_container
from preflight.facts.host import HostFacts, Identity

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
