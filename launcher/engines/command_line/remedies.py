"""What takes the place of a program in front of a launch, in the words that the line has. Pure."""

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise

from launcher.engines.command_line.preparations import has_launcher, is_launch, is_python
from launcher.engines.command_line.tables import wrappers as tables
from launcher.engines.command_line.words import Word

_PROGRAM = re.compile(r"(?:[./][\w./-]*/)?[\w.-]+")
"""No image, which has a repository in front and a tag behind: `pytorch/pytorch:latest`."""

_EXECUTES = ("docker", "podman", "kubectl")
"""Programs that `via:` knows by name."""

_SHELLS = ("bash", "sh", "zsh")
_EXEC_VALUES = ("-u", "--user", "-w", "--workdir", "-e", "--env", "--env-file", "--detach-keys", "-c", "-n")
_SHOWN = 200


def typed_fix(name: str, words: Sequence[Word]) -> str:
    """Return what takes the place of a program with these words, "" where its table says all."""
    texts = [word.text for word in words]
    if name == "ssh":
        at = next((at for at, text in enumerate(texts) if _is_host(texts, at, text)), None)
        return f"leave ssh {texts[at]} out, and write --hosts {texts[at]}" if at is not None else ""
    if name == "sudo":
        user = next((after for text, after in pairwise(texts) if text == "-u"), "")
        return f"leave it out, and name {user}@HOST with --hosts" if user else ""
    if name in tables.CONTAINERS:
        return _container_fix(name, words)
    return _batch_script_fix(texts) if name == "sbatch" else ""


def _container_fix(name: str, words: Sequence[Word]) -> str:
    """Return the launch that a line of docker or its like holds, and where its container is named."""
    command = _inner_command(words)
    if not command:
        return ""
    running = _running_container(words) if name in _EXECUTES else ""
    start = "" if running else "start the container on each host, "
    via = f"via: {{{name}: {running or 'NAME'}}}" if name in _EXECUTES else "via:"
    return f"{start}name it in hosts.yaml ({via}), and launch: gpulaunch run --hosts A,B -- {command}"


def _inner_command(words: Sequence[Word]) -> str:
    """Return the command that a container would run, as it is typed; "" where none trains."""
    texts = [word.text for word in words]
    if any(text in _SHELLS for text in texts) and re.fullmatch(r"-\w*c", "".join(texts[-2:-1])):
        text = texts[-1].strip()
        return "" if "\n" in text else _short(shlex.quote(text))
    named = (at for at, text in enumerate(texts) if _PROGRAM.fullmatch(text))
    starts = (at for at in named if is_python(words[at]) or has_launcher(words[at : at + 1]))
    at = next((at for at in starts if is_launch(words[at : at + 3])), None)
    return _short(" ".join(map(_typed, words[at:]))) if at is not None else ""


def _typed(word: Word) -> str:
    """Return a word as it is typed; a variable without a value stays one."""
    if word.is_known:
        return shlex.quote(word.text)
    return f'"{word.text}"' if any(map(str.isspace, word.text)) else word.text


def _short(command: str) -> str:
    return command if len(command) <= _SHOWN else f"{command[:_SHOWN]}..."


def _running_container(words: Sequence[Word]) -> str:
    """Return the container that `exec` names."""
    texts = [word.text for word in words]
    if texts[:1] != ["exec"]:
        return ""
    at = 1
    while at < len(texts) and texts[at].startswith("-"):
        at += 2 if texts[at] in _EXEC_VALUES else 1
    return texts[at] if at < len(texts) and re.fullmatch(r"[\w.-]+", texts[at]) else ""


def _is_host(texts: Sequence[str], at: int, text: str) -> bool:
    is_value = at > 0 and re.fullmatch(r"-[a-zA-Z]*[bceFiIJlLmoOpRSwWD]", texts[at - 1]) is not None
    return not text.startswith("-") and not is_value and re.fullmatch(r"[\w.@:-]+", text) is not None


def _batch_script_fix(texts: Sequence[str]) -> str:
    """Return what takes the place of `sbatch`: its script is the first file among its words."""
    script = next((text for text in texts if text.endswith(tables.BATCH_SUFFIXES)), "")
    if not script and texts and not texts[-1].startswith("-"):
        script = texts[-1]
    if any(text.startswith("--wrap") for text in texts) or not script:
        return tables.REFUSED["sbatch"][1]
    return f"gpulaunch init {shlex.quote(script)} makes a run config of it"
