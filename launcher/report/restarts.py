"""Restarts as text: before a launch what would happen, after it what did."""

from collections.abc import Iterable, Iterator
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.config.restart_options import RestartOptions
from launcher.follow.restart_history import RestartHistory, StartRecord
from preflight.diagnosis.failure_category import CATEGORIES
from preflight.facts.redaction import redact_words

RECORD_SCHEMA = "gpulaunch.restart/1"


def render_restart_policy(
    spec: RestartOptions, spares: Iterable[HostEntry], *, show_secrets: bool = False
) -> Iterator[str]:
    """Yield what happens when the run fails."""
    yield "When it fails:"
    kinds = ", ".join(row.name for row in CATEGORIES.values() if spec.is_retryable(row.name))
    yield f"  up to {spec.max} restart{'s' * (spec.max > 1)} after a failure of this kind: {kinds}"
    names = ", ".join(entry.name for entry in spares) or "none"
    yield (
        f"  a host or GPU that has gone bad is left out; spares: {names}"
        if spec.exclude_failed_hosts
        else ("  on the same hosts, all of them")
    )
    if spec.resume_args:
        where = ", ".join(spec.checkpoints)
        words = " ".join(_resume_args(spec, show_secrets=show_secrets))
        yield f"  with {words} for the last whole one of {where}"
    else:
        yield "  with the same arguments: no resume_args"


def describe_unattended_restart(hosts: int, *, continues: bool) -> str:
    """Return who restarts the run while no client follows it."""
    if not continues:
        return "  not while its client is gone: the run ends with it (on_disconnect: stop)"
    if hosts > 1:
        return "  while no client follows it, it waits for the next gpulaunch attach"
    return "  while no client follows it, its host restarts it (Python 3.11), or the next gpulaunch attach"


def _resume_args(spec: RestartOptions, *, show_secrets: bool) -> tuple[str, ...]:
    return spec.resume_args if show_secrets else redact_words(spec.resume_args)


def encode_restart_policy(
    spec: RestartOptions, spares: Iterable[HostEntry], *, show_secrets: bool = False
) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "max": spec.max,
        "exclude_failed_hosts": spec.exclude_failed_hosts,
        "spares": [entry.name for entry in spares],
        "resume_args": list(_resume_args(spec, show_secrets=show_secrets)),
        "checkpoints": list(spec.checkpoints),
        "checkpoint_on": spec.checkpoint_on,
        "on": [row.name for row in CATEGORIES.values() if spec.is_retryable(row.name)],
        "backoff_s": spec.backoff_s,
    }


def encode_restart(
    number: int, after: str, why: str, resumed_from: str, changes: tuple[str, ...]
) -> dict[str, Any]:
    """Return what is kept with a start that is a restart, schema gpulaunch.restart/1."""
    return {
        "schema": RECORD_SCHEMA,
        "number": number,
        "after": after,
        "why": why,
        "resumed_from": resumed_from,
        "changes": list(changes),
    }


def encode_restarts(restarts: RestartHistory) -> dict[str, Any]:
    """Return all starts of a run, for its outcome."""
    return {
        "max": restarts.max,
        "count": restarts.count,
        "stopped": restarts.stop_reason,
        "starts": [_start(start) for start in restarts.starts],
    }


def _start(start: StartRecord) -> dict[str, Any]:
    nature, code, host = start.identity
    return {
        "run_id": start.run_id,
        "verdict": start.verdict,
        "exit_code": start.exit_code,
        "why": start.why,
        "cause": {"category": nature, "code": code, "host": host} if nature else None,
        "hosts": list(start.hosts),
        "world_size": start.world_size,
        "mixed_precision": start.mixed_precision,
        "resumed_from": start.resumed_from,
        "last_checkpoint": start.last_checkpoint,
        "seconds": round(start.seconds, 3),
        "logs": start.logs,
        "changes": list(start.changes),
    }


def render_restarts(restarts: RestartHistory) -> Iterator[str]:
    """Yield the starts of a run that was started more than once, and why there were no more."""
    if restarts.count:
        for number, start in enumerate(restarts.starts, 1):
            since = f" from {start.resumed_from}" if start.resumed_from else ""
            why = f": {start.why}" if start.why else ""
            yield f"start {number}{since}, {start.seconds:.0f} s, {start.logs}: {start.verdict}{why}"
    if restarts.stop_reason:
        yield f"not started again: {restarts.stop_reason}"
