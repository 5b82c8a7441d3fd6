"""gpulaunch prune: delete old runs that are over from hosts."""

import time
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import click

from launcher.commands._answer import Answer, encode_unreachable, json_option
from launcher.commands._host_access import HostAccess, open_host_access
from launcher.commands._host_options import HostOptions, add_host_options, add_hosts_argument
from launcher.commands._option_rules import forbid_together
from launcher.commands._param_types import DurationParam, flag
from launcher.commands._remove import confirm_delete, remove_runs
from launcher.config.node_sets import fold_hosts
from launcher.durations import format_duration
from launcher.exit_codes import ExitCode
from launcher.launch.signals import report_stop_signals
from launcher.planning.run_record import delete_run_record, read_run_records
from launcher.runs.end_notice import delete_notice
from launcher.runs.remote_run import RemoteRun
from launcher.runs.render import run_line
from launcher.runs.search import explain_unanswered, search_all, search_hosts
from launcher.text import count_noun, name_first
from preflight.errors import BadInput


@click.command("prune")
@add_hosts_argument
@click.option(
    "--older-than",
    type=DurationParam(),
    default="30d",
    show_default=True,
    help="Ended at least this long ago.",
)
@flag("--dry-run", "Only show; delete nothing.")
@flag("--yes", "-y", "Do not ask.")
@flag(
    "--forget",
    "HOSTS are gone for good: ask none, forget every launch of this machine that was on them alone.",
)
@json_option
@add_host_options
@forbid_together("--forget", "--older-than", "forgets launches of any age")
@report_stop_signals()
def command(
    hosts: tuple[str, ...],
    *,
    older_than: float,
    dry_run: bool,
    yes: bool,
    forget: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Delete the directories of your runs on HOSTS that ended long ago; they are shown first.

    A run that lives on any of its hosts, or whose end is not known, is kept; so is one that by its host's
    clock ended before its launch. Exit code 1: a host refused, or you said no; 3: a host was not reached.
    """
    access = open_host_access(HostOptions(**given))
    answer = Answer("gpulaunch.removal/1", as_json=as_json)
    if forget:
        return _forget(hosts, access, answer, dry_run=dry_run, yes=yes)
    entries = access.with_open_keys_named(search_hosts(access.inventory, hosts))
    listed = access.inventory.hosts
    found = search_all(entries, access.open, width=access.width, listed=listed, ended=True, tail=0)
    answer.words = words = access.inventory.access_words
    for line in explain_unanswered(found.errors, words):
        answer.say(line, err=True)
    for name, run_ids in found.other_hosts.items():
        count = count_noun(len(run_ids), "run")
        answer.say(
            f"{name}: not asked: {count} of it in a home that it shares with a host that was asked", err=True
        )
    named = found.errors if hosts else {}  # a host of hosts.yaml that is down was not named
    now = time.time()
    old = list(_list_old(found.runs, now, older_than, answer))
    for run in old:
        answer.say(run_line(run, now))
    if not old:
        asked = [entry.name for entry in entries if entry.name not in {**found.errors, **found.other_hosts}]
        since = f"ended more than {format_duration(older_than)} ago; --older-than sets the time"
        answer.say(f"no run on {fold_hosts(asked)} {since}" if asked else "no host answered")
        return remove_runs([], access.open, answer, named, words)
    if dry_run:
        answer.say("nothing was deleted: this is a dry run")
        return answer.finish(
            ExitCode.UNREACHABLE if named else ExitCode.OK,
            runs=[{"run_id": run.run_id, "hosts": _encode_kept(run)} for run in old],
            **encode_unreachable(named, words),
        )
    runs = "this run" if len(old) == 1 else f"these {len(old)} runs"
    if not confirm_delete(f"Delete the logs and records of {runs} on the hosts?", answer, yes=yes):
        return answer.finish(ExitCode.NEGATIVE, runs=[], **encode_unreachable(found.errors, words))
    return remove_runs(old, access.open, answer, named, words)


def _list_old(runs: Iterable[RemoteRun], now: float, age: float, answer: Answer) -> Iterator[RemoteRun]:
    """Yield the runs that ended long ago; name those that may live, or have a wrong clock."""
    unknown: dict[str, list[str]] = {}
    for run in runs:
        if run.ended is None or run.conflict or now - run.ended < age:
            continue
        if not (run.is_over or (run.record is not None and run.record.over)):
            unknown[run.run_id] = run.missing
        elif wrong := run.explain_wrong_end(now):
            answer.say(f"{run.run_id} is kept: {wrong}; gpulaunch rm {run.run_id} deletes it", err=True)
        else:
            yield run
    if unknown:
        where = fold_hosts(dict.fromkeys(chain.from_iterable(unknown.values())))
        kept = f"{name_first([*unknown], 3)}: kept, the end on {where} is not known"
        answer.say(f"{kept}; name all hosts of a run, or gpulaunch rm RUN deletes it", err=True)


def _forget(hosts: tuple[str, ...], access: HostAccess, answer: Answer, *, dry_run: bool, yes: bool) -> int:
    """Drop the local records of launches on hosts that are gone."""
    if not hosts:
        raise BadInput("--forget takes the hosts that are gone", "gpulaunch prune HOST --forget")
    gone = {entry.name for entry in access.inventory.resolve(hosts)}
    forgotten = []
    for run_id, record in read_run_records().items():
        names = tuple(entry.name for entry in record.entries)
        if gone.issuperset(names):
            forgotten.append(run_id)
            answer.say(f"{run_id} on {fold_hosts(names)}" + ": its end was not seen" * (not record.over))
        elif gone.intersection(names):
            answer.say(f"{run_id} is kept, it is on {fold_hosts(names)}: name all of them", err=True)
    runs = [{"run_id": run_id, "hosts": []} for run_id in forgotten]
    if not forgotten:
        answer.say("no launch of this machine is on these hosts alone")
    elif dry_run:
        answer.say("nothing was forgotten: this is a dry run")
    elif confirm_delete("Forget these launches? Their hosts are not asked.", answer, yes=yes):
        for run_id in forgotten:
            delete_run_record(run_id)
            delete_notice(run_id)
        answer.say(f"{count_noun(len(forgotten), 'run')} forgotten; local logs stay")
    else:
        return answer.finish(ExitCode.NEGATIVE, runs=[], **encode_unreachable({}))
    return answer.finish(ExitCode.OK, runs=runs, **encode_unreachable({}))


def _encode_kept(run: RemoteRun) -> list[dict[str, object]]:
    return [{"host": node.entry.name, "removed": False, "error": None} for node in run.nodes]
