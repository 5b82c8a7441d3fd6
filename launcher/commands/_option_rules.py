"""Options of a command that exclude each other, or do nothing without another: none is ignored in silence."""

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

import click
from click.core import ParameterSource

from launcher.commands._param_types import Function
from launcher.commands._usage_errors import WrongUsage


def forbid_together(option: str, others: str, why: str) -> Callable[[Function], Function]:
    """Refuse `others`, with spaces between them, beside `option`; `why` continues its name."""

    def check(typed: frozenset[str]) -> None:
        odd = [other for other in others.split() if other in typed]
        if option in typed and odd:
            message = f"{option} {why}: {', '.join(odd)} would have no effect"
            raise WrongUsage(message, f"leave out {option}, or {' and '.join(odd)}")

    return _before(check)


def require_another(options: str, another: str) -> Callable[[Function], Function]:
    """Refuse each of `options` without one of `another`, both with spaces between them."""

    def check(typed: frozenset[str]) -> None:
        odd = [option for option in options.split() if option in typed]
        if odd and typed.isdisjoint(another.split()):
            asked = " or ".join(another.split())
            raise WrongUsage(f"{odd[0]} has no effect without {asked}", f"add {asked}, or leave it out")

    return _before(check)


def _before(check: Callable[[frozenset[str]], None]) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        @wraps(function)
        def command(**values: Any) -> Any:
            context = click.get_current_context()
            sources = {each: context.get_parameter_source(each.name or "") for each in context.command.params}
            given = (each for each, source in sources.items() if source is ParameterSource.COMMANDLINE)
            check(frozenset(name for each in given for name in each.opts))
            return function(**values)

        return cast("Function", command)

    return decorate
