"""The status line: the phase, the last step, losses, speed, since when no step, what it uses. Pure."""

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import field
from typing import TypeAlias

from launcher.follow.usage import RankUsage
from launcher.terminal.cell_width import Span, measure_width
from launcher.terminal.step_progress import ProgressValues
from launcher.text import count_noun, format_clock, format_memory
from preflight.checks.message_text import round_duration
from preflight.frozen import dataclass

FEW_RANKS = 4  # so many ranks are reported one by one; of more the mean and the extremes
_DIM, _BOLD, _YELLOW = "2", "1", "33"
_GAP: Span = ("", "  ")
QUIET_S = 20.0
FIRST_QUIET_S = 60.0  # as long as no two steps were seen: how long one takes is not known yet
_GAPS = 20
_Use: TypeAlias = tuple[int, float | None, float | None]
"""A rank, how busy its GPU or its processors are (percent), and the memory that it uses (MiB)."""
_FACTOR = 2.0  # a pause is worth a word when it is this many times the longest of the last ones


@dataclass(frozen=True, slots=True)
class StatusValues:
    """All that a status line shows."""

    phase: str
    elapsed_s: float
    reading: ProgressValues = field(default_factory=ProgressValues)
    usage: Sequence[RankUsage] = ()
    folded: int = 0
    quiet_s: float | None = None  # since the last step, where that is long


def render_status(status: StatusValues, width: int) -> list[list[Span]]:
    """Return the status as rows: of the training, and of what it uses; fields that do not fit go below."""
    phase: list[Span] = [(_BOLD, status.phase), ("", f" {format_clock(status.elapsed_s)}")]
    parts = [phase]
    if status.quiet_s is not None:
        parts.append([(_YELLOW, f"last step {round_duration(status.quiet_s)} ago")])
    parts += _training(status.reading)
    used = list(_usage(status.usage))
    if status.folded:
        (used or parts).append([(_DIM, f"{count_noun(status.folded, 'line')} folded")])
    return [*_flow(parts, width), *_flow(used, width)]


def _flow(fields: Sequence[list[Span]], width: int) -> list[list[Span]]:
    rows: list[list[Span]] = []
    for each in fields:
        wide = sum(measure_width(text) for _, text in each)
        if rows and sum(measure_width(text) for _, text in rows[-1]) + len(_GAP[1]) + wide <= width:
            rows[-1] += [_GAP, *each]
        else:
            rows.append(list(each))
    return rows


def _training(reading: ProgressValues) -> Iterator[list[Span]]:
    if reading.step is not None:
        of = f"/{reading.steps}" if reading.steps is not None else ""
        yield _field("step", f"{reading.step}{of}")
    for name, value in (("loss", reading.loss), ("grad_norm", reading.norm), ("lr", reading.learning_rate)):
        if value is not None:
            yield _field(name, f"{value:.4g}")
    if reading.rate is not None:
        value, unit = reading.rate
        yield [("", f"{_short(value)} {unit}/s")]
    if reading.eta_s is not None:
        yield _field("ETA", format_clock(reading.eta_s))


def _usage(usage: Sequence[RankUsage]) -> Iterator[list[Span]]:
    gpus = [(used.rank, used.gpu_busy, used.gpu_mib) for used in usage if used.on_gpu]
    cpus = [(used.rank, used.cpu, used.rss_mib) for used in usage if not used.on_gpu]
    yield from _one_by_one("GPU", gpus) if len(gpus) <= FEW_RANKS else _together("GPU", gpus)
    yield from _one_by_one("CPU", cpus) if len(cpus) <= FEW_RANKS else _together("CPU", cpus)


def _one_by_one(kind: str, used: Sequence[_Use]) -> Iterator[list[Span]]:
    for rank, busy, memory in used:
        words = [f"{busy:.0f}%"] if busy is not None else []
        words += [format_memory(memory)] if memory is not None else []
        yield _field(f"r{rank} {kind}", " ".join(words))


def _together(kind: str, used: Sequence[_Use]) -> Iterator[list[Span]]:
    busy = [each for _, each, _ in used if each is not None]
    memory = [each for _, _, each in used if each is not None]
    if busy:
        name = f"{len(busy)} GPUs" if kind == "GPU" else f"{len(used)} CPU ranks"
        yield _field(name, f"{sum(busy) / len(busy):.0f}% ({min(busy):.0f}..{max(busy):.0f}%)")
    if memory:
        name = "GPU memory" if kind == "GPU" else "memory"
        yield _field(name, f"{min(memory) / 1024:.1f}..{format_memory(max(memory))}")


def _field(name: str, value: str) -> list[Span]:
    return [(_DIM, f"{name} "), ("", value)]


def _short(value: float) -> str:
    for size, unit in ((1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e6 if unit == 'M' else 1e3):.3g}{unit}"
    return f"{value:.3g}"


class StepAge:
    """Notes when steps come, by whatever shows them: a log, the guard."""

    def __init__(self) -> None:
        self._seen: Hashable = None
        self._at: float | None = None
        self._gaps: deque[float] = deque(maxlen=_GAPS)

    def update(self, now: float, seen: Hashable | None) -> float | None:
        """Take what shows the step now, None before the first; return how long it is ago if that is long."""
        if seen is None:
            return None
        if seen != self._seen or self._at is None:
            if self._at is not None:
                self._gaps.append(now - self._at)
            self._seen, self._at = seen, now
            return None
        limit_s = max(QUIET_S, _FACTOR * max(self._gaps)) if self._gaps else FIRST_QUIET_S
        age_s = now - self._at
        return age_s if age_s > limit_s else None
