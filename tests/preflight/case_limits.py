"""At which value of a fact a check changes its mind: each value of a golden case is replaced, one at a time.

Between two numbers with different answers the limit is looked for. So a transcript holds every limit of every
check, however its case came to be, and each fact of a case that changes nothing.
"""

import copy
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from preflight.checks.registry import CHECKS
from tests.preflight.golden_cases import Case, all_cases

_NUMBERS = (0, 1, 100, 10_000, 10**9)
_ABSENT = {"missing": "not read", "code": "error"}
_SIZES: set[tuple[str, ...]] = {
    ("deep", "hosts"),
    ("deep", "gpus"),
}  # of the run that is built, not facts of it
_Path = tuple[str | int, ...]
_Answer = tuple[tuple[str, str, str], ...] | None
"""Severity, subject and message of each finding; None of data that is not a case."""


def limits_transcript(code: str) -> str:
    """Return what a check says of its cases with one value changed, where that is another thing."""
    cases = [each for each in all_cases() if each.code == code]
    with patch.dict(CHECKS, {code: CHECKS[code]}, clear=True):  # no other check is asked
        return "\n".join(_rows(cases))


def _rows(cases: Iterable[Case]) -> Iterator[str]:
    seen = set(_SIZES)
    for case in cases:
        data = {key: item for key, item in case.data.items() if key not in ("says", "why")}
        found: list[str] = []
        for path, value in _leaves(data):
            kind = tuple("N" if isinstance(word, int) else word for word in path)
            if kind not in seen and len(kind) > 1:
                seen.add(kind)
                found += _changes(case, path, value)
        yield from [str(case), *found] if found else []


def _leaves(data: Any, path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, dict | list) and value:
            yield from _leaves(value, (*path, key))
        yield (*path, key), value


def _changes(case: Case, path: _Path, value: Any) -> Iterator[str]:
    name = ".".join(map(str, path))
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from (f"  {name} {row}" for row in _limits(case, path, value))
    own = _said(case)
    for other in _others(path, value):
        answer = _said(_with(case, path, other))
        if answer is not None and _key(answer) != _key(own):
            yield f"  {name} = {other!r:.40}: {_words(answer, own)}"


def _others(path: _Path, value: Any) -> Iterator[Any]:
    if path[0] in ("facts", "hosts") and len(path) > 2:
        yield _ABSENT
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield from ("", f"{value}x")
    elif isinstance(value, list):
        yield from ([], [*value, *value])


def _limits(case: Case, path: _Path, value: float) -> Iterator[str]:
    """Yield a row for each range of numbers in which the answer is one."""

    def said(number: float) -> _Answer:
        return _said(_with(case, path, number))

    points = sorted({*_NUMBERS, value - 1, value, value + 1})
    if isinstance(value, float):
        points = [float(each) for each in points]
    before = said(points[0])
    for low, high in itertools.pairwise(points):
        if _key(said(high)) != _key(before):
            least = _least(low, high, said)
            before = said(high)
            yield f"from {least:.10g}: {_words(said(least), _said(case))}"


def _least(low: float, high: float, said: Callable[[float], _Answer]) -> float:
    """Return the least number from which the answer is the one at `high`."""
    wanted, whole = _key(said(high)), isinstance(high, int)
    while high - low > (1 if whole else 1e-7 * max(1.0, abs(high))):
        middle = (low + high) // 2 if whole else (low + high) / 2
        low, high = (low, middle) if _key(said(middle)) == wanted else (middle, high)
    near = high if whole else float(f"{high:.6g}")
    return near if _key(said(near)) == wanted else near + 1e-5  # the limit itself is still as before


def _with(case: Case, path: _Path, value: Any) -> Case:
    data = copy.deepcopy(case.data)
    inner: Any = data
    for word in path[:-1]:
        inner = inner[word]
    inner[path[-1]] = value
    return replace(case, data=data)


def _said(case: Case) -> _Answer:
    try:
        found = tuple((each.severity.value, each.subject, each.message) for each in case.said())
    except Exception:  # noqa: BLE001 - a case that cannot be: whatever builds it may fail
        return None
    sound = all(isinstance(subject, str) and "check itself failed" not in text for _, subject, text in found)
    return found if sound else None


def _key(answer: _Answer) -> list[tuple[str, str]] | None:
    if answer is None:
        return None
    return [(severity, re.sub(r"\d+", "N", subject)) for severity, subject, _ in answer]


def _words(answer: _Answer, own: _Answer) -> str:
    """Return which findings came and which went."""
    if answer is None:
        return "refused"
    before = [row[:2] for row in own or ()]
    came = [f"+ {' '.join(filter(None, row))}" for row in answer if row[:2] not in before]
    after = [row[:2] for row in answer]
    went = [f"- {' '.join(filter(None, row))}" for row in before if row not in after]
    return "; ".join([*came, *went]) or "as it is"
