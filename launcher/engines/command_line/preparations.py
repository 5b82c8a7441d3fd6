"""Commands around a launch that start no training: dropped with a sentence, or refused. Pure."""

import posixpath
from collections.abc import Mapping

from launcher.engines.command_line.records import Environment
from launcher.engines.command_line.words import Word
from launcher.errors import CommandRefused

INTERPRETER = "the interpreter is that of each host (python: in hosts.yaml)"
"""What is said of every command that enters a Python environment."""

_SHELL = "of the shell that it was written for"
_NOTHING = "starts nothing"
_LIMITS = "limits are those of each host; preflight checks them"
_MODULES = "of this machine only; variables for the ranks go into env:, the interpreter into python:"
_DROPPED: Mapping[str, str] = {
    **dict.fromkeys(
        ("echo", "printf", "pwd", "date", "hostname", "clear", "true", ":", "nvidia-smi"), _NOTHING
    ),
    **dict.fromkeys(("which", "type", "ls", "whoami", "uname", "free", "df", "env", "printenv"), _NOTHING),
    **dict.fromkeys(("sleep", "nvcc", "lscpu", "popd", "jobs", "disown", "wait", "exit", "return"), _NOTHING),
    **dict.fromkeys(("set", "shift", "shopt", "trap", "alias", "setopt"), _SHELL),
    "mkdir": "make it on each host, where the script does not itself",
    "wandb": "of this machine only; WANDB_MODE and WANDB_API_KEY go into env:",
    "ulimit": _LIMITS,
    "module": _MODULES,
    "ml": _MODULES,
}
_AFTER = ("tail", "less", "watch", "fg", "bg")
"""Commands that only look at a launch which continues."""

_LOOPS = ("for", "while", "until", "if", "case", "select", "{", "[", "[[", "test")
_RC_FILES = (".bashrc", ".bash_profile", ".profile", ".zshrc", "conda.sh", "mamba.sh", "modules.sh")
_CONDAS = ("conda", "mamba", "micromamba", "pyenv")
_LAUNCHES = (
    "torchrun",
    "accelerate",
    "deepspeed",
    "fabric",
    "lightning",
    "mpirun",
    "mpiexec",
    "srun",
    "python",
)


def dropped(words: tuple[Word, ...], *, after: bool) -> str:
    """Return what is said of a command without effect on the launch; "" for any other. `after`: behind it."""
    name = posixpath.basename(words[0].text)
    if after and name in _AFTER:
        return f"{name}: {_NOTHING}"
    if name == "set" and len(words) > 1 and "=" in words[1].text:  # of cmd.exe: a variable
        return ""
    if name == "env" and any("=" in word.text or not word.text.startswith("-") for word in words[1:]):
        return ""
    if name in _DROPPED:
        return f"{name}: {_DROPPED[name]}"
    if name in ("source", ".") and len(words) > 1 and posixpath.basename(words[1].text) in _RC_FILES:
        return f"{name} {words[1].text}: {_MODULES}"
    if name == "eval" and len(words) > 1 and any("hook" in part for part in words[1].unresolved):
        return f"eval {words[1].text}: {_MODULES}"
    return ""


def entered(words: tuple[Word, ...]) -> Environment | None:
    """Return the Python environment that a command activates."""
    name, rest = words[0].text, words[1:]
    if name in ("source", ".") and rest:
        target = rest[0].text
        if target.endswith("bin/activate"):
            return Environment("venv", path=posixpath.dirname(posixpath.dirname(target)) or ".")
        if target == "activate" or posixpath.basename(target) == "activate":
            return Environment("conda", rest[1].text if len(rest) > 1 else "base")
    if name in _CONDAS and rest and rest[0].text in ("activate", "shell"):
        named = rest[1].text if len(rest) > 1 else "base"
        return Environment(name, path=named) if "/" in named else Environment(name, named)
    return None


def refuse(words: tuple[Word, ...]) -> None:
    """Raise CommandRefused for a condition, a loop, and a file of settings that only a shell could read."""
    name = words[0].text
    if name in _LOOPS:
        raise CommandRefused(f"the line is a shell loop or condition ({name})", "paste one launch of it")
    if name in ("source", ".") and len(words) > 1:
        raise CommandRefused(
            f"{name} {words[1].text} sets what gpulaunch cannot see",
            "write its variables in front of the command (NAME=VALUE torchrun ...), or launch the whole"
            " script: gpulaunch run ... -- bash SCRIPT",
        )


def several(command: tuple[Word, ...], other: tuple[Word, ...], ended: str) -> CommandRefused:
    """Return the error for a text of two commands, `command` first."""
    if ended == "|":
        return CommandRefused(
            f"the line pipes into {other[0].text}",
            "leave the pipe out, or pipe the output of gpulaunch run itself",
        )
    if other[0].text.startswith("-"):
        return CommandRefused(
            f"the command ends before {other[0].text}: the line above is a comment, or lacks its \\",
            "take the comment out, or write \\ at the end of the line above",
        )
    message = f"the line has several commands: {_shown(command)} and {_shown(other)}"
    if _is_launch(other) and not _is_launch(command):
        first = " ".join(word.text for word in command[:4])
        return CommandRefused(
            message, f"do what {first} does on each host first, and paste the line from {_shown(other)} on"
        )
    return CommandRefused(
        message, "paste one of them, or write them into a script: gpulaunch run ... -- bash SCRIPT"
    )


def _shown(words: tuple[Word, ...]) -> str:
    """Return the program of a command, without the assignments in front of it."""
    return next((word.text for word in words if "=" not in word.text), words[0].text)


def _is_launch(words: tuple[Word, ...]) -> bool:
    name = posixpath.basename(_shown(words))
    return name.startswith(_LAUNCHES) or name.endswith(".py")
