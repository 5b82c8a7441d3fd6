"""What a pasted command line asks for, as frozen records."""

from dataclasses import field
from typing import Literal, TypeAlias

from launcher.errors import CommandRefused
from preflight.frozen import dataclass
from preflight.job import Precision

LauncherKind: TypeAlias = Literal[
    "torchrun",
    "torch.distributed.launch",
    "accelerate",
    "deepspeed",
    "fabric",
    "composer",
    "colossalai",
    "python",
    "opaque",
]
"""Who starts the ranks in the line. "python": no launcher, one process. "opaque": a program that gpulaunch
cannot look into (`bash train.sh`, `llamafactory-cli`), started once per host."""

ProgramKind: TypeAlias = Literal["script", "module", "executable"]
TUNE_RUN = "tune run"  # torchtune's own launcher: a program that takes the options of torchrun

Fate: TypeAlias = Literal["owned", "kept", "refused"]
PerNode: TypeAlias = int | Literal["gpu", "cpu", "auto"]


@dataclass(frozen=True, slots=True)
class OptionUse:
    """One option or environment assignment as the line spells it."""

    name: str  # as the table has it: "--nproc_per_node", or the variable: "CUDA_VISIBLE_DEVICES"
    spelling: str  # as typed, without the value: "--nproc-per-node"
    values: tuple[str, ...]  # () for a flag
    position: int  # of its first word in ParsedCommand.words
    width: int  # how many words it takes
    owner: str  # the table that it belongs to: "torchrun", "srun", "environment"
    reason: str = ""  # of an owned one: what replaces it
    sets: str = ""  # the field of Request that it fills

    @property
    def value(self) -> str:
        """The last value, "" for a flag."""
        return self.values[-1] if self.values else ""

    @property
    def text(self) -> str:
        """As typed, for people: "--nproc-per-node 4", "MASTER_PORT=1234"."""
        if self.owner == "environment":
            return f"{self.spelling}={self.value}"
        return " ".join((self.spelling, *self.values))


@dataclass(frozen=True, slots=True)
class HostFilter:
    """One host of a filter or host list."""

    host: str
    gpus: tuple[int, ...] = ()  # GPU indices; () = all of the host
    slots: int | None = None  # processes, where a count is given instead of indices (`a:4`)


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a project's file, as commands of a shell."""

    name: str
    text: str
    needs: tuple[str, ...] = ()  # names of the tasks that run before it
    head: str = ""  # what sets the variables of the file
    is_certain: bool = True  # the file is surely one of tasks


CONDAS = ("conda", "mamba", "micromamba", "pyenv")
"""Tools that keep environments by their names."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The Python environment that a wrapper enters (`uv run`, `conda run -n X`)."""

    tool: str  # "uv", "conda", "poetry", ...
    name: str = ""  # conda run -n NAME
    path: str = ""  # conda run -p PATH; uv run --project DIR


@dataclass(frozen=True, slots=True)
class Request:
    """What the line asks for. None and "" mean that it does not say; the plan decides then."""

    nodes: int | None = None
    per_node: PerNode | None = None
    total: int | None = None  # processes on all nodes together
    gpus: tuple[int | str, ...] | None = None  # indices or UUIDs on every host, in this order
    on_cpu: bool = False
    hosts: tuple[HostFilter, ...] = ()  # mpirun -H, srun -w
    hostfile: str = ""
    include: tuple[HostFilter, ...] = ()  # deepspeed --include
    exclude: tuple[HostFilter, ...] = ()
    node_rank: int | None = None  # such a line was typed once on each node
    main_address: str = ""
    main_port: int | None = None
    rendezvous_timeout: int | None = None  # seconds
    precision: Precision | None = None
    max_restarts: int | None = None
    omp_threads: int | None = None
    log_dir: str = ""
    config_file: str = ""  # accelerate's, a local path


@dataclass(frozen=True, slots=True)
class MissingValue:
    """What a launch needs and its text does not say: an argument, a variable, a file of settings."""

    message: str
    fix: str
    parts: tuple[str, ...] = ()  # of arguments; a file of that name shows that one is a value


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """One command line, taken apart."""

    words: tuple[str, ...]  # the whole line, split as a shell splits it
    launcher: LauncherKind
    program_kind: ProgramKind
    program: str  # path of the script, name of the module, or the executable
    args: tuple[str, ...]  # of the program, verbatim
    request: Request
    env: dict[str, str] = field(default_factory=dict)  # assignments that the ranks get
    unset: tuple[str, ...] = ()  # variables that the ranks must not have (`env -u NAME`)
    forwarded: tuple[str, ...] = ()  # variables whose local values the ranks get (mpirun -x NAME)
    owned: tuple[OptionUse, ...] = ()  # replaced by the plan, in the line's order
    kept: tuple[OptionUse, ...] = ()  # options of the launcher that go to it unchanged
    prefix: str = ""  # "mpirun" or "srun", where one starts the line
    python: str = ""  # the interpreter that the line names: "python3.11", "/opt/venv/bin/python"
    environment: Environment | None = None
    directory: str = ""  # `cd DIR && ...`, `torchrun` run in it
    options_at: int | None = None  # in `args`, of a program that takes torchrun's options (`tune run`)
    local_rank_option: str = ""  # "--local_rank" or "--local-rank": the launcher adds it for each rank
    unknown: tuple[MissingValue, ...] = ()  # without it the launch is another one
    remarks: tuple[str, ...] = ()  # what looks like a mistake of the line, a sentence each
    # Words around the command without a meaning for gpulaunch, as a sentence each.
    dropped: tuple[str, ...] = ()

    def kept_words(self) -> tuple[str, ...]:
        """Return the kept options of the launcher itself as argv, `--name value`, names as in its table."""
        owner = self.launcher if self.options_at is None else TUNE_RUN
        return tuple(word for use in self.kept if use.owner == owner for word in (use.name, *use.values))


def explain_missing_value(parsed: ParsedCommand) -> CommandRefused | None:
    """Return the error for the first thing that a command does not say and its launch needs."""
    return CommandRefused(parsed.unknown[0].message, parsed.unknown[0].fix) if parsed.unknown else None


def require_values(parsed: ParsedCommand) -> ParsedCommand:
    """Return a command that says everything that its launch needs. Raises CommandRefused for another one."""
    error = explain_missing_value(parsed)
    if error is not None:
        raise error
    return parsed
