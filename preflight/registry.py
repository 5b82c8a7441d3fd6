"""The table of checks, and the one loop that runs them so that none hides another.

A host check names the facts it reads as its parameters: any field of HostFacts, or `facts` (all of them),
`job`, `expect`, `host_entry`. If a named fact is Missing, the check is not called: an UNKNOWN finding with the
reason takes its place. A crash inside a check becomes an UNKNOWN finding too. A cluster check gets
`hosts` (name -> HostFacts of all that answered), `job`, and `reach` (tuple[Reach, ...]).
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from preflight.facts import HostFacts, Missing, Reach
from preflight.finding import Finding, Problem, Severity
from preflight.job import Expect, Job

type_of_check = Callable[..., Iterable[Problem]]

_FACT_NAMES = frozenset(field.name for field in fields(HostFacts))


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the table. `title` is what is true when the check passes; `text` is its whole docstring."""

    code: str
    title: str
    text: str
    severity: Severity
    gate: bool
    scope: str  # "host" or "cluster"
    needs: tuple[str, ...]
    function: Callable[..., Iterable[Problem]]
    gpu_only: bool  # has nothing to say about a job with gpus: none


CHECKS: dict[str, Check] = {}


def host_check(
    code: str, severity: Severity = Severity.CRITICAL, *, gate: bool = False, gpu_only: bool = False
) -> Callable[[type_of_check], type_of_check]:
    """Register a function that judges one host."""
    return _register(code, severity, gate=gate, gpu_only=gpu_only, scope="host")


def cluster_check(
    code: str, severity: Severity = Severity.CRITICAL, *, gate: bool = False, gpu_only: bool = False
) -> Callable[[type_of_check], type_of_check]:
    """Register a function that judges the hosts of one launch together."""
    return _register(code, severity, gate=gate, gpu_only=gpu_only, scope="cluster")


def _register(
    code: str, severity: Severity, *, gate: bool, gpu_only: bool, scope: str
) -> Callable[[type_of_check], type_of_check]:
    def register(function: type_of_check) -> type_of_check:
        text = inspect.getdoc(function) or ""
        if not text:
            raise TypeError(f"{code}: a check needs a docstring; it is what `gpulaunch explain {code}` prints")
        if code in CHECKS:
            raise TypeError(f"{code} is taken by {CHECKS[code].function.__qualname__}")
        CHECKS[code] = Check(
            code=code,
            title=text.splitlines()[0],
            text=text,
            severity=severity,
            gate=gate,
            scope=scope,
            needs=tuple(inspect.signature(function).parameters),
            function=function,
            gpu_only=gpu_only,
        )
        return function

    return register


def judge_host(
    facts: HostFacts, job: Job, expect: Expect, *, ignore: frozenset[str] = frozenset()
) -> tuple[Finding, ...]:
    """Run every host check on one host's facts."""
    supply: dict[str, Any] = {name: getattr(facts, name) for name in _FACT_NAMES}
    supply |= {"facts": facts, "job": job, "expect": expect}
    return tuple(_run("host", (facts.host,), supply, job, ignore))


def judge_cluster(
    hosts: Mapping[str, HostFacts], job: Job, reach: tuple[Reach, ...], *, ignore: frozenset[str] = frozenset()
) -> tuple[Finding, ...]:
    """Run every cluster check on the hosts that answered."""
    supply = {"hosts": hosts, "job": job, "reach": reach}
    return tuple(_run("cluster", tuple(hosts), supply, job, ignore))


def _run(
    scope: str, hosts: tuple[str, ...], supply: Mapping[str, Any], job: Job, ignore: frozenset[str]
) -> Iterator[Finding]:
    for check in CHECKS.values():
        if check.scope != scope or (check.gpu_only and not job.wants_gpus):
            continue
        for problem in _ask(check, supply):
            yield Finding(
                code=check.code,
                severity=problem.severity or check.severity,
                hosts=hosts,
                subject=problem.subject,
                message=problem.message,
                fix=problem.fix,
                gate=check.gate,
                ignored=check.code in ignore,
            )


def _ask(check: Check, supply: Mapping[str, Any]) -> list[Problem]:
    values = {name: supply[name] for name in check.needs}
    for name, value in values.items():
        if isinstance(value, Missing):
            return [Problem(f"could not check: {name}: {value.reason}", severity=Severity.UNKNOWN)]
    try:
        return list(check.function(**values))
    except Exception as error:  # noqa: BLE001 - a crash of one check must hide no other and never count as a pass
        return [Problem(f"the check itself failed: {error!r}", "please report this", severity=Severity.UNKNOWN)]
