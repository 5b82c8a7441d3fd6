"""The working tree of a launch, sent where its run config says so."""

import json
from collections.abc import Callable
from dataclasses import replace

from launcher.commands._preflight_report import print_report
from launcher.config.run_config import RunConfig
from launcher.errors import GpulaunchError
from launcher.host_checks.result import PreflightResult
from launcher.launch.request import LaunchRequest
from launcher.local.home import expand_home
from launcher.planning.script_file import read_script_after_sync
from launcher.terminal.screen import Screen
from launcher.text import one_line


def sync_tree(
    config: RunConfig,
    launch: LaunchRequest,
    screen: Screen,
    *,
    dry_run: bool = False,
    approve: Callable[[], object] = lambda: None,
) -> LaunchRequest:
    """Send the working tree where the run config says so; return the launch that keeps what was sent.

    `approve` raises what keeps the tree from being put in place under a live run.
    """
    if config.sync is None:
        return launch
    if dry_run:
        from launcher.sync.tree import resolve_root  # noqa: PLC0415 - as below

        tree = one_line(str(resolve_root(expand_home(config.sync.source))), 400)
        arriving = read_script_after_sync(config)
        named = config.job.module if arriving is None else arriving.name
        what = f"as if {named} were on them already" if named else "with the files that they have now"
        screen.notify(f"sync: nothing is sent in a dry run; hosts are judged {what}")
        screen.notify(f"sync: a launch sends {tree}")
        return expect_tree(config, launch)
    from launcher.sync.pre_launch import SyncHosts, sync_before_launch  # noqa: PLC0415 - most launches do without it

    access = SyncHosts(launch.entries, launch.connections.borrow, launch.preflight.width)
    source = sync_before_launch(
        config.sync, launch.job, access, screen.notify, logs=launch.follow.logs, approve=approve
    )
    job = replace(launch.job, tree_is_sent=launch.preflight.tree is not None)
    return replace(launch, job=job, extra_files=(("source.json", source),))


def expect_tree(config: RunConfig, launch: LaunchRequest) -> LaunchRequest:
    """Return a launch whose hosts are judged as if they had the tree."""
    how = launch.preflight
    arriving = read_script_after_sync(config)
    how = replace(how, script_after_sync=arriving, makes_workdir=how.tree is not None)
    return replace(launch, preflight=how)


def has_same_tree(one: LaunchRequest, other: LaunchRequest) -> bool:
    """Return whether two launches sent the same tree."""
    return _hash_of(one) == _hash_of(other)


def _hash_of(launch: LaunchRequest) -> object:
    return json.loads(dict(launch.extra_files)["source.json"])["content_sha256"]


def demand_verdict(
    config: RunConfig,
    launch: LaunchRequest,
    screen: Screen,
    check: Callable[[LaunchRequest, Callable[[PreflightResult], None]], object],
    *,
    verbose: bool = False,
) -> None:
    """Raise what refuses this launch, so that nothing of its tree is put in place.

    `check` judges a launch as the one that follows will, and gives its reports; those of a refusal are shown.
    """
    results: list[PreflightResult] = []
    try:
        check(expect_tree(config, launch), results.append)
    except GpulaunchError as error:
        for result in results:
            print_report(screen, result, verbose=verbose)
        screen.notify("sync: nothing was put in place")
        raise error from None
