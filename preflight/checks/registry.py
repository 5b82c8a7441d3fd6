"""How a function becomes a check.

A host check names the facts it reads as its parameters: any field of HostFacts, or `facts` (all of them),
`job`, `expect`, `use` (the GpuSelection: GPUs that the job wants on this host), `is_main` (ranks meet on this
host). A cluster check names `hosts` (name -> HostFacts of all that answered), `job`, `expect` (by host),
`reach` (tuple[Reach, ...]), `clocks` (name -> ClockOffset), `ranks` (name -> NodeRanks; {} where no launch is
possible), `script` (ScriptAnalysis or None). A deep check takes `deep` (DeepRun), which a launch of its own
has measured. `preflight.checks.runner` calls them.
"""

import inspect
from collections.abc import Callable, Iterable
from functools import partial

from preflight.checks.finding import Problem, Severity
from preflight.frozen import dataclass

CheckFunction = Callable[..., Iterable[Problem]]

ClockOffset = tuple[float, float]
"""Bounds, in seconds, between which a host's clock is ahead of ours: the answer took a while to arrive."""

NOT_HELD = "not in this file"  # what is said of a check whose value a saved nvidia-smi does not hold


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the table."""

    code: str
    severity: Severity
    gate: bool
    scope: str  # "host", "cluster" or "deep"
    needs: tuple[str, ...]
    function: CheckFunction
    gpu_only: bool  # has nothing to say about a job with gpus: none
    reads: tuple[str, ...] = ()  # facts that it does without, or judges, where they are missing

    @property
    def text(self) -> str:
        """The whole docstring, which is what `gpulaunch explain` prints."""
        return inspect.getdoc(self.function) or ""

    @property
    def title(self) -> str:
        """What is true when the check passes."""
        return self.text.splitlines()[0]


CHECKS: dict[str, Check] = {}


def sort_by_module(modules: Iterable[str]) -> None:
    """Put the checks into the order of their modules, those of one family together and by their numbers.

    A module may have been imported before the others.
    """
    place = {name: number for number, name in enumerate(modules)}
    families: dict[str, int] = {}
    for check in CHECKS.values():
        family, number = check.code[:-3], place[check.function.__module__]
        families[family] = min(number, families.get(family, number))
    rows = sorted(CHECKS.values(), key=lambda check: (families[check.code[:-3]], check.code))
    CHECKS.clear()
    CHECKS.update((check.code, check) for check in rows)


def _register_check(
    code: str,
    severity: Severity = Severity.CRITICAL,
    *,
    scope: str,
    gate: bool = False,
    gpu_only: bool = False,
    reads: tuple[str, ...] = (),
) -> Callable[[CheckFunction], CheckFunction]:
    """Register a function that judges one host, the hosts of a launch together, or what a deep run measured.

    It takes from `facts` what it `reads` although that may be missing; a source that was never asked for it
    leaves the check unmade.
    """

    def register(function: CheckFunction) -> CheckFunction:
        if not function.__doc__:
            raise TypeError(
                f"{code}: a check needs a docstring; it is what `gpulaunch explain {code}` prints"
            )
        if code in CHECKS:
            raise TypeError(f"{code} is taken by {CHECKS[code].title!r}")
        CHECKS[code] = Check(
            code=code,
            severity=severity,
            gate=gate,
            scope=scope,
            needs=_needs_of(function),
            function=function,
            gpu_only=gpu_only,
            reads=reads,
        )
        return function

    return register


host_check = partial(_register_check, scope="host")
cluster_check = partial(_register_check, scope="cluster")
deep_check = partial(_register_check, scope="deep")


def _needs_of(function: CheckFunction) -> tuple[str, ...]:
    judged: CheckFunction | None = getattr(function, "__wrapped__", None)  # by judge_each_gpu, in turn
    code = (judged or function).__code__
    names = code.co_varnames[: code.co_argcount]
    return names if judged is None else ("gpus", *names[2:])


def parse_family(code: str) -> str:
    """Return "PROC" of "PROC001"."""
    return code.rstrip("0123456789")
