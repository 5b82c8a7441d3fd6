"""What a line of a log is about: a failure, an end, a step, or another turn of a loop. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from preflight import regex as re
from preflight.diagnosis.lines import Line
from preflight.diagnosis.run_ends import DONE, FAILED
from preflight.diagnosis.signature_matcher import JoinedLines
from preflight.diagnosis.step_counters import FEWEST_STEPS, is_of_loop, names_step
from preflight.diagnosis.warning_lines import LONGEST, is_warning_line

_BADLY = re.compile(r"\bwith (?:\S+ )?(?:errors?|failures?)\b|\b(?:code|status)\W{1,3}[1-9]|\bunsuccessful")
_MOVES = re.compile(r"(?<![\w])(?:train[_/ ])?\w*[Ll](?:oss|OSS)['\"]?\s*[:=|]?\s*['\"]?\d+\.\d")
_ADVANCES = re.compile(
    r"\bTrial \d+ finished|\b[Ss]av(?:ed|ing) (?:\w+ ){0,2}checkpoint|\b[Cc]heckpoint (?:was )?saved|\b[Ee]poch:? \d+\b.{0,60}acc(?:uracy)?\b"
)
"""Other signs that a run makes progress."""
_STAMP = re.compile(r"\d\d:\d\d:\d\d")
_ONES_OF_BYTES = bytes.maketrans(b"023456789", b"111111111")
"""Turns every digit into a 1: lines of one format become one text, and a number that is not 0 stays one."""


def mask_digits(text: str) -> bytes:
    """Return what lines that differ only in digits have in common; as bytes it is found ten times as fast."""
    return text.encode("utf-8", "surrogatepass").translate(_ONES_OF_BYTES)


def list_line_kinds(lines: Sequence[Line]) -> Iterator[str]:
    """Return what each line is about; lines that differ only in digits are looked at once."""
    formats = [mask_digits(line.text[:LONGEST]) for line in lines]
    unlike = Counter(formats)
    texts = [each.decode("utf-8", "surrogatepass") for each in unlike]
    joined = JoinedLines(texts)
    failed, done = joined.list_matches(FAILED), joined.list_matches(DONE)
    kinds = (
        _kind(text, failed=place in failed, done=place in done, again=count >= FEWEST_STEPS)
        for place, (text, count) in enumerate(zip(texts, unlike.values(), strict=True))
    )
    kind_of = dict(zip(unlike, kinds, strict=True))
    return (kind_of[form] for form in formats)


def _kind(text: str, *, failed: bool, done: bool, again: bool) -> str:
    if failed and not is_warning_line(text):
        return "failed"
    if done and not _BADLY.search(text):
        return "done"
    advances = ("rial " in text or "poch" in text or "heckpoint" in text) and _ADVANCES.search(text)
    looped = again and is_of_loop(text)
    if text.startswith("wandb: "):  # its summary comes behind whatever ended the run
        return ""
    if (
        (looped and names_step(text))
        or advances
        or (("oss" in text or "LOSS" in text) and _MOVES.search(text))
    ):
        return "moves" if _written_at_once(text) else "steps"
    return "loops" if looped else ""


def _written_at_once(text: str) -> bool:
    return "it/s" in text or "s/it" in text or _STAMP.search(text[:60]) is not None
