"""The supervisor of one node of a run: starts the launcher, tracks its ranks, ends all of them."""

import contextlib
import errno
import os
import signal
import time
from typing import Any

from ...event_file import MALFORMED
from ...exit_status import describe_exit_code
from ...run_cgroup import Cgroup, OomKills
from ..client_files import StopRequest, read_stop_request
from ..end_causes import EXIT, RANK, REFUSED
from ..files import explain_full_disk, free_space
from ..gpu_claims import release_claims
from ..next_start import announce_keeper, note_successor
from ..processes import PR_SET_CHILD_SUBREAPER, call_prctl, reap_children
from ..protocol import RequestRefused
from ..run_dir import GAUGE, STOP
from .client_liveness import ClientLiveness
from .hang import FAILURE_GRACE_S, HangHandler
from .housekeeping import Housekeeping
from .launcher import Launcher, read_logged_codes
from .ranks import EndedRank, RankTable
from .restore_run_dir import RunDirRestorer
from .shutdown import Shutdown
from .sidecar import Sidecar, start_gauge
from .supervised_run import SupervisedRun, answer_start
from .wakeup import Wakeup

KILLS_EVERY_S = 1.0
IDLE_TICK_S = 1.0  # of the periodic records and the kernel's count of kills; the rest wakes the loop
TICK_S = 0.2  # where the kernel does not report an end or a change, and while a hang or a deletion is handled
ENDING_TICK_S = 0.05
UNSUSPICIOUS_EXITS = (0, -signal.SIGTERM, 128 + signal.SIGTERM)  # launchers end the other ranks by SIGTERM


class Supervisor:
    """Single-threaded poll loop that hands each observation to the part responsible for it."""

    def __init__(self, run: SupervisedRun, claims: dict[str, int]) -> None:
        self._run = run
        self._claims = claims
        self._bell = Wakeup(run.dir)
        run.save("starting")  # from now on a stop is heard, while the launcher may wait for a slow disk
        if run.has(STOP):  # it came before
            os.kill(os.getpid(), signal.SIGTERM)
        self._next_poll = 0.0
        self._group, why_not = Cgroup.make(run.spec["run_id"])
        run.state["cgroup"] = self._group.path if self._group is not None else None
        run.state["cgroup_missing"] = why_not
        self._kills = OomKills()
        self._next_kills = 0.0
        self._full_disks: dict[int, str] = {}
        self._ranks = RankTable(self._bell)
        self._launcher = Launcher(run, self._group)
        self._gauge = Sidecar(run, GAUGE, "measure use")
        self._hang = HangHandler(run)
        self._attachment = ClientLiveness(run)
        self._records = Housekeeping(run, claims)
        self._rescue = RunDirRestorer(run, self._attachment)
        self._ending = Shutdown(run, self._group, self._launcher, self._ranks, self._gauge)

    def run(self, done: int) -> int:
        """Run until the run has ended and none of its processes remain; return the process's exit code.

        `done` is the descriptor for the first state, or for the reason why it is missing.
        """
        call_prctl(PR_SET_CHILD_SUBREAPER, 1)
        try:
            self._launcher.start()
        except RequestRefused as refusal:
            self._ending.why, self._ending.cause = str(refusal), REFUSED
            self._finish()
            answer_start(done, {"refused": str(refusal)})
            return 1
        self._run.save("running")
        self._run.emit("started", launcher=self._launcher.pid)
        before = self._run.spec.get("earlier_dir")
        if before and not note_successor(before, self._run.dir):
            os.kill(os.getpid(), signal.SIGTERM)
        answer_start(done, self._run.state)
        os.close(done)
        start_gauge(self._gauge)
        while True:
            self._wait()
            self._look_around()
            if self._ending.step():
                # A process that ended since that poll is a zombie now, whose exit code is readable.
                self._read_events()
                self._see_ends()
                self._finish()
                return 0

    def _wait(self) -> None:
        """Wait for a wake-up or the next poll.

        Changed files wake it only while nothing else is urgent: when the ranks end, the launcher may reap
        them before a supervisor that is busy with its own events has read their exit codes.
        """
        if self._ending.started:
            self._bell.wait(ENDING_TICK_S, for_files=False)
            return
        pending = self._hang.in_progress or self._rescue.in_progress
        if pending or not (self._bell.hears_files and self._ranks.are_watched):
            self._bell.wait(TICK_S, for_files=False)
            return
        now = time.monotonic()
        if now >= self._next_poll:
            self._next_poll = now + IDLE_TICK_S
        self._bell.wait(min(self._next_poll - now, self._attachment.remaining_s), for_files=True)

    def _look_around(self) -> None:
        self._read_events()  # first: a stop signals the ranks that are known
        if self._bell.pop_sigterm():  # before ends are seen: Slurm may have sent it to the ranks, too
            self._obey(read_stop_request(self._run.dir, self._run.grace_s))
        self._see_ends()
        request = None if self._ending.started else self._attachment.check()
        if request is not None:
            self._ending.start(request)
        request = self._hang.check(stopping=self._ending.started)
        if request is not None:
            self._ending.start(request)
        if self._rescue.check():
            self._bell.watch_files()
        self._records.run()

    def _obey(self, request: StopRequest) -> None:
        if not request.stacks:
            self._ending.start(request)
        elif not self._ending.started:
            self._hang.begin(request)

    def _read_events(self) -> None:
        """Read the events of ranks and gauge."""
        for event in self._run.events.read_new():
            with contextlib.suppress(*MALFORMED):
                self._hang.on_event(event)
                self._ranks.on_event(event)

    def _see_ends(self) -> None:
        """Detect exits of ranks and children."""
        self._see_ended_ranks()
        self._see_kills()
        for pid, code in reap_children():
            self._child_ended(pid, code)

    def _see_kills(self, *, at_once: bool = False) -> None:
        """Report out-of-memory kills by the kernel's count: a killed process cannot report its own end."""
        now = time.monotonic()
        if now < self._next_kills and not at_once:
            return
        self._next_kills = now + KILLS_EVERY_S
        if count := self._kills.count_new():
            self._run.emit("oom", count=count, scope=self._kills.scope, limit=self._kills.limit())

    def _see_ended_ranks(self) -> None:
        # Who was sent SIGTERM since the last look was sent it for the end of another.
        for ended in sorted(self._ranks.check(), key=lambda ended: ended.code == -signal.SIGTERM):
            self._rank_ended(ended)

    def _rank_ended(self, ended: EndedRank) -> None:
        self._see_kills(at_once=True)
        stopping = self._ending.started
        known = self._kills.is_known()
        self._run.emit(
            "rank_exit", rank=ended.rank, pid=ended.pid, code=ended.code, stopping=stopping, oom_counted=known
        )
        if ended.code and not stopping:
            full = explain_full_disk(self._run.dir) if 0 < ended.code < 128 else ""  # no signal
            self._full_disks.update({ended.rank: full} if full else {})
            self._ending.start(_rank_failure(ended.rank, ended.code))

    def _child_ended(self, pid: int, code: int) -> None:
        if pid == self._launcher.pid:
            self._read_events()  # it may be a rank itself that has ended before its first event was read
        if pid in self._ranks.living:  # its launcher is gone, and it ended between two polls
            self._rank_ended(self._ranks.drop(pid, code))
        self._hang.dumper.handle_child_end(pid, code, as_it_should=code == 0)
        self._gauge.handle_child_end(pid, code, as_it_should=self._ending.started)
        if pid == self._launcher.pid:
            self._see_ended_ranks()  # those that it has reaped, or left to us, since we looked
            self._launcher_ended(code)

    def _launcher_ended(self, code: int) -> None:
        self._see_kills(at_once=True)
        self._launcher.code = code
        known = self._kills.is_known()
        said = read_logged_codes(self._run.dir, self._ranks.list_unseen()) if code else {}
        for rank, its_code in said.items():
            self._ranks.codes[rank] = its_code
            stopping = self._ending.started
            self._run.emit("rank_exit", rank=rank, code=its_code, stopping=stopping, oom_counted=known)
        self._run.emit("launcher_exit", code=code, oom_counted=known)
        if not self._ending.started:
            failed = [_rank_failure(*each) for each in said.items() if each[1] not in UNSUSPICIOUS_EXITS]
            self._ending.start((*failed, StopRequest("", FAILURE_GRACE_S, EXIT))[0])

    def _finish(self) -> None:
        for _ in reap_children():
            pass
        end: dict[str, Any] = {
            "launcher_code": self._launcher.code,
            "ranks": {str(rank): code for rank, code in self._ranks.codes.items()},
            "remaining_pids": self._run.state["remaining_pids"],
            "why": self._ending.why,
            "cause": self._ending.cause,
            "requested": self._ending.requested,
            "since": self._ending.since,
            "port_free": self._is_port_free(),
        }
        release_claims(self._claims)
        if self._group is not None:
            self._group.remove()
        self._rescue.finish()
        self._records.note_end()
        # No process of the run writes any more, so the space that this frees remains for the final state.
        free_space(self._run.dir)
        for rank, full in self._full_disks.items():  # what it printed last, its exception too, is lost
            with contextlib.suppress(OSError), open(self._run.path("rank-%d.log" % rank), "a") as log:
                log.write("\ngpulaunch: this log lacks what the rank printed last: %s\n" % full)
        announce_keeper(self._run.dir, self._run.spec, end, self._run.guardian)
        if os.getppid() == self._run.guardian:  # one that was stopped would keep no restart, and stay
            os.kill(self._run.guardian, signal.SIGCONT)
        self._run.end(end)

    def _is_port_free(self) -> bool | None:
        """Return whether the ranks' rendezvous port is free again, None where the port is on another host."""
        port = self._run.spec.get("main_port")
        if not port:
            return None
        import socket  # nothing else of the supervisor takes it

        for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):  # noqa: S104 - as torch's store
            try:
                with socket.socket(family, socket.SOCK_STREAM) as probe:
                    # As in the store: TIME_WAIT does not block a bind, a listener does.
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind((address, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
        return True


def _rank_failure(rank: int, code: int) -> StopRequest:
    return StopRequest("rank %d %s" % (rank, describe_exit_code(code)), FAILURE_GRACE_S, RANK)


def supervise_run(run: SupervisedRun, done: int, claims: dict[str, int], problem: str) -> int:
    """Run as the supervisor, with its claims or the problem of taking them; return the exit code."""
    if problem:
        run.emit_failure("claim the GPUs", problem)
    return Supervisor(run, claims).run(done)
