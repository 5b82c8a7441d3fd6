"""What a rehearsal proves, rank by rank, from what each guard measured; `ok` None proves nothing. Pure."""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from launcher.follow.outcome import Outcome, render_unverified
from launcher.planning.plan import Plan
from preflight.decide.decision import RankSlot
from preflight.frozen import dataclass

_MIB = 1024.0


@dataclass(frozen=True, slots=True)
class Proof:
    """One thing that had to be shown. `ok` None: it could not be seen."""

    name: str
    ok: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class RankVerdict:
    """What one rank has shown."""

    rank: int
    host: str
    proofs: tuple[Proof, ...]
    step_s: float | None  # median of its steps, the first two left out where there are more
    measured: Mapping[str, Any]
    gpu_use_percent: float | None = None  # mean while it stepped; None: no GPU, or not sampled in that time


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the whole run would take, as far as the script has shown."""

    step_s: float | None = None
    slowest_rank: int | None = None
    total_steps: int | None = None
    run_s: float | None = None
    samples_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class RehearsalVerdict:
    """A rehearsal, judged."""

    ranks: tuple[RankVerdict, ...]
    overall: tuple[Proof, ...]
    estimate: Estimate
    out_of_memory: bool

    @property
    def proven(self) -> bool:
        """Whether everything was shown, in every rank."""
        return all(proof.ok is True for proof in self.proofs)

    @property
    def proofs(self) -> Iterator[Proof]:
        """Yield every proof."""
        yield from self.overall
        for rank in self.ranks:
            yield from rank.proofs


def evaluate_rehearsal(
    outcome: Outcome, scratch: tuple[Proof, ...] = (), gpu_use: Mapping[int, float] | None = None
) -> RehearsalVerdict:
    """Judge a rehearsal; `scratch` says what became of its files, `gpu_use` the use of GPUs in percent."""
    ranks, found = tuple(_ranks(outcome, gpu_use or {})), outcome.cause.diagnosis
    ok = outcome.verdict == "finished" and outcome.exit_code == 0
    text = "every rank took its steps and ended" if ok else f"{outcome.verdict}: {outcome.why}"
    return RehearsalVerdict(
        ranks=ranks,
        overall=(Proof("end", ok, text), _world(outcome), *scratch),
        estimate=_estimate(ranks),
        out_of_memory=found is not None and found.verdict == "cuda-oom",
    )


def _world(outcome: Outcome) -> Proof:
    size = outcome.plan.world_size
    if outcome.verification.mismatches:
        return Proof("world", False, outcome.verification.mismatches[0])
    if outcome.verification.devices_verified:
        return Proof("world", True, f"world size {size}, ranks and devices as planned")
    if size == 1:
        return Proof("world", True, "one rank, which needs no world")
    return Proof("world", None, "; ".join(render_unverified(outcome)))


def _ranks(outcome: Outcome, gpu_use: Mapping[int, float]) -> Iterator[RankVerdict]:
    for rank, node, slot in outcome.plan.slots:
        measured = outcome.measurements.rehearsal.get(rank, {})
        proofs = tuple(_proofs(outcome.plan, slot, measured))
        use = gpu_use.get(rank) if slot.gpu_uuid is not None else None
        yield RankVerdict(rank, node.host, proofs, _step_s(measured), measured, use)


def _proofs(plan: Plan, slot: RankSlot, seen: Mapping[str, Any]) -> Iterator[Proof]:
    if not seen:
        yield Proof("steps", None, "no optimizer step was seen in this rank")
        return
    yield _steps(seen)
    yield from _dtypes(seen)
    yield _precision(plan, slot, seen)
    yield from _finite(seen)
    without = seen.get("without_gradient") or []
    got = f"all {seen.get('trainable')} trainable parameter tensors got a gradient"
    yield Proof("reached", not without, f"no gradient: {', '.join(without)}" if without else got)
    yield _device(slot, seen)
    yield _memory(slot, seen)


def _steps(seen: Mapping[str, Any]) -> Proof:
    performed, skipped = seen.get("performed", 0), seen.get("skipped", 0)
    text = f"{performed} optimizer steps" + (f", {skipped} more skipped by the GradScaler" if skipped else "")
    events = [f"first {name} after {at:.1f} s" for name, at in dict(seen.get("events") or {}).items()]
    return Proof("steps", performed > 0, "; ".join([text, *events]))


def _dtypes(seen: Mapping[str, Any]) -> Iterator[Proof]:
    parameters, gradients = dict(seen["parameter_dtypes"]), dict(seen["gradient_dtypes"])
    yield Proof("parameters", "float16" not in parameters, _counts(parameters))
    yield Proof("gradients' dtype", set(gradients) <= set(parameters), _counts(gradients))
    state = dict(seen["state_dtypes"])
    yield Proof("optimizer state", "float16" not in state, _counts(state) if state else "keeps none")


def _precision(plan: Plan, slot: RankSlot, seen: Mapping[str, Any]) -> Proof:
    planned, seen_precision = plan.precision.mixed_precision, seen.get("mixed_precision")
    scaler = f"scaler on, scale {seen.get('scale')}" if seen.get("scaler") else "scaler off"
    if seen_precision is None:
        ok = True if planned == "no" and not seen.get("scaler") else None
        return Proof("precision", ok, f"accelerate is not in use, {scaler}; planned: {planned}")
    needs_scaler = planned == "fp16" and slot.gpu_uuid is not None
    ok = seen_precision == planned and (bool(seen.get("scaler")) or not needs_scaler)
    return Proof("precision", ok, f"{seen_precision}, {scaler}")


def _finite(seen: Mapping[str, Any]) -> Iterator[Proof]:
    finite = dict(seen["finite"])
    losses = seen.get("losses") or []
    span = f"{losses[0]} -> {losses[-1]}" if losses else "never seen"
    yield Proof("loss", finite["loss"], span if finite["loss"] is not False else f"not finite: {span}")
    yield Proof("gradients", finite["gradients"], "finite" if finite["gradients"] else "not finite")
    yield Proof("weights", finite["weights"], "finite" if finite["weights"] else "not finite")


def _device(slot: RankSlot, seen: Mapping[str, Any]) -> Proof:
    devices = ", ".join(dict(seen["devices"]))
    if slot.gpu_uuid is None:
        return Proof("device", set(seen["devices"]) == {"cpu"}, devices)
    gpu = seen.get("gpu") or None
    text = f"{devices} ({gpu or 'its UUID could not be read'})"
    return Proof("device", None if gpu is None else gpu == slot.gpu_uuid, text)


def _memory(slot: RankSlot, seen: Mapping[str, Any]) -> Proof:
    memory = dict(seen.get("memory") or {})
    if slot.gpu_uuid is None:
        return _host_memory(memory)
    peak, total, free = (memory.get(f"gpu_{name}_mib") for name in ("peak_reserved", "total", "free"))
    if not peak or not total:
        return Proof("memory", None, "the GPU's peak memory was not seen")
    room = total - peak if free is None else min(total - peak, free)  # others may hold some of it
    text = f"peak {peak / _MIB:.1f} of {total / _MIB:.1f} GiB, headroom {room / _MIB:.1f} GiB"
    return Proof("memory", True, text)


def _host_memory(memory: Mapping[str, Any]) -> Proof:
    peak, total = memory.get("rss_peak_mib"), memory.get("host_total_mib")
    if not peak:
        return Proof("memory", None, "the rank's peak memory was not seen")
    has = f", the host has {total / _MIB:.1f} GiB for all of its ranks" if total else ""
    return Proof("memory", True, f"peak {peak / _MIB:.1f} GiB{has}")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {dtype}" for dtype, count in counts.items()) or "none"


def _step_s(seen: Mapping[str, Any]) -> float | None:
    steps = list(seen.get("step_s") or [])
    return median(steps[1:] or steps) if steps else None


def _samples(ranks: tuple[RankVerdict, ...]) -> float | None:
    """Return the samples of a step over all ranks, None where a rank's loader was not seen."""
    each = [float(rank.measured.get("samples_per_step_here") or 0) for rank in ranks]
    return sum(each) if all(each) else None


def _estimate(ranks: tuple[RankVerdict, ...]) -> Estimate:
    timed = [(rank.step_s, rank.rank) for rank in ranks if rank.step_s is not None]
    if not timed:
        return Estimate()
    step_s, slowest = max(timed)
    seen = ranks[0].measured
    total, samples = seen.get("total_steps"), seen.get("samples_per_step") or _samples(ranks)
    return Estimate(
        step_s=step_s,
        slowest_rank=slowest if len(timed) > 1 else None,
        total_steps=total,
        run_s=total * step_s + (seen.get("start_s") or 0.0) if total else None,
        samples_per_s=samples / step_s if samples and step_s else None,
    )
