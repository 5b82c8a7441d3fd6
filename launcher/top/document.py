"""The view as the documented JSON. Pure."""

from typing import Any

from launcher.text import sanitize
from launcher.top.views import FleetView, GpuView, Holder, HostView, RunView
from preflight.facts.json_codec import encode

SCHEMA = "gpulaunch.top/1"


def encode_view(view: FleetView) -> dict[str, Any]:
    """Return the document but for its exit code."""
    return {
        "schema": SCHEMA,
        "time": view.time_unix,
        "hosts": [_encode_host(host) for host in view.hosts],
        "runs": [_encode_run(run) for run in view.runs],
    }


def _encode_host(host: HostView) -> dict[str, Any]:
    return {
        "host": host.name,
        "state": host.phase,
        "age_s": None if host.age_s is None else round(host.age_s, 3),
        "note": host.note,
        "fix": host.fix,
        "gpus": [_encode_gpu(host, gpu) for gpu in host.gpus],
    }


def _encode_gpu(host: HostView, gpu: GpuView) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "uuid": gpu.uuid or None,
        "model": gpu.model or None,
        "busy_percent": gpu.busy_percent,
        "used_mib": gpu.used_mib,
        "total_mib": gpu.total_mib,
        "power_w": gpu.power_w,
        "power_limit_w": gpu.power_limit_w,
        "temperature_c": gpu.temperature_c,
        "throttle": None if gpu.throttle is None else list(gpu.throttle),
        "held": gpu.held,
        "free": gpu.free if host.current else None,
        "problem": gpu.problem,
        "claimed_by": None
        if gpu.claimed_by is None
        else {"user": sanitize(gpu.claimed_by[0]), "run_id": gpu.claimed_by[1]},
        "processes": [_encode_holder(holder) for holder in gpu.holders],
    }


def _encode_holder(holder: Holder) -> dict[str, Any]:
    return {
        "pid": holder.pid,
        "user": holder.user or None,
        "command": holder.command,
        "age_s": holder.age_s,
        "class": None if holder.kind is None else holder.kind.value,
        "used_mib": holder.used_mib,
        "run_id": holder.run_id or None,
        "mine": holder.mine,
    }


def _encode_run(run: RunView) -> dict[str, Any]:
    finite = run.loss is None or abs(run.loss) < float("inf")
    return {**encode(run), "loss": run.loss if finite else str(run.loss)}
