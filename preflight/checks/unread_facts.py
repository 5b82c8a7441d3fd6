"""What checks say of a value that could not be read, and how they judge a fact GPU by GPU."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from typing import Any

from preflight.checks.finding import Problem, Severity
from preflight.checks.registry import CheckFunction
from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts, Identity
from preflight.facts.missing import Missing

REPORTED_ELSEWHERE = ("gpu-lost", "reset-required")  # one finding (GPU003), not one per value


def report_unread(quantity: str, missing: Missing, subject: str = "") -> Problem:
    """Say that `quantity` could not be read."""
    message = f"{quantity} not checked: {missing.reason}"
    return Problem(message, fix_missing(missing), subject, Severity.UNKNOWN)


def report_unreadable(gpu: Gpu, quantity: str, missing: Missing) -> Iterator[Problem]:
    """Say that `quantity` of a GPU could not be read: nothing where GPUs of this kind do not have it."""
    if missing.code not in ("not-supported", *REPORTED_ELSEWHERE):
        is_blank = missing.code == "not-asked"
        yield replace(report_unread(quantity, missing), gpu=gpu.index, not_collected=is_blank)


def report_required(gpu: Gpu, quantity: str, missing: Missing) -> Iterator[Problem]:
    """Say that a value which the launch depends on could not be read, whatever the reason."""
    if missing.code not in REPORTED_ELSEWHERE:
        yield Problem(
            f"{quantity} not known: {missing.reason}",
            fix_missing(missing),
            severity=Severity.UNKNOWN,
            gpu=gpu.index,
        )


def judge_each_gpu(fact: str, called: str) -> Callable[[CheckFunction], CheckFunction]:
    """Let a check judge one fact of each GPU in turn: what it says is about that GPU.

    Its parameters are the GPU, the fact, and those of any host check. A fact that could not be read is
    reported by the name that it is `called`.
    """

    def decorate(function: CheckFunction) -> CheckFunction:
        @wraps(function)
        def judge(gpus: tuple[Gpu, ...], **others: Any) -> Iterator[Problem]:
            for gpu in gpus:
                value = getattr(gpu, fact)
                if isinstance(value, Missing):
                    yield from report_unreadable(gpu, called, value)
                else:
                    yield from (replace(said, gpu=gpu.index) for said in function(gpu, value, **others))

        return judge

    return decorate


def fix_missing(missing: Missing) -> str:
    """Return what would make the value readable."""
    if missing.code == "no-permission":
        return "run the preflight as a user who may read it, or ask the administrator for the value"
    if missing.code == "timeout":
        return (
            "try again; if it hangs again the driver or a path's file server is stuck: ask the administrator"
        )
    if missing.code == "not-asked":
        return "run the preflight on the host itself: this source does not hold it"
    return "run the preflight again; if it stays, look on the host itself"


def name_of(gpu: Gpu) -> str:
    """Return the model, for messages."""
    return "a GPU of unknown model" if isinstance(gpu.name, Missing) else gpu.name


def is_container(identity: Identity) -> bool:
    """Return whether the host is a container, whose root may not touch the machine's kernel."""
    return identity.container != "wsl2" and bool(identity.container or not identity.initial_pid_namespace)


_RUNTIMES = ("docker", "podman", "libpod", "containerd")


def is_started_with_options(facts: HostFacts) -> bool:
    """Return whether the host is a container whose limits and network are options of `docker run`."""
    return not isinstance(facts.identity, Missing) and facts.identity.container in _RUNTIMES
