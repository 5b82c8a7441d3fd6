"""What the lines of a batch script that its scheduler reads (`#SBATCH --nodes=2`) say of its launch. Pure."""

import shlex
from collections.abc import Iterator, Mapping

from launcher.engines.command_line.manifests.counts import ASKED
from launcher.engines.command_line.option_reader import FoundOption
from launcher.engines.command_line.shell.words import Word
from preflight import regex as re
from preflight.checks.message_text import shorten

_SBATCH = (
    "for sbatch, but for counts, a directory and variables that this launch has; "
    "`slurm:` of a run config says it to gpulaunch submit"
)
_IMAGE = "gpulaunch starts no container: start it on each host, and name it in hosts.yaml (via:)"
_DIRECTIVES = "for its scheduler alone; the hosts are those of --hosts"
_DIRECTIVE = re.compile(
    r"[ \t]*#(?P<mark>SBATCH|PBS|MSUB|BSUB|COBALT|OAR|PJM|JSUB|FLUX|\$)[ \t:]+(?P<options>-[^\n]*?)"
    r"(?:[ \t]#[^\n]*)?"
)
_START = re.compile(r"[ \t]*(?:#!|```)|[^#\n]*<<-?[ \t]*[\"'\\]?\w")  # of a script within the text

_TOO_LATE = "Slurm reads no such line behind the first command of its script"
_OPTION = re.compile(r"-\S+(?:[ \t]+[^-\s]\S*)*")
_SHOWN = 60
_OF_JOB = "#SBATCH "
_PREPARES = re.compile(
    r"(?<!\S)(?:(?P<cd>--chdir|--workdir|-D)|--export(?=[= \t]))[= \t]*"
    r"(?P<value>(?:\"[^\"]*\"|'[^']*'|[^\s\"'])+)"
)
_COUNTS = {"nodes": "--nodes|-N", "total": "--ntasks|-n", "per_node": "--ntasks-per-node|--tasks-per-node"}
_COUNTED_BY = {
    "nodes": {"nodes", "total", "hosts"},
    "per_node": {"per_node", "total"},
    "total": {"nodes", "per_node", "total", "hosts"},
}
"""What a step counts itself, in place of each count of its job."""

_VARIABLES = {
    "SLURM_NNODES": _COUNTS["nodes"],
    "SLURM_JOB_NUM_NODES": _COUNTS["nodes"],
    "SLURM_NTASKS": _COUNTS["total"],
    "SLURM_NTASKS_PER_NODE": _COUNTS["per_node"],
    "SLURM_GPUS_PER_NODE": "--gpus-per-node",
    "SLURM_GPUS_ON_NODE": r"(?:--gpus-per-node[= ]|--gres[= ]gpu:)(?:[^\s:]+:)?",
    "SLURM_CPUS_PER_TASK": "--cpus-per-task|-c",
}
"""Variables of Slurm, and the options of sbatch that they repeat."""

_COUNTS_NODES = re.compile(r"\bscontrol show hostnames?\b[^\n|]*\|[ \t]*wc\b")


def is_batch_script(text: str) -> bool:
    """Return whether a text has lines for a scheduler."""
    return any(map(_DIRECTIVE.fullmatch, text.splitlines()))


def _directives(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the mark and the options of each line for a scheduler, and whether Slurm reads it."""
    is_head, is_read = False, True
    for line in text.splitlines():
        found = _DIRECTIVE.fullmatch(line)
        if _START.match(line):
            is_head, is_read = "#!" in line, True
        elif found is not None:
            is_head = True
            yield found["mark"], found["options"], is_read or found["mark"] != "SBATCH"
        elif line.strip() and not line.lstrip().startswith("#"):
            is_read = not is_head


def _number(option: str, text: str) -> str:
    """Return the number that the lines give an option of sbatch; "" for none, and for a range."""
    read = " ".join(f" {given}" for mark, given, is_read in _directives(text) if mark == "SBATCH" and is_read)
    found = re.findall(rf"\s(?:{option})[=\s]*(\d+)\b(?!-)", read)
    return found[-1] if found else ""


def list_job_variables(text: str) -> Mapping[str, str]:
    """Return the variables that a job has whose script this is: `SLURM_NNODES` of `#SBATCH --nodes=2`."""
    options = _VARIABLES if "#SBATCH" in text and "SLURM_" in text else {}
    return {name: number for name, option in options.items() if (number := _number(option, text))}


def render_setup(text: str) -> str:
    """Return what the lines do in front of the first command, as a shell does it: `--chdir`, `--export`."""
    lines: list[str] = []
    folder = ""
    for mark, given, is_read in _directives(text):
        for one in _PREPARES.finditer(given) if mark == "SBATCH" and is_read else ():
            value = re.sub(r"[\"']", "", one["value"])
            pairs = (item.partition("=") for item in value.split(",") if not one["cd"])
            lines += (f"export {name}={shlex.quote(item)}\n" for name, equals, item in pairs if equals)
            folder = f"cd {shlex.quote(value)}\n" if one["cd"] else folder
    return "".join((*lines, folder))


def explain_directives(text: str) -> Iterator[str]:
    """Yield what is said of the lines that a scheduler reads, and of the variables that follow from them."""
    options: dict[str, dict[str, None]] = {}
    for mark, said, is_read in _directives(text):
        given = options.setdefault(mark if is_read else "", {})
        given |= dict.fromkeys(shorten(option, _SHOWN) for option in _OPTION.findall(said))
    for mark, given in options.items():
        why = {"": _TOO_LATE, "SBATCH": _SBATCH}.get(mark, _DIRECTIVES)
        if image := next((one for one in given if one.startswith("--container-image")), ""):
            del given[image]
            yield f"#{mark} {image}: {_IMAGE}"
        yield f"#{mark or 'SBATCH'} {', '.join(given)}: {why}"
    for name, number in list_job_variables(text).items():
        is_counted = name == "SLURM_NNODES" and _COUNTS_NODES.search(text)
        if is_counted or re.search(rf"\$\{{?{name}\b", text):
            yield f"${name}: {number}, as the #SBATCH lines say, on however many hosts it starts"


def list_counts(text: str) -> Iterator[tuple[str, Word]]:
    """Yield as variables the counts of the lines, which srun and mpirun take where they have none."""
    for sets, option in _COUNTS.items():
        if "#SBATCH" in text and (number := _number(option, text)):
            yield f"{ASKED}_{sets}_{_OF_JOB}{option.partition('|')[0]}", Word(number)


def drop_vain_counts(found: list[FoundOption], prefix: str, *, has_ranks: bool) -> list[FoundOption]:
    """Return options without the counts of lines that the step (`srun -n 2`) replaces, or that no step takes.

    `has_ranks`: its tasks are ranks; in front of a launcher they are launchers, and only nodes count.
    """
    step = {one.option.sets for one in found if one.use.owner == prefix}
    takes = ("nodes", *("per_node", "total") * has_ranks) if prefix else ()
    return [
        one
        for one in found
        if not one.use.name.startswith(_OF_JOB)
        or (one.option.sets in takes and step.isdisjoint(_COUNTED_BY[one.option.sets]))
    ]
