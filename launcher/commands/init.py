"""gpulaunch init: find the training environments of hosts, and write the first hosts.yaml and run config."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from launcher.commands._answer import Answer, json_option
from launcher.commands._argv import LaunchCommand, is_text
from launcher.commands._completion import complete_files
from launcher.commands._host_access import open_host_access
from launcher.commands._host_options import HostOptions, add_host_options
from launcher.commands._param_types import hosts_option, launch_option
from launcher.config import script_config
from launcher.config.command_config import read_command
from launcher.config.config_overrides import Overrides
from launcher.config.host_access_args import complete_commands, without_option
from launcher.config.inventory import FILE_NAME, LOCALHOST, HostEntry
from launcher.config.node_sets import fold_hosts, format_host_range
from launcher.engines.command_line.parsed_command import MissingValue
from launcher.errors import BadInput, CommandRefused, GpulaunchError, HostError, HostsUnusable
from launcher.host_checks.host_errors import fold_errors
from launcher.local.atomic_write import write_atomic
from launcher.local.home import abbreviate_home
from launcher.local.project import FOLDER
from launcher.local.source_files import read_source
from launcher.scaffold import first_files
from launcher.scaffold.interpreters import PythonEnvironment, choose_interpreter, list_interpreters
from launcher.scaffold.sbatch_reader import BatchScript, read_batch_script
from launcher.text import count_noun
from preflight.frozen import dataclass

_MAX_BYTES = 1 << 20
_LISTED = 4  # hosts that a command names one by one
_SCRIPTS = (".py", ".sbatch", ".slurm", ".sbat", ".sub", ".job", ".sh")


@dataclass(frozen=True, slots=True)
class _Run:
    """What the run config is to start."""

    name: str
    script: str = ""
    command: str | tuple[str, ...] = ""  # in place of a script
    launch: int | None = None  # which of several commands of it
    batch: BatchScript | None = None  # of Slurm, in place of both
    hosts: tuple[str, ...] = ()  # that the command names


@click.command("init", cls=LaunchCommand, options_metavar="[OPTIONS] [SCRIPT | -- COMMAND...]")
@click.argument("extra", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_files, metavar="")
@hosts_option("As for ssh, localhost by default")
@launch_option
@json_option
@partial(add_host_options, writes=True)
def command(
    extra: tuple[str, ...],
    *,
    hosts: tuple[str, ...],
    launch: int | None,
    as_json: bool,
    pasted: bool,
    **given: Any,
) -> int:
    """Find the Python environments of hosts; write ./hosts.yaml, and a run config for SCRIPT or COMMAND.

    Of a batch script of Slurm the command becomes `command:` and its #SBATCH lines become `slurm:`.
    Of each host an environment with torch is taken, one for its GPUs and with accelerate before others;
    others are named. On the hosts nothing is changed. A file that exists is left as it is, and what it
    lacks is shown. Exit code 3: a host did not answer, and nothing was written.
    """
    options = HostOptions(**given)
    run = _run(extra, launch, pasted=pasted) if extra else None
    if launch is not None and (run is None or run.script):
        raise BadInput("--launch: only for a command: it chooses one of several commands of its text")
    access = open_host_access(options)
    entries = access.resolve(hosts or (run.hosts if run else ()) or (LOCALHOST,))
    if run is not None and run.batch is None and not all(entry.is_local for entry in entries):
        from launcher.sync.tree import resolve_root  # noqa: PLC0415 - only for hosts that get a tree

        resolve_root(Path.cwd())  # which the launch would refuse
    found = _found(entries, list_interpreters(entries, access.open, width=access.width))
    rows = first_files.name_hosts(entries, found, abbreviate_home(access.inventory.identity_file))
    answer = Answer("gpulaunch.init/1", as_json=as_json)
    for text, alike in groupby(rows, _describe_result):
        answer.say(f"{fold_hosts(row.name for row in alike)}: {text}")
    place = access.inventory.path or Path(FILE_NAME)
    if run is not None:
        _make_folder(Path(FOLDER))
    if run is not None and run.batch is not None and not hosts:
        files = [_write(answer, place, first_files.render_node_defaults(rows[0]), [])]
    else:
        files = [_write(answer, place, first_files.render_hosts_yaml(rows), _lacking(rows, entries))]
    if run is not None:
        config = Path(FOLDER) / f"{run.name}.yaml"
        text = _config_text(run, rows)
        files.append(_write(answer, config, text, _unlike(config, text), "this command would write"))
        for note in run.batch.notes if run.batch is not None else ():
            answer.say(f"{config}: {note}")
    words = access.inventory.access_words
    if files[0]["written"]:
        words = without_option(words)  # the file names it
    steps = [
        complete_commands(step, words)
        for step in _next_steps(rows, place, run, is_edited=bool(files[0]["missing_lines"]))
    ]
    for word, step in zip(("next", "then"), steps, strict=False):
        answer.say(f"{word}: {step}")
    return answer.finish(0, hosts=[_encode_host(row) for row in rows], files=files, next=steps)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError:
        raise BadInput(
            f"{folder} is a file, and run configs are to lie in a directory of that name", "rename the file"
        ) from None


def _config_text(run: _Run, rows: Sequence[first_files.HostDraft]) -> str:
    if run.batch is not None:
        return first_files.render_job_config(run.name, run.batch, run.launch)
    return first_files.render_run_config(
        run.script, rows, Path.cwd().name, name=run.name, command=run.command, launch=run.launch
    )


def _batch_run(text: str, stem: str, launch: int | None) -> _Run | None:
    """Return what a batch script of Slurm starts, None for any other text. Raises BadInput."""
    script = read_batch_script(text)
    if script is None:
        return None
    config = script_config.build_config_for_command((script.command,), Overrides(launch=launch, for_job=True))
    return _Run(stem or config.name, launch=launch, batch=script)


def _run(words: tuple[str, ...], launch: int | None, *, pasted: bool) -> _Run:
    """Return what the words start. Raises BadInput where it is neither a local script nor a command.

    `pasted`: they are a command by their place behind `--` or by their first word.
    """
    script = words[0]
    if not is_text(script) and (
        len(words) == 1 if script.endswith(_SCRIPTS) or Path(script).exists() else not pasted
    ):
        if not Path(script).is_file():
            raise script_config.explain_absent_script(script, script_config.PLACES_OF_WORDS)
        if (
            not script.endswith(".py")
            and (job := _batch_run(_head(script), Path(script).stem, launch)) is not None
        ):
            return job
        script_config.refuse_shell_script(script, "init")
        return _Run(Path(script).stem, script=Path(script).as_posix())
    if len(words) == 1 and (job := _batch_run(words[0], "", launch)) is not None:
        return job
    config = script_config.build_config_for_command(words, Overrides(launch=launch))
    known = config.command.unknown if config.command is not None else ()
    hosts = config.hosts if config.names_hosts else ()
    return _Run(config.name, command=_written(words, launch, known), launch=launch, hosts=hosts)


def _written(
    words: tuple[str, ...], launch: int | None, known: tuple[MissingValue, ...]
) -> str | tuple[str, ...]:
    """Return words as one text, but for those that a text would not be read as: `--mode TRAIN_DIR`."""
    line = words[0] if len(words) == 1 else shlex.join(words)
    with suppress(CommandRefused):
        return line if len(words) == 1 or read_command((line,), launch).unknown == known else words
    return words


def _head(path: str) -> str:
    with Path(path).open("rb") as file:
        return file.read(_MAX_BYTES).decode("utf-8", "replace")


def _next_steps(
    rows: Sequence[first_files.HostDraft], place: Path, run: _Run | None, *, is_edited: bool
) -> list[str]:
    """Return what a person does now: where no environment can train, a launch is not it.

    `is_edited`: the file at `place` is to get the lines that were shown first.
    """
    chosen = {row.name: choose_interpreter(row.environments) for row in rows}
    lacking = [name for name, each in chosen.items() if each is None]
    blind = [name for name, each in chosen.items() if each is not None and each.misses_gpus]
    if (lacking or blind) and run is not None and run.script and _does_without_torch(run.script):
        lacking, blind = [], []  # the dry run says what such a script lacks
    lacks = (("torch", lacking), ("a build of torch for CUDA, as preflight says,", blind))
    installs = [f"{what} on {fold_hosts(names)}" for what, names in lacks if names]
    first = [f"write the lines above into {place}"] if is_edited else []
    if installs and not is_edited and not (run is not None and run.batch is not None):
        first = [f"install {' and '.join(installs)}, or set python: in {place}"]
    if run is None:
        names = tuple(row.name for row in rows)
        words = ",".join(names) if len(names) <= _LISTED else shlex.quote(format_host_range(names))
        return [*first, f"gpulaunch preflight {words}"]
    config = shlex.quote(run.name)
    if run.batch is not None:
        return [*first, f"gpulaunch submit --config {config} --dry-run"]
    if installs:
        return [*first, f"gpulaunch preflight --config {config}"]
    return [*first, f"gpulaunch run --config {config} --dry-run"]


def _does_without_torch(script: str) -> bool:
    from preflight.script.analyze import analyze_script  # noqa: PLC0415 - only where no host has torch

    return analyze_script(_head(script), script, find=read_source).without_torch


def _encode_host(row: first_files.HostDraft) -> dict[str, Any]:
    chosen = choose_interpreter(row.environments)
    return {
        "name": row.name,
        "chosen": None if chosen is None else chosen.path,
        "environments": [
            {"path": each.path, "python": each.python, "torch": each.torch, "accelerate": each.accelerate}
            for each in row.environments
        ],
    }


def _found(
    entries: Sequence[HostEntry], results: Sequence["tuple[PythonEnvironment, ...] | GpulaunchError"]
) -> dict[str, tuple[PythonEnvironment, ...]]:
    """Return the environments by host. Raises one error for all hosts that did not answer."""
    found: dict[str, tuple[PythonEnvironment, ...]] = {}
    errors: list[HostError] = []
    for entry, result in zip(entries, results, strict=True):
        if isinstance(result, HostError):
            errors.append(result)
        elif isinstance(result, GpulaunchError):
            raise result
        else:
            found[entry.name] = result
    if len(errors) > 1:
        raise HostsUnusable(errors, *fold_errors(errors))
    if errors:
        raise errors[0]
    return found


def _describe_result(row: first_files.HostDraft) -> str:
    chosen = choose_interpreter(row.environments)
    old = [each for each in row.environments if each.torch and each.is_too_old]
    if chosen is None and old:
        return f"{old[0].path} ({old[0].describe}) is too old: gpulaunch needs Python 3.9"
    if chosen is None:
        return f"{count_noun(len(row.environments), 'environment')} found, none with torch"
    return f"{chosen.path} ({chosen.describe})"


def _lacking(rows: Sequence[first_files.HostDraft], entries: Sequence[HostEntry]) -> list[str]:
    """Return what a hosts.yaml that exists should say: of hosts that are not in it, or start another one."""
    lacking: list[first_files.HostDraft] = []
    for row, entry in zip(rows, entries, strict=True):
        chosen = choose_interpreter(row.environments)
        is_listed = entry.in_inventory or entry.is_local
        if not is_listed or (chosen is not None and chosen.path != entry.python):
            lacking.append(row)
    return list(first_files.render_entries(lacking))


def _unlike(config: Path, text: str) -> list[str]:
    """Return the lines of a run config that the file in its place does not have, comments left out."""
    known = _head(str(config)) if config.is_file() else text
    kept, made = ([line.partition(" #")[0].rstrip() for line in each.splitlines()] for each in (known, text))
    return [line for line in made if line and line[0] != "#" and line not in kept]


def _write(
    answer: Answer, path: Path, text: str, lacking: Sequence[str], where: str = "under hosts"
) -> dict[str, Any]:
    """Write a file that does not exist; return what a document says of it."""
    written = not path.exists()
    if written:
        write_atomic(path, text)
        answer.say(f"{path}: written")
    else:
        hint = f"; {where}:" if lacking else ""
        answer.say(f"{path}: exists, and is left as it is{hint}")
        for line in lacking:
            answer.say(line)
    return {"path": str(path), "written": written, "missing_lines": [] if written else list(lacking)}
