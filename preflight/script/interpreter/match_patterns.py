"""Patterns of `match`: whether a case is the one, and what it gives names to."""

import ast
from collections.abc import Sequence

from preflight.script.interpreter.branch_conditions import OTHER_RANKS, RANK_0
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.operators import is_same
from preflight.script.interpreter.values import UNKNOWN, Const, OneOf, RankValue, Value, as_bool


def match_case(it: Interpreter, case: ast.match_case, subject: Value) -> bool | None:
    """Return whether a case is the one, None when that is not known; its names are bound either way."""
    fits = _fits(it, case.pattern, subject)
    if fits is False or case.guard is None:
        return fits
    allowed = as_bool(it.evaluate(case.guard))
    return False if allowed is False else (None if allowed is None else fits)


def place_of_case(it: Interpreter, case: ast.match_case, subject: Value, before: Sequence[str]) -> str:
    """Return which ranks come to a case of `match rank:`; `before` are those of the cases before it."""
    guard = it.evaluate(case.guard) if case.guard is not None else UNKNOWN
    if isinstance(guard, RankValue) and guard.first is not None and guard.sure is not False:
        return RANK_0 if guard.first else OTHER_RANKS
    if not isinstance(subject, RankValue):
        return ""
    pattern = case.pattern
    asked = pattern.value if isinstance(pattern, (ast.MatchValue, ast.MatchSingleton)) else None
    value = it.evaluate(asked) if isinstance(asked, ast.expr) else Const(asked)
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is None:  # `case _`: what is left
        ranks = {RANK_0, OTHER_RANKS} - set(before) if before else set[str]()
        return ranks.pop() if len(ranks) == 1 else ""
    if asked is None or not isinstance(value, Const) or not isinstance(value.value, int):
        return ""
    if subject.first is None:
        return RANK_0 if value.value == 0 else OTHER_RANKS
    return RANK_0 if subject.first is bool(value.value) else OTHER_RANKS


def _fits(it: Interpreter, pattern: ast.pattern, subject: Value) -> bool | None:
    match pattern:
        case ast.MatchValue() | ast.MatchSingleton() if isinstance(subject, OneOf):
            return None
        case ast.MatchValue(value=value):
            return is_same(it.evaluate(value), subject)
        case ast.MatchSingleton(value=value):
            return is_same(Const(value), subject)
        case ast.MatchAs(pattern=inner, name=name):
            fits = True if inner is None else _fits(it, inner, subject)
            if name:
                it.bind(name, subject)
            return fits
        case ast.MatchOr(patterns=patterns):
            answers = [_fits(it, item, subject) for item in patterns]
            return True if True in answers else (None if None in answers else False)
        case _:  # whether a sequence, a mapping or an object of a class fits is not asked
            for part in ast.walk(pattern):
                name = getattr(part, "rest" if isinstance(part, ast.MatchMapping) else "name", None)
                if name:
                    it.bind(name, UNKNOWN)
    return None
