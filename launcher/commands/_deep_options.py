"""What `preflight`, `run` and `bench` take for the deep checks. Imports little."""

import click

from launcher.commands._host_options import HostOptions
from launcher.commands._param_types import DurationParam, Function, flag
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class DeepCommandOptions(HostOptions):
    """The values of what `add_deep_options` adds to a command that reaches hosts."""

    seconds: float  # how long the matrix products take
    step_timeout: float  # seconds after its time until a step counts as hung
    save_expect: bool  # floors go to hosts.yaml


SHORTEST_S, LONGEST_S = 0.2, 600.0

deep_flag = flag(
    "--deep", "Also measure every free GPU and the links between hosts: a launch of about a minute."
)


def add_deep_options(function: Function) -> Function:
    """Add --seconds, --step-timeout and --save-expect to a command."""
    for option in (
        flag(
            "--save-expect",
            "Deep checks: write what was measured, less 5 %, to `expect:` of the hosts in hosts.yaml.",
        ),
        click.option(
            "--step-timeout",
            type=DurationParam(min=1, max=3600),
            default="60s",
            show_default=True,
            help="Deep checks: end a step that takes this much longer than it should, and name who hangs.",
        ),
        click.option(
            "--seconds",
            type=DurationParam(min=SHORTEST_S, max=LONGEST_S),
            default="20s",
            show_default=True,
            help="Deep checks: how long the matrix products take.",
        ),
    ):
        function = option(function)
    return function
