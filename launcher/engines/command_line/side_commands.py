"""Commands around a launch that start no training: dropped with a sentence, or refused. Pure."""

import posixpath
import shlex
from collections.abc import Sequence
from itertools import pairwise

from launcher.engines.command_line import refusals
from launcher.engines.command_line.launch_patterns import LAUNCH_LINE
from launcher.engines.command_line.option_reader import read_options
from launcher.engines.command_line.options import RANK_LOGS, Table
from launcher.engines.command_line.parsed_command import CONDAS, Environment
from launcher.engines.command_line.shell.terminals import SENTENCE, read_terminal
from launcher.engines.command_line.shell.words import Word, is_assignment
from launcher.engines.command_line.tables import side_programs as tables
from launcher.engines.command_line.tables.mpirun_srun import PREFIXES
from launcher.engines.command_line.tables.names import as_names
from launcher.engines.command_line.tables.shells import starts_shell
from launcher.engines.command_line.tables.side_programs import BEFORE, MODULES, NOTHING, OF_SHELL
from launcher.errors import CommandRefused
from preflight import regex as re

INTERPRETER = "the interpreter is that of each host (python: in hosts.yaml, else this environment's)"
"""What is said of every command that enters a Python environment."""

WITHOUT_VALUE = "the text does not say its value: env: of a run config does"
LINES_LEFT_OUT = "the text leaves lines out in its place"
UNDECIDED = "the text does not decide whether it runs: it is left out"
BEHIND = "it comes after the launch: do it when the run has ended (on_end: of a run config starts a program)"
NEEDED_TASK = "task-needed-first"  # in front of the name of a task that the launch's own needs first

LEFT_OUT = "left-out-of-the-launch"  # in front of a sentence about a part that gpulaunch leaves out

_SHOWN = 60
_IN_FULL = ("module", "ml", "spack", "ulimit", "umask", "mkdir", "nvm")
_AFTER = ("tail", "less", "watch", "fg", "bg")  # commands that only look at a launch which continues

LOG_FILTERS = as_names("tee cat grep egrep sed awk ts tail head less logger rotatelogs")
"""Programs that only show or keep what a launch prints: `| grep --line-buffered loss`."""

_TEXT_READERS = ("at", "batch", "ssh", "qsub", "bsub", "sbatch")
_RC_FILES = as_names(
    ".bashrc .bash_profile .profile .zshrc .cshrc conda.sh conda.csh mamba.sh modules.sh modules.csh"
)
_OF_SHELL = ("cd", "pushd", "popd", "export", "unset", "deactivate", "set", "source", ".")
_OF_JOB = re.compile(
    r"\bscontrol show hostnames?\b|\bSLURM_(?:JOB_)?NODELIST\b|^(?:\$\(|`)hostname\b"
    r"|\b(?:PBS|COBALT|OAR)_NODEFILE\b|\bLSB_(?:DJOB_HOSTFILE|HOSTS)\b|\bPE_HOSTFILE\b"
)
_OF_PROGRAM = re.compile(
    r"(?:\$\((?:dirname|readlink -f|realpath)[ \t]+\"?)*"
    r"(?:\$\(|`)[ \t]*(?:which|command -v)[ \t]+[\w.+-]+[ \t]*[)`\"]+",
    re.ASCII,
)
_OF_GPUS = re.compile(
    r"(?:\$\(|`)[ \t]*(?:nvidia-smi\b|python[\d.]*[ \t]+-c[^`\n]*\btorch\.cuda\.device_count\(\))"
)
_PYTHON = re.compile(r"(?:\S*/)?python[\d.]*")
_STARTED = re.compile(r"[-$]|(?:launch|run|train|sft|pt|rlhf|python|torchrun|bash|sh)\Z|\S*[./]")
"""What a launcher has behind it, and a name in a list has not: `--languages java python`."""

_LAUNCHER = re.compile(r"(?:torchrun|accelerate|deepspeed|python[\d.]*)")
_SETUP_SCRIPT = re.compile(
    r"(?:[a-z\d]+[_.-]){0,20}(?:(?:install|setup|init|env|build|compile)(?:[_.-][a-z\d]+){0,20}\.sh"
    r"|(?:download|fetch|unpack|extract|prepare|preprocess|convert|tokenize|pack|edit)(?:[_.-][a-z\d]+){0,20}\.(?:sh|py))",
    re.IGNORECASE,
)
_BUILD_WORD = re.compile(r"-[jkBs]\w*|\d+|[A-Z_]+=.*|all|build|install|clean|deps|requirements|setup")
"""Of `make`: a target by another name may be the launch."""

SHELL_SCRIPT = re.compile(r"(?:^|[\s/])[\w.-]+\.sh(?=\s|$)")
TEXT_OPTION = re.compile(r"-[a-zA-Z]*c")
_BETWEEN = re.compile(r"[;&|\n`]|\$\(")
_OF_SUDO = re.compile(r"-[EHnS]+|--preserve-env")
_OF_PERSON = re.compile(r"-[il]+|--login")  # options of a shell that waits for a person

_RUNS = [[name, "run"] for name in ("uv", "poetry", "pixi", "pdm", "pipenv", "rye")]
_STARTS = re.compile(r"train|run|launch|tune|eval|test|main|start", re.IGNORECASE)
_LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
_LAUNCHES = as_names(
    "torchrun accelerate deepspeed fabric lightning mpirun mpiexec srun python composer colossalai tune"
    " swift llamafactory-cli axolotl xtuner litgpt fairseq-train fairseq-hydra-train megatron"
)


def say_left_out(sentence: str) -> str:
    """Return a line of a shell that says what is left out of a launch."""
    return f"{LEFT_OUT} {shlex.quote(sentence)}"


def explain_drop(words: tuple[Word, ...], *, after: bool) -> str:
    """Return what is said of a command without effect on the launch; "" for any other. `after`: behind it."""
    whole, words = words, strip_prefixes(words)
    is_behind = len(words) < len(whole)  # `srun --pty`
    name = posixpath.basename(words[0].text) if words else ""
    if not name:
        return ""
    text = words[0].text  # one in quotes of its own is a comment, as in Python, where it launches nothing
    is_comment = text[:1] == "\n" and not LAUNCH_LINE.search(text)
    if len(words) == 1 and (is_comment or (len(name) > 2 and not name.strip("."))):
        return f"{text.strip()[:_SHOWN]}: {NOTHING if is_comment else LINES_LEFT_OUT}"
    if after and all(word.text == "exec" or starts_shell(word.text) for word in words):
        return f"{' '.join(word.text for word in words)}: {NOTHING}"
    if (after and name in _AFTER) or _asks_itself(words) or (is_behind and _waits_for_person(words)):
        return f"{name}: {NOTHING}"
    if _sets_variable(name, words[1:2]):
        return ""
    if whole[:1] == (Word("command"),) and name in ("-v", "-V"):
        return f"command {name}: {NOTHING}"
    if words[0].text in ("exec", "eval") and len(words) == 1:
        return f"{name}: {RANK_LOGS if name == 'exec' else NOTHING}"
    if name == "env" and any("=" in word.text or not word.text.startswith("-") for word in words[1:]):
        return ""
    terminal = read_terminal(words, 0)
    if terminal is not None and terminal.start == terminal.end:
        return f"{name}: {SENTENCE}"
    if name in tables.DROPPED:
        return (
            ""
            if is_setup(words) or [word.text for word in words[:2]] in tables.STARTING
            else f"{_shown(name, words)}: {tables.DROPPED[name]}"
        )
    if name in ("source", ".") and len(words) > 1 and posixpath.basename(words[1].text) in _RC_FILES:
        return f"{name} {words[1].text}: {MODULES}"
    if (
        name == "eval"
        and len(words) > 1
        and any(hook in part for part in words[1].unresolved for hook in tables.SHELL_HOOKS)
    ):
        return f"eval {words[1].text}: {MODULES}"
    said = " ".join(word.text for word in words[1:])
    of_conda = f"{name} {said}: {OF_SHELL}" if name in CONDAS and said == "deactivate" else ""
    return of_conda or {LEFT_OUT: said, NEEDED_TASK: f"task {said}: {BEFORE}"}.get(name, "")


def _shown(name: str, words: Sequence[Word]) -> str:
    """Return a command as people know it again: with its words, where they say what hosts need."""
    return " ".join((name, *(word.text for word in words[1:])))[:_SHOWN] if name in _IN_FULL else name


def _sets_variable(name: str, first: Sequence[Word]) -> bool:
    """Whether a command is `set A=1` of cmd.exe, or `printf -v A`."""
    marks = {"set": "=", "printf": "-v"}
    return any(mark in word.text for mark in [marks.get(name)] for word in first if mark)


def _asks_itself(words: Sequence[Word]) -> bool:
    """Whether a command only prints what its program knows."""
    name, option = posixpath.basename(words[0].text), words[1].text if len(words) == 2 else ""
    of_numactl = name == "numactl" and option in ("-H", "--hardware", "-s", "--show")
    of_version = option in ("--version", "-V") if is_python(words[0]) else option in ("--version", "--help")
    of_version = of_version and not has_launcher(words[:1])
    return of_numactl or of_version


def reads_commands(word: str) -> bool:
    """Return whether a word starts a program that starts what it reads: a shell, `at`, `ssh`."""
    return word in _TEXT_READERS or starts_shell(word)


def _waits_for_person(words: Sequence[Word]) -> bool:
    """Whether a command is a shell without anything to run: `bash -i`."""
    return starts_shell(words[0].text) and all(_OF_PERSON.fullmatch(word.text) for word in words[1:])


def strip_prefixes(words: Sequence[Word]) -> tuple[Word, ...]:
    """Return a command from its program on: without `DATA=/x/env`, `sudo`, `srun -n 1` and `poetry run`."""
    around = (at for at, word in enumerate(words) if not is_assignment(word))
    at = next(
        (at for at in around if at + 1 == len(words) or words[at].text not in ("nohup", "time", "command")),
        len(words),
    )
    if [word.text for word in words[at : at + 1]] == ["sudo"]:
        behind = (at for at in range(at + 1, len(words)) if not _OF_SUDO.fullmatch(words[at].text))
        at = next(behind, at)
    elif at < len(words) and (table := PREFIXES.get(posixpath.basename(words[at].text))) is not None:
        at = _behind_prefix(words, at, table)
    program = "".join(word.text for word in words[at + 2 : at + 3])
    is_run = [word.text for word in words[at : at + 2]] in _RUNS and program[:1] not in ("", "-")
    return tuple(words[at + 2 * is_run :])


def _behind_prefix(words: Sequence[Word], at: int, table: Table) -> int:
    """Return where the program behind mpirun or srun is, where it surely trains nothing; else `at`."""
    try:
        program = read_options(words, at + 1, table).program
    except CommandRefused:
        return at
    behind = tuple(words[program:])
    return program if behind and _prepares(behind) else at


def _prepares(words: tuple[Word, ...]) -> bool:
    is_left_out = is_setup(words) or is_setup_script(words) or explain_drop(words, after=False) != ""
    return is_left_out or _waits_for_person(words)


def find_environment(words: tuple[Word, ...]) -> Environment | None:
    """Return the Python environment that a command activates."""
    name, rest = words[0].text, words[1:]
    if name in ("source", ".") and rest:
        target = rest[0].text
        if target.endswith(("bin/activate", "Scripts/activate")):
            named = rest[1].text if len(rest) > 1 else "base"
            return _activated(posixpath.dirname(posixpath.dirname(target)) or ".", named)
        if target == "activate" or posixpath.basename(target) == "activate":
            return Environment("conda", rest[1].text if len(rest) > 1 else "base")
    if name in CONDAS and rest and rest[0].text in ("activate", "shell"):
        named = rest[1].text if len(rest) > 1 else "base"
        return Environment(name, path=named) if "/" in named else Environment(name, named)
    return None


def _activated(prefix: str, named: str) -> Environment:
    """Return what PREFIX/bin/activate NAME enters: a venv reads no name, conda's own script does."""
    if named == "base" or named == posixpath.basename(prefix):
        return Environment("venv", path=prefix)
    return Environment("conda", path=named if "/" in named else f"{prefix}/envs/{named}")


def explain_needless(value: Word) -> str:
    """Return why no rank needs an exported variable whose value is not known; "" where one may.

    `$(scontrol show hostnames ...)` lists the nodes of a Slurm job, `$(hostname -i)` is an address of the
    machine that the text was written for; `CMD="torchrun ..."` is run later.
    """
    if value.is_known:
        return ""
    if all(_OF_JOB.search(part) for part in value.unresolved):
        return "the hosts and addresses are those of --hosts, or of the job that gpulaunch runs in"
    if all(map(_OF_GPUS.match, value.unresolved)):
        return "it asks this machine for its GPUs, and those of a launch are the plan's"
    if all(map(_OF_PROGRAM.fullmatch, value.unresolved)):
        return "it names a program of this machine; env: of a run config sets it for the ranks"
    is_launch = any(map(_LAUNCHER.fullmatch, value.text.split(maxsplit=1)[:1]))
    return "it holds the launch, which gpulaunch reads" if is_launch else ""


def is_of_shell(words: tuple[Word, ...]) -> bool:
    """Whether a command changes the shell alone: without effect behind the launch."""
    name = words[0].text
    return name in _OF_SHELL or all(map(is_assignment, words))


def refuse_undecided(words: tuple[Word, ...], first: tuple[Word, ...]) -> None:
    """Raise CommandRefused for a condition or a loop that the text does not decide.

    `first` is the first command of the text: one behind it that starts with an option is the rest of a line.
    """
    name = words[0].text
    if first and name.startswith("-"):
        raise refusals.cut_command(name)
    if name in refusals.LOOPS:
        raise refusals.explain_undecided(name)


def refuse_setup(words: Sequence[Word]) -> None:
    """Raise CommandRefused for a program that installs, copies or ends something, and trains nothing."""
    if is_setup(words):
        shown = " ".join(word.text for word in strip_prefixes(words)[:2])
        raise CommandRefused(
            f"{shown} starts no training", "do it on each host yourself, and paste the command that trains"
        )


def is_setup(words: Sequence[Word]) -> bool:
    """Whether a command installs, downloads, copies or ends something."""
    words = strip_prefixes(words)
    name = words[0].text if words else ""
    name = name if name.startswith("./") else posixpath.basename(name)  # ./black is the project's own
    rest = tuple(word.text for word in words[1:])
    if name in tables.SETUP or (name in tables.BUILDERS and all(map(_BUILD_WORD.fullmatch, rest))):
        return True
    if name == "ssh" and rest and not rest[0].startswith("-"):
        return _only_prepares(" ".join(rest[1:]))
    if starts_shell(name) and TEXT_OPTION.fullmatch("".join(rest[:1])):
        return _only_prepares("".join(rest[1:2]))
    if name == "nvidia-smi":
        return not tables.GPU_SETTINGS.isdisjoint(word.partition("=")[0] for word in rest)
    if name.startswith("python") and rest and posixpath.basename(rest[0]) == "setup.py":
        return True
    if rest[:1] == ("-m",) and (name.startswith("python") or not words[0].is_known):
        return rest[1:2] in tables.SETUP_MODULES or rest[1:3] in tables.SETUP_COMMANDS
    if name == "gcloud" and rest[:1] == ("compute",):
        return rest[1:2] in (("instances",), ("scp",), ("disks",))
    return rest[:1] in tuple((part,) for part in tables.SETUP_PARTS.get(name, ()))


def _only_prepares(text: str) -> bool:
    """Whether a text only shows, copies or ends something: `ssh a "pkill x"`, `srun bash -c "mkdir /x"`."""
    parts = [tuple(map(Word, part.split())) for part in _BETWEEN.split(text.replace(")", " "))]
    parts = [part for part in parts if part and not part[0].text.startswith("#")]
    starts = any(is_python(word) or has_launcher((word,)) for part in parts for word in part)
    return bool(parts) and not starts and all(_prepares(one) and not _waits_for_person(one) for one in parts)


def is_setup_script(words: Sequence[Word]) -> bool:
    """Whether a command is a script that its name calls one of an installation, or of data."""
    texts = [posixpath.basename(word.text) for word in words if not word.text.startswith("-")]
    script = (
        texts[1]
        if len(texts) > 1 and (starts_shell(texts[0]) or texts[0].startswith("python"))
        else "".join(texts[:1])
    )
    return _SETUP_SCRIPT.fullmatch(script) is not None and not _STARTS.search(script)


def explain_settings(words: Sequence[Word]) -> str:
    """Return what is said of a command that only asks for settings or a login; "" for any other."""
    texts = tuple(word.text for word in strip_prefixes(words)[:3])
    return tables.SETTINGS.get(texts[:2], "") or tables.SETTINGS.get(texts, "")


def is_launch(words: Sequence[Word]) -> bool:
    """Whether a command may be the launch of a text: it is none that installs or asks for settings."""
    return not is_setup(words) and not explain_settings(words)


def is_preparation(words: tuple[Word, ...], launch: tuple[Word, ...]) -> bool:
    """Whether a command that may run beside a launch prepares it: it names no launcher.

    `python prepare.py` is one beside a launcher; beside another script either could be meant.
    """
    trains = any(is_python(word) or word.text.endswith(".py") for word in words)
    return not has_launcher(words) and (not trains or has_launcher(launch))


def is_python(word: Word) -> bool:
    """Whether a word is an interpreter of Python."""
    return posixpath.basename(word.text).startswith("python")


def has_launcher(words: Sequence[Word]) -> bool:
    """Whether a command names a launcher other than python."""
    of_option = {after.text for before, after in pairwise(words) if before.text.startswith("--")}
    named = {posixpath.basename(word.text) for word in words} - ({"megatron"} & of_option)
    return not (named - {"python"}).isdisjoint((*_LAUNCHER_MODULES, *_LAUNCHES))


def find_launcher(words: Sequence[Word]) -> str:
    """Return the first of some words that starts Python or a launcher, with what it starts; "" for none."""
    pairs = (pair for pair in pairwise(words) if _STARTED.match(pair[1].text))
    named = (word for word, _ in pairs if _PYTHON.fullmatch(word.text) or has_launcher((word,)))
    return next((word.text for word in named), "")


def starts_training(words: tuple[Word, ...]) -> bool:
    """Whether a command names a launcher or a Python script in its first word."""
    if is_setup(words):
        return False
    name = posixpath.basename(next((word.text for word in words if "=" not in word.text), words[0].text))
    return name.startswith(_LAUNCHES) or name.endswith(".py")
