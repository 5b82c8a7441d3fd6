"""The checkpoint that a run, or a requeued job, continues from, and the one of a run that was stopped."""

import posixpath
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.config.restart_options import CHECKPOINT, CHECKPOINTS, RestartOptions
from launcher.errors import AgentProtocolError, GpulaunchError, LaunchRefused
from launcher.follow.outcome import Outcome, StopCheckpoint
from launcher.follow.phases import END
from launcher.launch.launch import CheckedLaunch
from launcher.launch.request import LaunchRequest
from launcher.remote import rpc
from launcher.remote.fanout import fanout
from launcher.text import one_line
from preflight.frozen import dataclass
from preflight.job import Job

_NAME = "the search for checkpoints"
ANSWER_S = 120.0  # a directory of many shards on a slow file system takes its time
_SLACK_S = 1.0
_SHARE = "let `output` be on a file system that all hosts share"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One that lies on a host. `path` is relative to where the script writes."""

    path: str
    step: int  # -1: its name has no number
    complete: bool
    why: str = ""  # it is not whole
    path_on_host: str = ""  # the complete path on the host


@dataclass(frozen=True, slots=True)
class CheckpointChoice:
    """What a new start continues from."""

    checkpoint: Checkpoint | None
    notes: tuple[str, ...] = ()  # of each that is not used, the newest first
    refused: str = ""  # why no start would be right

    @property
    def step(self) -> int:
        """The step of it, -1 for none."""
        return self.checkpoint.step if self.checkpoint else -1

    def render_notes(self, *, verbose: bool = False) -> tuple[str, ...]:
        """Return the notes as lines; one line stands for all of them unless `verbose`."""
        if verbose or len(self.notes) < 2:
            return self.notes
        others = len(self.notes) - 1
        more = f"nor {'is another' if others == 1 else f'are {others} others'} (gpulaunch run -v names each)"
        return (f"{self.notes[0]}, {more}",)


CheckpointsByHost = Mapping[str, Sequence[Checkpoint]]


def list_checkpoints(
    launch: LaunchRequest, patterns: Sequence[str], *, age_s: float, run_dirs: Mapping[str, str] | None = None
) -> dict[str, tuple[Checkpoint, ...]]:
    """Return the checkpoints on each host of a launch, last first. Raises HostError.

    Those that were written in the last `age_s`, or on the host since the start that has this run directory.
    """

    def one(entry: HostEntry) -> tuple[Checkpoint, ...]:
        since = {"age_s": age_s, "run_dir": (run_dirs or {}).get(entry.name, "")}
        request = {"base": checkpoint_dir(entry, launch.job), "patterns": list(patterns), **since}
        with launch.connections.borrow(entry) as connection:
            answer = rpc.run_program(
                connection, entry.python, "find_checkpoints", request, name=_NAME, timeout_s=ANSWER_S
            )
        return parse_checkpoints(answer, entry.name)

    found: dict[str, tuple[Checkpoint, ...]] = {}
    for entry, result in zip(launch.entries, fanout(one, launch.entries), strict=True):
        if isinstance(result, GpulaunchError):
            raise result
        found[entry.name] = result
    return found


def checkpoint_dir(entry: HostEntry, job: Job) -> str:
    """Return the directory on a host that checkpoints lie in."""
    workdir = job.directory_in(entry.workdir) or "~"
    return job.output_in(workdir) or workdir


def parse_checkpoints(answer: Mapping[str, Any], host: str) -> tuple[Checkpoint, ...]:
    """Return what launcher/onhost/find_checkpoints.py has answered. Raises AgentProtocolError."""
    try:
        return tuple(
            Checkpoint(
                path=str(each["path"]),
                step=int(each["step"]),
                complete=bool(each["whole"]),
                why=one_line(str(each["why"])),
                path_on_host=str(each["full"]),
            )
            for each in answer["found"]
        )
    except (ValueError, KeyError, TypeError):
        raise AgentProtocolError(host, f"the answer of {_NAME} was not understood") from None


def choose_checkpoint(
    seen: CheckpointsByHost, main: str, spec: RestartOptions, *, main_is_new: bool = False
) -> CheckpointChoice:
    """Return the last checkpoint that is whole on every host that must have it.

    `main_is_new`: the host that rank 0 was on is gone, and what it had not shared with it.
    """
    there = {host: {each.path: each for each in found if each.complete} for host, found in seen.items()}
    others = [host for host in seen if host != main] if spec.checkpoint_on == "every" else []
    whole = list(there[main].values())
    if not spec.resume_args:
        return CheckpointChoice(whole[0] if whole else None)
    chosen = next((each for each in whole if all(each.path in there[host] for host in others)), None)
    notes: list[str] = []
    for each in seen[main]:
        lacking = [host for host in others if each.path not in there[host]]
        if not each.complete:
            notes.append(f"{each.path} on {main} {each.why}: not used")
        elif lacking and (chosen is None or whole.index(each) < whole.index(chosen)):
            notes.append(f"{each.path} is not whole on {', '.join(lacking)}: not used")
    refused = ""
    if chosen is None and whole:
        refused = _elsewhere(whole[0], main, others, there)
    elif chosen is None and main_is_new:
        refused = f"{main} sees no checkpoint of this run, and the host that rank 0 was on is gone; {_SHARE}"
    return CheckpointChoice(chosen, tuple(notes), refused)


def _elsewhere(
    last: Checkpoint, main: str, others: Sequence[str], there: Mapping[str, Mapping[str, Checkpoint]]
) -> str:
    lacking = ", ".join(host for host in others if last.path not in there[host])
    return (
        f"{last.path} is on {main} and not on {lacking}, whose ranks could not load it; {_SHARE}, or say"
        " `checkpoint_on: main` if only rank 0 loads it"
    )


def resume_args(job: Job, spec: RestartOptions, checkpoint: Checkpoint | None) -> tuple[str, ...]:
    """Return the script's arguments for a start from a checkpoint."""
    if checkpoint is None:
        return job.args
    in_home = job.output.startswith("~")  # no script is sure to know what ~ is
    path = checkpoint.path_on_host if in_home else posixpath.join(job.output, checkpoint.path)
    return (*job.args, *(word.replace(CHECKPOINT, path) for word in spec.resume_args))


def describe_start(job: Job, spec: RestartOptions, checkpoint: Checkpoint | None) -> str:
    """Return in words what the next start continues from."""
    if not spec.resume_args:
        found = f" ({checkpoint.path})" if checkpoint is not None else ""
        return f"no resume_args: it starts from step 0 unless the script finds its checkpoint itself{found}"
    if checkpoint is None:
        where = f"{' or '.join(spec.checkpoints)} below {job.output or 'its working directory'}"
        return f"this run has no whole {where} yet: it starts from step 0"
    return f"resuming from {checkpoint.path}"


def resume_after_requeue(
    prepared: CheckedLaunch,
    spec: RestartOptions,
    began: float,
    say: Callable[[str], None],
    *,
    verbose: bool = False,
) -> CheckedLaunch:
    """Return the launch with the arguments that resume it. `began`: when the job began the first time.

    Raises HostError of a host that cannot be asked, and LaunchRefused where hosts have different checkpoints.
    """
    launch = prepared.launch
    writers = launch.entries if spec.checkpoint_on == "every" else launch.entries[:1]
    age_s = time.time() - began
    seen = list_checkpoints(replace(launch, entries=writers), spec.checkpoints, age_s=age_s)
    chosen = choose_checkpoint(seen, launch.entries[0].name, spec)
    for note in chosen.render_notes(verbose=verbose):
        say(note)
    if chosen.refused:
        raise LaunchRefused(chosen.refused)
    if chosen.checkpoint is None:
        say("Slurm has started this job again, and it has no checkpoint yet: it starts anew")
        return prepared
    say(f"Slurm has started this job again; it continues from {chosen.checkpoint.path}")
    job = replace(launch.job, args=resume_args(launch.job, spec, chosen.checkpoint))
    return replace(prepared, launch=replace(launch, job=job))


def find_stop_checkpoint(
    outcome: Outcome, launch: LaunchRequest, spec: RestartOptions | None, ended_at: float
) -> StopCheckpoint:
    """Return the last whole checkpoint since a stop began; `ended_at` is the end by time.monotonic()."""
    stopping_s = sum(phase.seconds for phase in outcome.measurements.phases if phase.name == END)
    age_s = stopping_s + time.monotonic() - ended_at + _SLACK_S
    main = replace(launch, entries=launch.entries[:1])
    patterns = spec.checkpoints if spec is not None else CHECKPOINTS
    try:
        (found,) = list_checkpoints(main, patterns, age_s=age_s).values()
    except GpulaunchError as error:
        return StopCheckpoint(known=False, why=error.message)
    newest = next((each for each in found if each.complete), None)
    if newest is not None:
        return StopCheckpoint(newest.path, newest.step)
    partial = next((f"{each.path} {each.why}" for each in found), "")
    return StopCheckpoint(why=partial)
