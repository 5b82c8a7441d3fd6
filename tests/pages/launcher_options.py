"""The tables of options as Markdown: docs/coming-from, a page for each launcher, and what they share."""

from collections.abc import Iterable, Iterator

from launcher.engines.accelerate_settings import SECTIONS, find_section
from launcher.engines.command_line.line import VARIABLES
from launcher.engines.command_line.options import LauncherOption, Table
from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.tables.accelerate import ACCELERATE
from launcher.engines.command_line.tables.colossalai import COLOSSALAI
from launcher.engines.command_line.tables.colossalai import VERSION as COLOSSALAI_VERSION
from launcher.engines.command_line.tables.composer import COMPOSER
from launcher.engines.command_line.tables.composer import VERSION as COMPOSER_VERSION
from launcher.engines.command_line.tables.deepspeed import DEEPSPEED, VERSION
from launcher.engines.command_line.tables.fabric import FABRIC
from launcher.engines.command_line.tables.mpirun_srun import MPIRUN, SRUN
from launcher.engines.command_line.tables.torchrun import LAUNCH, TORCHRUN
from preflight.frozen import dataclass

_OFF = "gpulaunch takes it off the command, and starts the processes itself."
_MPI = (
    "Ranks get the variables of torchrun, not those of MPI. gpulaunch refuses a script that imports mpi4py or"
    " Horovod, whose ranks would each train alone."
)


@dataclass(frozen=True, slots=True)
class _Launcher:
    """What the page of one launcher says."""

    page: str  # its file in docs/coming-from, without .md
    name: str
    says: str
    today: str  # a command as it is typed today
    table: Table
    without: Table | None = None  # rows that another page has
    facts: tuple[str, ...] = ()  # what is different under gpulaunch


LAUNCHERS: tuple[_Launcher, ...] = (
    _Launcher(
        "torchrun",
        "torchrun",
        "Also `python -m torch.distributed.run` and torchtune's `tune run`. Dashes count as underscores.",
        "torchrun --nnodes 2 --nproc_per_node 4 --rdzv_backend c10d --rdzv_endpoint a:29500 train.py",
        TORCHRUN,
        facts=(
            "You type the command once, not once on each host; ranks follow from the order of `--hosts`.",
            "Hosts may have different numbers of ranks; the rendezvous is static, at the main host.",
            "`--max_restarts` starts all ranks of all hosts again, as `restart:` of a run config does.",
            "The number of ranks is fixed: gpulaunch refuses `--nnodes 1:4` and etcd.",
        ),
    ),
    _Launcher(
        "torch-distributed-launch",
        "torch.distributed.launch",
        "The options of [torchrun](torchrun.md), and one more.",
        "python -m torch.distributed.launch --nproc_per_node 4 --use_env train.py",
        LAUNCH,
        TORCHRUN,
        facts=("Without `--use_env` each script gets `--local-rank=N`, as from torch.",),
    ),
    _Launcher(
        "accelerate",
        "accelerate launch",
        "Also `accelerate-launch`. Options of sections are folded into the config file of the launch.",
        "accelerate launch --config_file fsdp.yaml --num_processes 4 train.py",
        ACCELERATE,
        facts=(
            "Config files are local: [what they mean](../coming-from.md#accelerate-config-files).",
            "`--num_processes` without `--num_machines` counts the ranks of each host.",
            "`deepspeed_multinode_launcher` is `standard`: no pdsh, and no SSH between hosts.",
        ),
    ),
    _Launcher(
        "deepspeed",
        "deepspeed",
        f"Also `ds`. DeepSpeed {VERSION}; its launcher itself does not run.",
        "deepspeed --include a:0,2@b:1 train.py --deepspeed ds.json",
        DEEPSPEED,
        facts=(
            "Hosts need neither pdsh nor SSH to each other. The hostfile is read locally.",
            "Scripts get `--local_rank=N`, without `--no_local_rank`, and the variables of `.deepspeed_env`.",
            "Ranks get `CROSS_RANK`, `CROSS_SIZE` and `LOCAL_SIZE`.",
            "preflight compares the batch sizes of ds.json with the plan ([SHARD](../checks/SHARD.md)).",
        ),
    ),
    _Launcher(
        "composer",
        "composer",
        f"Composer {COMPOSER_VERSION}. Each rank gets torchrun's variables, and `NODE_RANK`.",
        "composer --nproc 4 train.py",
        COMPOSER,
    ),
    _Launcher(
        "colossalai",
        "colossalai run",
        f"Colossal-AI {COLOSSALAI_VERSION}. Options can come before and after the script.",
        "colossalai run --nproc_per_node 4 --hostfile hosts.txt train.py",
        COLOSSALAI,
    ),
    _Launcher(
        "fabric",
        "fabric run",
        "Also `lightning run model`. Options can come before and after the script.",
        "fabric run --accelerator cuda --devices 4 --num-nodes 2 train.py",
        FABRIC,
        facts=(
            "preflight compares `devices` and `num_nodes` with the plan: [SCR002](../checks/SCR.md#scr002).",
        ),
    ),
    _Launcher(
        "mpirun",
        "mpirun",
        f"Also `mpiexec`. {_OFF}",
        "mpirun -np 8 -H a:4,b:4 python train.py",
        MPIRUN,
        facts=(_MPI,),
    ),
    _Launcher(
        "srun",
        "srun",
        _OFF,
        "srun --nodes 2 --ntasks-per-node 4 python train.py",
        SRUN,
        facts=(
            "Inside a Slurm job gpulaunch uses the nodes of the job: [inside a Slurm job](../slurm.md).",
            "`srun torchrun ...` starts one launcher on each host, as it does in a batch script.",
        ),
    ),
)

_HEAD = "| option | in a launch | what gpulaunch does with it |\n|---|---|---|"
_LEGEND = (
    "**Owned**: the plan decides the value, and the option says what you want. **Kept**: it keeps its effect."
    " **Refused**: gpulaunch starts nothing, and names what to write instead."
)


def launcher_pages() -> dict[str, str]:
    """Return the Markdown of each page of docs/coming-from, by its file name."""
    return {f"{launcher.page}.md": "\n".join(_page(launcher)) for launcher in LAUNCHERS}


def _page(launcher: _Launcher) -> Iterator[str]:
    without = () if launcher.without is None else launcher.without.options
    yield from (
        f"# Coming from {launcher.name}",
        "",
        launcher.says,
        "",
        "| today | with gpulaunch |",
        "|---|---|",
    )
    hosts = "" if parse_line(launcher.today).request.include else " --hosts a,b"
    yield f"| `{launcher.today}` | `gpulaunch run{hosts} --sync -- {launcher.today}` |"
    yield from ("", *(f"- {fact}" for fact in launcher.facts))
    if launcher.facts:
        yield ""
    yield "`--dry-run` prints what the command becomes, each change with its reason."
    yield from ("", "## Options", "", _LEGEND, "", _HEAD)
    yield from _rows((option for option in launcher.table.options if option not in without), launcher.table)
    yield from ("", "[What all launchers have in common](../launcher-options.md).", "")


def variables_reference() -> str:
    """Return the Markdown of the variables, as it is in docs/launcher-options.md."""
    lines = [
        "",
        "## Environment variables in front of a command",
        "",
        "Other variables are set for each rank.",
    ]
    lines += ["", "| variable | what gpulaunch does with it |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {option.why} |" for name, option in VARIABLES.items()), ""])


def _rows(options: Iterable[LauncherOption], table: Table) -> Iterator[str]:
    for option in options:
        names = ", ".join(f"`{name}`" for name in (option.name, *option.also))
        yield f"| {names} | {option.fate} | {_sentence(option, table)} |"


def _sentence(option: LauncherOption, table: Table) -> str:
    if option.fate == "refused":
        return f"{option.why}. Instead: {option.fix}"
    if option.fate == "owned" or option.why:
        return option.why
    section = find_section(option.name.removeprefix("--")) if table is ACCELERATE else None
    if section is not None and section in SECTIONS:
        return f"a key of `{section}`"
    return f"given to {table.owner} as it is"
