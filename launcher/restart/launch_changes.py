"""What is different in a new start, in words. Pure."""

from collections.abc import Iterator

from launcher.config.node_sets import fold_hosts
from launcher.planning.plan import Plan
from launcher.restart.replacement import HostAssignment
from launcher.text import group_alike
from preflight.decide.script_args import get_option
from preflight.job import Job


def describe_changes(old: Plan, new: Plan, lineup: HostAssignment, job: Job) -> Iterator[str]:
    """Yield who is left out and who comes in, then what that does to the world and to the numbers."""
    here = {entry.name for entry in lineup.entries}
    left_out = ((why, host) for host, why in lineup.excluded.items() if host not in here)
    for why, hosts in group_alike(left_out).items():
        yield f"{'each of ' * (len(hosts) > 1)}{fold_hosts(hosts)} is left out: {why}"
    for host, whose in lineup.replaces.items():
        if host in lineup.reduced_gpus:
            continue
        came = "answers again and stays in the run" if host == whose else f"takes the place of {whose}"
        yield f"{host} {came}" + ("" if host != whose else ", for no spare is left")
    for host, why in lineup.reduced_gpus.items():
        yield f"{host} stays with its other GPUs: {why}"
    yield from _gone_gpus(old, new, lineup)
    before, now = old.nodes[0].host, new.nodes[0].host
    if before != now:
        yield f"main host {before} -> {now}: rank 0 runs on it"
    yield from _world(old, new, job)
    precision, other = old.precision.mixed_precision, new.precision.mixed_precision
    if precision != other:
        why = new.precision.reasons[0].text if new.precision.reasons else "the hosts are others"
        yield f"mixed precision {precision} -> {other}: {why}"


def _gone_gpus(old: Plan, new: Plan, lineup: HostAssignment) -> Iterator[str]:
    """Name the GPUs that hosts have lost without a finding: the driver no longer lists them."""
    now = {node.host: {slot.gpu_uuid for slot in node.ranks.slots} for node in new.nodes}
    for node in old.nodes:
        for slot in node.ranks.slots:
            known = node.host in now and node.host not in lineup.reduced_gpus
            if known and slot.gpu_uuid and slot.gpu_uuid not in now[node.host]:
                yield f"{node.host} no longer uses GPU {slot.gpu_index} ({slot.gpu_uuid})"


def _world(old: Plan, new: Plan, job: Job) -> Iterator[str]:
    if old.world_size == new.world_size:
        return
    yield f"world size {old.world_size} -> {new.world_size}"
    batch, accumulation = job.batch_args.get("batch", ""), job.batch_args.get("accumulation", "")
    size = get_option(job.args, batch) if batch else None
    steps = get_option(job.args, accumulation) if accumulation else 1
    if size is None or steps is None:
        yield "the effective batch size changes with it, unless the script divides a fixed one by its ranks"
        return
    each = size * steps
    parts = f"{batch} {size}" + (f" x {accumulation} {steps}" if accumulation else "")
    yield (
        f"effective batch size {each * old.world_size} -> {each * new.world_size} ({parts} x world size),"
        " unless the script divides a fixed one by its ranks"
    )
