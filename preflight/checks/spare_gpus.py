"""The severity of what is wrong with a GPU that a launch can do without."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from preflight.checks.finding import Problem, Severity
from preflight.checks.registry import Check
from preflight.decide.usable_gpus import GpuSelection
from preflight.job import Job

ReportCheck: TypeAlias = tuple[Check, Problem]


def demote_spare_gpus(
    problems: list[ReportCheck], use: GpuSelection, job: Job, *, is_alone: bool
) -> Iterator[ReportCheck]:
    """Turn what would stop a launch into a warning where it is about a GPU that the job can do without.

    Where it cannot, its fix says how many GPUs to ask for, so that it can.
    """
    stopping = (Severity.CRITICAL, Severity.UNKNOWN)
    bad = {p.gpu for check, p in problems if p.gpu is not None and (p.severity or check.severity) in stopping}
    left = sorted(use.candidates - bad)
    for check, problem in problems:
        severity = problem.severity or check.severity
        if problem.gpu is None or severity not in stopping:
            yield check, problem
        elif (is_unused := problem.gpu not in use.candidates) or len(left) >= use.needed:
            left_out = f"left out of this launch, which needs {use.needed} of the others"
            message = f"{problem.message} ({'this launch does not use it' if is_unused else left_out})"
            fix = problem.fix.replace(", or use other GPUs with --gpus", "")  # it does already
            yield check, replace(problem, severity=Severity.WARNING, message=message, fix=fix)
        else:
            named = isinstance(job.gpus, tuple)
            yield check, problem if named else replace(problem, fix=_leaving_out(problem.fix, left, is_alone))


def _leaving_out(fix: str, left: list[int], is_alone: bool) -> str:  # noqa: FBT001 - of one caller
    """Return the fix with what has a launch use the `left` good GPUs of a host alone.

    `--gpus` counts on every host of a launch: with others, hosts.yaml says it of one.
    """
    if not left:
        return fix.replace("other GPUs with --gpus", "another host with --hosts")
    option = f"--gpus {len(left)}" if is_alone else f"gpus: {left} of this host in hosts.yaml"
    with_others = fix.replace("other GPUs with --gpus", f"other GPUs with {option}")
    others = "the other" if len(left) == 1 else "the others"
    return f"{fix}; or leave it out: {option} takes {others}" if with_others == fix else with_others
