"""Which runs `last` is the newest of: those of this working directory, else yours."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from launcher.config.config_search import list_config_folders
from launcher.local.project import SUFFIXES
from launcher.local.user import read_user_name
from launcher.planning.run_record import RunRecord
from launcher.rundir.end_state import LIVING
from launcher.rundir.run_id import LAST, format_start, is_run_id, names_run, run_name
from launcher.runs.remote_run import RemoteRun
from preflight.errors import BadInput
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class SearchScope:
    """What is known of this working directory and of its user."""

    kept: frozenset[str]  # runs whose logs are kept locally
    jobs: frozenset[str]  # names of the local run configs
    user: str
    elsewhere: frozenset[str] = frozenset()  # runs that this machine has launched in other projects

    def is_of_directory(self, run_id: str, job: str) -> bool:
        """Return whether a run of this user is kept locally, or has a run config and no other project."""
        return run_id in self.kept or (job in self.jobs and run_id not in self.elsewhere)

    def find_kept(self, word: str) -> str:
        """Return the newest run that a word means of those whose logs are kept locally, "" for none."""
        named = [each for each in self.kept if is_run_id(each) and (word == LAST or names_run(word, each))]
        return max(named, key=format_start, default="")

    def find_last(self, runs: Iterable[RemoteRun]) -> RemoteRun:
        """Return the newest run (of some, the newest last) of this directory, else of this user.

        Any host can say that it has a newer one than was launched from this directory: then it must be named.
        Raises BadInput.
        """
        runs = tuple(runs)
        launched = _with_restarts({run.run_id for run in runs if run.from_here}, runs)
        kept, elsewhere = _with_restarts(self.kept, runs), _with_restarts(self.elsewhere, runs)
        scope = replace(self, kept=kept, elsewhere=elsewhere)
        yours = [run for run in runs if run.run_id in launched or self._owns(run)]
        own = [run for run in runs if run.run_id in kept or run in yours]
        here = [run for run in own if scope.is_of_directory(run.run_id, run.job)]
        found = here or yours
        if not found:
            newest = runs[-1]
            raise BadInput(
                f"no run of this directory or of {self.user} was found; the newest, {newest.run_id}, is of"
                f" {_owner(newest) or 'another user'}",
                f"name it: {newest.run_id}",
            )
        ours = [run for run in found if run.run_id in launched]
        if ours and found[-1].run_id not in launched:
            where = ", ".join(node.entry.name for node in found[-1].nodes)
            raise BadInput(
                f"this machine has no record that it launched the newest run, {found[-1].run_id} on {where}",
                f"name it, or {ours[-1].run_id}, the last that it has launched",
            )
        return found[-1]

    def find_other_live(self, chosen: RemoteRun, fitting: Iterable[RemoteRun]) -> RemoteRun | None:
        """Return the newest live run of this user that fits too, an older one where `chosen` is over."""
        after = chosen.started if chosen.is_live else float("-inf")
        others = [run for run in fitting if run.status in LIVING and run.started > after]
        yours = [run for run in others if run.run_id != chosen.run_id and (run.from_here or self._owns(run))]
        return max(yours, key=lambda run: run.started, default=None)

    def _owns(self, run: RemoteRun) -> bool:
        return _owner(run) == self.user

    def find_last_live(self, runs: Iterable[RemoteRun]) -> RemoteRun:
        """Return the last run that is live, else the last one. Raises BadInput as `find_last` does."""
        runs = tuple(runs)
        return self.find_last([run for run in runs if run.is_live] or runs)

    def find_newest(self, word: str, runs: tuple[RemoteRun, ...]) -> RemoteRun | None:
        """Return the last run launched by a name, or of any for `last`, None without one. Raises BadInput."""
        named = runs if word == LAST else [run for run in runs if run_name(run.run_id) == word]
        return self.find_last(named) if named else None

    def find_live(self, word: str, runs: tuple[RemoteRun, ...]) -> RemoteRun:
        """Return the one run of several that lives, else the newest; one that may live counts if newer.

        Of several that live `last` is the last. Raises BadInput as `find_last` does, and where several live.
        """
        if word == LAST:
            return self.find_last_live(runs)
        since = max((run.started for run in runs if run.status in LIVING), default=float("-inf"))
        may_live = [run for run in runs if run.status in LIVING or (run.is_live and run.started > since)]
        live = may_live or runs[-1:]
        if len(live) > 1:
            raise explain_ambiguity(word, live)
        return live[0]

    def find_exact(self, word: str, runs: tuple[RemoteRun, ...]) -> RemoteRun | None:
        """Return what `last` means, and none of several that another word fits. Raises BadInput."""
        return self.find_last(runs) if word == LAST else None


def explain_ambiguity(word: str, runs: Sequence[RemoteRun]) -> BadInput:
    """Return the error for a word that means several runs."""
    names = ", ".join(run.run_id for run in runs[-5:])
    return BadInput(f'"{word}" is ambiguous, it means {len(runs)} runs: {names}', "give more of its name")


def read_local_scope(logs: Path, records: Mapping[str, RunRecord]) -> SearchScope:
    """Return the scope of the working directory, of which `logs` keeps the runs.

    `records`: the launches that this machine remembers.
    """
    kept = [path.name for path in logs.iterdir() if path.is_dir()] if logs.is_dir() else []
    files = [path for folder in list_config_folders() for path in folder.glob("*.y*ml")]
    jobs = [path.stem for path in files if path.suffix in SUFFIXES and path.stem != "hosts"]
    elsewhere = [each for each, record in records.items() if record.logs not in ("", str(logs.resolve()))]
    return SearchScope(frozenset(kept), frozenset(jobs), read_user_name(), frozenset(elsewhere))


def find_other_project(run: RemoteRun, logs: Path, records: Mapping[str, RunRecord]) -> str:
    """Return the directory that this machine launched a run in where it is not that of `logs`, else ""."""
    record = records.get(run.run_id) or records.get(run.earlier_start)
    known = record.logs if record is not None else ""
    return str(Path(known).parent) if known not in ("", str(logs.resolve())) else ""


def follow_next_starts(run: RemoteRun, find: Callable[[str], RemoteRun]) -> RemoteRun:
    """Return the start that followed a run last, by the word of each pair of starts; the run itself for none.

    `find` returns a run by its id. Raises BadInput, and what `find` raises.
    """
    passed = {run.run_id}
    while run.is_over and run.next_start:
        try:
            following = find(run.next_start)
        except BadInput as error:
            said = f"{run.run_id} was started again as {run.next_start}: {error.message}"
            raise BadInput(said, error.fix) from None
        if following.earlier_start != run.run_id or following.run_id in passed:
            raise BadInput(
                f"the host of {run.run_id} says that it was started again as {following.run_id}, which says"
                " that it follows another run",
                f"name what you mean: {following.run_id}",
            )
        passed.add(following.run_id)
        run = following
    return run


def _with_restarts(known: Collection[str], runs: tuple[RemoteRun, ...]) -> frozenset[str]:
    """Return run ids with those of the starts that hosts have made since, by the word of both starts."""
    before = {run.next_start: run.run_id for run in runs}
    found = set(known)
    for run in runs:  # in the order of their starts
        if before.get(run.run_id) in found and run.earlier_start == before[run.run_id]:
            found.add(run.run_id)
    return frozenset(found)


def _owner(run: RemoteRun) -> str:
    if run.record is not None:
        return run.record.started_by.partition("@")[0]
    return run.nodes[0].user
