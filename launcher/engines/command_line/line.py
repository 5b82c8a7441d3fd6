"""A line while it is read: what has been found so far."""

import posixpath
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from launcher.engines.command_line import values
from launcher.engines.command_line.manifests.counts import ASKED
from launcher.engines.command_line.option_reader import FoundOption
from launcher.engines.command_line.options import LauncherOption, ValueKind
from launcher.engines.command_line.parsed_command import CONDAS, Environment, MissingValue, OptionUse
from launcher.engines.command_line.shell.missing_values import clear_placeholders, explain_no_values
from launcher.engines.command_line.shell.words import Word, drop_itself, explain_replaced
from launcher.engines.command_line.side_commands import explain_needless, find_launcher
from launcher.errors import CommandRefused
from preflight import regex as re

_HOSTS = "the hosts are those of --hosts"
_COUNT = "the plan counts the processes of each host"
_PATH = "PATH: that of each host; its interpreter is python: in hosts.yaml"
_THREADS = "OMP_NUM_THREADS: the plan divides the cores of each host among its ranks"
_AS_TEXT = "the ranks get it as a variable, and gpulaunch starts nothing of the command in it"
_PORT = "it only gives the launcher a port, which the plan picks; the ranks do not get it"
_OF_PORT = re.compile(r"--(?:master|main_process)[-_]port")
_RANK = "ranks and addresses are the plan's"


def _owned(*names: str, why: str, kind: ValueKind = "text", sets: str = "") -> dict[str, LauncherOption]:
    return {name: LauncherOption(name, "owned", why, kind=kind, sets=sets) for name in names}


VARIABLES: dict[str, LauncherOption] = {
    **_owned("CUDA_VISIBLE_DEVICES", why="read as GPUs of each host", kind="gpus", sets="gpus"),
    **_owned("MASTER_ADDR", why="the plan takes the first host's address", sets="main_address"),
    **_owned("MASTER_PORT", why="read as the main port", kind="int", sets="main_port"),
    **_owned("NNODES", "PET_NNODES", why=_HOSTS, kind="nodes", sets="nodes"),
    **_owned("NPROC_PER_NODE", "PET_NPROC_PER_NODE", why=_COUNT, kind="per_node", sets="per_node"),
    **_owned("MIN_NNODES", "MAX_NNODES", why=_HOSTS, kind="int"),  # LLaMA-Factory's
    **_owned("ACCELERATE_MIXED_PRECISION", why="read as precision", kind="precision", sets="precision"),
    **_owned("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", why=_RANK),
    **_owned("PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_RDZV_ID", "RDZV_ID", why=_RANK),
    **_owned("PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "GPULAUNCH_RUN_ID", why=_RANK),
    **_owned("ACCELERATE_USE_CPU", "CUDA_DEVICE_ORDER", why="the plan decides it from the GPUs"),
}
"""Environment variables in front of a command that the plan replaces."""

_KEY = re.compile(rf"{ASKED}_(?P<sets>nodes|per_node|total)_(?P<key>.+)")
_KEY_KINDS: dict[str, tuple[ValueKind, str]] = {
    "nodes": ("nodes", _HOSTS),
    "per_node": ("per_node", _COUNT),
    "total": ("int", _COUNT),
}


def _option_of_key(name: str) -> LauncherOption | None:
    """Return what a variable asks for that is a key of a manifest; None for any other."""
    found = _KEY.fullmatch(name)
    if found is None:
        return None
    kind, why = _KEY_KINDS[found["sets"]]
    return LauncherOption(found["key"], "owned", why, kind=kind, sets=found["sets"])


class CommandLine:
    """Collects what wrappers, prefixes and the launcher of one line ask for."""

    def __init__(self, words: tuple[Word, ...], *, is_typed: bool = False) -> None:
        self.words = words
        self.is_typed = is_typed  # word by word, and no text that was copied
        self.found: list[FoundOption] = []
        self.env: dict[str, str] = {}
        self.open: list[tuple[int, str, Word]] = []  # of `env`, without a value, and its place in `unknown`
        self.unset: list[str] = []
        self.forwarded: list[str] = []
        self.environment: Environment | None = None
        self.directory = ""
        self.dropped: list[str] = []
        self.unknown: list[MissingValue] = []
        self.prefix = ""

    def assign(self, position: int, name: str, value: Word) -> None:
        """Take an environment assignment: owned by the plan, or a variable of the ranks."""
        is_itself, whole = not value.is_known, value.text
        value = clear_placeholders(drop_itself(name, value), is_setting=True)
        if is_itself and not value.text:
            return  # NNODES=$NNODES
        option = VARIABLES.get(name) or _option_of_key(name)
        if option is not None:
            use = OptionUse(
                option.name, option.name, (value.text,), position, 1, "environment", option.why, option.sets
            )
            self.found.append(FoundOption(option, use, (value,)))
            return
        if name == "PATH":
            self.dropped.append(_PATH)
            return
        if name == "OMP_NUM_THREADS" and not value.is_known:
            self.dropped.append(_THREADS)
            return
        if not value.is_known:
            self.open.append((len(self.unknown), name, value))
        if value.text != whole:
            self.dropped.append(explain_replaced(name))
        if position >= 0 and find_launcher(tuple(map(Word, value.text.split()))):
            self.dropped.append(f"{name}: {_AS_TEXT}")
        self.env[name] = value.text

    def remove(self, names: tuple[str, ...]) -> None:
        """Take `env -u NAME`, which also drops what the line has set before."""
        self.unset += names
        self.env = {name: value for name, value in self.env.items() if name not in names}
        self.found = [one for one in self.found if one.use.name not in names]

    def settle(self) -> None:
        """Take what variables lack, but for a port that only the launcher gets: its words are known now."""
        for at, name, value in reversed(self.open):
            if self.env.get(name) == value.text and (said := self._explain_port(name, value)):
                self.dropped.append(said)
                del self.env[name]
            elif self.env.get(name) == value.text:
                error = explain_no_values((value,), f"the variable {name}")
                self.unknown.insert(at, MissingValue(error.message, error.fix, value.unresolved))

    def _explain_port(self, name: str, value: Word) -> str:
        """Return what is said of a variable without a value that only gives the launcher a port; else ""."""
        options = [
            word.text.partition("=")[0] if "=" in word.text else before.text
            for before, word in pairwise(self.words)
            if set(value.unresolved) & set(word.unresolved)
        ]
        return f"{name}: {_PORT}" if options and all(map(_OF_PORT.fullmatch, options)) else ""

    def lack(self, error: CommandRefused, parts: tuple[str, ...] = ()) -> None:
        """Take what the launch needs and the line does not say."""
        self.unknown.append(MissingValue(error.message, error.fix, parts))

    def take(self, found: Iterable[FoundOption]) -> None:
        """Take options of the launcher, without labels that have no value and files of a job's nodes."""
        for one in found:
            needless = [explain_needless(word) for word in one.words if one.option.sets == "hostfile"]
            if any(needless):
                self.dropped.append(f"{one.use.text}: {needless[0]}")
            elif one.option.is_label and not all(word.is_known for word in one.words):
                self.dropped.append(f"{one.use.text}: {one.option.why}")
            else:
                self.found.append(one)

    def check_elastic(self) -> None:
        """Refuse LLaMA-Factory's elastic launch: `MIN_NNODES=1 MAX_NNODES=3`."""
        named = {one.use.name: one.use.value for one in self.found if one.use.name.endswith("_NNODES")}
        if {"MIN_NNODES", "MAX_NNODES"} <= set(named):
            values.parse_nodes("MIN_NNODES:MAX_NNODES", f"{named['MIN_NNODES']}:{named['MAX_NNODES']}")

    def enter(self, environment: Environment | None, directory: str) -> None:
        """Take the environment and directory, below the one before, that a wrapper enters: the innermost."""
        place = clear_placeholders(Word(directory))
        if not place.is_known:
            self.lack(explain_no_values((place,), "the directory"), place.unresolved)
        if directory:
            self.directory = posixpath.normpath(posixpath.join(self.directory, directory))
        if environment is not None:
            is_named = environment.tool in CONDAS and not environment.path
            path = environment.path if is_named else posixpath.join(self.directory, environment.path)
            self.environment = replace(environment, path=path)
