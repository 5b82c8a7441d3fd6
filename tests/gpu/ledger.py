"""What a case saw, written line by line, so that a case that dies has said what it saw before."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple


class Verdict(StrEnum):
    """What was found of one thing."""

    OK = "ok"
    WRONG = "wrong"
    UNABLE = "unable"  # it could not be looked at; `expected` says why
    NOTE = "note"  # a measurement that nothing is expected of


class Observation(NamedTuple):
    """One thing that a case looked at; values as the report shows them."""

    what: str
    observed: str
    expected: str
    verdict: Verdict


class CannotRun(Exception):
    """This machine lacks what a case needs; the text says what."""


class Stopped(Exception):
    """What a case saw leaves it no way to continue; the text says why. The case has failed."""


class Ledger:
    """The observations of one case. `path` gets one JSON array per line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def _add(self, what: str, observed: object, expected: object, verdict: Verdict) -> None:
        line = [what, shown(observed), shown(expected), verdict.value]
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def check(self, what: str, observed: object, *, ok: bool, expected: object) -> bool:
        """Record a judgement; return `ok`."""
        self._add(what, observed, expected, Verdict.OK if ok else Verdict.WRONG)
        return ok

    def equal(self, what: str, observed: object, expected: object) -> bool:
        """Record whether two values are the same."""
        return self.check(what, observed, ok=observed == expected, expected=expected)

    def between(self, what: str, observed: float | None, low: float, high: float) -> bool:
        """Record whether a number was read and lies between two, both included."""
        ok = observed is not None and low <= observed <= high
        return self.check(what, observed, ok=ok, expected=f"{shown(low)} to {shown(high)}")

    def note(self, what: str, observed: object) -> None:
        """Record a value that nothing is expected of."""
        self._add(what, observed, "", Verdict.NOTE)

    def unable(self, what: str, why: str) -> None:
        """Record that something could not be looked at."""
        self._add(what, "", why, Verdict.UNABLE)

    def close(self) -> None:
        self._file.close()


def shown(value: object) -> str:
    """Return a value in the words of the report: numbers short, texts in one line of bounded length."""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 10000 else f"{value:.0f}"
    text = " ".join(str(value).split())
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."


MAX_TEXT = 600


def read(path: Path) -> list[Observation]:
    """Return what lies in a ledger's file; a line that was cut off by the end of its writer is left out."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            what, observed, expected, verdict = json.loads(line)
        except ValueError:
            continue
        found.append(Observation(what, observed, expected, Verdict(verdict)))
    return found


def as_json(observation: Observation) -> dict[str, Any]:
    """Return an observation for the report's JSON."""
    return {**observation._asdict(), "verdict": observation.verdict.value}
