"""What is about to start, and how it ended, as text and as JSON."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from launcher.config.inventory import LOCALHOST
from launcher.config.node_sets import fold_hosts
from launcher.follow.failures import Failure
from launcher.follow.outcome import Outcome, StopCheckpoint, render_unverified
from launcher.follow.phases import format_phases
from launcher.onhost.exit_status import describe_exit_code
from launcher.planning.plan import Plan
from launcher.report.diagnosis import encode_diagnosis
from launcher.report.diagnosis import render_diagnosis as diagnosis_text
from launcher.report.plan import change_text, redact_plan
from launcher.report.restarts import encode_restarts, render_restarts
from launcher.report.stacks import encode_hang
from launcher.report.usage import encode_usage, render_usage
from launcher.text import count_noun, group_alike, name_ranks, one_line, sanitize
from preflight.diagnosis.result import Diagnosis, says_more
from preflight.facts.json_codec import encode

SCHEMA = "gpulaunch.run/1"
_SHOWN_LINES = 20
_FEW_HOSTS = 4


def render_launch(plan: Plan, where: str) -> Iterator[str]:
    """Yield what is about to start, and every value that was corrected."""
    for change in redact_plan(plan).changes:
        yield change_text(change)
    ranks = count_noun(plan.world_size, "rank")
    port = f", main port {plan.main_port}" if plan.opens_port else ""
    precision = plan.precision.mixed_precision
    yield f"run {plan.run_id}: {ranks} on {_hosts(plan)}, mixed precision {precision}{port}"
    yield f"logs: {where}"


def _hosts(plan: Plan) -> str:
    """Return the hosts with the ranks of each; of many, those with as many ranks together."""
    if len(plan.nodes) <= _FEW_HOSTS:
        return ", ".join(f"{node.host} ({len(node.ranks.slots)})" for node in plan.nodes)
    alike = group_alike((len(node.ranks.slots), node.host) for node in plan.nodes)
    return ", ".join(
        f"{fold_hosts(hosts)} ({count}{' each' * (len(hosts) > 1)})" for count, hosts in alike.items()
    )


def render_outcome(outcome: Outcome) -> Iterator[str]:
    """Yield how it ended: the root cause with its last lines first, then what became of the rest."""
    if outcome.verdict == "detached":
        yield from _detached_lines(outcome)
        return
    cause = outcome.cause.failure
    if cause is not None:
        yield from _cause_lines(outcome, cause)
        yield from _diagnosis_lines(outcome.cause.diagnosis)
    for text in outcome.verification.mismatches:
        yield f"not as planned: {text}"
    if outcome.verification.remedy:
        yield f"  fix: {outcome.verification.remedy}"
    if outcome.verdict == "finished" and outcome.plan.opens_port:
        yield from render_unverified(outcome)
    yield from _cleanup_lines(outcome)
    if outcome.stop_checkpoint is not None:
        yield outcome.stop_checkpoint.text
    if outcome.restarts is not None:
        yield from render_restarts(outcome.restarts)
    yield from render_usage(outcome.measurements.usage)
    if outcome.measurements.phases:
        yield format_phases(outcome.measurements.phases)
    yield from render_output_dirs(outcome)
    yield from _not_kept_lines(outcome)
    verdict: str = outcome.verdict
    if cause is not None and cause.rank is None and cause.code is None:
        # Nothing but a supervisor's absence says how the run ended, which `ps` calls lost.
        verdict = "lost" if cause.host in outcome.cleanup.vanished else verdict
    words = verdict if cause is not None or not outcome.why else f"{verdict}: {outcome.why}"
    yield f"{words} (exit code {outcome.exit_code}) after {outcome.seconds:.1f} s; logs: {outcome.directory}"


def _cleanup_lines(outcome: Outcome) -> Iterator[str]:
    """Yield what is left on the hosts, or that nothing is."""
    for host, why in outcome.cleanup.lost.items():
        then = "the run continues on the host, if it lives: gpulaunch attach " + outcome.plan.run_id
        if host not in outcome.cleanup.still_running:
            then = f"if it lives, gpulaunch stop {outcome.plan.run_id} ends what is left of the run on it"
        if host in outcome.cleanup.forgotten:
            then = f"gpulaunch clean-zombies {host} shows whether anything of it is left"
        if host in outcome.cleanup.unending:
            again = f"gpulaunch stop {outcome.plan.run_id} --now asks again"
            shows = f"gpulaunch clean-zombies {host} shows what runs"
            yield f"{host} {why}{_alive_ranks(outcome, host)}; {again}, and {shows}"
        else:
            yield f"{host} was lost ({why}); {then}"
    for host in outcome.cleanup.vanished:
        yield f"{host}: not confirmed that nothing of the run is left: gpulaunch clean-zombies {host}"
    for host, pids in outcome.cleanup.remaining_pids.items():
        yield f"{host}: could not be ended: {', '.join(map(str, pids))}"
    if outcome.cleanup.port_free is False:
        yield f"main port {outcome.plan.main_port} on {outcome.plan.nodes[0].host} is in use"
    if outcome.cleanup.is_clean:
        yield "no process of the run is left on any host" + (
            f", port {outcome.plan.main_port} is free" if outcome.cleanup.port_free else ""
        )


def _alive_ranks(outcome: Outcome, host: str) -> str:
    ranks = [each.rank for each in outcome.ranks if each.host == host and each.code is None]
    return f"; {name_ranks(ranks)} {'has' if len(ranks) == 1 else 'have'} not ended" if ranks else ""


def _detached_lines(outcome: Outcome) -> Iterator[str]:
    if not outcome.verification.devices_verified:
        verification = outcome.verification
        ranks, is_alone = verification.unreported_ranks, outcome.plan.world_size == 1
        what = "started" if is_alone else "set up torch.distributed or accelerate"
        if not ranks:
            ranks = verification.ranks_without_device
            what = "started CUDA" if is_alone else "reported a GPU (DistributedDataParallel does)"
        has = "has" if len(ranks) == 1 else "have"
        yield f"not verified yet: {name_ranks(ranks)} {has} not {what} so far"
    yield from _not_kept_lines(outcome)
    run_id = outcome.plan.run_id
    then = describe_left(ended=outcome.ranks_have_ended)
    yield f"detached after {outcome.seconds:.1f} s; {then}. Come back with:"
    for words in ("attach", "logs -f", "ps", "stop", "fetch"):
        yield f"  gpulaunch {words}" + ("" if words == "ps" else f" {run_id}")


def describe_left(*, ended: bool) -> str:
    """Return the state of a run that this client leaves; `ended`: its ranks have ended."""
    return "its ranks have ended" if ended else "the run continues"


def _not_kept_lines(outcome: Outcome) -> Iterator[str]:
    if outcome.logs_incomplete:
        fetch = f"gpulaunch fetch {outcome.plan.run_id}"
        yield f"the local logs are not complete ({outcome.logs_incomplete}); the hosts keep all: {fetch}"


def _cause_lines(outcome: Outcome, cause: Failure) -> Iterator[str]:
    yield f"root cause: {cause.summary}"
    if cause.location:
        yield f"  at {cause.location} on {cause.host}"
    for line in cause.last_lines[-_SHOWN_LINES:]:
        yield f"  | {line}"
    others = [end for end in outcome.ranks if end.rank != cause.rank and end.code not in (0, None)]
    if others:
        shown = "; ".join(
            f"rank {end.rank} on {end.host} {describe_exit_code(end.code)}" for end in others[:4]
        )
        more = f"; {len(others) - 4} more" if len(others) > 4 else ""
        yield f"  after that: {shown}{more}"


def _diagnosis_lines(diagnosis: Diagnosis | None) -> Iterator[str]:
    """Yield the first cause with its evidence and fix; nothing where its own exception says all."""
    if (
        diagnosis is None
        or not diagnosis.causes
        or not says_more(diagnosis.causes[0].code, diagnosis.verdict)
    ):
        return
    first, *rest = diagnosis_text(replace(diagnosis, causes=diagnosis.causes[:1], warnings=()))
    yield f"diagnosis: {first}"
    yield from rest


def encode_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as plain JSON types, schema gpulaunch.run/1."""
    cause = outcome.cause.failure
    return {
        "schema": SCHEMA,
        "run_id": outcome.plan.run_id,
        "job": outcome.plan.job_name,
        "verdict": outcome.verdict,
        "exit_code": outcome.exit_code,
        "why": outcome.why,
        "diagnosis": None
        if outcome.cause.diagnosis is None
        else encode_diagnosis(outcome.cause.diagnosis, ()),
        "root_cause": None if cause is None else _encode_cause(cause),
        "hang": None if outcome.cause.hang is None else encode_hang(outcome.cause.hang),
        "ranks": encode(outcome.ranks),
        "world_size": outcome.plan.world_size,
        "mixed_precision": outcome.plan.precision.mixed_precision,
        "main_address": outcome.plan.main_address,
        "main_port": outcome.plan.main_port,
        "verified": {
            "world_ranks_devices": outcome.verification.devices_verified,
            "mixed_precision": outcome.verification.precision_verified,
            "mismatches": list(outcome.verification.mismatches),
            "fix": outcome.verification.remedy,
            "unreported_ranks": list(outcome.verification.unreported_ranks),
            "ranks_without_device": list(outcome.verification.ranks_without_device),
        },
        "lost_hosts": dict(outcome.cleanup.lost),
        "still_running": list(outcome.cleanup.still_running),
        "remaining_pids": {host: list(pids) for host, pids in outcome.cleanup.remaining_pids.items()},
        "port_free": outcome.cleanup.port_free,
        "logs": str(outcome.directory),
        "logs_incomplete": outcome.logs_incomplete,
        "run_dirs": dict(outcome.run_dirs),
        "output_dirs": find_output_dirs(outcome),
        "stop_checkpoint": _encode_stop_checkpoint(outcome.stop_checkpoint),
        "seconds": round(outcome.seconds, 3),
        "attempts": outcome.attempts,
        "restarts": None if outcome.restarts is None else encode_restarts(outcome.restarts),
        "phases": [
            {"name": each.name, "seconds": round(each.seconds, 3)} for each in outcome.measurements.phases
        ],
        "usage": [encode_usage(used) for used in outcome.measurements.usage],
        "usage_missing": dict(outcome.measurements.usage_missing),
        "clock_offset_s": {
            host: round(seconds, 3) for host, seconds in outcome.measurements.clock_offset_s.items()
        },
    }


def _encode_stop_checkpoint(found: StopCheckpoint | None) -> dict[str, Any] | None:
    if found is None:
        return None
    step = found.step if found.step >= 0 else None
    return {"path": found.path or None, "step": step, "known": found.known, "why": found.why}


def _encode_cause(cause: Failure) -> dict[str, Any]:
    return {
        "host": cause.host,
        "rank": cause.rank,
        "code": cause.code,
        "summary": one_line(cause.summary, 2000),
        "location": one_line(cause.location, 500),
        "exception": cause.exception.get("type"),
        "kernel_oom": one_line(cause.kernel_oom, 500),
        "oom_counted": cause.oom_counted,
        "early_end": one_line(cause.early_end, 500),
        "room": encode(cause.room),
        "last_lines": [sanitize(line) for line in cause.last_lines],
    }


def find_output_dirs(outcome: Outcome) -> dict[str, str]:
    """Return {host: directory} of the hosts on which the run config says where the script writes."""
    return {
        node.host: node.output_dir.replace("{run_dir}", outcome.run_dirs.get(node.host, "{run_dir}"))
        for node in outcome.plan.nodes
        if node.output_dir
    }


def render_output_dirs(outcome: Outcome) -> Iterator[str]:
    """Yield a line for each directory with output; of a run without `output`, where its script ran.

    The plan of a run that was found on its hosts has no argv, and knows of neither directory.
    Of the local machine a command would copy what is local already. A Slurm job mostly ends with its step; no
    command reaches its nodes then.
    """
    if not outcome.run_dirs:
        return  # no host has started anything
    out_of_reach = {LOCALHOST, *outcome.cleanup.forgotten}
    remote = [node for node in outcome.plan.nodes if node.host not in out_of_reach]
    known = find_output_dirs(outcome)
    for place, hosts in group_alike((place, host) for host, place in known.items()).items():
        on = "" if hosts == (LOCALHOST,) else f" on {fold_hosts(hosts)}"
        yield f"output: {one_line(place, 400)}{on}"
    if not remote or outcome.slurm_job:
        return
    fetch = f"gpulaunch fetch {outcome.plan.run_id}"
    if known:
        yield f"to copy it to this machine: {fetch}"
        return
    places = sorted({node.cwd or "~" for node in remote if node.argv})
    where = f"in {one_line(', '.join(places))} " if places else ""
    on = fold_hosts(node.host for node in remote)
    path = "--path PATH" if places else "(--path PATH if its config names no output)"
    yield f"to copy what the script wrote {where}on {on}: {fetch} {path}"
