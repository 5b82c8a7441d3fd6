"""What the GPUs can train in, against what the config requests."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from preflight.checks.finding import Problem, Severity, name_some
from preflight.checks.registry import cluster_check, host_check
from preflight.checks.unread_facts import report_required
from preflight.decide.precision import find_hardware_limit
from preflight.decide.usable_gpus import GpuSelection
from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.job import Job

if TYPE_CHECKING:
    from preflight.checks.runner import PlannedLaunch


@host_check("PREC001", Severity.WARNING, gate=True, gpu_only=True)
def the_gpus_have_the_requested_precision(
    gpus: tuple[Gpu, ...], use: GpuSelection, job: Job
) -> Iterator[Problem]:
    """Every GPU that the job uses computes natively in the mixed precision that the config requests.

    bf16 is native from compute capability 8.0 and fp8 from 8.9. torch says "supported" for emulated bf16 too,
    so nothing refuses it on a T4 or a TITAN RTX: it is slow on them and fails later in kernels that have no
    bf16 form. gpulaunch corrects the launch to what the hardware has, and says so.

    Fix: ask for `precision: auto`, or leave the slow GPUs out.
    Source: NVML compute capability; torch.cuda.is_bf16_supported counts emulation; transformer-engine's
    matrix.
    """
    for gpu in gpus:
        if gpu.index not in use.candidates:
            continue
        limit = find_hardware_limit(gpu)
        if isinstance(limit, Missing):
            if job.precision != "no":
                yield from report_required(gpu, "the mixed precision it can train in", limit)
        elif job.precision not in ("auto", "no") and job.precision not in limit.on_request:
            yield Problem(
                f"the config requests {job.precision}; {limit.reason.text}: {limit.reason.source}",
                f"--precision {limit.best} (gpulaunch run corrects it), or leave this GPU out with --gpus",
                gpu=gpu.index,
            )


@cluster_check("PREC002", Severity.WARNING, gpu_only=True)
def one_precision_suits_all_hosts(
    hosts: Mapping[str, HostFacts], job: Job, launch: "PlannedLaunch"
) -> Iterator[Problem]:
    """All hosts of the launch train best in the same mixed precision.

    The whole launch has one precision, the weakest GPU's. Ranks that differ raise nothing: gradients are
    summed as if they were alike and the weights drift apart.

    Fix: launch on the hosts of one kind, or accept the common one.
    Source: reproduced with DDP over fp16 with a scaler on one rank and bf16 on the other.
    """
    # The hosts of each, in order: a list would be searched for each GPU.
    best: dict[str, dict[str, None]] = {}
    for name, facts in hosts.items():
        for gpu in launch.gpus_of(facts, job):
            limit = find_hardware_limit(gpu)
            if not isinstance(limit, Missing):
                best.setdefault(limit.best, {})[name] = None
    if len(best) > 1 and job.precision == "auto":
        listed = "; ".join(f"{value}: {name_some(names)}" for value, names in sorted(best.items()))
        yield Problem(
            f"best precision differs ({listed}); the whole launch takes the lowest",
            "launch on hosts of one kind with --hosts, or give --precision",
        )
