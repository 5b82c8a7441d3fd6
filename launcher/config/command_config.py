"""A launch by a command that people type today (`torchrun ...`): as keys of a run config, fields of a job.

`list_command_keys` are what a run config could say itself; it and gpulaunch's own options win over them.
`settle_command` is for what only the resolved hosts decide: counts and filters by host.
"""

import os
import posixpath
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.config.accelerate_file import find_local_default
from launcher.config.hostfile import read_hostfile
from launcher.config.inventory import HostEntry
from launcher.config.yaml_tree import YamlNode
from launcher.engines.accelerate_settings import select_section_options
from launcher.engines.base import ENGINES
from launcher.engines.command_line.parsed_command import MissingValue, ParsedCommand, Request
from launcher.errors import CommandRefused
from launcher.local.home import expand_home
from launcher.local.small_files import read_small_text
from launcher.text import is_line
from preflight.job import CommandRequest, Job

_ENGINES = {
    "torchrun": "torchrun",
    "torch.distributed.launch": "torchrun",
    "deepspeed": "torchrun",
    "fabric": "torchrun",
    "composer": "torchrun",
    "colossalai": "torchrun",
    "accelerate": "accelerate",
    "opaque": "command",
}
"""Which engine starts the ranks of a command; of `python train.py` the script decides."""

_OWN_OPTIONS = ("torchrun", "torch.distributed.launch", "accelerate")
"""Launchers whose kept options go to the engine's launcher, which is theirs."""

_LARGEST_SETTINGS = 100_000

COMMAND_SOURCE = "command"  # where keys are from that a command has said


def read_command(
    words: Sequence[str], number: int | None = None, variables: Mapping[str, str] | None = None
) -> ParsedCommand:
    """Return a command, given as words or as one text that holds all of them. Raises CommandRefused.

    `number` chooses one of several commands of the text, from 1; `variables` are set where ours are not.
    Local files that it names are relative to this directory in the result, also where it enters another.
    What its launch needs and it does not say is in `unknown`.
    """
    from launcher.engines.command_line.parse import parse_command, parse_line  # noqa: PLC0415 - most runs have a config

    known = {**(variables or {}), **os.environ, "PWD": str(Path.cwd()), "EPOCHSECONDS": str(int(time.time()))}
    is_text = len(words) == 1 and is_line(words[0])
    parsed = (
        parse_line(words[0], known, _text_beside, number) if is_text else parse_command(words, known, number)
    )
    parsed = _from_this_directory(parsed) if parsed.directory else parsed
    unknown = tuple(one for one in parsed.unknown if not _is_here(one, parsed.directory))
    return replace(parsed, unknown=unknown)


def _is_here(missing: MissingValue, folder: str) -> bool:
    """Whether every part that looks left open names a file: `your_config.yaml`, once a person has made it."""
    names = [posixpath.join(folder, part) for part in missing.parts]
    return names != [] and all(map(os.path.exists, names))  # Path.exists raises for a name that is too long


def _text_beside(name: str) -> str | None:
    """Return the text of a small file that a relative path names, or that lies in this directory."""
    path = Path(name)
    if path.is_absolute() and not path.is_relative_to(Path.cwd()):
        return None
    return read_small_text(path, _LARGEST_SETTINGS)


def _from_this_directory(parsed: ParsedCommand) -> ParsedCommand:
    """Return a command that enters a directory, with the local files that it names as seen from this one."""
    here, folder = Path.cwd(), _relative(parsed.directory)
    if not Path(folder).is_dir() and here.parts[-len(Path(folder).parts) :] == Path(folder).parts:
        folder = "."  # `git clone URL && cd NAME && ...`, pasted in NAME
    if folder == ".":
        dropped = (*parsed.dropped, f"cd {parsed.directory}: this is the directory")
        entered = parsed.environment
        if entered is not None and entered.path and not posixpath.isabs(entered.path):
            entered = replace(entered, path=posixpath.relpath(entered.path, parsed.directory))
        return replace(parsed, directory="", environment=entered, dropped=dropped)
    named: dict[str, Any] = {"config_file": parsed.request.config_file, "hostfile": parsed.request.hostfile}
    named = {
        key: name if name.startswith("~") else posixpath.join(folder, name)
        for key, name in named.items()
        if name
    }
    return replace(parsed, directory=folder, request=replace(parsed.request, **named))


def name_command(parsed: ParsedCommand) -> str:
    """Return what runs of this command are called: by its script, module or program."""
    if parsed.program_kind == "module":
        return parsed.program.rpartition(".")[2]
    words = (parsed.program, *parsed.args) if parsed.launcher == "opaque" else (parsed.program,)
    scripts = (word for word in words if word.endswith((".sh", ".bash")))
    return Path(next(scripts, parsed.program)).stem or parsed.program


def list_command_keys(parsed: ParsedCommand) -> dict[str, YamlNode]:
    """Return what the command says that a run config could. Raises BadInput for a hostfile that is none."""
    request = parsed.request
    named = [*parsed.request.include, *parsed.request.hosts, *read_hostfile(parsed.request.hostfile)]
    excluded = {one.host for one in parsed.request.exclude if not one.gpus}
    given: dict[str, Any] = {
        "gpus": choose_gpus(parsed),
        "hosts": tuple(dict.fromkeys(one.host for one in named if one.host not in excluded)),
        "precision": request.precision,
        "main_port": request.main_port,
        "env": _environment(parsed),
        "accelerate_config": _accelerate_file(parsed),
        "restart": {"max": request.max_restarts} if request.max_restarts else None,
    }
    if parsed.program_kind != "executable":
        given[parsed.program_kind] = parsed.program
    return {key: _item(value, key) for key, value in given.items() if value not in (None, (), {})}


def collect_job_fields(parsed: ParsedCommand) -> dict[str, Any]:
    """Return the engine, and what no key of a run config stands for."""
    engine = _ENGINES.get(parsed.launcher)
    named = {use.sets: use.spelling for use in parsed.owned if use.sets}
    in_file = f"of {parsed.request.config_file}" if parsed.request.config_file else ""
    count = named.get("per_node") or named.get("total") or named.get("include")
    spelled = {
        "ranks_per_host": count or (f"num_processes {in_file}" if in_file else "ranks_per_host"),
        "precision": named.get("precision") or (f"mixed_precision {in_file}" if in_file else None),
        "main_port": named.get("main_port"),
    }
    command_request = CommandRequest(
        executable=parsed.program if parsed.program_kind == "executable" else "",
        launcher_args=_launcher_args(parsed),
        launched_by=parsed.launcher,
        options_at=parsed.options_at,
        local_rank_option=parsed.local_rank_option,
        precision_option=_option_value(parsed, "--precision") if parsed.launcher == "fabric" else "",
        rendezvous_timeout=parsed.request.rendezvous_timeout or 0,
        unset=parsed.unset,
        spelled={name: option for name, option in spelled.items() if option},
    )
    traits = ENGINES[engine].traits if engine else None
    return {"engine": traits, "command": command_request, "subdirectory": parsed.directory}


def _option_value(parsed: ParsedCommand, name: str) -> str:
    """Return the value of an option of the launcher's, "" where the command does not have it."""
    uses = (use for use in (*parsed.owned, *parsed.kept) if use.name == name and use.owner == parsed.launcher)
    return next((use.value for use in uses), "")


def _launcher_args(parsed: ParsedCommand) -> tuple[str, ...]:
    """Return the kept options; those of accelerate that are keys of its config file go into that file."""
    if parsed.options_at is not None:
        return parsed.kept_words()
    if parsed.launcher not in _OWN_OPTIONS:
        return ()
    in_file = select_section_options(parsed.kept)
    return replace(parsed, kept=tuple(use for use in parsed.kept if use not in in_file)).kept_words()


def _accelerate_file(parsed: ParsedCommand) -> str | None:
    """Return the config file of `accelerate launch`: the one that the line names, or the local default."""
    if parsed.launcher != "accelerate":
        return None
    default = None if parsed.request.config_file else find_local_default(os.environ)
    return parsed.request.config_file or (str(default) if default else None)


def choose_gpus(parsed: ParsedCommand) -> str | tuple[int | str, ...]:
    """Return the `gpus:` of a command."""
    request = parsed.request
    if request.per_node == "cpu":
        raise CommandRefused(
            "the command asks for as many processes as a host has processors",
            "write their number instead of cpu",
        )
    if request.on_cpu:
        return "none"
    return "auto" if request.gpus is None else request.gpus


def settle_command(
    parsed: ParsedCommand, job: Job, entries: Sequence[HostEntry], *, names_hosts: bool, nodes: int = 0
) -> tuple[Job, tuple[HostEntry, ...]]:
    """Return the job with the counts and GPUs of each host, and the hosts that the command's filters leave.

    `nodes`: it is to use so many of them, others are kept for the places of bad ones; 0: all.
    Raises CommandRefused for a filter that names a host which is none of `entries`, and where several nodes
    are requested and none is named.
    """
    request = parsed.request
    wanted = request.nodes or 1
    if wanted > 1 and not names_hosts:
        raise CommandRefused(f"the command is for {wanted} nodes, and no hosts are named", "add --hosts A,B")
    from launcher.engines.command_line.request import check_hosts  # noqa: PLC0415 - as parse_command

    check_hosts(request, [entry.name for entry in entries])
    chosen = _filtered(request, entries)
    job, counted = count_ranks(parsed, job, chosen[:nodes] if nodes else chosen)
    return job, chosen if len(counted) == nodes else counted


def count_ranks(
    parsed: ParsedCommand, job: Job, chosen: tuple[HostEntry, ...]
) -> tuple[Job, tuple[HostEntry, ...]]:
    """Return the job with what the command says of these hosts, and those of them that get any rank."""
    request = parsed.request
    other_gpus = job.gpus != choose_gpus(parsed)  # the options of gpulaunch name them
    if other_gpus and job.gpus not in ("auto", "none"):
        return job, chosen
    counts, chosen = _counts(parsed, chosen)
    named = {one.host: len(one.gpus) for one in request.include if one.gpus}
    if other_gpus and counts is None and named:
        counts = named
    if other_gpus:  # on the CPU, or on whatever GPUs are free, the counts of the line still hold
        return replace(job, command=replace(job.command, ranks_per_host=counts)), chosen
    command_request = replace(
        job.command,
        ranks_per_host=counts,
        host_gpus={one.host: one.gpus for one in request.include if one.gpus},
        exclude_gpus={one.host: one.gpus for one in request.exclude if one.gpus},
    )
    return replace(job, command=command_request), chosen


def _filtered(request: Request, entries: Sequence[HostEntry]) -> tuple[HostEntry, ...]:
    left_out = {one.host for one in request.exclude if not one.gpus}
    wanted = {one.host for one in request.include}
    chosen = tuple(
        entry for entry in entries if entry.name not in left_out and (not wanted or entry.name in wanted)
    )
    if not chosen:
        raise CommandRefused(
            "the filters of the command leave no host", "name one in --include, or leave them out"
        )
    return chosen


def _counts(
    parsed: ParsedCommand, entries: tuple[HostEntry, ...]
) -> tuple[int | dict[str, int] | None, tuple[HostEntry, ...]]:
    """Return the number of ranks on each host, and the hosts that get any."""
    request = parsed.request
    slots = {one.host: one.slots for one in (*request.hosts, *read_hostfile(request.hostfile)) if one.slots}
    if isinstance(request.per_node, int):
        return request.per_node, entries
    if slots and request.total:
        return _filled(slots, request.total, entries)
    if slots:
        return slots, entries
    if request.total:
        # Only mpirun and its like count the processes of all hosts without a number of nodes; a line of
        # `accelerate launch` without one was typed for one machine, and each host is such a one.
        nodes = request.nodes or (len(entries) if parsed.prefix else 1)
        return max(1, request.total // nodes), entries
    return None, entries


def _filled(
    slots: Mapping[str, int], total: int, entries: tuple[HostEntry, ...]
) -> tuple[dict[str, int], tuple[HostEntry, ...]]:
    """Fill the hosts in their order, as mpirun does."""
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.name] = min(slots.get(entry.name, total), total - sum(counts.values()))
    if sum(counts.values()) < total:
        raise CommandRefused(
            f"the command asks for {total} processes, and its hosts have {sum(counts.values())} slots",
            f"write {sum(counts.values())}, or more slots",
        )
    counts = {name: count for name, count in counts.items() if count}
    return counts, tuple(entry for entry in entries if entry.name in counts)


def _environment(parsed: ParsedCommand) -> dict[str, str]:
    """Return the variables that the ranks get; of `mpirun -x NAME` those that are set locally."""
    env = {name: os.environ[name] for name in parsed.forwarded if name in os.environ}
    if parsed.launcher == "deepspeed":
        env |= _deepspeed_env(parsed.directory)
    if parsed.launcher == "fabric" and (strategy := _option_value(parsed, "--strategy")):
        env["LT_STRATEGY"] = strategy
    if parsed.request.omp_threads is not None:
        env["OMP_NUM_THREADS"] = str(parsed.request.omp_threads)
    env |= parsed.env
    if "PYTHONPATH" in env:
        parts = env["PYTHONPATH"].split(os.pathsep)
        env["PYTHONPATH"] = os.pathsep.join(_relative(part, parsed.directory) for part in parts)
    return env


def _relative(path: str, start: str = "") -> str:
    """Return a path below this directory (`$PWD/src`) as it is on any host, from `start` below it."""
    here = str(Path.cwd())
    is_below = path == here or path.startswith(f"{here}/")
    return os.path.relpath(path, posixpath.join(here, start)) if is_below else path


def _deepspeed_env(folder: str) -> dict[str, str]:
    """Read `.deepspeed_env`, as deepspeed/launcher/runner.py does: in the home, then where it is started."""
    name = os.environ.get("DS_ENV_FILE") or ".deepspeed_env"
    places = (name,) if posixpath.isabs(name) else (posixpath.join("~", name), posixpath.join(folder, name))
    env: dict[str, str] = {}
    for place in places:
        try:
            lines = expand_home(place).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            continue
        pairs = (line.partition("=") for line in lines if not line.lstrip().startswith("#"))
        env |= {key.strip(): value.strip() for key, equals, value in pairs if equals and key.strip()}
    return env


def _item(value: Any, key: str) -> YamlNode:
    if isinstance(value, dict):
        return YamlNode(
            {name: _item(each, f"{key}.{name}") for name, each in value.items()}, COMMAND_SOURCE, key=key
        )
    if isinstance(value, tuple):
        return YamlNode(tuple(_item(each, key) for each in value), COMMAND_SOURCE, key=key)
    return YamlNode(str(value), COMMAND_SOURCE, key=key)


def merge_command_keys(
    entries: Mapping[str, YamlNode], from_command: Iterable[tuple[str, YamlNode]]
) -> dict[str, YamlNode]:
    """Return a run config's keys with the command's where it says nothing itself; `env` of both."""
    merged = dict(entries)
    for key, item in from_command:
        mine = merged.get(key)
        if (
            key == "env"
            and mine is not None
            and isinstance(mine.value, dict)
            and isinstance(item.value, dict)
        ):
            merged[key] = replace(mine, value={**item.value, **mine.value})
        elif mine is None or (key == "restart" and isinstance(mine.value, dict) and "max" not in mine.value):
            merged[key] = item
    return merged
