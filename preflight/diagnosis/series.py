"""Loss, gradient norm and loss scale as a running log prints them. Pure."""

from collections.abc import Sequence

from preflight import regex as re
from preflight.diagnosis.line_kinds import mask_digits
from preflight.diagnosis.line_unwrap import ONES
from preflight.diagnosis.lines import Line
from preflight.diagnosis.step_counters import names_step
from preflight.frozen import dataclass

_VALUE = r"['\"]?(?:tensor\(\s*\[?)?(?P<value>[-+]?(?:nan(?=\.\d\b)|nan|inf(?:inity)?|\d+(?:\.\d*)?(?:e[-+]?\d+)?))(?:(?<=nan)\.\d)?(?![\w.]*[\w])"
_SEPARATOR = r"['\"]?\s*(?:\((?:avg|mean|smoothed)\))?\s*(?:[:=|]|\bis\b|\s)\s*"
# The name before the value: "loss", "train_loss", "lm loss", "Loss/train", "loss_cls"; what belongs to
# evaluation, scaling or bookkeeping is left out below.
_LOSS = re.compile(
    r"(?<![\w.])(?P<name>(?:[a-z]\w*[ _/.-])?\w*(?:loss(?:[_/]\w+)?|cross_entropy|nll))"
    + _SEPARATOR
    + r"(?:\{[^{}]{0,80}?\bvalue['\"]\s*:\s*)?"
    + _VALUE,
    re.IGNORECASE,
)
_NORM = re.compile(
    r"(?<![\w.])(?:\w+[_/])?(?:grad(?:ient)?s?[_ /-]?norm|gnorm|global[_ ]?norm)" + _SEPARATOR + _VALUE,
    re.IGNORECASE,
)
_SCALE = re.compile(
    r"(?<![\w.])(?:(?:loss|grad|amp|fp16 grad)[_ -]?scale|(?:reducing|setting) (?:loss scale )?to)"
    + _SEPARATOR
    + _VALUE,
    re.IGNORECASE,
)
_NOT_TRAINING = re.compile(
    r"(?:^|[_/ .-])(?:val(?:id(?:ation)?)?|eval(?:uation)?|test|dev|best|min|max|prev(?:ious)?|early|old|last|packet|no|zero|scale)(?:$|[_/ .-]|\d)|loss[_ ]scale|lossless",
    re.IGNORECASE,
)
_PLAIN = re.compile(
    r"^(?:.*[_/ .-])?(?:train(?:ing)?[_/ ])?(?:total[_ ]|lm[_ ]|avg[_ ]|avr[_ ]|mean[_ ]|running[_ ])?loss$",
    re.IGNORECASE,
)
_OF_TRIAL = "failed with parameters"  # of one of a sweep, as Optuna writes it
_OF_REINFORCEMENT = (
    "reward",
    "advantage",
    "actor/",
    "critic/",
    "kl_loss",
    "pg_loss",
    "policy_loss",
    "rollout",
)
_WORDS = ("loss", "norm", "scale", "LOSS", "Loss", "cross_entropy", "nll")
_TABLE_HEAD = re.compile(r"\b\w*loss\b.*\b\w*loss\b", re.IGNORECASE)
_TABLE_ROW = re.compile(
    r"^\s*\d+/\d+\s+[\d.]+[GM]B?\s+(?P<values>(?:[-+]?(?:nan|inf|[\d.]+)\s+){2,})", re.IGNORECASE
)
# The head of a table of steps, as notebooks, fastai and markdown show it, and what is between its columns.
_STEP, _COLUMN = (
    re.compile(r"(?i)(?:global[_ ]?)?(?:step|epoch|iter(?:ation)?)s?"),
    re.compile(r"[^\W\d][\w ./%()-]{0,40}"),
)
_BETWEEN_CELLS = re.compile(r"\s*[|│┃]\s*|\t\s*|\s{2,}")
_RULE, _NUMBER = (
    re.compile(r"[-+=|:─━═┼╇├┤┡┩└┘┴ ]*"),
    re.compile(r"(?i)[-+]?(?:nan|inf(?:inity)?|\d+(?:\.\d*)?(?:e[-+]?\d+)?)"),
)
_LONGEST_HEAD = 200
# A loss by another name, in a line that counts steps.
_OBJECTIVE = re.compile(
    r"(?<![\w.])(?P<name>(?:avg_|mean_|train_|total_)?(?:L|J|obj(?:ective)?|elbo|ELBO|mse|MSE|b?ce|kl|ppl|perplexity|cost|energy))[=:] ?(?P<value>[-+]?(?:nan|\d+(?:\.\d+)?(?:e[-+]?\d+)?))(?![\w.])"
)
_SOUND, _LOST = 3, 5
"""Steps with a number, and NaN ones behind them, that show that an objective was lost."""
# DeepSpeed chooses the scale itself where its configuration says 0.
_CHOSEN = re.compile(r"['\"]loss_scale['\"]\s*:\s*0,?\s*$")
Spans = tuple[tuple[int, int] | None, tuple[int, int] | None, tuple[int, int] | None]
_MOST_FORMATS = 20_000
MAX_PRINTED = 600  # characters of a line in which steps are looked for


@dataclass(frozen=True, slots=True)
class Point:
    """One logged step; None: not in the line. `rewarded`: a loss that may be 0, as of reinforcement."""

    line: Line
    loss: float | None
    norm: float | None
    scale: float | None
    rewarded: bool = False
    overflow: bool = False  # a step that was skipped, and why


class PointReader:
    """Reads steps; where the values are is looked up once for lines that differ only in digits."""

    def __init__(self) -> None:
        self._known: dict[bytes, Spans] = {}

    def point_of(self, line: Line) -> Point | None:
        """Return the step that a line logs, None when it logs none."""
        text = line.text[:MAX_PRINTED]
        if "config" in text or not any(word in text for word in _WORDS):
            return None
        alike = mask_digits(text)
        spans = self._known.get(alike)
        if spans is None:
            if len(self._known) >= _MOST_FORMATS:
                self._known.clear()
            ones = text.translate(ONES)
            spans = self._known[alike] = (_loss(ones), _span(_NORM, ones), _span(_SCALE, ones))
        if not any(spans):
            return None
        loss, norm, scale = (float(text[slice(*span)]) if span else None for span in spans)
        if scale is not None and (scale < 0 or _CHOSEN.search(text)):  # Megatron's -1 is bf16
            scale = None
        rewarded = any(word in text for word in _OF_REINFORCEMENT) or "loss" not in text.lower()
        return Point(line, loss, norm, scale, rewarded, "verflow" in text or "OVERFLOW" in text)


def read_points(lines: Sequence[Line]) -> tuple[Point, ...]:
    """Return the logged steps in order."""
    reader, table = PointReader(), _StepTable()
    found: list[Point] = []
    in_table = False
    for line in lines:
        point = reader.point_of(line)
        if point is not None:
            found += [point] if _OF_TRIAL not in line.text else []
        elif "loss" in line.text or "Loss" in line.text:
            in_table = in_table or _is_table_head(line.text)
            table = _StepTable(line.text)
        elif in_table and (row := _TABLE_ROW.match(line.text)):
            values = [float(value) for value in row["values"].split()]
            found.append(Point(line, sum(values), None, None))
        elif table.column and (value := table.loss_of(line.text)) is not None:
            found.append(Point(line, value, None, None, table.rewarded))
    return tuple(found)


def find_lost_objective(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the steps whose objective is NaN, with a number in earlier ones and in no later one."""
    if not any("nan" in line.text for line in lines):
        return ()
    values: dict[object, list[tuple[bool, Line]]] = {}
    for line in lines:
        found = _OBJECTIVE.search(line.text[:MAX_PRINTED]) if names_step(line.text) else None
        if found is not None:
            values.setdefault((line.stream, found["name"]), []).append(("nan" in found["value"], line))
    for of_one in values.values():
        sound = max((at + 1 for at, (lost, _) in enumerate(of_one) if not lost), default=0)
        if sum(not lost for lost, _ in of_one) >= _SOUND and len(of_one) - sound >= _LOST:
            return [line for _, line in of_one[sound:]]
    return ()


class _StepTable:
    """A table of steps, until a line is neither row nor rule. `column`: the training loss, 0 in no table."""

    def __init__(self, head: str = "") -> None:
        self.column, self.rewarded = 0, "reward" in head
        step, *names = _cells(head)
        if len(head) > _LONGEST_HEAD or not _STEP.fullmatch(step) or not all(map(_COLUMN.fullmatch, names)):
            return
        self._columns = len(names) + 1
        losses = (at for at, name in enumerate(names, start=1) if "loss" in name.lower())
        self.column = next((at for at in losses if not _NOT_TRAINING.search(names[at - 1])), 0)

    def loss_of(self, text: str) -> float | None:
        """Return the loss of a row, None where it shows none, or where the line belongs to no table."""
        cells = _cells(text)
        if cells[0].isdecimal() and len(cells) == self._columns:
            value = _NUMBER.fullmatch(cells[self.column])
            return float(value[0]) if value else None
        if not _RULE.fullmatch(text):
            self.column = 0
        return None


def _cells(text: str) -> list[str]:
    return _BETWEEN_CELLS.split(text.strip(" \t|│┃"))


def _is_table_head(text: str) -> bool:
    return not any(char.isdigit() for char in text) and _TABLE_HEAD.search(text) is not None


def _loss(text: str) -> tuple[int, int] | None:
    """Return where the training loss of a line is: the plain one where there is one, else the first."""
    first: tuple[int, int] | None = None
    for found in _LOSS.finditer(text):
        name = found["name"]
        if _NOT_TRAINING.search(name) or _is_choice(text, found):
            continue
        if _PLAIN.match(name):
            return found.span("value")
        first = found.span("value") if first is None else first
    return first


def _is_choice(text: str, found: re.Match[str]) -> bool:
    """Whether the value belongs to a word behind it: "loss 2x smaller", "loss 0 errors"."""
    return re.match(r"\s*(?:%|(?:x|errors?|warnings?)\b(?!\s*[:=]))", text[found.end() :]) is not None


def _span(pattern: re.Pattern[str], text: str) -> tuple[int, int] | None:
    found = pattern.search(text)
    return found.span("value") if found else None
