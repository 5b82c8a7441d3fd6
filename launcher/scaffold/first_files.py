"""The texts of a first hosts.yaml and a first run config. Pure."""

import json
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import PurePosixPath

from launcher.config.host_ranges import SshTarget, expand_ranges, parse_ssh_target
from launcher.config.inventory import LOCALHOST, HostEntry
from launcher.config.node_sets import format_host_range
from launcher.config.script_config import choose_tree_dir
from launcher.errors import BadInput
from launcher.scaffold.interpreters import PythonEnvironment, choose_interpreter
from launcher.scaffold.sbatch_reader import BatchScript
from preflight import regex as re
from preflight.frozen import dataclass

_KEYS = "Every key: docs/configuration.md, or gpulaunch schema config."
_PLAIN = re.compile(r"[A-Za-z_~/.][A-Za-z0-9_~/.@-]*")
_WORDS = frozenset({"~", "null", "true", "false", "yes", "no", "on", "off", "none"})
_OTHERS = 4
_FOLDED = 4  # neighbours that are written as a range


@dataclass(frozen=True, slots=True)
class HostDraft:
    """A host as hosts.yaml will call it."""

    name: str
    target: SshTarget
    environments: tuple[PythonEnvironment, ...]
    identity_file: str = ""  # local, as it is to be written
    workdir: str = ""  # that hosts.yaml gives it already


def name_hosts(
    entries: Sequence[HostEntry], found: Mapping[str, tuple[PythonEnvironment, ...]], identity_file: str = ""
) -> tuple[HostDraft, ...]:
    """Return the hosts with names for hosts.yaml: of user@host:port the host, or host-port for two of one."""
    spots = [SshTarget(entry.name) if entry.is_local else parse_ssh_target(entry.name) for entry in entries]
    hosts = [spot.host for spot in spots]
    return tuple(
        HostDraft(
            spot.host if hosts.count(spot.host) == 1 else f"{spot.host}-{spot.port or 22}",
            spot,
            found.get(entry.name, ()),
            "" if entry.is_local else identity_file,
            entry.workdir,
        )
        for spot, entry in zip(spots, entries, strict=True)
    )


def render_hosts_yaml(hosts: Sequence[HostDraft]) -> str:
    """Return a hosts.yaml."""
    lines = ["# Every key: docs/configuration.md, or gpulaunch schema hosts.", "hosts:"]
    return "\n".join([*lines, *render_entries(hosts)]) + "\n"


def render_node_defaults(host: HostDraft) -> str:
    """Return a hosts.yaml for the nodes of Slurm jobs, which have the environments of this machine."""
    lines = ["# Every key: docs/configuration.md, or gpulaunch schema hosts.", "defaults:"]
    return "\n".join([*lines, *(f"  {line}" for line in _python_lines(host.environments))]) + "\n"


def render_entries(hosts: Sequence[HostDraft]) -> Iterator[str]:
    """Yield hosts as they are under `hosts:`, neighbours that are alike as one range."""
    for keys, alike in groupby(hosts, lambda host: tuple(_keys(host))):
        for word in _words([host.name for host in alike]):
            yield f"  {_scalar(word)}:"
            yield from (f"    {line}" for line in keys)


def _words(names: Sequence[str]) -> Sequence[str]:
    """Return the range that stands for these names in their order, else the names."""
    if len(names) < _FOLDED:
        return names
    try:
        folded = format_host_range(names)
        return (folded,) if expand_ranges(folded, {}) == tuple(names) else names
    except BadInput:
        return names


def _keys(host: HostDraft) -> Iterator[str]:
    if host.target.host not in (host.name, LOCALHOST):
        yield f"address: {_scalar(host.target.host)}"
    if host.target.port:
        yield f"port: {host.target.port}"
    if host.target.user:
        yield f"user: {_scalar(host.target.user)}"
    if host.identity_file:
        yield f"identity_file: {_scalar(host.identity_file)}"
    yield from _python_lines(host.environments)


def _python_lines(found: Sequence[PythonEnvironment]) -> Iterator[str]:
    """Yield the line for the interpreter, and the other ones as comments."""
    chosen = choose_interpreter(found)
    if chosen is None:
        yield "python: python3   # none with torch was found: the path of yours, on the host"
    else:
        yield f"python: {_scalar(chosen.path)}   # {chosen.describe}"
    others = [each for each in found if each is not chosen and (each.torch or chosen is None)]
    for each in others[:_OTHERS]:
        yield f"# also on the host: {each.path}   {each.describe}"


def render_job_config(name: str, script: BatchScript, launch: int | None = None) -> str:
    """Return a run config of a batch script: the command that it starts, and the job that it asks for."""
    rows = [
        f"# gpulaunch submit --config {shlex.quote(name)}. {_KEYS}",
        *_command_lines(script.command),
        *_launch_line(launch),
        *([f"before_stop: {{signal: {script.before_stop}}}"] if script.before_stop else []),
        "slurm:",
        *(f"  # {note}" for note in script.notes),
        *(f"  {key}: {_scalar(str(value))}" for key, value in script.slurm.items()),
    ]
    if script.sbatch:
        rows.append("  sbatch:")
        rows += [f"    {option}: {_scalar(value, {'true'})}" for option, value in script.sbatch.items()]
    return "\n".join(rows) + "\n"


def _launch_line(launch: int | None) -> list[str]:
    return [f"launch: {launch}   # of the commands of that text"] if launch is not None else []


def _command_lines(command: str) -> list[str]:
    """Return `command:` as lines that people can read, where YAML keeps such lines as they are."""
    lines = command.split("\n")
    if len(lines) > 1 and command == command.strip() and all(map(str.isprintable, lines)):
        return ["command: |", *(f"  {line}".rstrip() for line in lines)]
    return [f"command: {_scalar(command)}"]


def render_run_config(
    script: str,
    hosts: Sequence[HostDraft],
    project: str,
    *,
    name: str = "",
    command: str | Sequence[str] = "",
    launch: int | None = None,
) -> str:
    """Return a run config of a script or command for hosts; some that are elsewhere get the tree."""
    stem = name or PurePosixPath(script).stem
    program = f"script: {_scalar(script)}"
    gpus = ["gpus: auto               # all of each host; where no host has any, CPU ranks"]
    if any(each.beside_gpus for host in hosts for each in host.environments):
        gpus = ["gpus: all                # of each host; a launch is refused where one lacks its GPUs"]
    if command:
        written = _scalar(command) if isinstance(command, str) else json.dumps(list(command))
        program, gpus = f"command: {written}", []  # the command says which GPUs
    rows = [
        f"# gpulaunch run --config {shlex.quote(stem)}. {_KEYS}",
        program,
        *_launch_line(launch),
        f"hosts: [{', '.join(map(_scalar, _words([host.name for host in hosts])))}]",
        *gpus,
        "# args: [--lr, 1e-4]     # arguments that every launch gets",
        "# output: out            # where the script writes: gpulaunch fetch copies it to this machine",
    ]
    elsewhere = [host for host in hosts if host.name != LOCALHOST]
    if not all(host.workdir for host in elsewhere):
        rows.append(f"workdir: {_scalar(choose_tree_dir(project))}   # on the hosts")
    if elsewhere:
        rows.append("sync: true               # this directory is sent to the hosts before each launch")
    return "\n".join(rows) + "\n"


def _scalar(text: str, words: Collection[str] = ()) -> str:
    """Return text as YAML that means this text; of `words` what YAML makes of them is meant."""
    if text.isdecimal() or text in words or (_PLAIN.fullmatch(text) and text.lower() not in _WORDS):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
