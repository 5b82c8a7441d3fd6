"""`gpulaunch rehearse`: the real script on the real hosts by the real plan, for a few optimizer steps.

The guard in each rank stops it and measures (launcher/onhost/guard/). The script works in a directory of
links to its own one, where its output folder is empty; that directory is removed afterwards.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from launcher.config.disconnect_options import ATTENDED
from launcher.errors import GpulaunchError, LaunchRefused
from launcher.follow.outcome import Outcome
from launcher.host_checks.result import PreflightResult
from launcher.launch.launch import CheckedLaunch, launch_and_follow, note_clean_end, raise_if_blocked
from launcher.launch.request import LaunchRequest
from launcher.planning.plan import NodePlan
from launcher.rehearsal.batch_args import halve_batch
from launcher.rehearsal.proof_store import Fingerprint, fingerprint
from launcher.rehearsal.verdict import Proof, RehearsalVerdict, evaluate_rehearsal
from launcher.remote.program_source import ISOLATED
from launcher.remote.rpc import find_answer
from launcher.report.plan import encode_plan
from launcher.rundir.usage_series import RankSeries, read_usage
from launcher.terminal.screen import Screen
from launcher.text import one_line
from preflight.frozen import dataclass
from preflight.job import Job

DEFAULT_STEPS = 10
CLEAN_S = 120.0
"""Removing a scratch directory with checkpoints of a few hundred GB on a slow file system takes its time."""


@dataclass(frozen=True, slots=True)
class RehearsalResult:
    """A rehearsal that is over, and for which arguments of the script it was."""

    outcome: Outcome
    verdict: RehearsalVerdict
    fingerprint: Fingerprint
    args: tuple[str, ...]
    rejected_args: tuple[tuple[str, ...], ...]  # arguments that did not fit


def build_rehearsal_job(job: Job, steps: int) -> Job:
    """Return the job as it is rehearsed."""
    return replace(
        job, name=f"{job.name}-rehearsal", args=(*job.args, *job.rehearse_args), rehearse_steps=steps
    )


def rehearse(
    launch: LaunchRequest,
    on_result: Callable[[PreflightResult], None],
    screen: Screen,
    *,
    steps: int = DEFAULT_STEPS,
    fit: bool = False,
) -> RehearsalResult:
    """Rehearse; with `fit` again with half the batch while it does not fit. Raises as raise_if_blocked."""
    if launch.job.engine is not None and launch.job.engine.once_per_host:
        raise LaunchRefused(
            "a rehearsal measures ranks from inside, and this command starts its own",
            "rehearse the launcher and script that it starts: gpulaunch rehearse -- torchrun ...",
        )
    launch = replace(
        launch,
        follow=replace(
            launch.follow, disconnect=replace(ATTENDED, slurm_job=launch.follow.disconnect.slurm_job)
        ),
    )
    tried: list[tuple[str, ...]] = []
    args = launch.job.args
    while True:
        job = replace(launch.job, args=args)
        prepared = raise_if_blocked(replace(launch, job=build_rehearsal_job(job, steps)), on_result)
        begun: list[Outcome] = []  # attempts that lost their port may have come as far as their scratch
        begun.append(launch_and_follow(prepared, screen, begun.append))
        outcome = begun[-1]
        note_clean_end(outcome)
        cleaned = tuple(proof for each in begun for proof in remove_scratch(prepared, each))
        verdict = evaluate_rehearsal(outcome, cleaned, calculate_gpu_use_by_rank(outcome))
        smaller = halve_batch(args, job.batch_args)
        if not (fit and verdict.out_of_memory and smaller):
            found = fingerprint(job, prepared.result.facts, launch.preflight.sent)
            return RehearsalResult(outcome, verdict, found, args, tuple(tried))
        tried.append(args)
        screen.notify(f"out of GPU memory; rehearsing again with {' '.join(smaller)}", bad=True)
        args = smaller


def calculate_gpu_use_by_rank(outcome: Outcome) -> dict[int, float]:
    """Return how busy each rank's GPU was while it stepped, where its host has measured that."""
    series = read_usage(outcome.directory, encode_plan(outcome.plan), outcome.measurements.clock_offset_s)
    found = {
        each.rank: calculate_gpu_use(
            each,
            outcome.measurements.rehearsal.get(each.rank, {}),
            outcome.measurements.clock_offset_s.get(each.host, 0.0),
        )
        for each in series
    }
    return {rank: percent for rank, percent in found.items() if percent is not None}


def remove_scratch(prepared: CheckedLaunch, outcome: Outcome) -> Iterator[Proof]:
    """Remove the scratch directory on every host; yield whether it is gone and no real output changed."""
    for entry, node in zip(prepared.launch.entries, outcome.plan.nodes, strict=True):
        run_dir = outcome.run_dirs.get(node.host)
        if not run_dir:
            continue  # nothing was started on it
        try:
            with prepared.launch.connections.borrow(entry) as connection:
                done = connection.run(
                    (node.python, ISOLATED, f"{run_dir}/guard.py", "clean"), timeout_s=CLEAN_S
                )
            answer = find_answer(done, node.host, node.python, "the removal of the scratch directory")
        except GpulaunchError as error:
            text = f"could not be removed on {node.host}: {one_line(error.message)}"
            yield Proof("scratch", False, text)
            continue
        yield _cleaned(node, answer)


def _cleaned(node: NodePlan, answer: Mapping[str, Any]) -> Proof:
    changed = answer.get("changed")
    if isinstance(changed, list) and changed:
        names = one_line(", ".join(map(str, changed)), 300)
        return Proof("output", False, f"the real output on {node.host} changed meanwhile: {names}")
    if not answer.get("removed"):
        return Proof("scratch", False, f"{answer.get('scratch')} on {node.host} could not be removed")
    return Proof("output", True, f"no file of a real run was touched on {node.host}, none was left behind")


def calculate_gpu_use(series: RankSeries, measured: Mapping[str, Any], clock_offset_s: float) -> float | None:
    """Return the mean percentage between the ends of the first and the last step; None: no sample in that
    time.

    `measured` is the guard's; its times are of the host's clock, which `clock_offset_s` brings to ours.
    """
    span = measured.get("stepping")
    if not isinstance(span, list) or len(span) != 2:
        return None
    begin, end = (float(at) + clock_offset_s for at in span)
    inside = [
        percent
        for at, percent in zip(series.at, series.values["busy"], strict=True)
        if begin <= at <= end and math.isfinite(percent)
    ]
    return sum(inside) / len(inside) if inside else None
