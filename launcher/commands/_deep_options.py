"""What `preflight`, `run` and `bench` take for the deep checks. Imports little."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from launcher.commands._param_types import DurationParam, FiniteRange

Function = TypeVar("Function", bound=Callable[..., Any])

SHORTEST_S, LONGEST_S = 0.2, 600.0

deep_flag = click.option(
    "--deep",
    is_flag=True,
    help="Also measure every free GPU and the links between hosts: a launch of about a minute.",
)
seconds_option = click.option(
    "--seconds",
    type=FiniteRange(SHORTEST_S, LONGEST_S),
    default=20.0,
    show_default=True,
    metavar="N",
    help="With --deep: how long the matrix products take.",
)
step_timeout_option = click.option(
    "--step-timeout",
    type=DurationParam(min=1, max=3600),
    default="60s",
    show_default=True,
    help="With --deep: end a step that takes so much longer than its time, and name who hangs.",
)
save_expect_option = click.option(
    "--save-expect",
    is_flag=True,
    help="With --deep: write what was measured, less 5 %, to `expect:` of the hosts in hosts.yaml.",
)


def deep_options(function: Function) -> Function:
    """Add --seconds, --step-timeout and --save-expect to a command."""
    return save_expect_option(step_timeout_option(seconds_option(function)))
