"""What starts the ranks of a node: the interface of an engine, the table of engines, what all of them share.

An engine turns the world and one node's ranks into argv, environment and files. It is pure, it is one module
of this package, and it is one row of `ENGINES`; nothing outside this package imports such a module. A row is
loaded when a launch needs it.

The contract with the host (`{run_dir}` is the node's own directory for this run, filled in on the host):

- `rank.py` is `launcher/onhost/rank/`, written by the supervisor. Engines start it as each rank; its own argv
is the script's command line as `python` itself would take it (`SCRIPT args...`, or `-m MODULE args...`;
`--exec PROGRAM args...` for a program that is not a Python script), so what follows the first word is the
script's, whatever it looks like.
- `start_launcher.py` is `launcher/onhost/start_launcher.py`: `start_launcher.py -m MODULE args...` becomes a
launcher of ranks as `python -m` would, in less CPU.
- `expected.json` in the run directory is what the ranks must find (see `render_expected`).
- GPULAUNCH_MASK=1: rank/ narrows CUDA_VISIBLE_DEVICES to its LOCAL_RANK-th entry before torch is imported.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from importlib import import_module
from typing import Any, Protocol

from preflight.decide.decision import NodeRanks
from preflight.frozen import dataclass
from preflight.job import EngineTraits, Precision

RUN_DIR = "{run_dir}"
RANK_PROGRAM = f"{RUN_DIR}/rank.py"
LAUNCHER_PROGRAM = f"{RUN_DIR}/start_launcher.py"
TORCH_LOGS = f"{RUN_DIR}/torchelastic"
"""Without one torch's launcher leaves a directory in the host's temporary directory after every run."""
RENDEZVOUS_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class World:
    """What every node of a launch has in common."""

    run_id: str
    nodes: int
    size: int
    main_address: str
    main_port: int
    mixed_precision: Precision
    fp8_backend: str = ""  # "TE", "AO", "MSAMP"
    rendezvous_timeout_s: int = RENDEZVOUS_TIMEOUT_S
    engine_requested: bool = False  # by `engine:` of the run config: its launcher starts one rank, too


@dataclass(frozen=True, slots=True)
class NodeSetup:
    """One node of a launch, as an engine sees it."""

    node_rank: int
    first_rank: int  # global rank of local rank 0
    ranks: NodeRanks
    python: str
    words: tuple[str, ...]  # what rank.py takes; paths are the host's
    omp_threads: int
    launcher_args: tuple[str, ...] = ()  # options of the user's for the launcher itself
    launched_by: str = ""  # "deepspeed": the script expects what that launcher gives
    precision_option: str = ""  # what that launcher's own option says: "bf16-mixed"
    options_at: int | None = None  # in the arguments of a program that takes torchrun's options
    local_rank_option: str = ""  # given to each rank's script with its local rank
    accelerate_config: Mapping[str, Any] = field(default_factory=dict)  # keys of the user's, taken over

    @property
    def on_cpu(self) -> bool:
        """Whether its ranks use no GPU."""
        return self.ranks.slots[0].gpu_uuid is None


class Engine(Protocol):
    """Starts the ranks of one node. Every method is pure."""

    def argv(self, world: World, node: NodeSetup) -> tuple[str, ...]:
        """Return the node's launcher command."""

    def environment(self, world: World, node: NodeSetup) -> dict[str, str]:
        """Return what its launcher needs in the environment beside `build_environment`."""

    def files(self, world: World, node: NodeSetup) -> tuple[tuple[str, str], ...]:
        """Return the files that its launcher reads, as (name below the run directory, text); () for none."""
        del world, node
        return ()

    def notes(self, world: World, node: NodeSetup) -> Iterator[str]:
        """Yield what a person who reads the command and the files would stumble over."""


@dataclass(frozen=True, slots=True)
class EngineRow:
    """An engine of the table."""

    traits: EngineTraits  # with the name of its module, of which ENGINE is the engine
    opens_port_alone: bool = False  # whether even a world of one rank meets on the main port


ENGINES: Mapping[str, EngineRow] = {
    "accelerate": EngineRow(EngineTraits("accelerate", ("torch", "accelerate"))),
    "torchrun": EngineRow(EngineTraits("torchrun", ("torch",), sets_precision=False), opens_port_alone=True),
    "command": EngineRow(
        EngineTraits("command", (), once_per_host=True, sets_precision=False), opens_port_alone=True
    ),
}
SELECTABLE = ("accelerate", "torchrun")  # what `engine:` of a run config may say; `command:` means the third


def load_engine(name: str) -> Engine:
    """Return an engine of the table by its name."""
    engine: Engine = import_module(f"launcher.engines.{ENGINES[name].traits.name}").ENGINE
    return engine


def opens_port(engine: str, world_size: int) -> bool:
    """Return whether the ranks of such a launch meet on the main port."""
    return world_size > 1 or (engine in ENGINES and ENGINES[engine].opens_port_alone)


def build_environment(world: World, node: NodeSetup) -> dict[str, str]:
    """Return what every launcher needs in its environment besides the host's own and the user's."""
    env = {
        "GPULAUNCH_RUN_ID": world.run_id,
        "OMP_NUM_THREADS": str(node.omp_threads),
        "PYTHONUNBUFFERED": "1",
    }
    uuids = [slot.gpu_uuid for slot in node.ranks.slots if slot.gpu_uuid is not None]
    if uuids:
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    env["CUDA_VISIBLE_DEVICES"] = ",".join(uuids)
    if node.ranks.single_gpu_visible:
        env["GPULAUNCH_MASK"] = "1"
    if node.local_rank_option:
        env["GPULAUNCH_LOCAL_RANK_OPTION"] = node.local_rank_option
    return env


def list_torch_args(world: World, node: NodeSetup) -> tuple[str, ...]:
    """Return the options of torch's launcher that are the same in whatever engine runs it."""
    settings: tuple[str, ...] = ("--rdzv_conf", f"timeout={world.rendezvous_timeout_s}")
    if "--log_dir" not in node.launcher_args:
        settings += ("--log_dir", TORCH_LOGS)
    return (*settings, *node.launcher_args)


def render_expected(world: World, node: NodeSetup) -> str:
    """Return expected.json: what each rank of the node must find itself to be, or the launch is stopped."""
    gpus = [slot.gpu_uuid for slot in node.ranks.slots]
    facts: Mapping[str, object] = {
        "schema": "gpulaunch.expected/1",
        "run_id": world.run_id,
        "world_size": world.size,
        "local_world_size": len(gpus),
        "first_rank": node.first_rank,
        "gpus": gpus,  # by local rank; null = CPU
        "masked": node.ranks.single_gpu_visible,
        "mixed_precision": world.mixed_precision,
    }
    return json.dumps(facts, indent=1) + "\n"
