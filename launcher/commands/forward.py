"""gpulaunch forward: a port of a run's host, on this machine."""

import re
import time
from contextlib import suppress
from typing import Any

import click

from launcher.commands import _run_options
from launcher.commands._answer import Answer, json_option
from launcher.commands._param_types import flag, host_option
from launcher.config.inventory import HostEntry
from launcher.errors import BadInput, GpulaunchError, HostError
from launcher.rundir.run_id import LAST
from launcher.runs.access import RunAccess
from launcher.runs.forward import open_forward
from launcher.transports.loopback import ADDRESS, LoopbackListener

TENSORBOARD_PORT = 6006
_AGAIN_S = 3.0


@click.command("forward")
@_run_options.run_argument
@click.argument("port", default=str(TENSORBOARD_PORT), metavar="[[LOCAL:]PORT]")
@host_option("This node of the run, not its main one.")
@flag("--tensorboard", "Start TensorBoard on the host, over the run's output, and forward it.")
@json_option
@_run_options.run_options
def command(run: str, *, port: str, host: str, tensorboard: bool, as_json: bool, **given: Any) -> int:
    """Forward a port of the loopback of RUN's host to this machine's, over gpulaunch's own connection.

    PORT is TensorBoard's 6006 by default; LOCAL:PORT takes another one on this machine. It continues until
    Ctrl-C, also over a link that was lost; a TensorBoard that --tensorboard has started ends with it.
    """
    local, remote = _ports(port)
    try:
        *_, to = _run_options.open_named_run(run, _run_options.FoundRunOptions(**given))
    except GpulaunchError as error:
        if re.fullmatch(r"(\d+:)?\d+", run):  # as well a port, where RUN is left out
            other = f"; else {error.fix}" if error.fix else ""
            error.fix = f"a port of the last run: gpulaunch forward {LAST} {run}{other}"
        raise
    _, entry = _run_options.choose_nodes(to, host)[0]
    try:
        listener = LoopbackListener(local)
    except OSError as error:
        why = f"port {local} of this machine cannot be used: {error.strerror}"
        raise BadInput(why, f"gpulaunch forward {run} {local + 1}:{remote}") from None
    with listener, suppress(KeyboardInterrupt):
        answer = Answer("gpulaunch.forward/1", as_json=as_json)
        _carry(to, entry, listener, answer, remote, tensorboard=tensorboard)
    return 0


def _carry(
    to: RunAccess,
    entry: HostEntry,
    listener: LoopbackListener,
    answer: Answer,
    remote: int,
    *,
    tensorboard: bool,
) -> None:
    """Forward until Ctrl-C. Raises what stops the first attempt, and what no further attempt can change."""
    begun = False
    while True:
        try:
            with to.open(entry) as connection:
                forward = open_forward(
                    connection, entry, to.plan.run_id, port=remote, tensorboard=tensorboard
                )
                what = f"TensorBoard of {to.plan.run_id}" if tensorboard else f"port {forward.port}"
                url = f"http://{ADDRESS}:{listener.port}"
                answer.say(f"{url} is {what} on {entry.name}; Ctrl-C ends it", err=True)
                if not begun:
                    answer.finish(0, run_id=to.plan.run_id, host=entry.name, port=forward.port, url=url)
                begun = True
                forward.run(listener)
        except HostError as error:
            if not begun:
                raise
            answer.say(f"{error.message}; trying again", err=True)
            time.sleep(_AGAIN_S)
        except KeyboardInterrupt as stop:
            raise (stop if begun else click.Abort()) from None


def _ports(text: str) -> tuple[int, int]:
    """Return the local and the remote port. Raises BadInput."""
    words = text.split(":")
    if len(words) > 2 or not all(word.isascii() and word.isdecimal() for word in words):
        raise BadInput(f'"{text}" is not a port: expected PORT or LOCAL:PORT')
    numbers = [int(word[:6]) for word in words]
    if not all(0 < number <= 65535 for number in numbers):
        raise BadInput(f'"{text}": expected ports from 1 to 65535')
    return numbers[0], numbers[-1]
