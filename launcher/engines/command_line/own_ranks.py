"""Programs that start ranks themselves: refused where each rank would start them again, else named. Pure."""

import posixpath
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from launcher.engines.command_line.options import Table
from launcher.engines.command_line.parsed_command import ParsedCommand
from launcher.engines.command_line.shell.words import Word
from launcher.engines.command_line.side_commands import find_launcher
from launcher.engines.command_line.tables.names import as_names
from launcher.engines.command_line.tables.shells import starts_shell
from launcher.engines.command_line.tables.torchrun import TORCHRUN
from launcher.errors import CommandRefused
from preflight import regex as re

_STARTER = re.compile(
    r"deepy|multiproc|(?:\w+_)?launch(?:er)?(?:_\w+)?|(?:dist|distributed)_?run|run_(?:dist|distributed)"
)
"""How scripts and modules are called that start another script; deepy.py is of GPT-NeoX."""

_COUNT = re.compile(r"--?(?:nproc|nnodes|num[_-]gpus|num[_-]machines|ngpus)(?:[_-]per[_-]node)?(?:=.*)?")
RAY = re.compile(r"(?:verl\.trainer\.main_\w+|openrlhf\.cli\.train_\w*ray)")
"""Modules that start workers of Ray on all GPUs (verl/trainer/main_ppo.py, openrlhf/cli/train_ppo_ray.py)."""

_OF_VERL = re.compile(r"\+?trainer\.(?:n_gpus_per_node|nnodes)=.*")
_MAIN = re.compile(r"(?:.*[./])?main_\w+?(?:\.py)?")
_ONCE = "on one host write it into a script, which is started once: gpulaunch run --hosts A -- bash SCRIPT"
ON_RAY = f"{_ONCE}; on several, start Ray on them yourself, and then it on one"
_OF_NEOX = "deepy"  # of GPT-NeoX: what its script gets comes from configurations that deepy.py reads


_COUNTS = frozenset(
    as_names(
        "nproc nproc_per_node n_gpus ngpus num_gpus gpus devices num_devices n_devices num_nodes nnodes"
        " n_nodes nodes num_processes num_machines machine_rank node_rank world_size distributed_world_size"
        " n_gpus_per_node gpus_per_node num_gpus_per_node gpu_ranks gpu_ids local_rank dist_url"
        " multiprocessing_distributed distributed_port master_port"
    )
)
"""Arguments that say how many ranks a program starts, or which; without their dashes."""

_FIXED_RANK = re.compile(r"--local[_-]rank[= ]\d+")
_OF_SERVICE = re.compile(
    r"--(?:remote|queue|cluster|namespace|instance-type|job-queue)(?:[ =]|$)"
    r"|--(?:with|backend)[ =](?:kubernetes|batch|databricks)\b"
    r"|(?:\S*/)?\w*slurm\w*\.sh "
)
"""What says where a service starts the program."""

_LAUNCH = re.compile(
    r"(?:^|[\s;&|(])(?:torchrun|accelerate[ \t]+launch|deepspeed|-m[ \t]+torch\.distributed\.\w+)[ \t]"
)
"""A launcher within a word: of a text that a program gets."""

_WORLD = ("nodes", "per_node", "total", "hostfile", "include", "exclude", "node_rank", "config_file")
_SHOWN = 200
_SETTINGS = re.compile(r"config|cfg", re.IGNORECASE)
_SEVERAL = re.compile(r"device=\[?\d+(?:,\d+)+\]?")
_OF_LAUNCHER = re.compile(r" ?--launcher[ =]\S+| -- .*")
_ALONE: Mapping[tuple[str, ...], str] = {
    ("fairseq-train",): "torchrun -m fairseq_cli.train",
    ("fairseq-hydra-train",): "torchrun -m fairseq_cli.hydra_train",
    ("axolotl", "train"): "accelerate launch -m axolotl.cli.train",
    **{
        ("trl", one): f"accelerate launch -m trl.scripts.{one}"
        for one in ("sft", "dpo", "grpo", "kto", "rloo", "reward")
    },
}
"""Programs that start ranks without the other hosts (fairseq/distributed/utils.py), and what to write."""


def explain_own_ranks(record: ParsedCommand) -> ParsedCommand:
    """Return a record with what is said of ranks that its program may start.

    Raises CommandRefused for a program that each rank would start again, with ranks of its own.
    """
    _refuse_nested(record)
    said: tuple[str, ...] = ()
    if record.launcher == "opaque":
        said = (*_unchanged_counts(record), *_inner_launcher(record), *_repeated_program(record))
    known = [one.partition(" ")[0] for one in said]
    return replace(record, remarks=(*record.remarks, *said, *_own_ranks(record, known)))


def _refuse_nested(record: ParsedCommand) -> None:
    """Raise CommandRefused for a program that starts ranks, and that each rank would start again."""
    if record.launcher == "opaque":
        return
    name, args = _name(record), record.args
    is_of_verl = _MAIN.fullmatch(record.program) is not None and any(map(_OF_VERL.fullmatch, args))
    if (record.program_kind == "module" and RAY.fullmatch(record.program)) or is_of_verl:
        raise CommandRefused(
            f"{record.program} starts workers of Ray on all GPUs, and gpulaunch would start it for each GPU",
            ON_RAY,
        )
    if record.program in ("horovod.run", "horovod.runner", "mpi4py", "mpi4py.run"):
        raise CommandRefused(
            f"{record.program} starts its ranks through MPI or Horovod, and gpulaunch starts ranks itself",
            "launch the script that it starts: gpulaunch run --hosts A,B -- torchrun SCRIPT",
        )
    if not _STARTER.fullmatch(name):
        return
    scripts = (at for at, arg in enumerate(args) if arg.endswith(".py"))  # no configuration by path or option
    script = next(
        (at for at in scripts if not _SETTINGS.search(" ".join(args[max(at - 1, 0) : at + 1]))), None
    )
    if script is not None or (record.program_kind == "module" and any(map(_COUNT.fullmatch, args))):
        started = f"torchrun {shlex.join(args[script:])}" if script is not None else "torchrun SCRIPT"
        direct = f"launch what it starts: gpulaunch run --hosts A,B -- {started[:_SHOWN]}; or "
        raise CommandRefused(
            f"{record.program} starts ranks itself, and gpulaunch would start it for each GPU",
            f"{direct if name != _OF_NEOX else ''}{_ONCE}",
        )


def _name(record: ParsedCommand) -> str:
    if record.program_kind == "module":
        parts = record.program.split(".")
        return next((part for part in parts[1:] if part == "launcher"), parts[-1])
    return posixpath.basename(record.program).removesuffix(".py")


def _own_ranks(record: ParsedCommand, known: Sequence[str]) -> Iterator[str]:
    """Yield what is said of arguments, not in `known`, that count ranks, and of launchers for one host."""
    program = posixpath.basename(record.program)
    names = dict.fromkeys(name for arg in record.args if (name := _counts(arg)) and name not in known)
    for name in names:
        if record.launcher == "opaque":
            yield f"{name} is an argument of {program}: gpulaunch cannot change it, and the plan has its own"
        else:
            yield (
                f"{name} is an argument of {program}: the plan counts and numbers ranks without it, and"
                " starts one for each GPU, with the same value, even where the program starts its own by it"
            )
    pairs = map(" ".join, pairwise((record.program, *record.args, "")))
    service = next(filter(_OF_SERVICE.match, pairs), "")
    if service and (record.launcher == "opaque" or service.startswith("--with")):
        yield (
            f"{service.split()[0]}: {program} may hand work to a cluster; gpulaunch starts it on every host,"
            " and sees nothing that it hands on"
        )
    if ("--launcher", "slurm") in pairwise(record.args) or "--launcher=slurm" in record.args:
        yield f"--launcher slurm: {program} would take its ranks from Slurm; write --launcher pytorch"
    words = (program, *record.args)
    alone = next((words[:size] for size in (2, 1) if words[:size] in _ALONE), ())
    launcher = (*_named_launchers(record.args), "accelerate")[0]
    if record.launcher == "opaque" and alone and launcher in ("accelerate", "torchrun"):
        started = _ALONE[alone]
        started = started if launcher == "accelerate" else started.replace("accelerate launch", launcher)
        rest = _OF_LAUNCHER.sub("", shlex.join(words[len(alone) :]))[:120]
        what = "accelerate launch" if started.startswith("accelerate") else "ranks"
        yield (
            f"{' '.join(alone)} starts {what} for its own host, and each of several hosts would train alone:"
            f" write {started} {rest}".rstrip()
        )


def _counts(arg: str) -> str:
    """Return the name of an argument that counts ranks, as it is written; "" for any other."""
    name, equals, _ = arg.partition("=")
    if not (arg.startswith("-") or equals):
        return ""
    last = name.lstrip("-+").rpartition(".")[2].lower().replace("-", "_")
    return name if last in _COUNTS or _SEVERAL.fullmatch(arg) else ""


def _named_launchers(args: Sequence[str]) -> list[str]:
    named = [after for before, after in pairwise(args) if before == "--launcher"]
    return [*named, *(arg.partition("=")[2] for arg in args if arg.startswith("--launcher="))]


def _unchanged_counts(record: ParsedCommand) -> tuple[str, ...]:
    """Name options of an opaque program that say what the plan decides elsewhere."""
    if record.options_at is not None:
        return ()
    owner = find_launcher(tuple(map(Word, record.args))) or record.program  # `timer_launch torchrun a.py`
    return tuple(
        f"{name} is an option of {owner}, which gpulaunch cannot change; without it the plan's holds"
        for name in list_plan_options(record.args, TORCHRUN, "--standalone")
    )


def explain_fixed_ranks(record: ParsedCommand) -> Iterator[str]:
    """Yield what is said of `--local_rank 0` among the arguments of ranks, which several on a host get."""
    is_alone = 1 in (record.request.per_node, record.request.total)
    for words in () if is_alone else (*record.args, *map(" ".join, pairwise(record.args))):
        if _FIXED_RANK.fullmatch(words):
            yield f"{words}: every rank of {record.program} gets it, and none its own number: leave it out"


def list_plan_options(args: Sequence[str], table: Table, *others: str) -> Iterator[str]:
    """Yield the long options of a launcher among words that say what the plan decides, and `others`."""
    known = table.spellings()
    for name in dict.fromkeys(word.partition("=")[0] for word in args):
        if name.startswith("--") and name in known and (known[name].sets in _WORLD or name in others):
            yield name


def _inner_launcher(record: ParsedCommand) -> Iterator[str]:
    """Yield what is said of a launcher among the words of a program, which does not read PET_NNODES."""
    if not starts_shell(record.program) and any(map(_LAUNCH.search, record.args)):
        yield (
            f"{record.program} gets a text that starts a launcher, and gpulaunch cannot change its options:"
            " each host trains by what is written in it"
        )
    pairs = pairwise(record.args)
    inner = next((each for each in pairs if each == ("accelerate", "launch") or each[0] == "deepspeed"), None)
    if inner is not None and not starts_shell(record.program):
        shown = " ".join(inner) if inner[0] == "accelerate" else inner[0]
        yield (
            f"{shown} is started by {record.program}, and gpulaunch cannot change its options: each host"
            f" trains alone unless {record.program} gives it NNODES, NODE_RANK and MASTER_ADDR"
        )


def _repeated_program(record: ParsedCommand) -> Iterator[str]:
    """Yield what is said of a program that mpirun or srun would start once for each rank."""
    request = record.request
    ranks = request.per_node or (request.total or 1) // (request.nodes or 1)
    counts = any(use.owner == record.prefix and use.sets in ("total", "per_node") for use in record.owned)
    if counts and isinstance(ranks, int) and ranks > 1:
        yield (
            f"{record.prefix} would start {record.program} {ranks} times on a host, and gpulaunch starts it"
            " once: it has to start its ranks itself"
        )
