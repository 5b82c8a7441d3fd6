"""Run configs: read, overridden from the command line, validated as a whole."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from launcher.config.accelerate_file import add_file_request, read_accelerate_fields
from launcher.config.command_config import (
    COMMAND_SOURCE,
    collect_job_fields,
    list_command_keys,
    merge_command_keys,
    name_command,
    read_command,
)
from launcher.config.config_overrides import Overrides, apply_overrides
from launcher.config.config_search import find_config
from launcher.config.deepspeed_file import read_argument_config, read_script_config
from launcher.config.disconnect_options import DEFAULT_GRACE_S, DEFAULT_TIMEOUT_S, DisconnectOptions
from launcher.config.inventory import LOCALHOST
from launcher.config.on_end_options import EndCommand
from launcher.config.restart_options import RestartOptions
from launcher.config.schema import CONFIG, CONFIG_KEYS, MOST_COMMANDS
from launcher.config.slurm_options import JOB_VARIABLES, SlurmSpec
from launcher.config.sync_options import SyncOptions
from launcher.config.yaml_tree import ConfigIssues, YamlNode, find_nearest, is_typed
from launcher.engines.base import ENGINES
from launcher.engines.command_line.parsed_command import ParsedCommand, require_values
from launcher.errors import CommandRefused
from launcher.local.home import expand_home
from launcher.local.small_files import read_small_text
from preflight import regex as re
from preflight.decide.input_paths import find_input_paths
from preflight.frozen import dataclass
from preflight.job import Job
from preflight.probes.fact import with_timeout

_OTHER_RENDEZVOUS = re.compile(r"^[ \t]*(?:import|from)[ \t]+(horovod|mpi4py)\b", re.MULTILINE)
_LARGEST_SCRIPT = 1_000_000
_LOCAL_LOOK_S = 1.0  # a dead mount of this machine says nothing about the hosts
_RENDEZVOUS = {
    "horovod": "its ranks meet through horovodrun or MPI, and each of ours would train alone",
    "mpi4py": "its ranks meet through MPI, and each of ours would be a world of its own",
}


@dataclass(frozen=True, slots=True)
class RunConfig:
    """A run config, validated. `hosts` are words for `Inventory.resolve`.

    `local_script` is set with send_script: the local file whose text travels with the launch. `sync` is set
    where the working tree is sent to the hosts first.
    """

    name: str
    path: Path
    job: Job
    hosts: tuple[str, ...]
    local_script: Path | None = None
    nodes: int = 0  # of `hosts`; 0: all
    sync: SyncOptions | None = None
    restart: RestartOptions | None = None  # None: a run that failed stays ended
    disconnect: DisconnectOptions = DisconnectOptions()
    ignore: frozenset[str] = frozenset()
    slurm: SlurmSpec | None = None
    on_end: EndCommand | None = None
    names_hosts: bool = True  # False: `hosts` is only the default where none are named
    command: ParsedCommand | None = None  # what it was made of
    base: Path = Path()  # what relative local paths start from: the folder with the gpulaunch/ of its file


def load_run_config(name_or_path: str, overrides: Overrides | None = None) -> RunConfig:
    """Return a run config by name or path. Raises ConfigError with every mistake of file and overrides."""
    from launcher.config.yaml_reader import read_file  # noqa: PLC0415 - yaml is a tenth of a run's imports

    path = find_config(name_or_path)
    mistakes = ConfigIssues()
    root = read_file(path, mistakes, first_lines="write keys, such as `script: train.py` and `hosts: [a, b]`")
    found = _validated(path, root, overrides, mistakes, path.parent)
    if path.parts[0] != ".." or "/" in name_or_path:
        return _with_local_inputs(found)
    base = path.parents[1]  # found by its name in a folder above
    sync = found.sync and replace(found.sync, source=str(base / expand_home(found.sync.source)))
    return _with_local_inputs(replace(found, base=base, sync=sync))


def build_config_from_script(script: str, overrides: Overrides | None = None) -> RunConfig:
    """Return the run config of a script without a file: all GPUs, else the CPU. Raises ConfigError."""
    values = {"script": script, "gpus": "auto"}
    root = YamlNode({key: YamlNode(value, script, key=key) for key, value in values.items()}, script)
    return _with_local_inputs(_validated(Path(script), root, overrides, ConfigIssues()))


def build_command_config(words: Sequence[str], overrides: Overrides | None = None) -> RunConfig:
    """Return the run config that a command is without a file.

    Raises CommandRefused for what cannot be launched as it is, ConfigError with the mistakes of overrides.
    """
    items = tuple(YamlNode(word, COMMAND_SOURCE, key="command") for word in words)
    root = YamlNode({"command": YamlNode(items, COMMAND_SOURCE, key="command")}, COMMAND_SOURCE)
    found = _validated(Path(COMMAND_SOURCE), root, overrides, ConfigIssues())
    path = Path(name_command(cast("ParsedCommand", found.command)))
    return _with_local_inputs(
        replace(found, name=path.stem, path=path, job=replace(found.job, name=path.stem))
    )


def _with_command(root: YamlNode, folder: Path, *, for_job: bool) -> tuple[YamlNode, ParsedCommand | None]:
    """Return the tree with what its `command:` asks for, where it says nothing itself."""
    entries = root.value if isinstance(root.value, dict) else {}
    item = entries.get("command")
    if item is None or item.value is None or isinstance(item.value, dict):
        return root, None
    words = (item.value,) if isinstance(item.value, str) else tuple(str(each.value) for each in item.value)
    words = words if any(words) else ()
    parsed = read_command(words, _launch_number(entries.get("launch")), JOB_VARIABLES if for_job else {})
    parsed = add_file_request(parsed, folder)
    return replace(root, value=merge_command_keys(entries, list_command_keys(parsed).items())), parsed


def _launch_number(item: YamlNode | None) -> int | None:
    """Return which command of the text is the launch; None where `launch:` says nothing, or no number."""
    text = str(item.value) if item is not None else ""
    is_number = text.isdecimal() and len(text) <= len(str(MOST_COMMANDS)) and int(text) > 0
    return int(text) if is_number else None


def _validated(
    path: Path, root: YamlNode, overrides: Overrides | None, mistakes: ConfigIssues, folder: Path = Path()
) -> RunConfig:
    """Return the run config of a tree, overridden and judged; a script that is sent lies in `folder`."""
    overrides = overrides or Overrides()
    root = apply_overrides(root, overrides, mistakes)
    root, command = _with_command(root, folder, for_job=overrides.for_job)
    if command is not None and not overrides.is_plan:
        require_values(command)
    data = CONFIG.read(root, mistakes) or {}
    _judge_together(root, data, mistakes)
    if command is not None and data.get("script"):
        _refuse_other_rendezvous(folder / command.directory / data["script"])
    entered = folder / (command.directory if command is not None else "")
    here = _script_here(root, entered, data, mistakes)
    mistakes.raise_if_any()
    named = data.pop("hosts", ())
    own = {name: data.pop(name) for name in ("nodes", "sync", "slurm", "on_end") if name in data}
    restart: RestartOptions | None = data.pop("restart", None)
    disconnect = DisconnectOptions(
        data.pop("on_disconnect", "continue"),
        data.pop("disconnect_timeout", DEFAULT_TIMEOUT_S),
        data.pop("grace", DEFAULT_GRACE_S),
        data.pop("before_stop", None),
    )
    ignore = frozenset(data.pop("ignore", ()))
    data["restarts"] = restart.max if restart is not None else 0
    data["resumes"] = restart is not None and bool(restart.resume_args)
    data["args"] = (*(command.args if command else ()), *data.get("args", ()), *overrides.extra_args)
    job = _job(path.stem, data, command, entered, here)
    return RunConfig(
        path.stem,
        path,
        job,
        named or (LOCALHOST,),
        here,
        restart=restart if restart is not None and restart.max else None,
        disconnect=disconnect,
        ignore=ignore,
        names_hosts=bool(named),
        command=command,
        **own,
    )


def _with_local_inputs(found: RunConfig) -> RunConfig:
    """Return a run config with the paths in its arguments that this machine has and answers for."""
    tree = Path(expand_home(found.sync.source)) if found.sync is not None else found.base
    start, has = tree / found.job.subdirectory, list[str]()

    def look(paths: Iterable[str]) -> None:
        for path in paths:
            # A name that is too long, a folder that is closed, a user that is unknown: none that it has.
            with suppress(OSError, RuntimeError, ValueError):
                if (start / Path(path).expanduser()).exists():
                    has.append(path)

    if inputs := find_input_paths(found.job):
        with_timeout(_LOCAL_LOOK_S, lambda: look(inputs))
    return replace(found, job=replace(found.job, local_inputs=tuple(has)))


def _job(
    name: str, data: dict[str, Any], command: ParsedCommand | None, folder: Path, here: Path | None
) -> Job:
    """Return the job of what is left of a run config, with what its command and local files add to it."""
    data.pop("command", None)  # its words: `command` has what they ask for
    data.pop("launch", None)
    engine = data.pop("engine", "auto")
    data["engine"] = None if engine == "auto" else ENGINES[engine].traits
    if command is not None:
        data |= collect_job_fields(command)
    data |= read_accelerate_fields(
        data.pop("accelerate_config", None),
        command.kept if command is not None else (),
        folder=folder,
        given=data,
    )
    data.setdefault("deepspeed", read_argument_config(data["args"], folder))
    if data["deepspeed"] is None and data.get("script"):
        data["deepspeed"] = read_script_config(here or folder / data["script"], data["script"], data["args"])
    return Job(name=name, **data)


def _judge_together(root: YamlNode, data: dict[str, Any], mistakes: ConfigIssues) -> None:
    """Find what only several keys together can get wrong."""
    entries = cast("dict[str, YamlNode]", root.value)
    names = tuple(row.name for row in CONFIG_KEYS)
    # A misspelt key is reported; nothing that lacks because of it is another mistake.
    meant = {*entries, *(find_nearest(key, names) for key in entries if key not in names)}
    _judge_program(root, entries, meant, mistakes)
    if "launch" in entries and "command" not in meant:
        mistakes.add(entries["launch"], "only for a command: it chooses one of several commands of its text")
    if "processes_per_host" in entries and data.get("gpus", "all") not in ("none", "auto"):
        processes = entries["processes_per_host"]
        if _is_override(entries.get("gpus")) and not _is_override(processes):
            del data["processes_per_host"]  # the file speaks of CPU ranks; this time GPUs are requested
        elif "gpus" in entries or "gpus" not in meant:
            mistakes.add(processes, "only for CPU ranks: set gpus: none (or auto) too")
    if data.get("send_script") and "script" not in meant:
        mistakes.add(entries["send_script"], "no script to send; set script")
    if data.get("send_script") and data.get("sync"):
        mistakes.add(entries["send_script"], "sync sends the script with its tree already; keep one of them")


def _judge_program(
    root: YamlNode, entries: Mapping[str, YamlNode], meant: set[str], mistakes: ConfigIssues
) -> None:
    """Find what of `script:`, `module:` and `command:` excludes each other; `meant` has the keys as meant."""
    if "script" in entries and "module" in entries:
        mistakes.add(entries["module"], "script is set too; keep one of them")
    if "command" in entries:
        for key in ("script", "module", "engine"):
            if key in entries and entries[key].source != COMMAND_SOURCE:
                mistakes.add(entries[key], "the command says it; keep one of them")
    elif meant.isdisjoint(("script", "module", "command")):
        is_inventory = "hosts" in entries and isinstance(entries["hosts"].value, dict)
        lacks = "a hosts.yaml, which goes after -i" if is_inventory else "nothing to run"
        mistakes.add(root, f"{lacks}: expected script: PATH, module: NAME or command: WORDS")


def _is_override(item: YamlNode | None) -> bool:
    """Whether the command line set it."""
    return item is not None and is_typed(item.source)


def _script_here(root: YamlNode, folder: Path, data: dict[str, Any], mistakes: ConfigIssues) -> Path | None:
    if not data.get("send_script") or "script" not in data:
        return None
    here = folder / expand_home(data["script"])
    if not here.is_file():
        entry = cast("dict[str, YamlNode]", root.value)["script"]
        mistakes.add(entry, f"{here}: no such local file, which send_script: true needs")
    return here


def _refuse_other_rendezvous(script: Path) -> None:
    """Raise CommandRefused for a local script of Horovod or MPI; one that cannot be read is not judged.

    Horovod reads HOROVOD_RANK and the address of a server that horovodrun keeps (horovod/runner/gloo_run.py).
    """
    text = read_small_text(script, _LARGEST_SCRIPT) or ""
    found = _OTHER_RENDEZVOUS.search(text)
    if found is None:
        return
    line = text.count("\n", 0, found.start()) + 1
    raise CommandRefused(
        f"{script}:{line} imports {found[1]}: {_RENDEZVOUS[found[1]]}",
        "train with torch.distributed instead; or write the whole command into a script that starts it on all"
        " hosts itself, and run that on one",
    )
