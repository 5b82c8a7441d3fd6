"""Attached to a run that exists already: the view of `gpulaunch run`, until it ends or is left again."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from launcher.follow.client_deadlines import leave_hosts
from launcher.follow.detach_policy import ACK_TIMEOUT_S, RETRY_S
from launcher.follow.events import HostStarted, LogOutput, RunEvent, Tick
from launcher.follow.log_offsets import ResumePoint
from launcher.follow.node_client import NodeClient
from launcher.follow.outcome import EndCause, Outcome, Verdict, Verification
from launcher.follow.peer_check import SSH_PORT, PeerAddress, PeerCheck
from launcher.follow.rank_digests import is_digested
from launcher.follow.run_state import RunState
from launcher.launch.followed_run import FollowedRun
from launcher.launch.request import FollowOptions
from launcher.launch.signals import CTRL_C, TERMINAL_CLOSED, InterruptChoice, SignalCounter, choose_stop
from launcher.local.safe_paths import join_below
from launcher.planning.plan import Plan
from launcher.remote.reachability import probe_targets
from launcher.report.outcome import encode_outcome
from launcher.rundir.end_state import LIVING
from launcher.rundir.layout import OUTCOME, read_kept_outcome
from launcher.rundir.log_store import LogStore, run_directory
from launcher.runs.access import RunAccess
from launcher.runs.remote_run import RemoteRun
from launcher.safe_json import read_mapping, read_mappings
from launcher.terminal.hangup import drop_terminal, is_terminal_closed
from launcher.terminal.screen import Screen
from preflight import regex as re

_NO_RECORD = "no record of this run was found on it; its part is as it was kept locally"
_LINE_END = re.compile(rb"\r?\n|\r")
HISTORY_BYTES = 10 << 10  # of each log shown that was written before; the local file gets all of it


class AttachedRun(FollowedRun):
    """Follows every node of a run from the bytes on that are kept locally."""

    def __init__(self, to: RunAccess, screen: Screen, *, run: RemoteRun, options: FollowOptions) -> None:
        """`run`: as its hosts report it; one that is over is shown as it was."""
        plan = to.plan
        digest = is_digested(plan, all_ranks=options.all_ranks)
        book = LogStore(run_directory(options.logs, plan.run_id), again=True)
        self._kept, missing = _kept_outcome(book.directory, run, plan)
        self._over = over = run.is_over or bool(missing)
        state = RunState(plan, grace_s=run.grace_s, over=over)
        for host in missing:
            state.nodes.give_up(host, _NO_RECORD)
        super().__init__(state, screen, book, over=over, digest=digest)
        self._choose = options.choose or choose_stop
        self._unasked = options.unasked
        self._slurm_job = run.slurm_job  # it ends with the client that the job runs, and needs no other
        self._old: dict[tuple[str, str], int] = {}  # below this, bytes are not shown
        self._new: dict[tuple[str, str], int] = {}  # below this, bytes are history
        self._cut_lines: set[tuple[str, str]] = set()  # logs whose history starts within a line
        self._starts = {node.host: book.starts(node.host) for node in plan.nodes}
        self._here = {host: book.sizes(host, starts) for host, starts in self._starts.items()}
        self._to = to
        self._peer_check = PeerCheck({} if over else _peer_addresses(to), self._probe_peers)
        self._peer_check_started = False
        self._followers = {
            node.host: NodeClient(
                plan.run_id,
                node,
                partial(to.open, entry),
                ResumePoint(
                    self._here[node.host],
                    {"digest": digest},
                    starts=self._starts[node.host],
                    ends=book.ends(node.host, self._here[node.host], self._starts[node.host]),
                ),
                patience_s=float("inf"),  # it continues on the host whether or not we reach it
                events=self._events,
            )
            for node, entry in zip(plan.nodes, to.entries, strict=True)
            if node.host not in missing
        }
        for host, follower in self._followers.items():
            follower.offsets.add_cut = partial(book.add_cut, host)

    def follow(self) -> Outcome | None:
        """Follow to the end; return how it ended, None when it was left and continues."""
        self._book.begin()
        for host, why in self._state.nodes.lost.items():
            self._screen.notify(f"{host}: {why}")
        with self._following() as interrupts:
            left = self._loop(interrupts)
        outcome = None if left else self._ended()
        self._book.close()
        return outcome

    def _loop(self, interrupts: SignalCounter) -> bool:
        """Return whether the run was left before it ended."""
        while not self._state.done and not self._stop_deadline.leaves(time.monotonic()):
            try:
                if (by := interrupts.pop()) and self._interrupted(by):
                    return True
                event = self._ticking.get()
                self._act(event)
                if isinstance(event, Tick):
                    self._check_silent_hosts()
            except OSError as error:
                if not is_terminal_closed(error):
                    raise
                if self._interrupted(TERMINAL_CLOSED):
                    return True
        return False

    def _check_silent_hosts(self) -> None:
        """Give up hosts that die from now on; of one that was silent before, the others say nothing."""
        if self._peer_check_started:
            self._give_up_dead_hosts(self._peer_check)
        elif self._state.nodes.run_dirs.keys() | self._state.nodes.disconnected >= set(self._state.hosts):
            self._peer_check_started = True
            self._peer_check.start()

    def _probe_peers(self, asker: str, targets: tuple[PeerAddress, ...]) -> tuple[bool, ...]:
        hosts = [node.host for node in self._to.plan.nodes]
        entry = self._to.entries[hosts.index(asker)]
        with self._to.open(entry) as connection:
            return probe_targets(connection, entry.python, targets)

    def _interrupted(self, by: str) -> bool:
        """Ask what Ctrl-C shall mean; return whether to leave. Raises KeyboardInterrupt for what is over."""
        if self._over:
            raise KeyboardInterrupt
        choice: InterruptChoice = "stop" if self._state.stopping else self._choice(by)
        if by == CTRL_C and choice != "stay" and not self._state.stopping:
            self._catch_up(self._act)
        if self._state.done:
            return False
        if choice == "stop":
            self._stop_run(by)
        if choice != "detach":
            return False
        if not self._slurm_job:
            self._release()
        leave_hosts(self._followers.values())
        return True

    def _release(self) -> None:
        """Have the run continue without a client, and wait until its hosts have confirmed that."""
        self._detach_followers()
        nodes, asked_at = self._state.nodes, time.monotonic()
        while not self._state.done and (silent := set(self._state.hosts) - nodes.detached):
            if time.monotonic() > asked_at + (RETRY_S if silent <= nodes.disconnected else ACK_TIMEOUT_S):
                words = "has not confirmed that the run continues without a client"
                self._screen.notify(f"{self._unconfirmed_hosts()}: {words}", bad=True)
                break
            self._act(self._ticking.get())

    def _choice(self, by: str) -> InterruptChoice:
        if by == CTRL_C:
            return self._choose()
        if by == TERMINAL_CLOSED:
            drop_terminal()
            return "detach"
        return self._unasked

    def _act(self, event: RunEvent) -> None:
        if isinstance(event, LogOutput):
            shown_from = self._shown_from(event.host, event.log, event.offset, event.data)
            new_from = self._new.get((event.host, event.log), 0)
            self._reporter.output(event, shown_from=shown_from, new_from=new_from)
            return
        if isinstance(event, HostStarted):
            self._note_history(event.host, event.sizes)
        self._handle_event(event)

    def _note_history(self, host: str, sizes: Mapping[str, int]) -> None:
        for log, size in sizes.items():
            start, here = self._starts[host].get(log, 0), self._here[host].get(log, 0)
            if size < here:  # it was cut meanwhile
                start, here = self._book.add_cut(host, log, start, start + here), 0
            old = max(0, size - HISTORY_BYTES)
            if old:
                old -= 1  # which shows whether the next byte starts a line
                self._cut_lines.add((host, log))
            self._old[host, log], self._new[host, log] = start + old, start + size
            if old < here:  # that part is not sent again
                with self._book.path(host, log).open("rb") as file:
                    file.seek(start + old)
                    data = file.read(here - old)
                whole = data[self._shown_from(host, log, start + old, data) - start - old :]
                if whole:
                    self._screen.output(host, log, whole, time.monotonic())

    def _shown_from(self, host: str, log: str, offset: int, data: bytes) -> int:
        """Return the offset from which on bytes are shown: the history starts with a whole line."""
        shown = self._old.get((host, log), 0)
        if (host, log) not in self._cut_lines or offset + len(data) <= shown:
            return shown
        new = self._new[host, log]
        line_end = _LINE_END.search(data, max(0, shown - offset))
        shown = min(new, offset + (len(data) if line_end is None else line_end.end()))
        if line_end is not None or shown == new:
            self._cut_lines.discard((host, log))
        self._old[host, log] = shown
        return shown

    def _ended(self) -> Outcome:
        """Return how it ended, and keep that with the logs where no client has before."""
        # By its hosts' events: this client followed a part of it only.
        seconds = sum(phase.seconds for phase in self._reporter.phases.finish())
        outcome = self._build_outcome(seconds, 1)
        if _NO_RECORD in self._state.nodes.lost.values():
            outcome = restore_outcome(outcome, self._kept)
        if not join_below(self._book.directory, OUTCOME).exists():
            self._book.store(OUTCOME, json.dumps(encode_outcome(outcome), indent=1) + "\n")
        incomplete = self._reporter.logs_incomplete
        outcome = replace(outcome, logs_incomplete=incomplete, slurm_job=self._slurm_job)
        times = [ended.at for ended in self._state.nodes.ended.values() if ended.at is not None]
        self._book.add_event(outcome.verdict, bad=outcome.exit_code != 0, at=max(times, default=None))
        return outcome


def _kept_outcome(directory: Path, run: RemoteRun, plan: Plan) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return how the run ended as it is kept locally, and the hosts whose word it replaces.

    Those are the hosts that have reported nothing of a run that has ended on all others.
    """
    kept = read_kept_outcome(directory)
    if run.status in LIVING or not is_whole(kept):
        return {}, frozenset()
    ranks = {node.rank for node in run.nodes}
    return kept, frozenset(node.host for node in plan.nodes if node.node_rank not in ranks)


def _peer_addresses(to: RunAccess) -> dict[str, PeerAddress]:
    """Return where hosts may meet each other: the ranks' address of the main host, ours of the others.

    An address that leads elsewhere from another host proves nothing: it is not reached, or always is.
    """
    found = {
        node.host: (entry.address or entry.alias or entry.name, entry.port or SSH_PORT)
        for node, entry in zip(to.plan.nodes, to.entries, strict=True)
    }
    main = to.plan.nodes[0].host
    return {**found, main: (to.plan.main_address or found[main][0], found[main][1])}


def is_whole(kept: Mapping[str, Any]) -> bool:
    """Return whether a client that kept this outcome had heard the end of every host."""
    known = kept.get("verdict") in get_args(Verdict) and isinstance(kept.get("exit_code"), int)
    return known and kept.get("lost_hosts") == {}


def restore_outcome(seen: Outcome, kept: Mapping[str, Any]) -> Outcome:
    """Return the outcome that was kept, one that `is_whole`, beside what its hosts have reported now."""
    ended = ((each.get("rank"), each.get("code")) for each in read_mappings(kept.get("ranks")))
    known = {rank: code for rank, code in ended if isinstance(rank, int) and isinstance(code, int)}
    verified = read_mapping(kept.get("verified"))
    return replace(
        seen,
        verdict=kept["verdict"],
        exit_code=kept["exit_code"],
        why=str(kept.get("why") or ""),
        cause=seen.cause if kept["verdict"] == "failed" else EndCause(),
        ranks=tuple(replace(each, code=known.get(each.rank, each.code)) for each in seen.ranks),
        verification=Verification(
            tuple(map(str, _items(verified, "mismatches"))),
            str(verified.get("fix") or ""),
            verified.get("world_ranks_devices") is True,
            verified.get("mixed_precision") is True,
            _ranks(verified, "unreported_ranks"),
            _ranks(verified, "ranks_without_device"),
        ),
        cleanup=replace(seen.cleanup, lost={}),
    )


def _items(document: Mapping[str, Any], key: str) -> list[Any]:
    value = document.get(key)
    return value if isinstance(value, list) else []


def _ranks(document: Mapping[str, Any], key: str) -> tuple[int, ...]:
    return tuple(each for each in _items(document, key) if isinstance(each, int))
