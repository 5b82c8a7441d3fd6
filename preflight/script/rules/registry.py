"""The catalogue of script rules: what a rule is, and the table they register in."""

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from functools import lru_cache

from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter


class Level(Enum):
    """How sure and how bad: an error will fail or train wrongly, a warning may, an info is worth knowing."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class RuleHit:
    """What a rule saw: where, in one sentence, and what to change."""

    place: CodeLocation
    message: str
    fix: str
    level: Level
    related: tuple[CodeLocation, ...] = ()
    """Other places that are part of the fault: where the value is named, or where the other half is."""


Judge = Callable[[Interpreter, ScriptEvent], Iterator[RuleHit]]


@dataclass(frozen=True, slots=True)
class LintRule:
    """One row of the catalogue. `title` is the fault; `text` says why it matters, with its source."""

    title: str
    text: str
    events: frozenset[str]
    judge: Judge


RULES: dict[str, LintRule] = {}


def rule(code: str, *events: str) -> Callable[[Judge], Judge]:
    """Register a function that judges these events."""

    def register(judge: Judge) -> Judge:
        text = inspect.getdoc(judge) or ""
        if not text:
            raise TypeError(f"{code}: a rule needs a docstring; it is what `gpulaunch explain {code}` prints")
        if code in RULES:
            raise TypeError(f"{code} is taken")
        RULES[code] = LintRule(text.splitlines()[0], text, frozenset(events), judge)
        return judge

    return register


@lru_cache(maxsize=64)
def list_rules(event: str) -> tuple[tuple[str, Judge], ...]:
    """Return the rules that judge events of a name; all rules are registered by then."""
    return tuple((code, row.judge) for code, row in RULES.items() if event in row.events)
