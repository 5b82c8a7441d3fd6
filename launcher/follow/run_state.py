"""One run, followed: events in, actions out. No clock, no thread, no file, so a history can be replayed.

The first failing rank stops every node; so does a lost host, a rank that is not what was planned, and Ctrl-C.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from launcher.config.disconnect_options import DEFAULT_GRACE_S
from launcher.follow import events
from launcher.follow.failures import Failure, explain_oom, find_root_cause
from launcher.follow.guard_reports import STOP_EXIT, GuardReports, GuardStop
from launcher.follow.idle_hosts import IdleHosts
from launcher.follow.node_status import Nodes
from launcher.follow.rank_reports import RankReports
from launcher.follow.verification import Verifier
from launcher.onhost.exit_status import describe_exit_code
from launcher.planning.plan import Plan
from launcher.rundir.end_state import explain_loss, explain_supervisor_end
from preflight.frozen import dataclass

_MOST_REPORTS = 64  # of one rank: twice as many as there are steps with their beginnings


class DeepReports:
    """Collects the reports by rank. A host may only report its own ranks."""

    def __init__(self) -> None:
        self._reports: dict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)

    def add(self, host: str, rank: int, fields: Mapping[str, Any]) -> None:
        """Take an event "deep"."""
        reports = self._reports[host, rank]
        if len(reports) < _MOST_REPORTS:
            reports.append(fields)

    def group_by_rank(self, hosts: Mapping[int, str]) -> dict[int, tuple[Mapping[str, Any], ...]]:
        """Return the reports of each rank of the plan, given the host of each."""
        return {
            rank: tuple(self._reports[host, rank])
            for rank, host in hosts.items()
            if (host, rank) in self._reports
        }


FAILURE_GRACE_S = 3.0  # SIGTERM to SIGKILL for ranks whose peer failed: most hang in a collective
OOM_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Notify:
    """Report to the user at the terminal; `bad` is for what went wrong."""

    text: str
    bad: bool = False


@dataclass(frozen=True, slots=True)
class StopHosts:
    """End the run on these hosts."""

    hosts: tuple[str, ...]
    grace_s: float
    why: str
    stacks: bool = False  # it hangs, and the stacks of its ranks are written first
    failed: bool = False  # a failure ends it and no person: another start may follow


Action: TypeAlias = Notify | StopHosts


class RunState:
    """What is known of a run, and what follows from each new thing."""

    def __init__(
        self,
        plan: Plan,
        *,
        grace_s: float = DEFAULT_GRACE_S,
        stop_text: str = "",
        over: bool = False,
        after_main_s: float | None = None,
    ) -> None:
        """`grace_s`: how long the run has when a person stops it. `over`: it has ended long ago.

        `after_main_s`: how long the others have in a stop once the main host, which alone saves, has ended.
        """
        self.plan = plan
        self._grace_s = grace_s
        self._stop_text = stop_text or f"SIGTERM, {grace_s:g} s, SIGKILL"
        self._over = over
        self._after_main_s = after_main_s
        self.hosts = tuple(node.host for node in plan.nodes)
        self._plan_nodes = {node.host: node for node in plan.nodes}
        self.verification = Verifier(plan)
        self.guarding = GuardReports(stops=plan.nodes[0].env.get("GPULAUNCH_GUARD") == "stop")
        self.deep = DeepReports()
        self.failures: list[Failure] = []
        self.nodes = Nodes(self.hosts)
        self.rank_codes: dict[int, int | None] = {}
        self.interrupts = 0
        self.interrupted_by = ""
        self.job_ends: events.JobEnds | None = None
        self.stopped_by_interrupt = False
        self.stopping, self._stopped_for_failure = "", False
        self.stopped_by = ""  # who else asked for the end
        self.signalled = False  # which was no client: a host got SIGTERM
        self.ended_unattended = ""  # a host has ended it because no client followed it
        self._ranks = RankReports()
        self._quiet = IdleHosts()

    @property
    def done(self) -> bool:
        """Whether nothing more is to come from any host."""
        return not self.nodes.are_open

    @property
    def all_ranks_ended(self) -> bool:
        """Whether every rank has ended, however: what follows is tidying up."""
        return len(self.rank_codes) == self.plan.world_size

    @property
    def all_ranks_fine(self) -> bool:
        """Whether every rank has ended with 0: what the launchers still say is about each other."""
        return self.all_ranks_ended and not any(code != 0 for code in self.rank_codes.values())

    @property
    def root_cause(self) -> Failure | None:
        """The first failure by what is known now, with the exception that the rank reported."""
        return find_root_cause(self.failures)

    def handle(self, event: events.RunEvent) -> Iterator[Action]:
        """Take what happened; yield what is to be done now."""
        match event:
            case events.HostStarted(host=host, run_dir=run_dir):
                self.nodes[host].run_dir = run_dir
                self.nodes[host].disconnected = False
            case events.StartRefused():
                self.nodes.close(event.host).refused = event
                yield from self._stop_others(f"{event.host}: {event.why}")
            case events.HostReport():
                yield from self._host_report(event)
            case events.HostEnded():
                yield from self._host_ended(event)
            case events.Disconnected() | events.Reconnected():
                if self.nodes[event.host].note_link(event):
                    yield Notify(event.message, bad=isinstance(event, events.Disconnected))
            case events.HostLost():
                yield from self._lost(event)
            case events.Interrupted():
                yield from self._interrupted(event)
            case events.JobEnds():
                yield from self._job_ends(event)
            case events.Tick(at=at):
                yield from self._judge_quiet(at)

    def _host_report(self, report: events.HostReport) -> Iterator[Action]:
        if isinstance(rank := report.fields.get("rank"), int):
            yield from self._rank_report(report, rank)
        match report.event:
            case "detached":
                self.nodes[report.host].detached = True
            case "oom":
                self.nodes[report.host].oom = report
            case "stopping":
                yield from self._stopped_there(report)
            case "idle" | "active" | "hung":
                yield from self._liveness_report(report)
            case "launcher_exit":
                yield from self._launcher_exit(report)
            case "supervisor_died":
                what = f"{report.host}: {explain_supervisor_end(report.fields.get('code'))}"
                yield from self._fail(Failure(report.host, report.at, None, None, what))
            case "internal_error":
                said = f"{report.fields.get('what')} did not work: {report.fields.get('error')}"
                yield Notify(f"{report.host}: {said}", bad=True)

    def _rank_report(self, report: events.HostReport, rank: int) -> Iterator[Action]:
        match report.event:
            case "rank" | "state":
                for words in self.verification.update(report.host, rank, report.fields):
                    yield Notify(words)
                if self.verification.mismatches and not self.stopping:
                    yield Notify("stopped: the ranks are not what was planned", bad=True)
                    why = f"not as planned: {self.verification.mismatches[0]}"
                    yield from self._stop_all(why, FAILURE_GRACE_S)
            case "script_exit" | "exception":
                self._ranks.add(report, rank)
            case "rank_exit":
                yield from self._rank_exit(report, rank)
            case "guard" | "guard_facts" | "rehearsal":
                yield from self._guard_report(report, rank)
            case "deep":
                self.deep.add(report.host, rank, report.fields)

    @property
    def ranks_compared(self) -> bool:
        """Whether no ranks are to be compared, or every guard has reported what its rank trains."""
        guarded = self.plan.nodes[0].env.get("GPULAUNCH_GUARD") in ("stop", "warn")
        return not guarded or self.guarding.compared >= self.plan.world_size or self.plan.world_size == 1

    def _guard_report(self, report: events.HostReport, rank: int) -> Iterator[Action]:
        """A stop is reported before its rank has ended, which may hang in its shutdown: end all now."""
        if report.event == "rehearsal":
            self.guarding.rehearsal[rank] = report.fields
            return
        take = self.guarding.add_report if report.event == "guard" else self.guarding.compare_ranks
        for said in take(report.host, rank, report.fields):
            if isinstance(said, GuardStop):
                stop = Failure(report.host, report.at, rank, STOP_EXIT, said.summary, last_lines=said.lines)
                yield from self._fail(stop)
            else:
                yield Notify(said, bad=True)

    def _liveness_report(self, report: events.HostReport) -> Iterator[Action]:
        if report.event == "hung":
            yield from self._hung(str(report.fields.get("why")), report.host, report.at)
        elif (words := self._quiet.update(report)) and not self.stopping:
            yield Notify(words, bad=report.event == "idle")

    def _judge_quiet(self, now: float) -> Iterator[Action]:
        """End a run of several hosts when nothing lives on any of them; one host judges itself."""
        if len(self.hosts) < 2 or not self._quiet.is_any_idle:
            return
        hosts = [host for host in self.nodes.open_hosts if not self._all_left(host)]
        seconds = self._quiet.idle_seconds(hosts, now)
        if seconds:
            why = f"hung: no output, no optimizer step, no use of GPU or CPU on any host for {seconds:.0f} s"
            yield from self._hung(why, hosts[0], now)

    def _hung(self, why: str, host: str, at: float) -> Iterator[Action]:
        """Take a hang as the root cause, and have every host write the stacks of its ranks."""
        if self.stopping or any(failure.hung for failure in self.failures):
            return
        self.failures.append(Failure(host, at, None, None, why, hung=True))
        self.stopping, self._stopped_for_failure = why, True
        then = "" if self._over else "; collecting the stacks of all ranks, then stopping all nodes"
        yield Notify(f"{why}{then}", bad=True)
        if (hosts := self.nodes.open_hosts) and not self._over:
            yield StopHosts(hosts, FAILURE_GRACE_S, why, stacks=True, failed=True)

    def _all_left(self, host: str) -> bool:
        """Return whether every rank of a host has ended."""
        node = self._plan_nodes[host]
        return all(node.first_rank + slot.local_rank in self.rank_codes for slot in node.ranks.slots)

    def _stopped_there(self, report: events.HostReport) -> Iterator[Action]:
        """Have every host end: a client that stopped one of them may not have reached the others.

        An end without a request and without a failure is that of a run that no client followed.
        """
        self.signalled |= report.fields.get("cause") == "signal"
        if self.stopping or self.failures:
            return
        cause, why = report.fields.get("cause"), str(report.fields.get("why") or "")
        if cause in ("peer", "hang"):  # a client asked, and no person
            yield from self._fail(Failure(report.host, float("inf"), None, None, why, hung=cause == "hang"))
            return
        if report.fields.get("requested"):
            self.stopped_by = why or "another client"
        else:
            self.ended_unattended = why
        grace = report.fields.get("grace_s")
        yield Notify(f"{report.host}: {why or 'another client'}{self._then_stopping}", bad=True)
        yield from self._stop_all(
            why or "another client", float(grace) if isinstance(grace, int | float) else self._grace_s
        )

    def _lost(self, lost: events.HostLost) -> Iterator[Action]:
        """End the run elsewhere without a host that has ended it; one that is only not reached continues."""
        self.nodes.give_up(lost.host, lost.why, still_running=lost.still_running, answers=lost.answers)
        self.nodes[lost.host].forgotten = lost.forgotten
        yield Notify(lost.text, bad=True)
        if not lost.still_running:
            yield from self._stop_others(f"{lost.host} was lost")

    @property
    def _then_stopping(self) -> str:
        return "" if self._over else "; stopping every node"

    def _rank_exit(self, report: events.HostReport, rank: int) -> Iterator[Action]:
        code = report.exit_code
        self.rank_codes[rank] = code
        is_stopped = report.fields.get("stopping") and self.stopping
        if code == 0 or (is_stopped and not self._ranks.is_own_failure(rank)):
            return
        if code is None and not self._ranks.has_exception(rank):
            return  # the launcher saw it end and will say how
        killed, oom = explain_oom(self._oom_before(report), code)
        failure = self._ranks.build_failure(report, rank, code, killed, oom)
        failure = replace(failure, oom_counted=report.fields.get("oom_counted") is True)
        if not self.stopping:
            self._ranks.take_first_failure(failure, report.at)
        yield from self._fail(failure)

    def _launcher_exit(self, report: events.HostReport) -> Iterator[Action]:
        code = report.exit_code
        self.nodes[report.host].launcher_ended = True
        if code == 0 or self.stopping:
            return
        killed, oom = explain_oom(self._oom_before(report), code)
        what = f"the launcher on {report.host} {killed or describe_exit_code(code)}"
        counted = report.fields.get("oom_counted") is True
        failure = Failure(report.host, report.at, None, code, what, kernel_oom=oom, oom_counted=counted)
        yield from self._fail(failure)

    def _oom_before(self, report: events.HostReport) -> Mapping[str, object] | None:
        """Return what a host's kernel said of memory just before something ended on it."""
        oom = self.nodes[report.host].oom
        return oom.fields if oom is not None and abs(report.at - oom.at) < OOM_WITHIN_S else None

    def _host_ended(self, ended: events.HostEnded) -> Iterator[Action]:
        self.nodes.close(ended.host).ended = ended
        if ended.state.get("phase") != "ended":
            what = f"{ended.host} was lost: {explain_loss(ended.state)}"
            yield from self._fail(Failure(ended.host, float("inf"), None, None, what))
        yield from self._fill_from_final_state(ended)
        if (
            self.stopping
            and ended.host == self.hosts[0]
            and self._after_main_s is not None
            and self.nodes.open_hosts
        ):
            failed = self._stopped_for_failure
            yield StopHosts(self.nodes.open_hosts, self._after_main_s, self.stopping, failed=failed)
        left = (ended.state.get("exit") or {}).get("remaining_pids")
        if left:
            pids = ", ".join(str(pid) for pid in left)
            yield Notify(f"{ended.host}: these processes cannot be ended: {pids}", bad=True)
        why = str((ended.state.get("exit") or {}).get("why") or "")
        if why and not self.stopping:
            yield from self._fail(Failure(ended.host, float("inf"), None, None, f"{ended.host}: {why}"))

    def _fill_from_final_state(self, ended: events.HostEnded) -> Iterator[Action]:
        """Take from the last state what no event has reported: a full disk may have kept it."""
        end = ended.state.get("exit") or {}
        for rank, code in (end.get("ranks") or {}).items():
            self.rank_codes.setdefault(int(rank), code)
        code = end.get("launcher_code")
        unseen = not self.nodes[ended.host].launcher_ended
        if code and unseen and not (self.stopping or self.failures):
            what = f"the launcher on {ended.host} {describe_exit_code(code)}"
            yield from self._fail(Failure(ended.host, float("inf"), None, code, what))

    def _fail(self, failure: Failure) -> Iterator[Action]:
        self.failures.append(failure)
        if not self.stopping:
            yield Notify(f"{failure.summary}{self._then_stopping}", bad=True)
            yield from self._stop_all(failure.summary, FAILURE_GRACE_S, failed=True)

    def _interrupted(self, interrupted: events.Interrupted) -> Iterator[Action]:
        by = interrupted.signal
        signature = f" by {interrupted.who}" if interrupted.who else ""
        self.interrupts += 1
        self.interrupted_by = self.interrupted_by or by
        if self.interrupts == 1:
            self.stopped_by_interrupt = not self.stopping
            yield Notify(f"stopping every node ({self._stop_text}); Ctrl-C again kills and leaves at once")
            yield from self._stop_all(by + signature, self._grace_s)
        elif self.interrupts == 2:
            yield Notify("killing every node's processes now", bad=True)
            twice = f"{by} twice" if by == "Ctrl-C" else by
            yield StopHosts(self.nodes.open_hosts, 0.0, twice + signature)

    def _job_ends(self, event: events.JobEnds) -> Iterator[Action]:
        if self.interrupts:  # Slurm or a person has signalled this process, too
            return
        self.job_ends = event
        yield Notify(event.why, bad=True)
        if not self.stopping:
            yield from self._interrupted(events.Interrupted(event.why))

    def _stop_all(self, why: str, grace_s: float, *, failed: bool = False) -> Iterator[Action]:
        if not self.stopping:
            self.stopping, self._stopped_for_failure = why, failed
        if not self._over and (hosts := self.nodes.open_hosts):
            yield StopHosts(hosts, grace_s, why, failed=failed)

    def _stop_others(self, why: str) -> Iterator[Action]:
        if not self.stopping:
            yield from self._stop_all(why, FAILURE_GRACE_S, failed=True)
