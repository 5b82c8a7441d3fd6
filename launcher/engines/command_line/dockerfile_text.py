"""What the container of a Dockerfile starts. Pure."""

import json
import re
import shlex

from launcher.engines.command_line.preparations import LEFT_OUT
from launcher.engines.command_line.records import Task

_IS_ONE = re.compile(r"\A(?:[ \t]*(?:#[^\n]*|ARG[ \t][^\n]*)?\n)*[ \t]*FROM[ \t]+\S", re.IGNORECASE)
_CONTINUED = re.compile(r"\\[ \t]*\n(?:[ \t]*#[^\n]*\n)*")
_STEP = re.compile(r"^[ \t]*(?P<name>[A-Z]+)[ \t]+(?P<rest>[^\n]*)$", re.MULTILINE)
_TRAINING = re.compile(
    r"(?:NCCL|TORCH|PYTORCH|CUDA_VISIBLE|CUDA_DEVICE|OMP|WANDB|TOKENIZERS|MASTER|ACCELERATE)_\w+|NPROC_PER_NODE|NNODES"
)

_SCRIPT = re.compile(r"(?:[.~]{0,2}/)[\w./-]+|[\w-]+\.(?:sh|bash|py)")
_BUILD = re.compile(
    r"(?:DEBIAN|PIP|LC|UV|CONDA|POETRY)_\w+|LANG|LANGUAGE|PATH|TZ|SHELL|LD_LIBRARY_PATH|CUDA_HOME"
)
"""What a build or the programs of the image read, and no training."""

_OF_ENV = "of the image: env: of a run config sets what the ranks read"
_OF_CONTAINER = "it prepares the container, and is not started"
_OF_IMAGE = "of the image: the launch starts in the directory of each host (workdir:)"


def tasks_of_dockerfile(text: str) -> tuple[Task, ...] | None:
    """Return what ENTRYPOINT and CMD start; None for any other text, and for one without both.

    Directories and PATH are those of the image; variables that a training reads are taken.
    """
    if not _IS_ONE.match(text):
        return None
    started = {"ENTRYPOINT": "", "CMD": ""}
    pairs: dict[str, str] = {}
    said: list[str] = []
    for step in _STEP.finditer(_CONTINUED.sub(" ", text)):
        if step["name"] == "FROM":
            started, pairs, said = {"ENTRYPOINT": "", "CMD": ""}, {}, []
        elif step["name"] == "WORKDIR":
            said = [_said(f"WORKDIR {step['rest'].strip()}: {_OF_IMAGE}")]
        elif step["name"] == "ENV":
            pairs |= _variables(step["rest"].rstrip())
        elif step["name"] in started:
            started[step["name"]] = step["rest"].rstrip()
            if step["name"] == "ENTRYPOINT":
                started["CMD"] = ""
    words = [_words(started[name]) for name in ("ENTRYPOINT", "CMD")]
    shells = [text for text, given in zip(started.values(), words, strict=True) if text and not given]
    command = shells[0] if shells else _joined(words[0], words[1])
    if not command:
        return None
    exports = [
        f"export {name}={shlex.quote(value)}" for name, value in pairs.items() if _TRAINING.fullmatch(name)
    ]
    left = [name for name in pairs if not _TRAINING.fullmatch(name) and not _BUILD.fullmatch(name)]
    said += [_said(f"ENV {', '.join(left)}: {_OF_ENV}")] if left else []
    entry = words[0][0] if words[0] and words[1] else ""
    said += [_said(f"ENTRYPOINT {entry}: {_OF_CONTAINER}")] if entry.endswith(".sh") else []
    is_script = any(words) and _SCRIPT.fullmatch(next(filter(None, words))[0]) is not None
    return (Task("CMD", "\n".join((*said, *exports, command)), starts=is_script),)


def _joined(entry: list[str], words: list[str]) -> str:
    """Return one command; a script in front of a launcher prepares the container."""
    if entry and words and entry[0].endswith(".sh"):
        entry = []
    given = [*entry, *words]
    is_text = len(given) == 3 and re.fullmatch(r"-\w*c", given[1])
    return given[2] if is_text else shlex.join(given)


def _words(text: str) -> list[str]:
    """Return the words of `["torchrun", "a.py"]`; [] for a text of a shell."""
    try:
        words = json.loads(text) if text.startswith("[") else []
    except (ValueError, RecursionError):
        return []
    return words if all(isinstance(word, str) for word in words) else []


def _variables(text: str) -> dict[str, str]:
    """Return the variables of a line of ENV: `A=1 B=2`, or `A value`."""
    name, _, value = text.partition(" ")
    try:
        pairs = [f"{name}={value}"] if "=" not in name else shlex.split(text)
    except ValueError:
        return {}
    found = (pair.partition("=") for pair in pairs)
    return {name: value for name, equals, value in found if equals}


def _said(sentence: str) -> str:
    return f"{LEFT_OUT} {shlex.quote(sentence)}"
