"""A run carried through: started, and started again on what is left of its hosts while that may help."""

import json
import posixpath
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType

from launcher.errors import GpulaunchError, HostError
from launcher.follow.awake_clock import read_boot_time
from launcher.follow.outcome import Outcome
from launcher.follow.phases import Phase
from launcher.follow.restart_history import RestartHistory, StartRecord
from launcher.host_checks.evaluation import read_script
from launcher.host_checks.result import PreflightResult
from launcher.launch.launch import CheckedLaunch, launch_and_follow
from launcher.launch.request import LaunchRequest
from launcher.launch.resume_watch import step_to_pass
from launcher.launch.signals import raise_stop_signals
from launcher.report.outcome import encode_outcome
from launcher.report.restarts import encode_restart
from launcher.restart import checkpoints, pause_signals
from launcher.restart.context import RestartContext
from launcher.restart.decision import NoRestart, RunFailure, classify_failure, is_crash_loop, should_restart
from launcher.restart.host_set import SparePolicy, select_hosts, weigh_by_failed_host
from launcher.restart.launch_changes import describe_changes
from launcher.restart.new_kernel_entries import read_kernel_logs, refine_with_host
from launcher.restart.replacement import HostAssignment, rank_counts_after
from launcher.restart.restart_lock import Hold, RestartHold, end_next, take_hold
from launcher.restart.restart_order import LoopHistory, RestartOrder, build_spec, build_start_record
from launcher.restart.tree_change import note_other_tree
from launcher.rundir.layout import OUTCOME
from launcher.rundir.log_store import LogStore
from launcher.terminal.screen import Screen
from launcher.transports.base import Closing
from preflight.facts.host import HostFacts, KernelLog
from preflight.facts.redaction import redact_text

RESTART_FILE = "restart.json"


def run_with_restarts(prepared: CheckedLaunch, screen: Screen, means: RestartContext) -> Outcome:
    """Launch and follow to the end, again and again as `restart:` says; return the last outcome."""
    # A run on GPUs does not continue as one on CPUs.
    job = replace(prepared.launch.job, gpus=prepared.result.job.gpus)
    with raise_stop_signals(), RestartLoop(replace(prepared.launch, job=job), screen, means) as loop:
        loop.note_facts(prepared.result.facts)
        return loop.run(prepared)


class RestartLoop(Closing):
    """All starts of one run, and what is left for the next."""

    def __init__(
        self,
        launch: LaunchRequest,
        screen: Screen,
        means: RestartContext,
        *,
        history: LoopHistory | None = None,
        logs: Mapping[str, KernelLog] | None = None,
    ) -> None:
        """`launch`: the last one, or the first, without what a restart adds to its arguments."""
        self._history = history or LoopHistory()  # `elapsed_s`: until now
        self._launch = self._first = launch
        self._job = launch.job
        self._screen = screen
        self._means = means
        names = {each.name for each in launch.entries}
        self._spares = tuple(spare for spare in means.spares if spare.name not in names)
        # When the first start began; a clock that is set back hides no checkpoint.
        self._began = read_boot_time() - self._history.elapsed_s
        self._kernel_logs: dict[str, KernelLog] = dict(logs or {})
        self._before = self._kernel_logs  # of the last preflight before the last start
        self._hold: Hold | None = None
        self._held = ""  # the run that it belongs to, also while gpulaunch asks the host for it
        self._last: Outcome | None = None  # the last start that its main host knows
        self.may_try_later = False  # only its hosts are why no further start has followed

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if pause_signals.stops_run(error, self._launch.follow):
            self._leave_ended(pause_signals.name_stop(error))  # or its host would start it again
        super().__exit__(kind, error, trace)

    def close(self) -> None:
        """Give back the right to start the run again: what was not decided, its host or a client decides."""
        if self._hold is not None:
            self._hold.close()
        self._hold, self._held = None, ""

    def note_facts(self, facts: Mapping[str, HostFacts]) -> None:
        """Keep what later starts compare with."""
        known = {host: log for host, log in self._kernel_logs.items() if host not in facts}
        self._kernel_logs = known | read_kernel_logs(facts)

    def run(self, prepared: CheckedLaunch, last: Outcome | None = None) -> Outcome:
        """Launch, and again, until the run is over or another one has it; `last` came before."""
        while True:
            other = self._confirm(last)
            if other is not None:
                return other
            try:
                outcome = launch_and_follow(self._with_order(prepared), self._screen)
            except GpulaunchError as error:
                if last is None:
                    raise
                return self.end(last, NoRestart(error.message))
            following = self.decide(outcome)
            if isinstance(following, Outcome):
                return following
            last, prepared = outcome, following

    def _confirm(self, last: Outcome | None) -> Outcome | None:
        """Make sure that the right to start it again is held; return how it ended where others had it."""
        if last is None or self._hold is None or self._hold.confirm():
            return None
        self.close()
        return self._resume(self._last or last)

    def resume(self, outcome: Outcome, hold: Hold) -> Outcome:
        """Continue with a start that is over, which an earlier client has made."""
        self._hold, self._held = hold, outcome.plan.run_id
        following = self.decide(outcome)
        return following if isinstance(following, Outcome) else self.run(following, outcome)

    def decide(self, outcome: Outcome) -> CheckedLaunch | Outcome:
        """Return the next start, or the whole outcome where none follows, or others have made one."""
        if outcome.plan.nodes[0].host in outcome.run_dirs:  # else it is still for the one before to decide
            self._last = outcome
        self._add(outcome)
        tried, following = self._history.tried, None
        while following is None:
            try:
                if (other := self._resume(outcome)) is not None:
                    return other
                following = self.follow_up(outcome)
            except KeyboardInterrupt as stop:
                kept, follow = bool(self._held), self._launch.follow  # what gpulaunch asks for may be, too
                choice = pause_signals.choose_interrupt(stop, follow, is_kept=kept)
                if choice != "stay":
                    return self._interrupted(outcome, stop, leaves=choice == "detach")
                self._history = replace(self._history, tried=tried)  # the pause starts anew
        return self.end(outcome, following) if isinstance(following, NoRestart) else following

    def _interrupted(self, outcome: Outcome, stop: KeyboardInterrupt, *, leaves: bool) -> Outcome:
        """Return how it ended for a client that leaves it before the next start, or leaves it ended."""
        by = pause_signals.name_stop(stop)
        if leaves:
            self._screen.notify(pause_signals.describe_next(outcome))
            return self.end(replace(outcome, verdict="detached", exit_code=0), NoRestart(f"left by {by}"))
        self._leave_ended(by)
        return self.end(pause_signals.interrupt_outcome(outcome, by), NoRestart(f"stopped by {by}"))

    def _leave_ended(self, by: str) -> None:
        """Have no start follow the last one, also where this client has not got the right to say so."""
        why = f"stopped by {by}"
        if (self._hold is not None and self._hold.end(why)) or self._last is None:
            return
        for line in end_next(self._last, self._launch, why):
            self._screen.notify(line, bad=True)

    def _resume(self, outcome: Outcome, *, is_back: bool = False) -> Outcome | None:
        """Take the right to start it again, also where a lost main host `is_back`; return how others did."""
        main = outcome.plan.nodes[0].host
        kept = main in outcome.run_dirs and (is_back or main not in outcome.cleanup.lost)
        if outcome.verdict in ("finished", "detached") or not kept:
            return None
        if self._hold is not None and self._held != outcome.plan.run_id:
            self.close()
        entry = next((each for each in self._launch.entries if each.name == main), None)
        if self._hold is not None or entry is None:
            return None
        self._held = outcome.plan.run_id
        try:
            whole = len(outcome.run_dirs) == len(outcome.plan.nodes)
            acquire, notify = self._launch.connections.acquire, self._screen.notify
            found = take_hold(self._held, entry, acquire, notify, whole=whole)
        except HostError as error:
            self._held = ""
            self._screen.notify(f"{main} does not say whether the run continues: {error.message}", bad=True)
            return None
        if isinstance(found, RestartHold):
            self._hold = found
            return None
        self._held, self._last = "", None  # no start is this client's to make or to end
        if isinstance(found, NoRestart):
            return self.end(outcome, found)
        if found is None:
            return None
        self._screen.notify(f"{outcome.plan.run_id} was started again as {found.run_id}; following that one")
        return self._means.follow_other(found.run_id) or replace(outcome, verdict="detached", exit_code=0)

    def _with_order(self, prepared: CheckedLaunch) -> CheckedLaunch:
        """Return the launch with what another client, or the host itself, needs to start it again."""
        launch, options = prepared.launch, self._means.options
        disconnect = launch.follow.disconnect
        if not disconnect.continues or disconnect.slurm_job or not options.max:
            return prepared
        order = RestartOrder(
            entries=launch.entries,
            spares=self._spares,
            job=self._job,
            options=options,
            disconnect=disconnect,
            history=replace(self._history, elapsed_s=max(0.0, read_boot_time() - self._began)),
            kernel_logs={
                entry.name: self._kernel_logs[entry.name]
                for entry in launch.entries
                if entry.name in self._kernel_logs
            },
            sent=launch.preflight.sent,
            ignore=launch.preflight.ignore,
            width=launch.preflight.width,
            extra_files=self._first.extra_files,
            syncs=self._means.syncs,
        )
        after = self._history.starts[-1].run_id if self._history.starts else ""
        spec = build_spec(order, after=after)
        started = partial(self._note_start, launch.on_started)
        return replace(prepared, launch=replace(launch, restart=spec, on_started=started))

    def _note_start(self, then: Callable[[str], None] | None, run_id: str) -> None:
        """Note it on the main host of the start before, which may be another one than this start's."""
        if self._hold is not None:
            self._hold.note_restart(run_id)
        if then is not None:
            then(run_id)

    def _add(self, outcome: Outcome) -> None:
        """Note a start that is over."""
        self._before = dict(self._kernel_logs)
        known = self._history
        on_main = outcome.run_dirs.get(outcome.plan.nodes[0].host, "")
        logs = on_main if self._means.on_host else str(outcome.directory)
        record = build_start_record(outcome, logs, known.resumed_from, known.changes)
        self._history = replace(
            known, starts=(*known.starts, record), attempts=known.attempts + outcome.attempts
        )

    def _note_last(self, record: StartRecord) -> None:
        """Put what is known by now of the last start in its place."""
        self._history = replace(self._history, starts=(*self._history.starts[:-1], record))

    def end(self, outcome: Outcome, why: NoRestart) -> Outcome:
        """Return the last outcome with all that came before, and keep it so."""
        fine = outcome.exit_code == 0
        self.may_try_later = why.retryable
        leaves = self._means.on_host and why.retryable
        if self._hold is not None and outcome.verdict != "detached" and not leaves:
            self._hold.end(why.why)
        self.close()
        restarts = RestartHistory(self._means.options.max, self._history.starts, "" if fine else why.why)
        whole = replace(outcome, attempts=self._history.attempts, restarts=restarts)
        if outcome.verdict == "detached":
            return whole  # it continues: how it ends is not known yet
        book = LogStore(whole.directory)
        book.store(OUTCOME, json.dumps(encode_outcome(whole), indent=1) + "\n")
        return replace(whole, logs_incomplete=whole.logs_incomplete or book.failed)

    def follow_up(self, outcome: Outcome) -> CheckedLaunch | NoRestart | Outcome:
        """Return the next start, the reason against it, or how one ended that others have made."""
        spec, found = self._means.options, classify_failure(outcome)
        if isinstance(found, RunFailure):
            self._note_last(replace(self._history.starts[-1], identity=found.identity))
        reason = should_restart(found, spec, self._history.tried)
        is_final = isinstance(reason, NoRestart) and self._history.tried < spec.max
        if is_final and isinstance(found, RunFailure) and found.category == "crash":
            outcome = weigh_by_failed_host(self._launch, outcome, self._before)
            reason = should_restart(classify_failure(outcome), spec, self._history.tried)
        if isinstance(reason, NoRestart):
            return reason
        self._screen.notify(reason.description, bad=True)
        while True:
            following = self._after_a_pause(outcome, reason)
            is_last = self._history.tried >= spec.max
            if not isinstance(following, NoRestart) or not following.retryable or is_last:
                return following
            self._screen.notify(following.why, bad=True)

    def _after_a_pause(self, outcome: Outcome, reason: RunFailure) -> CheckedLaunch | NoRestart | Outcome:
        pause = self._means.options.backoff_before(self._history.tried)
        self._history = replace(self._history, tried=self._history.tried + 1)
        ctrl_c = pause_signals.describe_ctrl_c(self._launch.follow, is_kept=self._hold is not None)
        self._screen.notify(
            f"restart {self._history.tried} of {self._means.options.max} in {pause:g} s; Ctrl-C {ctrl_c}"
        )
        time.sleep(pause)
        notice = self._launch.job_notice
        if notice is not None and notice.heard_at:
            return NoRestart("Slurm ends its job")
        try:
            return self._prepare(outcome, reason)
        except GpulaunchError as error:
            return NoRestart(error.message, retryable=isinstance(error, HostError))

    def _prepare(self, outcome: Outcome, reason: RunFailure) -> CheckedLaunch | NoRestart | Outcome:
        spec, before = self._means.options, self._before
        begun = (*self._launch.earlier_phases, Phase(f"start {len(self._history.starts)}", outcome.seconds))
        last = replace(self._launch, extra_files=self._first.extra_files, job=self._job, earlier_phases=begun)
        choice = SparePolicy(self._spares, spec.exclude_failed_hosts, self._means.prepare_spare)
        settled = select_hosts(last, outcome, reason, choice)
        self.note_facts(settled.facts)
        is_back = outcome.plan.nodes[0].host in settled.back
        if is_back and (other := self._resume(outcome, is_back=True)) is not None:
            return other
        if settled.result is None:
            whys = "; ".join(f"{host}: {why}" for host, why in settled.assignment.excluded.items())
            return NoRestart(f"no host is left to continue on ({whys})", retryable=True)
        lineup, result = settled.assignment, settled.result
        self._means.on_preflight(result)
        again = should_restart(
            classify_failure(refine_with_host(outcome, before, settled.facts)), spec, self._history.tried - 1
        )
        if isinstance(again, NoRestart):
            return again
        self._job = rank_counts_after(self._job, lineup)
        launch = replace(last, entries=lineup.entries, job=self._job)
        checkpoint = self._checkpoint(launch, outcome, again)
        if isinstance(checkpoint, NoRestart):
            return checkpoint
        return self._planned(launch, result, lineup, outcome, checkpoint)

    def _checkpoint(
        self, launch: LaunchRequest, outcome: Outcome, reason: RunFailure
    ) -> "checkpoints.Checkpoint | NoRestart | None":
        """Return what the next start continues from, None for the start; note how far this one came."""
        spec, main = self._means.options, launch.entries[0].name
        writers = launch.entries if spec.resume_args and spec.checkpoint_on == "every" else launch.entries[:1]
        age_s = read_boot_time() - self._began
        first = self._history.starts[0].run_id
        dirs = {host: f"{posixpath.dirname(path)}/{first}" for host, path in outcome.run_dirs.items()}
        asked = replace(launch, entries=writers)
        seen = checkpoints.list_checkpoints(asked, spec.checkpoints, age_s=age_s, run_dirs=dirs)
        main_is_new = outcome.plan.nodes[0].host not in {entry.name for entry in launch.entries}
        chosen = checkpoints.choose_checkpoint(seen, main, spec, main_is_new=main_is_new)
        for note in chosen.render_notes(verbose=self._means.verbose):
            self._screen.notify(note, bad=True)
        now = replace(
            self._history.starts[-1],
            identity=reason.identity,
            last_checkpoint=chosen.checkpoint.path if chosen.checkpoint else "",
            last_step=chosen.step,
            checkpoint_known=bool(spec.resume_args) or chosen.checkpoint is not None,
        )
        self._note_last(now)
        if chosen.refused:
            return NoRestart(chosen.refused)
        return is_crash_loop(self._history.starts[:-1], now) or chosen.checkpoint

    def _planned(
        self,
        launch: LaunchRequest,
        result: PreflightResult,
        lineup: HostAssignment,
        outcome: Outcome,
        checkpoint: checkpoints.Checkpoint | None,
    ) -> CheckedLaunch | NoRestart:
        """Report the start and return it; its plan is made once already to say what it changes."""
        spec = self._means.options
        for error in result.errors.values():
            return NoRestart(error.message, retryable=True)
        job = replace(launch.job, args=checkpoints.resume_args(launch.job, spec, checkpoint))
        main = launch.entries[0]
        script = read_script(main, result.facts[main.name], job, launch.preflight.tree).script
        prepared = CheckedLaunch(replace(launch, job=job), result, script)
        refusal = prepared.refusal()
        if refusal is not None:
            return NoRestart(refusal.message)
        changes = tuple(map(redact_text, describe_changes(outcome.plan, prepared.plan(), lineup, self._job)))
        resumed_from = checkpoint.path if checkpoint is not None and spec.resume_args else ""
        files, other_trees = note_other_tree(
            self._first.extra_files, launch.entries, launch.connections.borrow
        )
        for line in (*other_trees, *changes, checkpoints.describe_start(self._job, spec, checkpoint)):
            self._screen.notify(line)
        self._history = replace(self._history, resumed_from=resumed_from, changes=changes)
        self._spares = tuple(each for each in lineup.spares if each.name not in outcome.cleanup.lost)
        record = encode_restart(
            len(self._history.starts), outcome.plan.run_id, outcome.why, resumed_from, changes
        )
        kept = (*files, (RESTART_FILE, json.dumps(record, indent=1) + "\n"))
        step = self._launch.resume_step
        if step >= 0:  # else a start of before has shown that steps count within epochs
            step = step_to_pass(0 if checkpoint is None else checkpoint.step, outcome.directory)
        self._launch = replace(prepared.launch, extra_files=kept, resume_step=step)
        return replace(prepared, launch=self._launch)
