"""gpulaunch top: all GPUs of all hosts as they are now."""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import click

from launcher.commands._host_access import HostAccess, open_host_access
from launcher.commands._host_options import HostOptions, add_host_options, add_hosts_argument
from launcher.commands._param_types import DurationParam, WrittenFileParam, flag
from launcher.commands._run_options import FoundRunOptions, find_run
from launcher.commands.clean_zombies import CleanZombiesOptions, clean_hosts
from launcher.commands.stacks import show_stacks
from launcher.config.inventory import HostEntry
from launcher.config.node_sets import fold_hosts
from launcher.errors import BadInput
from launcher.exit_codes import ExitCode
from launcher.planning.run_record import read_run_records
from launcher.runs.gone_hosts import describe_gone, list_gone_hosts
from launcher.runs.search import search_hosts
from launcher.terminal.bottom_area import read_size
from launcher.terminal.output import ask_secret, ask_visibly, echo, echo_json, echo_lines
from launcher.text import PIPE_WIDTH, group_alike
from launcher.top.dashboard import Dashboard
from launcher.top.document import encode_view
from launcher.top.fleet import Fleet
from launcher.top.frame import summarize_totals
from launcher.top.full_screen import FullScreen, TerminalClosed, can_take_terminal
from launcher.top.prometheus import write_metrics
from launcher.top.row_order import RowOptions, build_rows, count_totals
from launcher.top.table import render_gpu_table, render_run_table
from launcher.top.views import FleetView
from preflight.frozen import dataclass

Answer = TypeVar("Answer")
Question = Callable[[], None]
_METRICS_EVERY_S = 5.0
_START_S = 20.0
_LEAST_WIDTH = 80


@dataclass(frozen=True, slots=True)
class TopOptions(HostOptions):
    """The values of what `top` takes."""

    once: bool
    interval: float
    as_json: bool
    prometheus: Path | None


@click.command("top")
@add_hosts_argument
@flag("--once", "Print one table and end; so it is without a terminal.")
@click.option(
    "--interval", type=DurationParam(0.5, 3600), default="2s", show_default=True, help="Between samples."
)
@flag("--json", "as_json", "Print one JSON document and end.")
@click.option(
    "--prometheus",
    type=WrittenFileParam("a file of metrics", b"# help "),
    metavar="FILE",
    help="Also write the numbers to FILE, for node_exporter's textfile collector.",
)
@add_host_options
def command(hosts: tuple[str, ...], **given: Any) -> int:
    """Show all GPUs of HOSTS on one screen: use, memory, power, temperature, who holds them.

    Nothing is installed on hosts: one connection to each is held while the screen is shown. Without HOSTS:
    all of hosts.yaml, this machine, and the hosts of runs that were started on it. `?` shows the keys.
    Exit code with --once, --json or without a terminal: 3 when a host that was named did not answer, 1 when
    the driver of one did not.
    """
    options = TopOptions(**given)
    if options.once or options.as_json or not can_take_terminal():
        return _print_once(hosts, options)
    return _show(hosts, options)


def _print_once(hosts: tuple[str, ...], options: TopOptions) -> int:
    access = open_host_access(options)
    entries = _entries(access, hosts)
    with Fleet(entries, access.open, every_s=options.interval, width=access.width) as fleet:
        fleet.collect_once()
        view = fleet.view()
    if options.prometheus is not None:
        write_metrics(options.prometheus, view)
    lost = [host for host in view.hosts if not host.current]
    hung = [host for host in view.hosts if host.current and not host.answers]
    matters = bool(hosts) or len(lost) + len(hung) == len(view.hosts)
    fault = ExitCode.UNREACHABLE if lost else ExitCode.NEGATIVE
    code = fault if matters and (lost or hung) else ExitCode.OK
    if options.as_json:
        echo_json({**encode_view(view), "exit_code": int(code)})
    else:
        _print_table(view)
    return code


def _entries(access: HostAccess, hosts: tuple[str, ...]) -> tuple[HostEntry, ...]:
    """Return the hosts to show; without names none that is gone, which is said."""
    gone = () if hosts else list_gone_hosts(read_run_records().values(), access.inventory.hosts)
    if gone:
        echo(describe_gone(gone), err=True)
    return access.with_open_keys_named(search_hosts(access.inventory, hosts, without=gone))


def _print_table(view: FleetView) -> None:
    width = max(_LEAST_WIDTH, read_size(sys.stdout)[0] - 1) if sys.stdout.isatty() else PIPE_WIDTH
    echo_lines(render_gpu_table(build_rows(view, RowOptions()), width))
    echo_lines([[], *render_run_table(view.runs, width)] if view.runs else [])
    echo(summarize_totals(count_totals(view.hosts)))
    for fix, names in group_alike((host.fix, host.name) for host in view.hosts if host.fix).items():
        echo(f"{fold_hosts(names)}: fix: {fix}", err=True)


def _show(hosts: tuple[str, ...], options: TopOptions) -> int:
    questions: SimpleQueue[Question] = SimpleQueue()
    screen = FullScreen(sys.stdin, sys.stdout)

    def relay(ask: Callable[..., Answer]) -> Callable[..., Answer]:
        return lambda *words: _ask_on_screen(questions, screen, lambda: ask(*words))

    access = open_host_access(options, prompt=relay(ask_secret), confirm=relay(ask_visibly))
    entries = _entries(access, hosts)
    with (
        Fleet(entries, access.open, every_s=options.interval, width=access.width) as fleet,
        screen.take_terminal(),
    ):
        fleet.start()
        metrics = _MetricsFile(options.prometheus)
        held = HostAccess(access.inventory, fleet.open, access.width)
        dashboard = Dashboard(
            fleet,
            screen,
            clean=partial(_clean, held, fleet, options),
            show_stacks=partial(_show_stacks, held, fleet, options),
            every_s=options.interval,
            refreshed=metrics.write,
            questions=questions,
        )
        try:
            dashboard.run()
        except TerminalClosed:
            return ExitCode.TERMINAL_CLOSED
    return ExitCode.OK


def _ask_on_screen(
    questions: "SimpleQueue[Question]", screen: FullScreen, ask: Callable[[], Answer]
) -> Answer:
    """Let the thread that has the terminal ask what a login wants to know; wait for the answer."""
    done = threading.Event()
    answers: list[Answer] = []

    def question() -> None:
        try:
            with suppress(EOFError):
                answers.append(ask())
        finally:
            done.set()

    questions.put(question)
    screen.wake()
    done.wait()
    if not answers:
        raise EOFError
    return answers[0]


class _MetricsFile:
    """The file of --prometheus, rewritten now and then."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._began = time.monotonic()
        self._next = 0.0
        self._written = False

    def write(self, view: FleetView) -> None:
        """Write if it is time. Raises OSError the first time only: its timestamp shows how old it is."""
        now = time.monotonic()
        starts = now < self._began + _START_S and any(host.phase == "connecting" for host in view.hosts)
        if self._path is None or now < self._next or starts:
            return  # a host that is being connected to for the first time is not down
        self._next = now + _METRICS_EVERY_S
        try:
            write_metrics(self._path, view)
        except OSError:
            if not self._written:
                raise
        self._written = True


def _clean(access: HostAccess, fleet: Fleet, options: TopOptions, host: str) -> None:
    """Do as `gpulaunch clean-zombies HOST`, over the connections that are held."""
    try:
        chosen = CleanZombiesOptions(
            options.inventory, options.accept_new_host_keys, options.parallel, options.identity_file
        )
        clean_hosts(access, (fleet.state(host).entry,), chosen)
    except click.Abort:
        echo("nothing was ended")


def _show_stacks(access: HostAccess, fleet: Fleet, given: TopOptions, run_id: str) -> None:
    """Do as `gpulaunch stacks RUN`; only the hosts that report the run are asked."""
    hosts = next((run.hosts for run in fleet.view().runs if run.run_id == run_id), ())
    if not hosts:
        raise BadInput(f"{run_id} is not a live run of yours", "its owner may take its stacks")
    options = FoundRunOptions(
        given.inventory, given.accept_new_host_keys, given.parallel, given.identity_file, hosts
    )
    show_stacks(find_run(run_id, access, options), access, options, as_json=False)
