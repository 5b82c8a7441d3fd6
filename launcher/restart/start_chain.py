"""A run that another client, or its host, has started: followed through its restarts, and started again."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from launcher.config.inventory import HostEntry, Inventory
from launcher.config.node_sets import fold_hosts
from launcher.errors import LaunchRefused
from launcher.follow.outcome import Outcome
from launcher.host_checks.result import PreflightResult
from launcher.launch.request import FollowOptions, LaunchRequest
from launcher.launch.signals import raise_stop_signals
from launcher.remote.connection_pool import ConnectionPool
from launcher.report.outcome import render_launch
from launcher.restart.context import RestartContext
from launcher.restart.decision import NoRestart, classify_failure
from launcher.restart.pause_signals import describe_next
from launcher.restart.restart_lock import OtherStart, RestartHold, take_hold
from launcher.restart.restart_order import RestartOrder, build_start_record, parse_history, read_order
from launcher.restart.restarter import RestartLoop
from launcher.runs.access import KnownHosts, RunAccess, access_run
from launcher.runs.attach import AttachedRun
from launcher.runs.remote_run import RemoteRun
from launcher.runs.search import find_in_runs
from launcher.terminal.screen import Screen
from preflight.errors import BadInput
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class FollowContext:
    """How starts are followed and made by a client that has not launched the run."""

    screen: Screen
    follow: FollowOptions  # `detach`, and what hosts lack is left to a client: on the host itself
    find: Callable[[str], tuple[RemoteRun, RunAccess]]  # a start by its run id
    spares: Callable[[RestartOrder], tuple[HostEntry, ...]]
    on_preflight: Callable[[PreflightResult], None]
    prepare_spare: Callable[[HostEntry], None] = lambda _: None  # raises GpulaunchError


def follow_starts(found: RemoteRun, to: RunAccess, means: FollowContext) -> Outcome | None:
    """Follow a run and its restarts, or start it again; return how the last ended, None if it continues."""
    first = True
    while True:
        outcome = _follow(found, to, means, is_shown=first)
        first = False
        if outcome is None:
            return None
        with raise_stop_signals():
            following = _following(found, to, outcome, means)
            if isinstance(following, RestartHold):
                with following:
                    return _continue(found, to, outcome, following, means)
        if not isinstance(following, OtherStart):
            return following
        means.screen.notify(f"{outcome.plan.run_id} was started again as {following.run_id}")
        found, to = means.find(following.run_id)


def _follow(found: RemoteRun, to: RunAccess, means: FollowContext, *, is_shown: bool) -> Outcome | None:
    attachment = AttachedRun(to, means.screen, run=found, options=means.follow)
    for line in () if is_shown else render_launch(to.plan, str(means.follow.logs / to.plan.run_id)):
        means.screen.notify(line)
    try:
        return attachment.follow()
    finally:
        means.screen.clear()


def _following(
    found: RemoteRun, to: RunAccess, outcome: Outcome, means: FollowContext
) -> "RestartHold | OtherStart | Outcome | None":
    """Return the right to start it again, the start that another one has made, or the whole outcome.

    Raises HostError where its host no longer says whether the run continues.
    """
    history = parse_history(found.spec.get("restart"), "")
    if history is None or outcome.verdict in ("finished", "detached"):
        return _with_history(outcome, found, "")
    try:
        following = take_hold(outcome.plan.run_id, to.entries[0], to.open, means.screen.notify, order=True)
    except KeyboardInterrupt:  # before the right is this client's it has nothing to end
        means.screen.notify(describe_next(outcome))
        return None
    if isinstance(following, NoRestart):
        return _with_history(outcome, found, following.why)
    if following is not None:
        return following
    reason = classify_failure(outcome)
    why = reason.why if isinstance(reason, NoRestart) else "its host keeps nothing to start it again with"
    return _with_history(outcome, found, why)


def _with_history(outcome: Outcome, found: RemoteRun, why: str) -> Outcome:
    """Return it with the starts before it, by the word of its main host."""
    known = found.spec.get("restart")
    history = parse_history(known, why)
    if known is None or history is None:
        return outcome
    resumed_from = str(known.get("resumed_from") or "")
    starts = (*history.starts, build_start_record(outcome, str(outcome.directory), resumed_from))
    return replace(outcome, restarts=replace(history, starts=starts), attempts=len(starts))


def _continue(
    found: RemoteRun, to: RunAccess, outcome: Outcome, hold: RestartHold, means: FollowContext
) -> Outcome:
    """Start it again as the client that launched it would."""
    if found.missing:
        silent = found.unheard if found.record is None else found.missing
        who = fold_hosts(silent) or "a host that this machine does not know"
        why = f"{who} cannot be asked what was launched; gpulaunch attach once it answers"
        return _with_history(outcome, found, why)
    try:
        order = read_order(hold.order, [node.fields["spec"].get("restart") for node in found.nodes])
    except BadInput as error:
        return _with_history(outcome, found, error.message)
    with restart_loop(order, found, to, means) as loop:
        return loop.resume(outcome, hold)


@contextmanager
def restart_loop(
    order: RestartOrder, found: RemoteRun, to: RunAccess, means: FollowContext
) -> Iterator[RestartLoop]:
    """Yield the loop that continues what an order says, on hosts reached in these ways."""
    leaves = means.follow.detach  # what others have started, a host does not follow to its end
    context = RestartContext(
        options=order.options,
        spares=means.spares(order),
        prepare_spare=means.prepare_spare if not order.syncs else _refuse_sync,
        on_preflight=means.on_preflight,
        follow_other=lambda run_id: None if leaves else follow_starts(*means.find(run_id), means),
        syncs=order.syncs,
        on_host=leaves,
    )
    elapsed_s = order.history.elapsed_s + max(0.0, time.time() - found.started)
    history = replace(order.history, elapsed_s=elapsed_s)
    with closing(ConnectionPool(to.open_known)) as pool:
        launch = order.launch(to.entries, pool, means.follow)
        with RestartLoop(launch, means.screen, context, history=history, logs=order.kernel_logs) as loop:
            yield loop


def _refuse_sync(spare: HostEntry) -> None:
    words = f"{spare.name} has not got the working tree, which only the client that launched the run sends"
    raise LaunchRefused(words)


def follow_launched(
    run_id: str,
    launch: LaunchRequest,
    screen: Screen,
    spares: tuple[HostEntry, ...],
    on_preflight: Callable[[PreflightResult], None],
) -> Outcome | None:
    """Follow a start that the host or another client made of our run. Raises BadInput and HostError."""
    known = {entry.name: entry for entry in (*launch.entries, *spares)}
    open_entry = launch.connections.acquire

    def find(run_id: str) -> tuple[RemoteRun, RunAccess]:
        found = find_in_runs(
            run_id, known.values(), open_entry, width=launch.preflight.width, warn=screen.notify
        )
        return found, access_run(found, KnownHosts(known, Inventory(), lambda _: False), open_entry)

    means = FollowContext(
        screen=screen,
        follow=replace(launch.follow, detach=False, on_start=None),
        find=find,
        spares=lambda _: spares,
        on_preflight=on_preflight,
    )
    return follow_starts(*find(run_id), means)
