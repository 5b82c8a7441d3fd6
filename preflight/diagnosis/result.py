"""What a diagnosis says: causes with their evidence, harmless warnings, and a verdict."""

from typing import Literal

from preflight.frozen import dataclass

Confidence = Literal["certain", "likely", "possible"]

BENIGN = "benign"  # the verdict when no failure was found
UNKNOWN = "unknown"  # the verdict when it failed and the log does not say why
USER_EXCEPTION = "user-exception"
NAN_LOSS = "nan-loss"
USER_CODE = "S00"
SAID_CODE = "S119"
NAN_CODE = "S11"
ZERO_CODE = "S12"
COLLAPSE_CODE = "S23"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line that proves it. `line` counts from 1; `source` names the log where there are several."""

    line: int
    rank: int | None
    text: str
    source: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause. `place` is the line of the user's own code that led to it, "file:line", where it is known.

    `command` is what to type or to change, made for this log; "" where only the general `fix` is known.
    """

    code: str
    slug: str
    confidence: Confidence
    cause: str
    fix: str
    evidence: tuple[Evidence, ...]
    location: str = ""
    rank: int | None = None
    host: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class BenignWarning:
    """An alarming line that is not a failure, with whether it may be ignored."""

    code: str
    safe: bool
    verdict: str
    line: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer. `verdict` is the class of the first cause, "benign" for no failure, or "unknown"."""

    verdict: str
    causes: tuple[Cause, ...]
    warnings: tuple[BenignWarning, ...]


def says_more(code: str, slug: str) -> bool:
    """Return whether a cause says more than the last lines above: an exception in no row says all itself."""
    return code != USER_CODE and slug != UNKNOWN
