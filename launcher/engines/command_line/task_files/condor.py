"""A submit file of HTCondor as the command that its job runs. Pure."""

import shlex
from collections.abc import Iterator, Mapping

from launcher.engines.command_line.side_commands import say_left_out
from launcher.engines.command_line.unread_keys import unread_keys
from preflight import regex as re

_EXECUTABLE = re.compile(r"^[ \t]*executable[ \t]*=[ \t]*\S", re.MULTILINE | re.IGNORECASE)
_OF_CONDOR = re.compile(
    r"^[ \t]*(?:queue\b|(?:universe|arguments|getenv|request_?(?:gpus|cpus|memory))[ \t]*=)",
    re.MULTILINE | re.IGNORECASE,
)
_CONTINUED = re.compile(r"\\[ \t]*\n[ \t]*")
_SET = re.compile(r"[ \t]*\+?(?P<name>[A-Za-z_][\w.]*)[ \t]*=[ \t]*(?P<value>.*)")
_QUEUE = re.compile(r"[ \t]*queue\b[ \t]*(?P<how>.*)", re.IGNORECASE)
_WORD = re.compile(r"(?:[^\s']|'(?:[^']|'')*'|')+")
_SINGLE = re.compile(r"'((?:[^']|'')*)'")
_VARIABLE = re.compile(r"(\$\{[A-Za-z_]\w*\})")
_MACRO = re.compile(r"\$\((?P<name>[A-Za-z_]\w*)(?::(?P<default>[^()]*))?\)")
_OF_MACHINE = re.compile(r"\$(?:ENV|\$)?\(([A-Za-z_]\w*)[^()]*\)")
_FUNCTION = re.compile(r"\$([A-Za-z_]+)\([^()]*\)")
_BLOCK = re.compile(r"[ \t]*(?P<word>if|else|elif|endif)\b.*", re.IGNORECASE)
_READ = ("executable", "arguments", "environment", "initialdir", "request_gpus", "requestgpus")
_DEEPEST, _LONGEST = 5, 20_000
_ONCE = "gpulaunch starts the job once"
_OF_PLAN = "the plan takes GPUs of each host"


def command_of_condor(text: str) -> str | None:
    """Return the command of a submit file as a shell has it; None for any other text.

    A macro without one value, as those of `queue`, stays a variable without a value.
    """
    if len(text) > _LONGEST or not _EXECUTABLE.search(text) or not _OF_CONDOR.search(text):
        return None
    macros, how = _read(_CONTINUED.sub(" ", text))
    return "".join(_lines(macros, how))


def _read(text: str) -> tuple[dict[str, str], str]:
    """Return macros by their names in small letters, and what `queue` says."""
    macros: dict[str, str] = {}
    how, depth = "", 0
    for line in text.split("\n"):
        block, queue, found = _BLOCK.fullmatch(line), _QUEUE.fullmatch(line), _SET.fullmatch(line)
        if block is not None:
            depth += {"if": 1, "endif": -1}.get(block["word"].lower(), 0)
        elif found is not None and depth:
            macros.pop(found["name"].lower(), None)  # a condition decides it
        elif found is not None:
            macros[found["name"].lower()] = found["value"].strip()
        elif queue is not None:
            how = how or queue["how"].strip()
    return macros, how


def _lines(macros: Mapping[str, str], how: str) -> Iterator[str]:
    if directory := macros.get("initialdir", ""):
        yield f"cd {_filled(directory, macros)}\n"
    for pair in _words(macros.get("environment", ""), ";"):
        name, equals, value = pair.partition("=")
        if equals and name.isidentifier():
            yield f"export {name}={_quoted(value, macros)}\n"
    if cards := macros.get("request_gpus") or macros.get("requestgpus"):
        yield say_left_out(f"request_gpus {cards}: {_OF_PLAN}") + "\n"
    if how not in ("", "1"):
        yield say_left_out(f"queue {how}: {_ONCE}") + "\n"
    used = {one["name"].lower() for one in _MACRO.finditer(" ".join(macros.values()))}
    yield from (f"{text}\n" for text in unread_keys(macros, used.union(_READ)))
    words = (macros["executable"], *_words(macros.get("arguments", ""), None))
    yield f"{' '.join(_quoted(word, macros) for word in words)}\n"


def _words(value: str, separator: str | None) -> list[str]:
    """Return what a value lists: in the newer syntax, in double quotes, two of them stand for one, and single
    quotes hold blanks; in the older one a separator is between, None for blanks.
    """
    if not (len(value) > 1 and value[0] == value[-1] == '"'):
        return [word.strip() for word in value.split(separator) if word.strip()]
    return [
        _SINGLE.sub(lambda one: one[1].replace("''", "'"), found[0])
        for found in _WORD.finditer(value[1:-1].replace('""', '"'))
    ]


def _quoted(text: str, macros: Mapping[str, str]) -> str:
    """Return a word with its macros filled in, as a shell has it: no shell reads the file."""
    parts = _VARIABLE.split(_filled(text, macros))
    return "".join(part if at % 2 else part and shlex.quote(part) for at, part in enumerate(parts)) or "''"


def _filled(text: str, macros: Mapping[str, str]) -> str:
    for _ in range(_DEEPEST):
        filled = _MACRO.sub(lambda one: macros.get(one["name"].lower(), one["default"] or one[0]), text)
        if filled == text or len(filled) > _LONGEST:
            break
        text = filled
    return _FUNCTION.sub(r"${\1}", _OF_MACHINE.sub(r"${\1}", text))
