"""A run carried through: started, and started again on what is left of its hosts while that may help."""

import json
import time
from collections.abc import Callable
from dataclasses import replace

from launcher.config.inventory import HostEntry
from launcher.config.restart_options import RestartOptions
from launcher.errors import GpulaunchError, HostError
from launcher.exit_codes import ExitCode
from launcher.follow.outcome import Outcome
from launcher.follow.phases import Phase
from launcher.follow.restart_history import RestartHistory, StartRecord
from launcher.host_checks.preflight import PreflightResult, read_remote_script
from launcher.launch.launch import CheckedLaunch, launch_and_follow
from launcher.launch.request import LaunchRequest
from launcher.report.outcome import outcome_json
from launcher.report.restarts import restart_json
from launcher.restart.changes import describe_changes
from launcher.restart.checkpoints import Checkpoint, choose_checkpoint, list_checkpoints, resume_args
from launcher.restart.decision import NoRestart, RunFailure, classify_failure, is_crash_loop, should_restart
from launcher.restart.host_set import SparePolicy, select_hosts
from launcher.restart.kernel_log import refine_with_kernel_log
from launcher.restart.replacement import HostAssignment, rank_counts_after
from launcher.rundir.layout import OUTCOME
from launcher.rundir.log_store import LogStore
from launcher.terminal.screen import Screen
from preflight.facts.host import HostFacts
from preflight.facts.redaction import redact_text
from preflight.frozen import dataclass

RESTART_FILE = "restart.json"


@dataclass(frozen=True, slots=True)
class RestartContext:
    """How restarts are made."""

    options: RestartOptions
    spares: tuple[HostEntry, ...]
    prepare_spare: Callable[
        [HostEntry], None
    ]  # what a spare gets before it takes part; raises GpulaunchError
    on_preflight: Callable[[PreflightResult], None]


def run_with_restarts(prepared: CheckedLaunch, screen: Screen, means: RestartContext) -> Outcome:
    """Launch and follow to the end, again and again as `restart:` says; return the last outcome."""
    story = _RestartLoop(prepared, screen, means)
    outcome: Outcome | None = None
    while True:
        try:
            outcome = launch_and_follow(story.prepared, screen)
        except GpulaunchError as error:
            if outcome is None:
                raise
            return story.end(outcome, NoRestart(error.message))
        story.add(outcome)
        try:
            following = story.follow_up(outcome)
        except KeyboardInterrupt:
            why = "Ctrl-C before the next start"
            stopped = replace(outcome, verdict="interrupted", exit_code=ExitCode.INTERRUPTED, why=why)
            return story.end(stopped, NoRestart("stopped by Ctrl-C"))
        if isinstance(following, NoRestart):
            return story.end(outcome, following)
        story.prepared = following


class _RestartLoop:
    """All starts of one run, and what is left for the next."""

    def __init__(self, prepared: CheckedLaunch, screen: Screen, means: RestartContext) -> None:
        self.prepared = prepared
        self._first = prepared.launch
        # Without what a restart adds to its arguments; a run on GPUs does not continue as one on CPUs.
        self._job = replace(prepared.launch.job, gpus=prepared.result.job.gpus)
        self._screen = screen
        self._means = means
        self._spares = tuple(
            spare
            for spare in means.spares
            if spare.name not in {each.name for each in prepared.launch.entries}
        )
        self._began = time.monotonic()
        self._facts: dict[str, HostFacts] = dict(prepared.result.facts)
        self._starts: list[StartRecord] = []
        self._changes: tuple[str, ...] = ()  # in the start that continues, against the one before
        self._attempts = 0
        self._tried = 0  # restarts, also those for which no host was usable
        self._before = self._facts  # of the last preflight before the last start
        self._resumed_from = ""

    def add(self, outcome: Outcome) -> None:
        """Note a start that is over."""
        self._attempts += outcome.attempts
        self._before = dict(self._facts)
        self._starts.append(
            StartRecord(
                run_id=outcome.plan.run_id,
                verdict=outcome.verdict,
                exit_code=outcome.exit_code,
                why=outcome.why,
                identity=("", "", ""),
                world_size=outcome.plan.world_size,
                mixed_precision=outcome.plan.precision.mixed_precision,
                hosts=tuple(node.host for node in outcome.plan.nodes),
                seconds=outcome.seconds,
                logs=str(outcome.directory),
                resumed_from=self._resumed_from,
                changes=self._changes,
            )
        )

    def end(self, outcome: Outcome, why: NoRestart) -> Outcome:
        """Return the last outcome with all that came before, and keep it so."""
        fine = outcome.exit_code == 0
        restarts = RestartHistory(self._means.options.max, tuple(self._starts), "" if fine else why.why)
        whole = replace(outcome, attempts=self._attempts, restarts=restarts)
        if outcome.verdict == "detached":
            return whole  # it continues: how it ends is not known yet
        book = LogStore(whole.directory)
        book.store(OUTCOME, json.dumps(outcome_json(whole), indent=1) + "\n")
        return replace(whole, logs_incomplete=whole.logs_incomplete or book.failed)

    def follow_up(self, outcome: Outcome) -> CheckedLaunch | NoRestart:
        """Return the next start, or the reason against it."""
        spec, found = self._means.options, classify_failure(outcome)
        if isinstance(found, RunFailure):
            self._starts[-1] = replace(self._starts[-1], identity=found.identity)
        reason = should_restart(found, spec, self._tried)
        if isinstance(reason, NoRestart):
            return reason
        self._screen.notify(reason.description, bad=True)
        while True:
            following = self._after_a_pause(outcome, reason)
            if isinstance(following, CheckedLaunch) or not following.retryable or self._tried >= spec.max:
                return following
            self._screen.notify(following.why, bad=True)

    def _after_a_pause(self, outcome: Outcome, reason: RunFailure) -> CheckedLaunch | NoRestart:
        pause = self._means.options.backoff_before(self._tried)
        self._tried += 1
        words = f"restart {self._tried} of {self._means.options.max} in {pause:g} s; Ctrl-C leaves it ended"
        self._screen.notify(words)
        time.sleep(pause)
        try:
            return self._prepare(outcome, reason)
        except GpulaunchError as error:
            return NoRestart(error.message, retryable=isinstance(error, HostError))

    def _prepare(self, outcome: Outcome, reason: RunFailure) -> CheckedLaunch | NoRestart:
        spec, before = self._means.options, self._before
        begun = (*self.prepared.launch.earlier_phases, Phase(f"attempt {len(self._starts)}", outcome.seconds))
        last = replace(
            self.prepared.launch,
            warm_starts=None,
            extra_files=self._first.extra_files,
            job=self._job,
            earlier_phases=begun,
        )
        choice = SparePolicy(self._spares, spec.exclude_failed_hosts, self._means.prepare_spare)
        settled = select_hosts(last, outcome, reason, choice)
        self._facts |= settled.facts
        if settled.result is None:
            whys = "; ".join(f"{host}: {why}" for host, why in settled.assignment.excluded.items())
            return NoRestart(f"no host is left to continue on ({whys})", retryable=True)
        lineup, result = settled.assignment, settled.result
        self._means.on_preflight(result)
        again = should_restart(
            classify_failure(refine_with_kernel_log(outcome, before, self._facts)), spec, self._tried - 1
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
    ) -> "Checkpoint | NoRestart | None":
        """Return what the next start continues from, None for the start; note how far this one came."""
        spec, job = self._means.options, self._job
        main = launch.entries[0].name
        writers = launch.entries if spec.resume_args and spec.checkpoint_on == "every" else launch.entries[:1]
        age_s = time.monotonic() - self._began
        seen = list_checkpoints(writers, job, spec.checkpoints, launch.connections.borrow, age_s=age_s)
        main_is_new = outcome.plan.nodes[0].host not in {entry.name for entry in launch.entries}
        chosen = choose_checkpoint(seen, main, spec, main_is_new=main_is_new)
        for note in chosen.notes:
            self._screen.notify(note, bad=True)
        now = replace(
            self._starts[-1],
            identity=reason.identity,
            last_checkpoint=chosen.checkpoint.path if chosen.checkpoint else "",
            last_step=chosen.step,
            checkpoint_known=bool(spec.resume_args) or chosen.checkpoint is not None,
        )
        self._starts[-1] = now
        if chosen.refused:
            return NoRestart(chosen.refused)
        return is_crash_loop(self._starts[:-1], now) or chosen.checkpoint

    def _planned(
        self,
        launch: LaunchRequest,
        result: PreflightResult,
        lineup: HostAssignment,
        outcome: Outcome,
        checkpoint: Checkpoint | None,
    ) -> CheckedLaunch | NoRestart:
        """Report the start and return it; its plan is made once already to say what it changes."""
        spec = self._means.options
        for error in result.errors.values():
            return NoRestart(error.message, retryable=True)
        job = replace(launch.job, args=resume_args(launch.job, spec, checkpoint))
        main = launch.entries[0]
        script = read_remote_script(main, result.facts[main.name], job)
        prepared = CheckedLaunch(replace(launch, job=job), result, script)
        refusal = prepared.refusal()
        if refusal is not None:
            return NoRestart(refusal.message)
        changes = tuple(map(redact_text, describe_changes(outcome.plan, prepared.plan(), lineup, self._job)))
        self._resumed_from = checkpoint.path if checkpoint is not None and spec.resume_args else ""
        from_words = self._from_words(checkpoint)
        for line in (*changes, from_words):
            self._screen.notify(line)
        self._changes = changes
        self._spares = tuple(each for each in lineup.spares if each.name not in outcome.cleanup.lost)
        record = restart_json(
            len(self._starts), outcome.plan.run_id, outcome.why, self._resumed_from, changes
        )
        kept = (*self._first.extra_files, (RESTART_FILE, json.dumps(record, indent=1) + "\n"))
        return replace(prepared, launch=replace(prepared.launch, extra_files=kept))

    def _from_words(self, checkpoint: Checkpoint | None) -> str:
        if not self._means.options.resume_args:
            return "no resume_args: the script starts as before and finds its checkpoint itself"
        if checkpoint is None:
            return "there is no checkpoint of this run yet: it starts from step 0"
        return f"resuming from {checkpoint.path}"
