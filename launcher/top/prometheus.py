"""The view in Prometheus' text exposition format, for the textfile collector of node_exporter. Pure.

The format: https://prometheus.io/docs/instrumenting/exposition_formats/. Base units, as its naming rules ask
for: bytes, watts, degrees Celsius, ratios from 0 to 1. A value that is not known has no line, nor has any
number of a host that does not answer; its `gpulaunch_host_up` is 0.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from launcher.local.atomic_write import write_atomic
from launcher.text import sanitize
from launcher.top.views import FleetView, GpuView, HostView, RunView
from preflight.frozen import dataclass

_MIB = 1 << 20
Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class _Sample:
    name: str
    labels: Labels
    value: float


_HELP = {
    "snapshot_timestamp_seconds": "When the oldest of these numbers were read.",
    "host_up": "Whether the host answers now.",
    "gpu_utilization_ratio": "Share of time in which a kernel ran.",
    "gpu_memory_used_bytes": "Memory in use.",
    "gpu_memory_total_bytes": "Memory in all.",
    "gpu_power_watts": "Power drawn.",
    "gpu_power_limit_watts": "Power allowed.",
    "gpu_temperature_celsius": "Temperature of the GPU.",
    "gpu_throttled": "1 for each reason for which the clock is held down now.",
    "gpu_held": "Whether a process holds the GPU.",
    "gpu_free": "Whether a launch would find the GPU free.",
    "gpu_processes": "Processes on the GPU by user, class of clean-zombies and run.",
    "run_step": "Last optimizer step of a run.",
    "run_steps": "Steps of a run in all.",
    "run_loss": "Last loss of a run.",
    "run_eta_seconds": "Time until a run ends, by its pace.",
    "run_output_age_seconds": "Time since the leading rank of a run printed anything.",
    "run_gpus": "GPUs of a run.",
}


def write_metrics(path: Path, view: FleetView) -> None:
    """Replace a file by the metrics of a view, at once. Raises OSError, BadInput."""
    write_atomic(path, render_metrics(view))


def render_metrics(view: FleetView) -> str:
    """Return the text: each metric's HELP and TYPE, then its samples."""
    by_name: dict[str, list[_Sample]] = {name: [] for name in _HELP}
    for sample in _samples(view):
        by_name[sample.name].append(sample)
    lines = []
    for name, samples in by_name.items():
        if samples:
            lines += [f"# HELP gpulaunch_{name} {_HELP[name]}", f"# TYPE gpulaunch_{name} gauge"]
            lines += [_line(sample) for sample in samples]
    return "".join(f"{line}\n" for line in lines)


def _line(sample: _Sample) -> str:
    labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels.items())
    return f"gpulaunch_{sample.name}" + (f"{{{labels}}}" if labels else "") + f" {_number(sample.value)}"


def _escaped(value: str) -> str:
    r"""Return a label's value: backslash, quote and newline escaped, other control characters visible."""
    kept = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return sanitize(kept, keep_lines=False)


def _number(value: float) -> str:
    if value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


def _samples(view: FleetView) -> Iterator[_Sample]:
    ages = (host.age_s or 0.0 for host in view.hosts if host.current)  # one that answers late delays the file
    yield _Sample("snapshot_timestamp_seconds", {}, round(view.time_unix - max(ages, default=0.0), 3))
    for host in view.hosts:
        yield _Sample("host_up", {"host": host.name}, float(host.current))
        if host.current:
            for gpu in host.gpus:
                yield from _gpu_samples(host, gpu)
    for run in view.runs:
        yield from _run_samples(run)


def _gpu_samples(host: HostView, gpu: GpuView) -> Iterator[_Sample]:
    labels = {"host": host.name, "gpu": str(gpu.index), "uuid": gpu.uuid, "model": gpu.model}
    values = {
        "gpu_utilization_ratio": None if gpu.busy_percent is None else gpu.busy_percent / 100.0,
        "gpu_memory_used_bytes": None if gpu.used_mib is None else gpu.used_mib * _MIB,
        "gpu_memory_total_bytes": None if gpu.total_mib is None else gpu.total_mib * _MIB,
        "gpu_power_watts": gpu.power_w,
        "gpu_power_limit_watts": gpu.power_limit_w,
        "gpu_temperature_celsius": gpu.temperature_c,
        "gpu_held": None if gpu.held is None else float(gpu.held),
        "gpu_free": float(gpu.free) if gpu.held is not None else None,
    }
    yield from (_Sample(name, labels, value) for name, value in values.items() if value is not None)
    for reason in gpu.throttle or ():
        if reason != "idle":
            yield _Sample("gpu_throttled", {**labels, "reason": reason}, 1.0)
    counts = Counter(
        (each.user, each.kind.value if each.kind is not None else "unknown", each.run_id)
        for each in gpu.holders
    )
    for (user, kind, run_id), count in counts.items():
        about = {"user": user, "class": kind, "run": run_id}
        yield _Sample("gpu_processes", {**labels, **about}, float(count))


def _run_samples(run: RunView) -> Iterator[_Sample]:
    values = {
        "run_step": run.step,
        "run_steps": run.steps,
        "run_loss": run.loss,
        "run_eta_seconds": run.eta_s,
        "run_output_age_seconds": run.output_age_s,
        "run_gpus": run.gpu_count,
    }
    for name, value in values.items():
        if value is not None:
            yield _Sample(name, {"run": run.run_id, "state": run.state}, float(value))
