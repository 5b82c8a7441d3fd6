"""The sync of a launch: from the run config to the hosts, reported, and recorded with the run."""

import json
import posixpath
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.config.node_sets import fold_hosts
from launcher.config.sync_options import SyncOptions
from launcher.errors import ConfigError, HostError, HostsUnusable, SyncFailed
from launcher.local.home import expand_home
from launcher.remote.connection_pool import OpenConnection
from launcher.sync import git
from launcher.sync.git import GitState
from launcher.sync.hash_cache import HashCache
from launcher.sync.left_out import LeftOut, find_left_out, find_outside, list_inputs, list_modules
from launcher.sync.sync import LOCAL, HostSync, Say, SyncJob, send_tree
from launcher.sync.tree import SourceTree, read_tree
from launcher.text import count_noun, format_size, group_alike, name_first, one_line
from preflight.facts.json_codec import encode
from preflight.facts.redaction import redact_diff
from preflight.frozen import dataclass
from preflight.job import Job, anchor_at_home

SCHEMA = "gpulaunch.source/1"
_NAMED = 3
_MOST_LEFT_OUT = 20


@dataclass(frozen=True, slots=True)
class SyncHosts:
    """The hosts of a launch, and how they are reached."""

    entries: tuple[HostEntry, ...]
    opener: OpenConnection
    width: int


def sync_before_launch(
    spec: SyncOptions,
    job: Job,
    hosts: SyncHosts,
    say: Say,
    *,
    logs: Path,
    approve: Callable[[], object] = lambda: None,
) -> str:
    """Send the tree; return the text of source.json.

    `approve` is called before files change under a live run; what it raises leaves them as they
    are. Raises ConfigError, SyncFailed or HostError; launch nothing then.
    """
    targets = list_target_dirs(spec, job, hosts.entries)
    known: list[tuple[SourceTree, git.GitState]] = []
    left_out: dict[str, LeftOut] = {}

    def read() -> SourceTree:
        tree = read_tree(
            expand_home(spec.source),
            exclude=spec.exclude,
            max_mib=spec.max_mib,
            logs=logs,
            include=spec.include,
        )
        _refuse_without_script(tree, spec, job)
        left_out.update((each.path, each) for each in _list_left_out(tree, spec, job))
        version = git.read_git_state(tree.root, tree.checkouts) if tree.from_git else git.GitState()
        known.append((tree, version))
        at = f", commit {version.commit[:12]}{' with edits' * version.dirty}" if version.commit else ""
        say(f"sync: {tree.root}: {count_noun(len(tree.entries), 'file')}, {format_size(tree.size)}{at}")
        for note in tree.notes[:_NAMED]:
            say(f"sync: {note}")
        if len(tree.notes) > _NAMED:
            say(f"sync: and {len(tree.notes) - _NAMED} more like these")
        return tree

    def found_live(live: Mapping[str, tuple[str, ...]]) -> None:
        for line in render_live_runs(live, targets, spec, job):
            say(line)
        approve()

    try:
        sync = SyncJob(read, targets, spec.delete, hosts.width, found_live, lambda: tuple(left_out))
        found = send_tree(sync, hosts.entries, hosts.opener, say)
    except (SyncFailed, HostError, HostsUnusable) as error:
        for tree, _ in known if isinstance(error, SyncFailed) else ():
            HashCache(tree.root).forget()  # should one of its hashes be the reason, the next sync succeeds
        if error.hosts:
            from launcher.host_checks.evaluation import name_others  # noqa: PLC0415 - only for a failure

            error.fix = "\n".join(filter(None, (error.fix, name_others(hosts.entries, error.hosts))))
        raise
    for line in render_sync(found, _set_directory(spec, job, targets)):
        say(line)
    ((tree, version),) = known
    for line in render_left_out(tree, spec, left_out, found):
        say(line)
    return json.dumps(encode_source(tree, version, found, spec), indent=1) + "\n"


def list_target_dirs(spec: SyncOptions, job: Job, entries: Sequence[HostEntry]) -> dict[str, str]:
    """Return the directory on each host. Raises ConfigError where it holds all else too."""
    targets = {entry.name: anchor_at_home(spec.to or job.workdir or entry.workdir) for entry in entries}
    if shared := next((to for to in targets.values() if posixpath.normpath(to) in ("/", "//", "~")), ""):
        fix = "set sync.to or workdir to a directory below it"
        raise ConfigError(f"{shared} holds more than a working tree", fix)
    return targets


def render_live_runs(
    live: Mapping[str, tuple[str, ...]], targets: Mapping[str, str], spec: SyncOptions, job: Job
) -> Iterator[str]:
    """Yield whose code changes, and what gives the next launch a directory of its own."""
    apart = _set_directory(spec, job, targets)
    for name, runs in live.items():
        yield (
            f"sync: {_names(runs)} on {name} works in {targets[name]}: it keeps the files that it has open;"
            f" what it opens later, and its restarts, get this tree. {apart} keeps launches apart"
        )


def _set_directory(spec: SyncOptions, job: Job, targets: Mapping[str, str]) -> str:
    """Return the options that give a launch a directory of its own on hosts, to start in too.

    In quotes, for a shell would put the local home in the place of `~`.
    """
    target = next(iter(targets.values())).rstrip("/")
    fresh = f"{target}-2"
    values = {"sync.to": fresh} if spec.to else {}
    if job.workdir or not spec.to:
        within = job.workdir.startswith(f"{target}/")
        values["workdir"] = fresh + (job.workdir.removeprefix(target) if within else "")
    return " ".join(f"--set {shlex.quote(f'{key}={value}')}" for key, value in values.items())


def render_sync(found: Mapping[str, HostSync], apart: str) -> Iterator[str]:
    """Yield what became of each host; hosts to which the same happened are reported together.

    `apart`: the options that give a launch a directory of its own.
    """
    alike = group_alike(((host.root, _what_happened(host)), name) for name, host in found.items())
    for (root, what), names in alike.items():
        took = max(found[name].seconds for name in names)
        seconds = "" if found[names[0]].same_as else f" ({took:.1f} s)"
        yield f"sync: {fold_hosts(names)}:{root} {what}{seconds}"
    for former, names in group_alike((host.done.former, name) for name, host in found.items()).items():
        if former:
            yield (
                f"sync: on {fold_hosts(names)} the directory had the tree of {one_line(former)}:"
                f" its other files and its outputs are still in it. {apart} keeps projects apart"
            )
    for name, host in found.items():
        done = host.done
        if host.same_as:
            continue
        if done.kept:
            yield f"sync: {name} had its own {_names(done.kept)}: kept in {host.done.kept_in}"
        if done.edited:
            yield f"sync: {name} has edits in {_names(done.edited)}, which the tree no longer has: left as is"
        if done.stale:
            yield f"sync: {name} still has {_names(done.stale)} of a former sync; sync.delete removes such"


def _what_happened(host: HostSync) -> str:
    if host.same_as:
        owner = "the tree itself" if host.same_as == LOCAL else f"the same directory as on {host.same_as}"
        return f"is {owner}; nothing to send"
    done = host.done
    sent = f"{count_noun(done.written, 'file')} sent, {format_size(host.sent)}"
    what = sent if done.written else "up to date"
    what += "" if host.wire is None else f" as {format_size(host.wire)} by rsync"
    return what + (f", {count_noun(len(done.deleted), 'file')} deleted" if done.deleted else "")


def _refuse_without_script(tree: SourceTree, spec: SyncOptions, job: Job) -> None:
    """A tree without the script is not the tree that was meant."""
    if (
        spec.to not in ("", job.workdir)
        or not job.script
        or posixpath.isabs(job.script)
        or job.script.startswith("~")
    ):
        return
    path = job.script_in_tree
    if path.startswith(("../", "/", "~")) or any(entry.path == path for entry in tree.entries):
        return
    left_out = find_left_out(tree.root, path, spec.exclude)
    raise ConfigError(
        f"{path} is not among the files that sync would send from {tree.root}"
        + (f": {left_out.rule}" if left_out else ""),
        "start gpulaunch in the project's directory, set sync.from, or see what .gitignore leaves out",
    )


def _list_left_out(tree: SourceTree, spec: SyncOptions, job: Job) -> Iterator[LeftOut]:
    """Yield what the job's script seems to read and the tree lacks.

    Where the tree goes elsewhere than the script's directory (`to`), relative paths say nothing of it.
    """
    if spec.to not in ("", job.workdir) or posixpath.isabs(job.subdirectory):
        return
    sent = {entry.path: entry.kind for entry in tree.entries}
    script = tree.root / job.script_in_tree
    text = script.read_text(encoding="utf-8", errors="replace") if job.script_in_tree in sent else ""
    modules = list_modules(tree.root, job.script_in_tree) if text else ()
    for path in (*modules, *list_inputs(text, job.args, job.subdirectory, job.output)):
        if sent.get(path) != "f" and (found := find_left_out(tree.root, path, spec.exclude)):
            yield found.follow_link() if found.link and found.top in sent else found
    outside = (
        find_outside(tree.root, path) for path in list_inputs("", job.args, job.subdirectory, job.output)
    )
    yield from filter(None, outside)


def render_left_out(
    tree: SourceTree, spec: SyncOptions, left_out: Mapping[str, LeftOut], hosts: Mapping[str, HostSync]
) -> Iterator[str]:
    """Yield what hosts lack of what the script seems to read, and what sends it."""
    room = (spec.max_mib << 20) - tree.size
    include = spec.include
    lacking = {path: [name for name, host in hosts.items() if path in host.lacks] for path in left_out}
    lacking = {path: names for path, names in lacking.items() if names}
    for path in list(lacking)[:_MOST_LEFT_OUT]:
        what, names = left_out[path], lacking[path]
        if what.top not in include:
            host = hosts[names[0]]
            command = what.command(tree.root, host.login or names[0], host.root, room, include)
            if command.startswith("gpulaunch "):
                include, room = (*include, what.top), room - (what.size or 0)  # --set replaces the whole list
            each = (
                f", and so to {fold_hosts(names[1:])}" if command.startswith("rsync ") and names[1:] else ""
            )
            yield (
                f"sync: {one_line(path, 120)} exists locally and not on {fold_hosts(names)}: {what.rule}."
                f" To send {what.amount}: {command}{each}"
            )
    if len(lacking) > _MOST_LEFT_OUT:
        yield f"sync: {len(lacking) - _MOST_LEFT_OUT} more paths of the script are lacking on hosts"


def _names(paths: Sequence[str]) -> str:
    return name_first([one_line(path, 80) for path in paths[:_NAMED]], _NAMED, len(paths))


def encode_source(
    tree: SourceTree, version: GitState, hosts: Mapping[str, HostSync], spec: SyncOptions
) -> dict[str, Any]:
    """Return the document source.json of a run, schema gpulaunch.source/1."""
    return {
        "schema": SCHEMA,
        "from": str(tree.root),
        "files": len(tree.entries),
        "bytes": tree.size,
        "content_sha256": tree.content_hash,
        "exclude": list(spec.exclude),
        "include": list(spec.include),
        "max_mib": spec.max_mib,
        "listed_by": "git" if tree.from_git else ".gitignore",
        **encode(replace(version, diff=redact_diff(version.diff))),
        "hosts": {name: _host(host) for name, host in hosts.items()},
    }


def _host(host: HostSync) -> dict[str, Any]:
    return {
        "directory": host.root,
        "same_as": host.same_as,
        "sent_files": host.done.written,
        "sent_bytes": host.sent,
        "deleted": len(host.done.deleted),
        "seconds": round(host.seconds, 3),
    }
