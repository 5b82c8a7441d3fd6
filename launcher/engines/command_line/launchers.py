"""The launcher of a line: which one it is, its options, its program and the program's arguments."""

import posixpath
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from launcher.engines.command_line import option_reader, python_options, refusals
from launcher.engines.command_line.batch_script import drop_vain_counts
from launcher.engines.command_line.line import CommandLine
from launcher.engines.command_line.options import Table
from launcher.engines.command_line.own_ranks import explain_fixed_ranks, explain_own_ranks, list_plan_options
from launcher.engines.command_line.parsed_command import LauncherKind, ParsedCommand, ProgramKind, Request
from launcher.engines.command_line.remedies import refuse_submitter
from launcher.engines.command_line.request import LAST_COUNTS, check_counts, request_of, widen_localhost
from launcher.engines.command_line.shell import missing_values
from launcher.engines.command_line.shell.words import Word
from launcher.engines.command_line.side_commands import refuse_setup
from launcher.engines.command_line.tables.accelerate import ACCELERATE
from launcher.engines.command_line.tables.colossalai import COLOSSALAI
from launcher.engines.command_line.tables.composer import COMPOSER
from launcher.engines.command_line.tables.deepspeed import DEEPSPEED
from launcher.engines.command_line.tables.fabric import FABRIC
from launcher.engines.command_line.tables.shells import starts_shell
from launcher.engines.command_line.tables.torchrun import LAUNCH, TORCHRUN, TUNE
from launcher.errors import CommandRefused
from preflight import regex as re

_PYTHON = re.compile(r"(pypy|python)[0-9.]*(-dbg|t)?")
_OF_FABRIC = ("fabric", "lightning")
_PROGRAMS: dict[tuple[str, ...], tuple[LauncherKind, Table]] = {
    ("torchrun",): ("torchrun", TORCHRUN),
    ("accelerate", "launch"): ("accelerate", ACCELERATE),
    ("accelerate-launch",): ("accelerate", ACCELERATE),
    **{(name,): ("deepspeed", DEEPSPEED) for name in ("deepspeed", "deepspeed.pt", "ds")},
    ("composer",): ("composer", COMPOSER),
    ("colossalai", "run"): ("colossalai", COLOSSALAI),
    **{(name, "run", *model): ("fabric", FABRIC) for name in _OF_FABRIC for model in ((), ("model",))},
    ("lightning", "fabric", "run"): ("fabric", FABRIC),
}
"""Programs by their first words; the longest that matches counts."""

_MODULES: dict[tuple[str, ...], tuple[LauncherKind, Table]] = {
    ("torch.distributed.run",): ("torchrun", TORCHRUN),
    ("torchrun",): ("torchrun", TORCHRUN),
    ("torch.distributed.launch",): ("torch.distributed.launch", LAUNCH),
    ("accelerate.commands.launch",): ("accelerate", ACCELERATE),
    ("accelerate.commands.accelerate_cli", "launch"): ("accelerate", ACCELERATE),
    ("deepspeed.launcher.runner",): ("deepspeed", DEEPSPEED),
    ("lightning.fabric.cli", "run"): ("fabric", FABRIC),
    ("lightning_fabric.cli", "run"): ("fabric", FABRIC),
    ("composer.cli.launcher",): ("composer", COMPOSER),
}
_STARTING_MODULES = (
    *(("llamafactory.cli",), ("swift.cli.main",), ("trl", "sft"), ("trl.cli",), ("xtuner.entry_point",)),
    *(("oumi",), ("torchtune._cli.tune", "run")),
)
"""Modules that start ranks of their own, as the programs do that are installed with them."""

_LAUNCHER_FILES = ("torchrun", "accelerate", "accelerate-launch", "deepspeed")
_MODULE_OPTIONS = {"--module", "--module_mode", "-m"}
_PROGRAM_OPTIONS = {"--no_python", "--command_mode"}
_OTHER_FRAMEWORKS = ("paddle", "mindspore", "oneflow", "torch_xla")
_DEBUGGERS = ("pdb", "ipdb", "pudb", "debugpy", "bdb")
_STARTING_COMMANDS = {"accelerate": "launch", "colossalai": "run", "fabric": "run", "lightning": "run"}
_CHOICES = ("gpus", "hostfile", "include", "exclude", "config_file", "precision")
"""What the plan does not decide for itself: without a value the launch would be another one."""
_PROCESS_COUNTS = ("total", "per_node")
_AS_TYPED = "an argument as it is typed; where it is the name of a value, write the value"
_LITERAL = " (args: of a run config takes words as they are)"
_NO_PROGRAM = re.compile(
    r"[\[\]{}()\"'<>=,;|]|:$|^(?:FROM|then|elif|else|fi|do|done|esac|function|begin|switch|end|not)\Z"
)
_TRIAL = re.compile(r"(?:[\w.]+:\w+)?")  # of Determined: `model_def:MyTrial`, or none
_WITH_ARGUMENTS = re.compile(r"\.(?:py|sh)\s+--?\w")
_SHOWN = 40


def read_launcher(line: CommandLine, start: int) -> ParsedCommand:
    """Return the record of a line whose launcher starts at `start`. Raises CommandRefused."""
    text = line.words[start].text
    missing_values.require_known(line.words[start], "the command")
    name = posixpath.basename(text)
    if [word.text for word in line.words[start + 1 : start + 2]] == ["="]:  # a line of a TOML file
        raise refusals.explain_no_program(f"{text} =")
    if text in ("-m", "--module") and line.environment is not None:  # `uv run -m pkg.train`
        return replace(_read_python(line, start - 1), python="")
    if _PYTHON.fullmatch(name):
        return _read_python(line, start)
    match = _longest(_PROGRAMS, (name, *(word.text for word in line.words[start + 1 : start + 3])))
    if match is not None:
        folder = posixpath.dirname(text)
        python = posixpath.join(folder, "python") if posixpath.basename(folder) == "bin" else ""
        return replace(_read_table(line, start + len(match), *_PROGRAMS[match]), python=python)
    if verb := _STARTING_COMMANDS.get(name):
        raise CommandRefused(
            f"only {name} {verb} starts a training, and the line is {_shown(line, start)}",
            f"write {name} {verb} ...",
        )
    if name.endswith(".py"):
        return explain_own_ranks(_record(line, "python", "script", start))
    refuse_setup(line.words[start:])
    if [word.text for word in line.words[start : start + 2]] == ["tune", "run"]:
        return _read_tune(line, start)
    _refuse_no_program(name, [word.text for word in line.words[start + 1 :]])
    return explain_own_ranks(_record(line, "opaque", "executable", start))


def _owner(option: str) -> str:
    """Return the launcher that an option is of; "" for one that none has, or that may be of a script."""
    tables = (("torchrun", TORCHRUN), ("accelerate launch", ACCELERATE), ("deepspeed", DEEPSPEED))
    return next((name for name, table in tables if option in table.spellings()), "")


def _refuse_no_program(name: str, args: Sequence[str]) -> None:
    """Raise CommandRefused for what no program is called, and for a shell that waits for a person."""
    if name.startswith("-"):
        launcher = _owner(name.partition("=")[0])
        raise CommandRefused(
            f"the line starts with {name}, an option: its program is missing",
            f"write {launcher} in front of it"
            if launcher
            else "paste it from torchrun, accelerate or python on, to its end",
        )
    if _NO_PROGRAM.search(name):
        raise refusals.explain_no_program(name)
    if starts_shell(name) and all(word.startswith("-") for word in args):
        raise CommandRefused(
            f"{name} would wait for a terminal on every host",
            f"write what to start in {name}: {name} train.sh",
        )


def _longest(known: Iterable[tuple[str, ...]], words: tuple[str, ...]) -> tuple[str, ...] | None:
    found = [key for key in known if words[: len(key)] == key]
    return max(found, key=len) if found else None


def _shown(line: CommandLine, start: int) -> str:
    return " ".join(word.text for word in line.words[start : start + 3])


def _read_python(line: CommandLine, start: int) -> ParsedCommand:
    at, env, kind = python_options.read_options(line.words, start)
    for name, value in env.items():
        line.env.setdefault(name, value)
    if at >= len(line.words):
        raise CommandRefused(
            f"{_shown(line, start)} names no script and no module", "write python SCRIPT or python -m MODULE"
        )
    python = line.words[start].text
    if kind == "script" and posixpath.basename(line.words[at].text) in _LAUNCHER_FILES:
        return replace(read_launcher(line, at), python=python)  # `python $(which torchrun) ...`
    if kind == "script" and (file := _launcher_file(line.words[at].text)):
        return replace(_read_table(line, at + 1, *_MODULES[file]), python=python)
    if kind == "module":
        _refuse_module([word.text for word in line.words[at:]])
        words = tuple(word.text for word in line.words[at : at + 3])
        match = _longest(_MODULES, words)
        if match is not None:
            return replace(_read_table(line, at + len(match), *_MODULES[match]), python=python)
        match = _longest(_PROGRAMS, (words[0].removesuffix(".cli"), *words[1:]))
        if match is not None:  # python -m accelerate launch
            return replace(_read_table(line, at + len(match), *_PROGRAMS[match]), python=python)
        if _longest(_STARTING_MODULES, words) is not None:
            return explain_own_ranks(_record(line, "opaque", "executable", start))
    return explain_own_ranks(replace(_record(line, "python", kind, at), python=python))


def _launcher_file(path: str) -> tuple[str, ...]:
    """Return the module of a launcher whose file a path is, `.../torch/distributed/run.py`; () for others."""
    files = (key for key in _MODULES if "." in key[0] and path.endswith(f"/{key[0].replace('.', '/')}.py"))
    return next((key for key in files if len(key) == 1), ())


def _refuse_module(words: Sequence[str]) -> None:
    module = words[0]
    if module.startswith("determined.launch."):
        dashes = words.index("--") if "--" in words else 0
        own = next((at for at in range(dashes + 1, len(words)) if not words[at].startswith("-")), len(words))
        options = [word for word in words[1 : dashes or own] if word != "--trial"]
        own += own + 1 < len(words) and _PYTHON.fullmatch(words[own]) is not None
        script = words[own:] if not _TRIAL.fullmatch("".join(words[own : own + 1])) else ["SCRIPT"]
        started = shlex.join(("torchrun", *options, *script))
        raise CommandRefused(
            f"{module} asks the master of Determined for its hosts",
            f"launch what it starts: gpulaunch run --hosts A,B -- {started}",
        )
    if module == "deepspeed.launcher.launch":
        raise CommandRefused(
            f"{module} is what deepspeed starts on each host", "write deepspeed SCRIPT, with its options"
        )
    if module.partition(".")[0] in _OTHER_FRAMEWORKS:
        raise CommandRefused(
            f"{module} starts ranks that are not torch's",
            "write the command into a script, started once on each host: gpulaunch run ... -- bash SCRIPT",
        )
    if module.partition(".")[0] in _DEBUGGERS:
        raise CommandRefused(
            f"{module} would wait for a terminal in every rank",
            "leave it out; gpulaunch stacks shows where every rank is",
        )


def _read_table(line: CommandLine, start: int, launcher: LauncherKind, table: Table) -> ParsedCommand:
    others: tuple[int, ...] | None = None
    if table.interspersed:
        reading, others = option_reader.read_interspersed(line.words, start, table)
    else:
        reading = option_reader.read_options(line.words, start, table)
        others = (reading.program, *range(reading.arguments, len(line.words)))
    line.take(reading.found)
    line.dropped += _repeated(reading.found)
    if reading.program >= len(line.words):
        raise _without_script(launcher, reading.found)
    names = {one.option.name for one in reading.found}
    kind: ProgramKind = "module" if names & _MODULE_OPTIONS else "script"
    if names & _PROGRAM_OPTIONS:
        if kind == "module":
            both = " and ".join(sorted(names & (_MODULE_OPTIONS | _PROGRAM_OPTIONS)))
            raise CommandRefused(f"{both} of {launcher} exclude each other", "leave one of them out")
        kind = "executable"
    record = _record(line, launcher, kind, reading.program, others)
    if kind == "script" and _PYTHON.fullmatch(record.program):
        raise CommandRefused(
            f"{launcher} starts its script with Python itself, and gets {record.program} for one",
            f"leave {record.program} out",
        )
    misplaced = f" is after {record.program}, and so an argument of it, not an option of {table.owner}"
    return replace(
        record,
        local_rank_option=_local_rank_option(launcher, names, kind),
        remarks=(
            *record.remarks,
            *(f"{name}{misplaced}" for name in list_plan_options(record.args, table)),
            *explain_fixed_ranks(record),
            *_taken(reading, record.program, table),
        ),
    )


def _repeated(found: Sequence[option_reader.FoundOption]) -> Iterator[str]:
    """Yield what is said of options that come again: their launcher takes the last."""
    last = {one.use.name: one.use for one in found}
    for one in found:
        counts = last[one.use.name]
        if one.use.owner in LAST_COUNTS and counts.values != one.use.values:
            yield f"{one.use.text}: {counts.text} comes after it, and counts"


def _without_script(launcher: LauncherKind, found: Sequence[option_reader.FoundOption]) -> CommandRefused:
    """Say where the script went: mostly an option without its value has taken it."""
    last = found[-1] if found else None
    if last is not None and last.words and last.words[-1].text.endswith((".py", ".sh")):
        option, script = last.use.spelling, last.words[-1].text
        return CommandRefused(
            f"{launcher} has no script to start: {option} has no value and takes {script} for it",
            f"write {option} VALUE {script}",
        )
    return CommandRefused(
        f"{launcher} has no script to start", f"write the script after the options of {launcher}"
    )


def _read_tune(line: CommandLine, start: int) -> ParsedCommand:
    """Read `tune run`, which takes torchrun's options and starts its recipe with them, without them alone."""
    reading = option_reader.read_options(line.words, start + 2, TUNE)
    if reading.program >= len(line.words):
        raise CommandRefused("tune run has no recipe to start", "write the recipe after its options")
    if not reading.found:
        return _record(line, "opaque", "executable", start)
    line.take(reading.found)
    others = (start, start + 1, *range(reading.program, len(line.words)))
    return replace(_record(line, "opaque", "executable", start, others), options_at=1)


def _taken(reading: option_reader.OptionsResult, program: str, table: Table) -> Iterator[str]:
    """Name options in front of the script and behind it: click takes both for the launcher."""
    in_front = {one.option for one in reading.found if one.use.position < reading.program}
    for one in reading.found:
        if one.use.position > reading.program and one.option in in_front:
            yield f"{one.use.spelling} is behind {program} too: {table.owner} takes both, and {program} none"


def _local_rank_option(launcher: LauncherKind, names: set[str], kind: ProgramKind) -> str:
    """What the launcher gives each script: deepspeed/launcher/launch.py and torch/distributed/launch.py."""
    if launcher == "deepspeed" and "--no_local_rank" not in names:
        return "--local_rank"
    if launcher == "torch.distributed.launch" and "--use_env" not in names:
        if kind == "executable":
            raise CommandRefused(
                "--no_python of torch.distributed.launch goes with --use_env only", "add --use_env"
            )
        return "--local-rank"
    return ""


def _record(
    line: CommandLine,
    launcher: LauncherKind,
    kind: ProgramKind,
    start: int,
    others: tuple[int, ...] | None = None,
) -> ParsedCommand:
    line.found = drop_vain_counts(line.found, line.prefix, has_ranks=launcher == "python")
    indices = range(start + 1, len(line.words)) if others is None else others[1:]
    kept = [word for one in line.found if one.option.fate == "kept" for word in one.words]
    chosen = [word for one in line.found if one.option.sets in _CHOICES for word in one.words]
    program, *args = (line.words[index] for index in (start, *indices))
    if _WITH_ARGUMENTS.search(program.text):
        raise CommandRefused(
            f"{program.text[:_SHOWN]!r} is one word, and so the name of one file",
            "take the quotes around it off",
        )
    refuse_submitter(launcher, program.text, args, line.words[:start] if line.prefix else ())
    named = tuple(missing_values.list_variable_like(args))
    left = () if line.is_typed else tuple(Word(name, (name,)) for name in named)
    own = (*kept, *chosen, program)
    needed = (*own, *map(missing_values.clear_placeholders, args), *left)
    if any(not word.is_known for word in needed):
        literal = _LITERAL if all(word.is_known for word in own) else ""
        error = missing_values.explain_no_values(needed, "the line", literal)
        if not program.is_known:
            raise error
        line.lack(error, tuple(part for word in needed for part in word.unresolved))
    return ParsedCommand(
        words=tuple(word.text for word in line.words),
        launcher=launcher,
        program_kind=kind,
        program=program.text,
        args=tuple(word.text for word in args),
        request=_request(line, launcher),
        env=dict(line.env),
        unset=tuple(line.unset),
        forwarded=tuple(line.forwarded),
        owned=tuple(one.use for one in line.found if one.option.fate == "owned"),
        kept=tuple(one.use for one in line.found if one.option.fate == "kept"),
        prefix=line.prefix,
        environment=line.environment,
        directory=line.directory,
        dropped=tuple(line.dropped),
        unknown=tuple(dict.fromkeys(line.unknown)),
        remarks=tuple(f"{name}: {_AS_TYPED}" for name in named if line.is_typed),
    )


def _request(line: CommandLine, launcher: LauncherKind) -> Request:
    """Return what the line asks for; counts of a prefix in front of a launcher are of launchers."""
    prefixed = [one for one in line.found if one.use.owner == line.prefix]
    own = [one for one in line.found if one.use.owner != line.prefix]
    started = Request()
    if prefixed and launcher not in ("python", "opaque"):
        started = request_of(prefixed)
        # `srun --ntasks 2 torchrun` starts two launchers: two nodes, not two processes, and
        # `srun -N 1 -w a torchrun --nnodes 2` that of one of two nodes.
        counts_nodes = any(one.option.sets == "nodes" for one in own) and request_of(own).nodes != 1
        is_of_node = counts_nodes and (started.nodes or len(started.hosts)) == 1
        left_out = (*_PROCESS_COUNTS, *("nodes", "hosts") * is_of_node)
        prefixed = [one for one in prefixed if one.option.sets not in left_out]
    request = request_of([*prefixed, *own])
    if not request.nodes and isinstance(started.per_node, int) and started.total:
        request = replace(request, nodes=-(-started.total // started.per_node))
    request = check_counts(request)
    if launcher == "deepspeed":
        _check_filters(request)
    return widen_localhost(request)


def _check_filters(request: Request) -> None:
    if request.include and request.exclude:
        raise CommandRefused(
            "--include and --exclude exclude each other (DeepSpeed refuses both together)",
            "leave one of them out",
        )
    if (request.include or request.exclude) and (request.per_node or request.nodes):
        raise CommandRefused(
            "--num_nodes and --num_gpus exclude --include and --exclude (DeepSpeed refuses them together)",
            "leave the count out: the filter says which GPUs",
        )
