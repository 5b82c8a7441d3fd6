"""What `preflight`, `run` and `bench` take for the deep checks. Imports little."""

from collections.abc import Callable

import click

from launcher.commands._host_options import HostOptions
from launcher.commands._param_types import DurationParam, FiniteRange, Function
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class DeepCommandOptions(HostOptions):
    """The values of what `deep_options` adds to a command that reaches hosts."""

    seconds: float  # how long the matrix products take
    step_timeout: float  # seconds after its time until a step counts as hung
    save_expect: bool  # floors go to hosts.yaml


SHORTEST_S, LONGEST_S = 0.2, 600.0

deep_flag = click.option(
    "--deep",
    is_flag=True,
    help="Also measure every free GPU and the links between hosts: a launch of about a minute.",
)


def deep_options(prefix: str = "With --deep: ") -> Callable[[Function], Function]:
    """Return what adds --seconds, --step-timeout and --save-expect to a command.

    `prefix` starts the help of each.
    """

    def help_text(text: str) -> str:
        return prefix + text if prefix else text[0].upper() + text[1:]

    seconds = click.option(
        "--seconds",
        type=FiniteRange(SHORTEST_S, LONGEST_S),
        default=20.0,
        show_default=True,
        metavar="N",
        help=help_text("how many seconds the matrix products take."),
    )
    step_timeout = click.option(
        "--step-timeout",
        type=DurationParam(min=1, max=3600),
        default="60s",
        show_default=True,
        help=help_text("end a step that takes this much longer than it should, and name who hangs."),
    )
    save_expect = click.option(
        "--save-expect",
        is_flag=True,
        help=help_text("write what was measured, less 5 %, to `expect:` of the hosts in hosts.yaml."),
    )
    return lambda function: save_expect(step_timeout(seconds(function)))
