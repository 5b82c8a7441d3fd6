"""The tables of options as Markdown: docs/launcher-options.md."""

from collections.abc import Iterable, Iterator

from launcher.engines.accelerate_config import SECTIONS, section_of
from launcher.engines.command_line.line import VARIABLES
from launcher.engines.command_line.options import LauncherOption, Table
from launcher.engines.command_line.tables.accelerate import ACCELERATE
from launcher.engines.command_line.tables.colossalai import COLOSSALAI
from launcher.engines.command_line.tables.colossalai import VERSION as COLOSSALAI_VERSION
from launcher.engines.command_line.tables.composer import COMPOSER
from launcher.engines.command_line.tables.composer import VERSION as COMPOSER_VERSION
from launcher.engines.command_line.tables.deepspeed import DEEPSPEED, VERSION
from launcher.engines.command_line.tables.fabric import FABRIC
from launcher.engines.command_line.tables.prefixes import HOROVODRUN, MPIRUN, SRUN
from launcher.engines.command_line.tables.torchrun import LAUNCH, TORCHRUN

CHAPTERS: tuple[tuple[str, str, Table, Table | None], ...] = (
    (
        "torchrun",
        "Also `python -m torch.distributed.run` and torchtune's `tune run`. Dashes count as underscores.",
        TORCHRUN,
        None,
    ),
    (
        "torch.distributed.launch",
        "The options of torchrun, and one more. Without it each script gets `--local-rank=N`, as from torch.",
        LAUNCH,
        TORCHRUN,
    ),
    (
        "accelerate launch",
        "Options of sections are folded into the accelerate config file of the launch.",
        ACCELERATE,
        None,
    ),
    (
        "deepspeed",
        f"DeepSpeed {VERSION}. Scripts get `--local_rank=N` as from its launcher, which itself does not run.",
        DEEPSPEED,
        None,
    ),
    (
        "composer",
        f"Composer {COMPOSER_VERSION}. Each rank gets torchrun's variables, and `NODE_RANK`.",
        COMPOSER,
        None,
    ),
    (
        "colossalai run",
        f"Colossal-AI {COLOSSALAI_VERSION}. Options can come before and after the script.",
        COLOSSALAI,
        None,
    ),
    ("fabric run", "Also `lightning run model`. Options can come before and after the script.", FABRIC, None),
    (
        "mpirun",
        "Also `mpiexec`. gpulaunch takes it off the command, and starts the processes itself.",
        MPIRUN,
        None,
    ),
    ("horovodrun", "gpulaunch takes it off the command, and starts the processes itself.", HOROVODRUN, None),
    ("srun", "gpulaunch takes it off the command, and starts the processes itself.", SRUN, None),
)
"""Heading, what is said first, the table, and the table whose rows are left out."""

_HEAD = "| option | in a launch | what gpulaunch does with it |\n|---|---|---|"


def options_reference() -> str:
    """Return the Markdown of all tables, as it is in docs/launcher-options.md."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for heading, words, table, without in CHAPTERS:
        rows = [option for option in table.options if without is None or option not in without.options]
        yield from ("", f"## {heading}", "", words, "", _HEAD, *_rows(rows, table))
    yield from ("", "## Environment variables in front of a command", "")
    yield "Other variables are set for each rank."
    yield from ("", "| variable | what gpulaunch does with it |", "|---|---|")
    for name, option in VARIABLES.items():
        yield f"| `{name}` | {option.why} |"
    yield ""


def _rows(options: Iterable[LauncherOption], table: Table) -> Iterator[str]:
    for option in options:
        names = ", ".join(f"`{name}`" for name in (option.name, *option.also))
        yield f"| {names} | {option.fate} | {_sentence(option, table)} |"


def _sentence(option: LauncherOption, table: Table) -> str:
    if option.fate == "refused":
        return f"{option.why}. Instead: {option.fix}"
    if option.fate == "owned" or option.why:
        return option.why
    section = section_of(option.name.removeprefix("--")) if table is ACCELERATE else None
    if section is not None and section in SECTIONS:
        return f"a key of `{section}`"
    return f"given to {table.owner} as it is"
