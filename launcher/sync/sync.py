"""Sends a tree to many hosts side by side: each directory once, nothing in place before all has arrived."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TypeVar

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError, HostError, HostsUnusable, SyncFailed
from launcher.local.user import format_user_at_machine
from launcher.remote.connection_pool import OpenConnection
from launcher.remote.fanout import WIDTH, fanout
from launcher.sync.host import SyncClient, SyncResult
from launcher.sync.nfs_cache import await_sight, collect_tree_stamps
from launcher.sync.rsync import MIN_BYTES
from launcher.sync.tree import STATE, SourceTree
from launcher.terminal.transfer_progress import TransferProgress
from launcher.text import count_noun
from launcher.transports.base import Closing
from preflight.frozen import dataclass

LOCAL = "local"
_CLOSE_S = 1.0  # how long the end waits for hosts that are being connected to
_LAST_STEP = "; on other hosts the tree may be in place already"

Say = Callable[[str], None]
Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class HostSync:
    """What became of one host. `same_as` names the host (or "local") whose directory it shares."""

    root: str
    same_as: str = ""
    sent: int = 0  # bytes of the files
    wire: int | None = None  # bytes that rsync sent in their place; None: it carried none
    seconds: float = 0.0
    changes: int = 0  # files that are replaced or deleted
    done: SyncResult = field(default_factory=SyncResult)
    lacks: tuple[str, ...] = ()  # of the wanted paths
    login: str = ""  # see SyncClient


@dataclass(frozen=True, slots=True)
class SyncJob:
    """One tree, and where it goes: host name -> directory on it. `read` reads the tree."""

    read: Callable[[], SourceTree]
    targets: Mapping[str, str]
    delete: bool = False
    width: int = WIDTH
    # Called with live runs by host before anything changes under them; what it raises ends the sync.
    on_live_runs: Callable[[Mapping[str, tuple[str, ...]]], object] = lambda _: None
    # Returns paths that each host looks for in its directory once the tree is in place.
    list_wanted: Callable[[], Sequence[str]] = tuple


def send_tree(
    sync: SyncJob, entries: Sequence[HostEntry], opener: OpenConnection, say: Say
) -> dict[str, HostSync]:
    """Send the tree; return what became of each host, in their order.

    Raises SyncFailed with what every failed host said, or the HostError of the only one: then no host has
    anything new in place, unless a host failed in the very last step, which is said. Raises what `read`
    raises: then no host has opened its directory; and what `on_live_runs` raises: then none has anything new.
    """
    with _Receivers(entries, opener, sync.width) as receivers:
        tree = sync.read()  # while the hosts start
        opened = receivers.wait()
        _all(lambda each: each.begin(sync.targets[each.host], os.urandom(16).hex()), opened, sync.width)
        leaders = _leaders(tree.root, opened)
        found = {each.host: HostSync(each.root, leaders[each.host]) for each in opened}
        lead = [each for each in opened if not leaders[each.host]]
        to = f"sent to {count_noun(len(lead), 'host')}"
        with TransferProgress(say, "sync", to).report_progress() as progress:
            staged = _all(lambda each: _stage(sync, tree, each, progress), lead, sync.width)
        changed = {each.host for each, host in zip(lead, staged, strict=True) if host.changes}
        affected = [each for each in opened if (leaders[each.host] or each.host) in changed]
        if live := _find_live(affected):
            sync.on_live_runs(live)
        source = f"{format_user_at_machine()}:{tree.root}"
        committed = _all(lambda each: each.commit(source), lead, sync.width, also=_LAST_STEP)
        wanted = sync.list_wanted()
        seen = _all(lambda each: each.stamps(wanted) if wanted else (), lead, sync.width)
        for each, host, done, stamps in zip(lead, staged, committed, seen, strict=True):
            lacks = tuple(path for path, stamp in zip(wanted, stamps, strict=True) if stamp is None)
            found[each.host] = replace(host, done=done, lacks=lacks, login=each.login)
        _await_sight(sync, tree, opened, leaders, say)
        return found


class _Receivers(Closing):
    """The program that receives, started on every host by a thread while this one has something to do."""

    def __init__(self, entries: Sequence[HostEntry], opener: OpenConnection, width: int) -> None:
        self._entries = entries
        self._opener = opener
        self._width = width
        self._all: list[SyncClient] = []
        self._started: list[SyncClient] = []
        self._failure: BaseException | None = None
        self._is_over = False
        self._thread = threading.Thread(target=self._start_all, daemon=True)
        self._thread.start()

    def wait(self) -> list[SyncClient]:
        """Return the started ones. Raises what went wrong with any."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._started

    def close(self) -> None:
        """Close those that have started, and each of the others as soon as it has."""
        self._is_over = True
        self._thread.join(_CLOSE_S)
        fanout(SyncClient.close, tuple(self._all), width=self._width)

    def _start_all(self) -> None:
        try:
            self._started = _all(self._start, self._entries, self._width)
        except BaseException as failure:  # noqa: BLE001 - it is raised in the caller's thread
            self._failure = failure

    def _start(self, entry: HostEntry) -> SyncClient:
        if self._is_over:
            raise HostError(entry.name, "the sync is over")
        receiver = SyncClient(self._opener(entry), entry.python)
        self._all.append(receiver)
        receiver.start()
        if self._is_over:
            receiver.close()
        return receiver


def _leaders(root: Path, opened: Sequence[SyncClient]) -> dict[str, str]:
    """Return by host whose directory it has: "" its own, "local" the tree itself, else another host's name.

    Every host has left a file named after its nonce; who sees it has the same directory, whatever its path.
    """
    nonces = {each.nonce: each.host for each in opened}
    seen = _all(lambda each: each.list_seen(nonces), opened, WIDTH)
    leaders: dict[str, str] = {}
    for each, visible in zip(opened, seen, strict=True):
        if (root / STATE / f"nonce-{each.nonce}").exists():
            leaders[each.host] = LOCAL
            continue
        first = next(name for nonce, name in nonces.items() if nonce in visible or nonce == each.nonce)
        leaders[each.host] = "" if first == each.host else (leaders[first] or first)
    return leaders


def _await_sight(
    sync: SyncJob, tree: SourceTree, opened: Sequence[SyncClient], leaders: Mapping[str, str], say: Say
) -> None:
    """Wait until each host that shares a directory sees its content."""
    sharing = [each for each in opened if leaders[each.host]]
    owners = {leaders[each.host] for each in sharing}
    paths = [entry.path for entry in tree.entries]
    stamps_of = {each.host: each.stamps(paths) for each in opened if each.host in owners}

    def one(each: SyncClient) -> None:
        owner = leaders[each.host]
        if owner == LOCAL:
            await_sight(each, tree, lambda: collect_tree_stamps(tree), "the tree itself", say)
        else:
            await_sight(each, tree, lambda: stamps_of[owner], owner, say)

    _all(one, sharing, sync.width)


def _stage(sync: SyncJob, tree: SourceTree, each: SyncClient, progress: TransferProgress) -> HostSync:
    """Send one host what it lacks."""
    started = time.monotonic()
    needed = each.compare(tree.entries, delete=sync.delete)
    size = sum(tree.entries[index].size for index in needed)
    progress.expect(size)
    arrived, wire = frozenset[int](), 0
    if size >= MIN_BYTES:
        files = [index for index in needed if tree.entries[index].kind == "f"]
        arrived, wire = each.upload_with_rsync(files, tree.entries, tree.root, progress.add)
    for index in needed:
        if index not in arrived:
            each.upload(index, tree.entries[index], tree.root, progress.add)
    changes = each.finish_staging()
    return HostSync(each.root, "", size, wire if arrived else None, time.monotonic() - started, changes)


def _find_live(hosts: Sequence[SyncClient]) -> dict[str, tuple[str, ...]]:
    """Return the runs that work in the directory of each of these hosts, where any does."""
    found = _all(lambda each: each.live_runs(), hosts, WIDTH)
    return {each.host: runs for each, runs in zip(hosts, found, strict=True) if runs}


def _all(function: Callable[[Item], Value], items: Sequence[Item], width: int, also: str = "") -> list[Value]:
    """Return what the function gives for each. Raises one error that holds all of them."""
    good: list[Value] = []
    errors: list[GpulaunchError] = []
    for result in fanout(function, items, width=width):
        if isinstance(result, GpulaunchError):
            errors.append(result)
        else:
            good.append(result)
    if len(errors) == 1 and not also:
        raise errors[0]
    if errors:
        from launcher.host_checks.host_errors import fold_errors  # noqa: PLC0415 - only for a failure

        message, fix = fold_errors(errors)
        unusable = [error for error in errors if isinstance(error, HostError)]
        if len(unusable) == len(errors):
            raise HostsUnusable(unusable, message + also, fix)
        failure = SyncFailed(message + also, fix)
        failure.hosts = tuple(dict.fromkeys(host for error in errors for host in error.hosts))
        raise failure
    return good
