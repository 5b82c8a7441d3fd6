"""Loss, gradient norm, learning rate and throughput over a run, as its logs print them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from preflight import regex as re
from preflight.diagnosis.lines import Line
from preflight.diagnosis.series import PointReader
from preflight.frozen import dataclass

CHUNK = 1 << 20
MAX_LINE = 4096  # bytes of a line that are read; a dumped tensor says nothing about its step further on
MAX_POINTS = 200_000

_NUMBER = r"([-+]?(?:nan|inf|\d+(?:\.\d*)?(?:e[-+]?\d+)?))"
_LEARNING_RATE = re.compile(
    r"(?<![\w.])(?:learning[_ ]rate|lr)(?:(?:[_/-]?(?:group)?\w{0,12})?['\"]?\s*[:=]\s*['\"]?\[?"
    + _NUMBER
    + r"|[ \t]+(\d*\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+)(?![\w.]))",  # not `lr 3 groups`
    re.IGNORECASE,
)
_UNITS = {"it": "steps", "step": "steps", "sample": "samples", "example": "samples", "seq": "sequences"}
_UNITS |= {"token": "tokens", "tok": "tokens", "sentence": "sentences", "image": "images", "img": "images"}
_UNIT = r"(it|step|sample|example|seq(?:uence)?|tok(?:en)?|sentence|image|img)s?"
_RATE = re.compile(
    r"(?<![\w.])(\d+(?:\.\d*)?(?:e[-+]?\d+)?)\s*([kM]?)\s?" + _UNIT + r"(?:/s(?:ec)?|ps)(?![\w/])",
    re.IGNORECASE,
)
_SECONDS_PER = re.compile(r"(?<![\w.])(\d+(?:\.\d*)?)\s?s/(?:it|step)(?!\w)", re.IGNORECASE)
_NAMED_RATE = re.compile(
    r"(?<![\w.])(?!eval)(?:train[_/])?"
    + _UNIT
    + r"[_ ]?(?:per[_ ]|/)s(?:ec(?:ond)?)?['\"]?\s*[:=]\s*['\"]?"
    + _NUMBER,
    re.IGNORECASE,
)
_BAR = re.compile(r"(?<![\d/.])(\d{1,15})/(\d{1,15}) \[\d+:")  # tqdm: 40/120 [00:12<00:24, 3.31it/s]
_STEP = re.compile(
    r"(?<![\w.])(?:global_?|train_?|optimizer )?(?:step|iter(?:ation)?)s?['\"]?\s*[:=#]?\s*(\d{1,15})(?!\d)",
    re.IGNORECASE,
)
_EPOCH = re.compile(r"(?<![\w.])epoch['\"]?\s*[:=]\s*['\"]?(\d{1,15}(?:\.\d*)?)(?![\w/])", re.IGNORECASE)
_SEQUENCE = re.compile(r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]")
_METRIC_WORDS = (b"loss", b"norm", b"lr", b"learning", b"/s", b"s/", b"per", b"step", b"iter", b" [")
"""What a line must hold to be looked at more closely, in lower case; most lines hold none of it."""
_SUMMARY = "train_runtime"  # Trainer's last line, whose loss is the mean of all steps


@dataclass(frozen=True, slots=True)
class Sample:
    """One printed value: at which step (None: none is known), which byte of the log its line starts at."""

    step: int | None
    offset: int
    value: float
    epoch: float | None = None  # where the line says it too


@dataclass(slots=True)
class Metrics:
    """What one log prints of the training."""

    loss: list[Sample] = field(default_factory=list)
    norm: list[Sample] = field(default_factory=list)
    learning_rate: list[Sample] = field(default_factory=list)
    rates: dict[str, list[Sample]] = field(default_factory=dict)  # by unit: "steps", "tokens"
    size: int = 0  # bytes of the log
    last_step: int | None = None
    longest_bar: int = 0

    @property
    def throughput(self) -> tuple[str, list[Sample]]:
        """The unit that was printed most often, but steps only where nothing else was, and its values."""
        if not self.rates:
            return "", []
        unit = max(
            self.rates, key=lambda name: (len(self.rates[name]) > 1, name != "steps", len(self.rates[name]))
        )
        return unit, self.rates[unit]


def read_metrics(path: Path) -> Metrics:
    """Read one log, in one pass and little memory, however long it is. Raises OSError."""
    with path.open("rb") as file:
        return collect_metrics(_lines(file))


def collect_metrics(lines: Iterable[tuple[int, bytes]]) -> Metrics:
    """Return what lines (offset, bytes) print; carriage returns have made lines of their own."""
    found, reader = Metrics(), PointReader()
    for offset, raw in lines:
        found.size = offset + len(raw)
        lower = raw.lower()
        if any(word in lower for word in _METRIC_WORDS):
            _take(found, reader, offset, raw.decode("utf-8", "replace"))
    return found


def _take(found: Metrics, reader: PointReader, offset: int, text: str) -> None:
    # Colours, and a cursor that comes up from a bar.
    text = _SEQUENCE.sub("", text) if "\x1b" in text else text
    bar = _BAR.search(text)
    beside = bar is not None and int(bar[2]) < found.longest_bar  # of epochs or an evaluation
    step = bar or _STEP.search(text)
    if step is not None and not beside:
        found.last_step = int(step[1])
    if bar is not None:
        found.longest_bar = max(found.longest_bar, int(bar[2]))
    at = found.last_step
    said = _EPOCH.search(text)
    epoch = float(said[1]) if said is not None else None
    point = reader.point_of(Line(0, text, None))
    if point is not None and point.loss is not None and _SUMMARY not in text:
        _add(found.loss, Sample(at, offset, point.loss, epoch))
    if point is not None and point.norm is not None:
        _add(found.norm, Sample(at, offset, point.norm, epoch))
    rate = _LEARNING_RATE.search(text)
    if rate is not None:
        _add(found.learning_rate, Sample(at, offset, float(rate[1] or rate[2]), epoch))
    for unit, value in _rates(text) if not beside else ():
        _add(found.rates.setdefault(unit, []), Sample(at, offset, value, epoch))


def _rates(text: str) -> Iterator[tuple[str, float]]:
    per_second = "/s" in text
    if per_second or "ps" in text:
        for number, scale, unit in _RATE.findall(text):
            yield _unit(unit), float(number) * {"": 1.0, "k": 1e3, "m": 1e6}[scale.lower()]
    if per_second or "per" in text:
        for unit, number in _NAMED_RATE.findall(text):
            yield _unit(unit), float(number)
    if "s/" in text:
        for number in _SECONDS_PER.findall(text):
            if float(number) > 0:
                yield "steps", 1.0 / float(number)


def _unit(word: str) -> str:
    lower = word.lower()
    return _UNITS.get(lower) or ("sequences" if lower.startswith("seq") else f"{lower}s")


def _add(samples: list[Sample], sample: Sample) -> None:
    if len(samples) < MAX_POINTS:
        samples.append(sample)


def place_samples(samples: Sequence[Sample]) -> tuple[list[float], str]:
    """Return where each sample lies on the axis, and what that is: steps, epochs, or places in the log."""
    steps = [sample.step for sample in samples]
    epochs = [sample.epoch for sample in samples]
    for name, values in (("step", steps), ("epoch", epochs)):
        known = [float(value) for value in values if value is not None]
        rising = all(before <= after for before, after in pairwise(known))
        if len(known) == len(values) and rising and len(set(known)) > len(known) // 2:
            return known, name
    return [float(place + 1) for place in range(len(samples))], "value in the log"


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, the start of the line); a line ends at a newline or a carriage return."""
    offset, rest = 0, b""
    while data := file.read(CHUNK):
        pieces = re.split(rb"[\r\n]", rest + data)
        for piece in pieces[:-1]:
            yield offset, piece[:MAX_LINE]
            offset += len(piece) + 1
        rest = pieces[-1]
        if len(rest) > CHUNK:  # a line without an end: its start is enough, its length still counts
            yield offset, rest[:MAX_LINE]
            offset, rest = offset + len(rest), b""
    if rest:
        yield offset, rest[:MAX_LINE]
