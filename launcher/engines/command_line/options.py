"""The rows and tables that say what every option of a launcher is, and how its parser reads it."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias

from launcher.engines.command_line.parsed_command import Fate
from launcher.engines.command_line.tables.names import as_names
from preflight.frozen import dataclass

ValueKind: TypeAlias = Literal[
    "text",
    "int",
    "float",
    "nodes",  # 2, or MIN:MAX as torchrun takes it
    "per_node",  # a count, gpu, cpu or auto
    "gpus",  # 0,1,3 or UUIDs
    "devices",  # Fabric's: a count, "auto", -1, or a list
    "node_filters",  # DeepSpeed's: h1@h2:0,2
    "host_slots",  # h1:4,h2:4
    "host_names",  # h1,h2
    "mapping",  # Open MPI's: slot, ppr:4:node
    "endpoint",  # host or host:port
    "precision",
    "fabric_precision",
    "accelerator",  # Fabric's: cuda, gpu, auto, cpu
    "rendezvous_conf",
    "backend",  # of the rendezvous
    "directory",
    "variables",  # A=1,B (B as it is locally)
]


OPTIONAL = -1
RANK_LOGS = "every rank has a log of its own in gpulaunch-runs"
OWN_SSH = "gpulaunch reaches the hosts, as hosts.yaml and your SSH configuration say"
STATIC_RENDEZVOUS = "every host joins a static rendezvous at the main host, whose run id is the run's own"


@dataclass(frozen=True, slots=True)
class LauncherOption:
    """One option of one launcher."""

    name: str  # the canonical spelling
    fate: Fate
    why: str = ""  # owned: what replaces it; refused: why; kept: what for, where that is not plain
    fix: str = ""  # refused: what to do instead
    values: int = 1  # how many; 0 for a flag, OPTIONAL for one that only `--name=value` gives
    kind: ValueKind = "text"
    sets: str = ""  # the field of Request
    also: tuple[str, ...] = ()  # other spellings; dashes for underscores need none
    choices: tuple[str, ...] = ()
    is_label: bool = False  # of a log, and no more: left out where its value is not known


Style: TypeAlias = Literal["argparse", "getopt"]
"""Which word can be a value: argparse takes none that looks like an option, getopt takes any."""


@dataclass(frozen=True, slots=True)
class Table:
    """All options of one launcher."""

    owner: str
    options: tuple[LauncherOption, ...]
    style: Style = "argparse"
    both_dashes: bool = True  # `--a_b` is also `--a-b`
    abbreviations: bool = True
    interspersed: bool = False  # options after the program are the launcher's too, unknown ones the program's

    def spellings(self) -> dict[str, LauncherOption]:
        """Return every spelling that the launcher's parser knows."""
        found: dict[str, LauncherOption] = {}
        for option in self.options:
            for name in (option.name, *option.also):
                found[name] = option
                if self.both_dashes and name.startswith("--"):
                    found["--" + name[2:].replace("_", "-")] = option
        return found


def _row(
    fate: Fate, names: str, why: str = "", fix: str = "", *, choices: str = "", **more: Any
) -> LauncherOption:
    """Return a row; `names` are its spellings, `--name|-n`, the canonical one first."""
    name, *others = names.split("|")
    return LauncherOption(name, fate, why, fix, also=tuple(others), choices=as_names(choices), **more)


owned = partial(_row, "owned")  # a row for an option that the plan replaces: its names, and by what

kept = partial(_row, "kept")  # a row for an option that the launcher gets: its names, and what for

refused = partial(_row, "refused")  # a row for what gpulaunch cannot honour: names, why, and what to do


def each(
    row: Callable[..., LauncherOption], text: str, *said: str, **more: Any
) -> tuple[LauncherOption, ...]:
    """Return alike rows, `row("--name|-n", *said)` for each option that a text lists."""
    return tuple(row(names, *said, **more) for names in as_names(text))


FROM_HOSTS = "the hosts are those of --hosts, in its order"
FROM_PLAN = "the plan counts the processes of each host from its GPUs"
FROM_MAIN = "the plan takes the first host's address, as the others reach it"
FROM_PORT = "read as the main port; gpulaunch takes another free one when it is busy"
FROM_RANKS = "ranks follow from the order of the hosts"
FROM_GPUS = "read as GPUs of each host; the plan names them by UUID"
FROM_PRECISION = "read as precision; decided for the GPUs of all hosts"
FROM_FILTER = "read as hosts and their GPUs; DeepSpeed's own launcher does not run"

MAIN = (
    owned("--master_addr", FROM_MAIN, sets="main_address"),
    owned("--master_port", FROM_PORT, kind="int", sets="main_port"),
)
"""Where the ranks meet, as torchrun and the launchers that start it call it."""

NODE_RANK = owned("--node_rank", FROM_RANKS, kind="int", sets="node_rank")
