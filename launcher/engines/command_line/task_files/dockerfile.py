"""What the container of a Dockerfile starts. Pure."""

import shlex
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import field

from launcher.engines.command_line.manifests.command_keys import flow_words
from launcher.engines.command_line.parsed_command import Task
from launcher.engines.command_line.shell.words import Word
from launcher.engines.command_line.side_commands import has_launcher, is_python, say_left_out
from launcher.engines.command_line.tables.names import names
from launcher.engines.command_line.tables.shells import starts_posix_shell
from launcher.errors import CommandRefused
from preflight import regex as re
from preflight.frozen import dataclass

_IS_ONE = re.compile(r"\A(?:[ \t]*(?:#[^\n]*|ARG[ \t][^\n]*)?\n)*[ \t]*FROM[ \t]+\S", re.IGNORECASE)
_CONTINUED = re.compile(r"\\[ \t]*\n(?:[ \t]*#[^\n]*\n)*")
_STEP = re.compile(r"^[ \t]*(?P<name>[A-Z]+)[ \t]+(?P<rest>[^\n]*)$", re.MULTILINE)
_TRAINING = re.compile(
    r"(?:NCCL|TORCH|PYTORCH|CUDA_VISIBLE|CUDA_DEVICE|OMP|WANDB|TOKENIZERS|MASTER|ACCELERATE)_\w+|NPROC_PER_NODE|NNODES"
)

_SCRIPT = re.compile(r"(?:[.~]{0,2}/)[\w./-]+|[\w-]+\.(?:sh|bash|py)")
_PROGRAM = re.compile(r"\S*/\S+\.(?:sh|py)")
"""What `exec "$@"` starts: a script without a directory is not in PATH, but an argument."""
_NO_WORDS = re.compile(r"\[[ \t]*\][ \t]*")
_BUILD = re.compile(r"(?:DEBIAN|PIP|LC|UV|CONDA|POETRY)_\w+|LANG|LANGUAGE|TZ|SHELL")
"""What a build or the programs of the image read, and no training."""

_HARMLESS = names("ENV ARG WORKDIR CMD ENTRYPOINT LABEL EXPOSE HEALTHCHECK STOPSIGNAL MAINTAINER")
"""What is read, or says nothing of a training."""

_STAGE = re.compile(r"(?:--\S+[ \t]+)*(?P<base>\S+)(?:[ \t]+as[ \t]+(?P<name>\S+))?[ \t]*", re.IGNORECASE)
_REFERENCE = re.compile(
    r"\$(?:(?P<bare>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?::?-(?P<default>[^{}$]*))?\})"
)
_OF_ENV = "of the image: env: of a run config sets what the ranks read"
_OF_CONTAINER = "it prepares the container, and is not started"
_MADE = "of the image: what a training needs of it has to be on each host, or in a container of it (via:)"
_OF_IMAGE = "of the image: the launch starts in the directory of each host (workdir:)"


@dataclass(slots=True)
class _Stage:
    """What the steps of one stage have said so far."""

    started: dict[str, str] = field(default_factory=lambda: {"ENTRYPOINT": "", "CMD": ""})
    variables: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    directory: str = ""
    made: dict[str, None] = field(default_factory=dict)  # steps that make the image

    def take(self, name: str, rest: str) -> None:
        """Take one step."""
        if name == "WORKDIR":
            self.directory = rest.strip()
        elif name == "ENV":
            seen = self.arguments | self.variables
            self.variables |= {one: _filled(value, seen) for one, value in _variables(rest).items()}
        elif name == "ARG":
            self.arguments |= {one: _filled(value, self.arguments) for one, value in _variables(rest).items()}
        elif name in self.started:
            self.started[name] = rest
            if name == "ENTRYPOINT":
                self.started["CMD"] = ""
        if name not in _HARMLESS:
            self.made[f"USER {rest}" if name == "USER" else name] = None


def tasks_of_dockerfile(text: str) -> tuple[Task, ...] | None:
    """Return what ENTRYPOINT and CMD start; None for any other text, and for one without both.

    Directories and PATH are those of the image; variables that a training reads are taken.
    """
    if not _IS_ONE.match(text):
        return None
    stage, stages = _Stage(), dict[str, _Stage]()
    steps = list(_STEP.finditer(_CONTINUED.sub(" ", text)))
    for step in steps:
        name, rest = step["name"], step["rest"].rstrip()
        if name == "FROM" and (head := _STAGE.fullmatch(rest)) is not None:
            base = stages.get(head["base"].lower())
            stage = deepcopy(base) if base is not None else _Stage(made={f"FROM {head['base']}": None})
            stage.arguments.clear()
            stages[(head["name"] or "").lower()] = stage
        else:
            stage.take(name, rest)
    words = [list(flow_words(stage.started[name])) for name in ("ENTRYPOINT", "CMD")]
    shells = [
        text
        for text, given in zip(stage.started.values(), words, strict=True)
        if text and not given and not _NO_WORDS.fullmatch(text)
    ]
    entry = _script(words[0]) if _prepares(words[0], words[1]) else ""
    command = shells[0] if shells else _joined([*([] if entry else words[0]), *words[1]])
    if not command and any(step["name"] in ("RUN", "COPY", "WORKDIR") for step in steps):
        raise CommandRefused(
            "the Dockerfile starts nothing: it has no CMD and no ENTRYPOINT of its own",
            "write the command that trains: gpulaunch run --hosts A,B -- torchrun SCRIPT",
        )
    if not command:
        return None
    given = [*words[0], *words[1]]
    is_script = any(map(_SCRIPT.fullmatch, (*given[:1], _script(given))))
    return (Task("CMD", "\n".join((*_prepared(stage, entry), command)), starts=is_script),)


def _prepared(stage: _Stage, entry: str) -> Iterator[str]:
    """Yield lines of a shell for the steps in front of what a stage starts."""
    if stage.directory:
        yield say_left_out(f"WORKDIR {stage.directory}: {_OF_IMAGE}")
    left = [name for name in stage.variables if not (_TRAINING.fullmatch(name) or _BUILD.fullmatch(name))]
    if left:
        yield say_left_out(f"ENV {', '.join(left)}: {_OF_ENV}")
    if stage.made:
        yield say_left_out(f"{', '.join(stage.made)}: {_MADE}")
    if entry.endswith(".sh"):
        yield say_left_out(f"ENTRYPOINT {entry}: {_OF_CONTAINER}")
    for name, value in stage.variables.items():
        quoted = f'"{value}"' if _REFERENCE.search(value) else shlex.quote(value)
        if _TRAINING.fullmatch(name) or name not in ("PATH", "LD_LIBRARY_PATH"):
            yield f"{'export ' * (_TRAINING.fullmatch(name) is not None)}{name}={quoted}"


def _filled(value: str, seen: Mapping[str, str]) -> str:
    """Return a value with the variables that are set above it."""
    return _REFERENCE.sub(
        lambda one: seen.get(
            one["bare"] or one["name"], one[0] if one["default"] is None else one["default"]
        ),
        value,
    )


def _script(words: list[str]) -> str:
    """Return the program that words start: a script behind the shell that runs it."""
    is_shell = len(words) > 1 and starts_posix_shell(words[0])
    return words[is_shell] if words else ""


def _prepares(entry: list[str], words: list[str]) -> bool:
    """Whether a script in front of a program prepares the container; any other word is its argument."""
    if not (words and _script(entry).endswith(".sh")):
        return False
    first = Word(words[0])
    return is_python(first) or has_launcher((first,)) or _PROGRAM.fullmatch(words[0]) is not None


def _joined(given: list[str]) -> str:
    """Return one command of these words, of which a shell may get one as its text."""
    is_text = len(given) == 3 and re.fullmatch(r"-\w*c", given[1])
    return given[2] if is_text else shlex.join(given)


def _variables(text: str) -> dict[str, str]:
    """Return the variables of a line of ENV: `A=1 B=2`, or `A value`."""
    name, _, value = text.partition(" ")
    try:
        pairs = [f"{name}={value}"] if "=" not in name else shlex.split(text)
    except ValueError:
        return {}
    found = (pair.partition("=") for pair in pairs)
    return {name: value for name, equals, value in found if equals}
