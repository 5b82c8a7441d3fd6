"""The run that a word means by what this machine knows, held against what its hosts report."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

from launcher.config.node_sets import fold_hosts
from launcher.errors import GpulaunchError, HostError, HostsUnusable, RunNotKept
from launcher.planning.run_record import RunRecord
from launcher.rundir.run_id import LAST, format_start, names_run, run_name
from launcher.runs.last_run import SearchScope, explain_ambiguity
from launcher.runs.remote_run import RemoteRun
from launcher.text import one_line
from preflight.errors import BadInput
from preflight.frozen import dataclass

RunChoice: TypeAlias = Callable[[str, tuple[RemoteRun, ...]], RemoteRun | None]


@dataclass(frozen=True, slots=True)
class ExpectedRun:
    """The newest launch of this machine that a word means."""

    word: str
    record: RunRecord
    live_wanted: bool  # where its hosts have nothing of it, another run may be meant

    @property
    def run_id(self) -> str:
        """Its id."""
        return self.record.plan.run_id

    def explain_absence(
        self,
        found: Collection[RemoteRun],
        chosen: RemoteRun | None,
        asked: Collection[str],
        errors: Mapping[str, HostError],
    ) -> GpulaunchError | None:
        """Return why `chosen`, None for no run, is not what the word means; None where it is.

        An older run in the place of one whose host is silent would be stopped or removed by mistake.
        `found` are all runs that the hosts reported, `asked` the names of all hosts.
        """
        if any(run.run_id == self.run_id for run in found):
            return None
        if chosen is not None and format_start(chosen.run_id) >= format_start(self.run_id):
            return None  # also what a host has made of it since
        own = [entry.name for entry in self.record.entries]
        silent = [errors[name] for name in own if name in errors]
        if silent:
            return self._silent(silent)
        if (chosen is not None and self.live_wanted) or not set(own) <= set(asked):
            return None
        return self._forgotten(own)

    def _silent(self, errors: list[HostError]) -> HostsUnusable:
        names = fold_hosts(error.host for error in errors)
        what = self.run_id if self.word == self.run_id else f"{self.word}, {self.run_id},"
        verb = "was" if len(errors) == 1 else "were"
        words = f"{what} is on {names}, which {verb} not reached: {one_line(errors[0].detail, 300)}"
        return HostsUnusable(errors, words, errors[0].fix)

    def _forgotten(self, own: list[str]) -> RunNotKept:
        names, one = fold_hosts(own), len(own) == 1
        meant = "" if self.word == self.run_id else f"{self.word} is {self.run_id}: "
        answer, hosts = ("answers and has", "the host") if one else ("answer and have", "the hosts")
        return RunNotKept(
            f"{meant}{names} {answer} nothing of {self.run_id}; it was removed from another machine, is"
            f" another user's, or the disk of {hosts} is new, as when a rented one is started again"
        )


@dataclass(frozen=True, slots=True)
class RunMeaning:
    """Which of the runs that hosts report a word means, by what is known of them locally."""

    choose: RunChoice | None = None  # as in `select_run`
    expected: ExpectedRun | None = None


BY_WORD = RunMeaning()


def find_expected(
    word: str, scope: SearchScope, records: Mapping[str, RunRecord], *, live_wanted: bool
) -> ExpectedRun | None:
    """Return the newest launch of this machine that a word means, those of this directory first."""
    called = [run_id for run_id in records if word == run_name(run_id)]
    named = called or [run_id for run_id in records if word == LAST or names_run(word, run_id)]
    own = [each for each in named if scope.is_of_directory(each, records[each].plan.job_name)]
    run_id = word if word in records else max(own or named, key=format_start, default="")
    return ExpectedRun(word, records[run_id], live_wanted) if run_id else None


def select_run(runs: Iterable[RemoteRun], word: str, choose: RunChoice | None = None) -> RemoteRun:
    """Return the run that a word means: `last`, an id, a name, a Slurm job, the start or last part of an id.

    `choose` says which of several that the word fits is meant, if any; without it `last` is the newest.
    Raises BadInput.
    """
    runs = tuple(runs)
    if not runs:
        what = "no run" if word == LAST else f'no run called "{word}"'
        raise BadInput(f"{what} was found on the hosts that answered", "gpulaunch ps --all HOST...")
    if word == LAST:
        return _believed((choose and choose(word, runs)) or runs[-1])
    exact = [run for run in runs if word in (run.run_id, run_name(run.run_id), run.slurm_job)]
    begun = exact or [run for run in runs if names_run(word, run.run_id)]
    if len(begun) == 1:
        return _believed(begun[0])
    if not begun:
        raise BadInput(f'no run called "{word}" was found on the hosts that answered', "gpulaunch ps --all")
    chosen = None if choose is None else choose(word, tuple(begun))
    if chosen is not None:
        return _believed(chosen)
    raise explain_ambiguity(word, begun)


def _believed(run: RemoteRun) -> RemoteRun:
    if run.conflict:
        raise BadInput(
            f"{run.run_id}: {run.conflict}; gpulaunch cannot decide which is right",
            "--hosts HOST asks one of them only",
        )
    return run
