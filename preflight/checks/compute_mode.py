"""Compute mode: who may open a GPU, and how many at once."""

from collections.abc import Iterator

from preflight.checks.finding import Problem, Severity
from preflight.checks.holder_text import advise_on_holder, classify_by_pid, find_process, name_holder
from preflight.checks.registry import host_check
from preflight.checks.unread_facts import judge_each_gpu, report_unreadable
from preflight.decide.usable_gpus import GpuSelection
from preflight.facts.gpu import ComputeProcess, Gpu
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.job import Expect
from preflight.leftovers.classify import ClassifiedProcess

_DEFAULT = "sudo nvidia-smi -i {index} -c DEFAULT   (until a reboot)"


@host_check("MODE001", gate=True, gpu_only=True)
@judge_each_gpu("compute_mode", "compute mode")
def no_gpu_refuses_contexts(gpu: Gpu, mode: str) -> Iterator[Problem]:
    """Every GPU that the job uses accepts a CUDA context.

    A GPU in Prohibited compute mode refuses every context, so the rank mapped to it dies at start. Such a GPU
    is left out of the launch when others remain: administrators keep display cards from compute this way.

    Fix: root: `nvidia-smi -i N -c DEFAULT` (the mode returns to Default at every reboot).
    Source: NVML nvmlDeviceGetComputeMode; NVML documentation of nvmlDeviceSetComputeMode.
    """
    if mode == "prohibited":
        yield Problem(
            "compute mode is Prohibited, so no rank can open this GPU",
            f"leave it out with gpus:; to use it: {_DEFAULT.format(index=gpu.index)}",
        )


@host_check("MODE002", gate=True, gpu_only=True)
def exclusive_gpus_are_free(
    facts: HostFacts, gpus: tuple[Gpu, ...], use: GpuSelection, expect: Expect
) -> Iterator[Problem]:
    """No GPU in Exclusive_Process mode is held by another process.

    In this mode a GPU takes one process. A second one gets "CUDA-capable device(s) is/are busy or
    unavailable", which reads like a broken GPU. One rank per GPU works as long as no rank touches a GPU that
    is not its own; gpulaunch gives each rank its own GPU. With the MPS control daemon several processes may
    share it.

    Fix: `gpulaunch clean-zombies HOST` when the holder is a leftover; wait for it, or have its owner end it,
    when it lives; or root: `nvidia-smi -i N -c DEFAULT`.
    Source: CUDA driver API error 46; karpathy/nanoGPT issue 116; NVIDIA/go-dcgm issue 52.
    """
    mps = not isinstance(facts.system, Missing) and facts.system.mps_control
    known = classify_by_pid(facts, expect)
    free: dict[str, list[str]] = {}
    for gpu in gpus:
        if gpu.compute_mode not in ("exclusive_process", "exclusive_thread"):
            continue
        mode = gpu.compute_mode.title()  # as nvidia-smi writes it
        if isinstance(gpu.processes, Missing):
            yield from report_unreadable(gpu, f"processes on a GPU in {mode} mode", gpu.processes)
            continue
        holders = [process for process in gpu.processes if process.kind == "compute"]
        if mps or any(process.kind == "mps" for process in gpu.processes):
            message = f"compute mode is {mode} with an MPS server: processes share it through MPS"
            yield Problem(message, "nothing to do", severity=Severity.INFO, gpu=gpu.index)
        elif holders:
            seen = {p.pid: find_process(facts, gpu, known.get(p.pid)) for p in holders}
            held = ", ".join(_named(p, seen[p.pid]) for p in holders)
            remedies = dict.fromkeys(_remedy(facts, gpu, item) for item in seen.values())
            yield Problem(
                f"compute mode is {mode} and {held} holds it: a rank on it dies with "
                '"device(s) is/are busy or unavailable"',
                f"{'; '.join(remedies)}; to share it: {_DEFAULT.format(index=gpu.index)}",
                gpu=gpu.index,
            )
        elif gpu.index in use.candidates:
            free.setdefault(mode, []).append(str(gpu.index))
    for mode, indices in free.items():
        yield Problem(
            f"compute mode of GPU {', '.join(indices)} is {mode}: one process each, so every rank gets its "
            "own GPU and nothing else may touch it",
            "nothing to do; to allow sharing: sudo nvidia-smi -c DEFAULT",
            severity=Severity.INFO,
        )


def _named(holder: ComputeProcess, item: ClassifiedProcess | None) -> str:
    if item is not None:
        return name_holder(item)
    return f"pid {holder.pid}" + ("" if isinstance(holder.name, Missing) else f" ({holder.name})")


def _remedy(facts: HostFacts, gpu: Gpu, item: ClassifiedProcess | None) -> str:
    if item is not None:
        return advise_on_holder(facts, item)
    return f"ask its owner, whom sudo fuser -v {gpu.device_file} names, or use other GPUs with --gpus"
