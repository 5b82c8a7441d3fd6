"""A rehearsal's verdict for people and for programs."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from launcher.config.node_sets import format_host_range
from launcher.rehearsal.batch_args import halve_batch
from launcher.rehearsal.proof_store import SCHEMA
from launcher.rehearsal.rehearse import RehearsalResult
from launcher.rehearsal.verdict import Proof, RankVerdict, RehearsalVerdict
from launcher.report.outcome import encode_outcome
from launcher.text import group_alike, name_ranks, sanitize, spell_duration
from preflight import regex as re
from preflight.facts.json_codec import encode
from preflight.facts.redaction import redact_words
from preflight.job import Job

_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.-]*\w)", re.IGNORECASE)
_MARKS = {True: "ok", False: "NOT OK", None: "NOT SEEN"}
_GUARD_KEYS = ("code", "severity", "stops", "step", "message", "fix", "parameters")


def render_rehearsal(done: RehearsalResult, job: Job) -> Iterator[str]:
    """Yield the verdict, worst news last so that it is right above the prompt."""
    yield "rehearsal:"
    for proof in done.verdict.overall:
        yield _proof_line(proof)
    yield from _rank_lines(done.verdict.ranks)
    yield from _estimate_lines(done.verdict)
    if done.verdict.out_of_memory:
        yield from _fit_lines(done, job)
    elif done.rejected_args:
        yield f"  fits with: {' '.join(redact_words(done.args))}"
    failing = [proof for proof in done.verdict.proofs if proof.ok is not True]
    if not failing:
        yield f"proven: {len(tuple(done.verdict.proofs))} of {len(tuple(done.verdict.proofs))}"
        return
    yield f"not proven: {', '.join(dict.fromkeys(proof.name for proof in failing))}"


def _proof_line(proof: Proof) -> str:
    return sanitize(f"  {_MARKS[proof.ok]:<8} {proof.name:<17} {proof.text}", keep_lines=False)


def _rank_lines(ranks: tuple[RankVerdict, ...]) -> Iterator[str]:
    for name, proofs in group_ranks(ranks).items():
        yield f"  {sanitize(name, keep_lines=False)}"
        yield from (f"  {_proof_line(proof)}" for proof in proofs)


def _estimate_lines(verdict: RehearsalVerdict) -> Iterator[str]:
    estimate = verdict.estimate
    if estimate.step_s is None:
        return
    parts = [f"{estimate.step_s:.3g} s per step"]
    if estimate.slowest_rank is not None:
        parts.append(f"slowest is rank {estimate.slowest_rank}")
    if estimate.samples_per_s:
        parts.append(f"{estimate.samples_per_s:.3g} samples per second")
    if estimate.run_s and estimate.total_steps:
        parts.append(f"{estimate.total_steps} steps take about {spell_duration(estimate.run_s)}")
    use = [rank.gpu_use_percent for rank in verdict.ranks if rank.gpu_use_percent is not None]
    if use:
        least, most = round(min(use)), round(max(use))
        parts.append(f"GPUs {least} % busy" if least == most else f"GPUs {least} to {most} % busy")
    yield "  speed: " + ", ".join(parts)


def _fit_lines(done: RehearsalResult, job: Job) -> Iterator[str]:
    smaller = halve_batch(done.args, job.batch_args)
    if smaller:
        yield "  out of GPU memory; half the batch and twice the accumulation is next to try (--fit does):"
        yield f"    {' '.join(redact_words(smaller))}"
    elif job.batch_args:
        yield "  out of GPU memory, and the batch cannot be halved any more (or `args` does not name it)"
    else:
        yield (
            "  out of GPU memory; `batch_args: {batch: --batch-size, accumulation: ...}` in the run config"
            " lets --fit look for what fits"
        )


def encode_rehearsal(done: RehearsalResult, config: str) -> dict[str, Any]:
    """Return it as plain JSON types, schema gpulaunch.rehearsal/1; this is also what is kept."""
    return {
        "schema": SCHEMA,
        "config": config,
        "when": time.strftime("%Y-%m-%d %H:%M:%S"),
        "proven": done.verdict.proven,
        "out_of_memory": done.verdict.out_of_memory,
        "args": list(redact_words(done.args)),
        "rejected_args": [list(redact_words(args)) for args in done.rejected_args],
        "overall": [_encode_proof(proof) for proof in done.verdict.overall],
        "ranks": [
            {
                "rank": rank.rank,
                "host": rank.host,
                "proofs": [_encode_proof(proof) for proof in rank.proofs],
                "step_s": rank.step_s,
                "gpu_use_percent": rank.gpu_use_percent,
                "measured": dict(rank.measured),
            }
            for rank in done.verdict.ranks
        ],
        "estimate": encode(done.verdict.estimate),
        "guard": [
            {"host": host, "rank": rank, **{key: fields.get(key) for key in _GUARD_KEYS}}
            for host, rank, fields in done.outcome.measurements.guard_events
        ],
        "fingerprint": encode(done.fingerprint),
        "run": encode_outcome(done.outcome),
    }


def _encode_proof(proof: Proof) -> dict[str, Any]:
    return {"name": proof.name, "ok": proof.ok, "text": sanitize(proof.text, keep_lines=False)}


def group_ranks(ranks: Sequence[RankVerdict]) -> dict[str, tuple[Proof, ...]]:
    """Return what is proven of groups of ranks, as one says these; of one without a proof by same figures."""

    def kind(rank: RankVerdict) -> tuple[bool, object]:
        whole = all(proof.ok for proof in rank.proofs)
        return whole, tuple(proof.name for proof in rank.proofs) if whole else rank.proofs

    alike = group_alike((kind(rank), rank) for rank in ranks).values()
    return {_name(same): _merged(same) for same in alike}


def _name(ranks: Sequence[RankVerdict]) -> str:
    return f"{name_ranks(rank.rank for rank in ranks)} ({format_host_range(rank.host for rank in ranks)})"


def _merged(ranks: Sequence[RankVerdict]) -> tuple[Proof, ...]:
    columns = zip(*(rank.proofs for rank in ranks), strict=True)
    return tuple(
        Proof(column[0].name, column[0].ok, merge_texts([proof.text for proof in column]))
        for column in columns
    )


def merge_texts(texts: Sequence[str]) -> str:
    """Return texts that differ in numbers only as one with ranges; else the first, and how many others."""
    distinct = list(dict.fromkeys(texts))
    if len(distinct) == 1:
        return distinct[0]
    if len({_NUMBER.sub("#", text) for text in distinct}) > 1:
        return f"{distinct[0]}, and {len(distinct) - 1} others"
    numbers = zip(*(_NUMBER.findall(text) for text in distinct), strict=True)
    ranges = iter([_range(column) for column in numbers])
    return _NUMBER.sub(lambda _: next(ranges), distinct[0])


def _range(numbers: Sequence[str]) -> str:
    least, most = min(numbers, key=float), max(numbers, key=float)
    return least if float(least) == float(most) else f"{least}..{most}"
