"""Values that are often written as something near: the error says what was meant."""

import posixpath
from collections.abc import Sequence
from typing import Any

from launcher.config import value_remedies
from launcher.config.host_ranges import parse_ssh_target
from launcher.config.value_types import HOST_PATH, MAX_TEXT, Custom, Schema, Text, judge_host_path
from launcher.config.yaml_tree import YamlNode
from launcher.errors import BadInput
from launcher.local.home import expand_home
from preflight import regex as re
from preflight.checks.versions import check_specifier

MAX_GPUS = 1024
_ADDRESS = Text("a name or IP address", r"[A-Za-z0-9_.:%+,/\[\]-]+")
_GPU_ID = r"(?:GPU|MIG)-[A-Za-z0-9/-]+"
_GPU_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", re.ASCII)
_GPU_WORD = f"(?:[0-9]{{1,4}}(?:-[0-9]{{1,4}})?|{_GPU_ID})"
_GPU_TEXT = f"{_GPU_WORD}(?: *, *{_GPU_WORD})* *,?"
_ENV_TOOLS = frozenset(
    {"conda", "mamba", "micromamba", "pixi", "uv", "poetry", "pipenv", "source", "module", "."}
)
_PYTHON_NAME = re.compile(r"(?:python|pypy)[A-Za-z0-9_.+-]*")
_FOLDERS = re.compile(r"\.?v?env|bin|.*/envs/[^/]+")


def _fitting(kind: Text, item: YamlNode, expected: str) -> str:
    """Return the text where it fits the kind. Raises ValueError."""
    text = item.text
    if len(text) > MAX_TEXT or not re.fullmatch(kind.pattern, text):
        raise ValueError(expected)
    if problem := kind.judge(text):
        raise ValueError(f"{expected}: {problem}")
    return text


def _address(item: YamlNode) -> str:
    text = item.text
    try:
        spot = parse_ssh_target(text)
    except BadInput:
        return _fitting(_ADDRESS, item, _ADDRESS.expected)
    if not spot.user and spot.port is None:
        return spot.host  # of [::1], too
    keys = [f"address: {spot.host}"]
    keys += [f"user: {spot.user}"] if spot.user else []
    keys += [f"port: {spot.port}"] if spot.port else []
    raise ValueError(f"{_ADDRESS.expected} alone (write {', '.join(keys)})")


def _interpreter(item: YamlNode) -> str:
    path = _fitting(HOST_PATH, item, "the path of an interpreter on the host")
    words = path.split()
    if len(words) > 1 and (words[0] in _ENV_TOOLS or "/" not in words[0]):
        raise ValueError(f"the path of an interpreter, not a command ({_which(words)})")
    last = posixpath.basename(path.rstrip("/"))
    if path.endswith("/") or _FOLDERS.fullmatch(last) or _FOLDERS.fullmatch(path):
        inside = "python" if last == "bin" else "bin/python"
        raise ValueError(f"the path of an interpreter, not a directory (write {path.rstrip('/')}/{inside})")
    if last.partition(".")[0] == "activate":  # also activate.fish and activate.csh
        beside = posixpath.join(posixpath.dirname(path), "python")
        raise ValueError(f"the path of an interpreter, not what activates one (write {beside})")
    return path


def explain_interpreter(python: str) -> str:
    """Return what was expected of localhost's interpreter where a preflight must not start this one, or "".

    hosts.yaml may come with a repository. A relative path, or one through the working directory that /proc
    shows, starts a program of it on this machine; `make` reads its Makefile, whatever the arguments are.
    """
    name = posixpath.basename(python)
    if not _PYTHON_NAME.fullmatch(name):
        return "an interpreter whose name starts with python or pypy"
    if "/" not in python:
        return ""
    try:
        path = "/" + posixpath.normpath(expand_home(python).as_posix()).lstrip("/")
    except BadInput:  # a home of an unknown user: it starts nothing, and is reported where it is used
        return ""
    if not python.startswith(("/", "~")) or path.startswith(("/proc/", "/dev/")):
        return "an absolute path or ~/..."
    return ""


def _which(words: list[str]) -> str:
    """Return how to find the path that a command stands for."""
    if words[0] in ("conda", "mamba", "micromamba") and "-n" in words[:-1]:
        return f"{words[0]} run -n {words[words.index('-n') + 1]} which python prints it on the host"
    return "in that environment on the host, `which python` prints it"


def _specifier(item: YamlNode) -> str:
    text = item.text
    try:
        check_specifier(text)
    except BadInput as error:
        raise ValueError(f"a version specifier such as >=570 ({error.fix})") from None
    return text


def _gpu_list(parts: Sequence[YamlNode]) -> tuple[int | str, ...]:
    """Return indices and UUIDs, with ranges (`0-3`) written out. Raises ValueError with what was expected."""
    expected = "a list of GPU indices or UUIDs, each once, such as 0-3,6 or [0, 1]"
    found: list[int | str] = []
    for part in parts:
        text = part.text
        if match := _GPU_RANGE.fullmatch(text):
            first, last = int(match[1]), int(match[2] or match[1])
            if first > last:
                raise ValueError(f"ranges from low to high ({last}-{first}, not {text})")
            if match[2] and last >= MAX_GPUS:
                raise ValueError(f"GPU indices up to {MAX_GPUS - 1} (not {text})")
            found += range(first, last + 1)
        elif re.fullmatch(_GPU_ID, text):
            found.append(text)
        else:
            raise ValueError(f"{expected}; not {part.kind}")
    if not found or len(set(found)) != len(found):
        raise ValueError(expected)
    return tuple(found)


_OF_ONE_HOST = " (for one host: gpus: [0, 1] below it in hosts.yaml)"


def gpus(words: tuple[str, ...], *, count: bool) -> Custom:
    """Return the kind of `gpus`: these words, a list (of YAML, or `0-3,6`), a count where one is allowed."""
    names = ", ".join(words) + (", a count per host" if count else "")
    expected = f"{names} or a list of indices or UUIDs such as 0-3,6"

    def parse(item: YamlNode) -> Any:
        if isinstance(item.value, tuple):
            return _gpu_list(item.value)
        if item.value in words:
            return item.value
        text = item.text
        if count and text == "0":
            raise ValueError(f"{expected} (none for CPU ranks, [0] for the GPU with index 0)")
        if count and re.fullmatch(r"[1-9][0-9]{0,3}", text) and int(text) <= MAX_GPUS:
            return int(text)
        if not text.isdigit() and re.fullmatch(_GPU_TEXT, text):
            return _gpu_list(tuple(YamlNode(word.strip(), "") for word in text.rstrip(",").split(",")))
        unlike = count and (isinstance(item.value, dict) or ":" in text)
        raise ValueError(expected + _OF_ONE_HOST * unlike)

    def shape() -> Schema:
        entry = {
            "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": f"^{_GPU_WORD}$"}]
        }
        many = {"type": "array", "items": entry, "minItems": 1, "uniqueItems": True}
        text = {"type": "string", "pattern": f"^{_GPU_TEXT}$"}
        counts = [{"type": "integer", "minimum": 1, "maximum": MAX_GPUS}] if count else []
        return {"anyOf": [{"enum": list(words)}, *counts, many, text]}

    return Custom(expected, parse, shape)


ADDRESS = Custom(_ADDRESS.expected, _address, _ADDRESS.schema)


def _judge_output(path: str) -> str:
    """Return what is wrong with the directory that `fetch` copies and that only the script writes to."""
    if posixpath.normpath(path) in ("/", "//", "~"):
        what = "the whole home directory" if path.startswith("~") else "everything on the host"
        return f"{path} is {what}: name a directory of the script's own"
    return judge_host_path(path)


def _judge_script(path: str) -> str:
    """Return how a script that is written with its arguments is written without them."""
    parts = re.fullmatch(r"(\S+\.(?:py|sh))\s+(\S.*)", path)
    if parts is None or path.endswith((".py", ".sh")):
        return ""
    words = value_remedies.as_list(parts[2]).removeprefix(" (write ").removesuffix(")") or "[...]"
    return f"its arguments go under args: (write script: {parts[1]} and args: {words})"


SCRIPT = Text("a path", judge=_judge_script)
OUTPUT = Text("a directory of the script's own on the host", judge=_judge_output)
INTERPRETER = Custom("a path on the host", _interpreter, HOST_PATH.schema)
VERSIONS = Custom(
    "a version specifier such as >=570",
    _specifier,
    lambda: {"type": "string", "pattern": r"^ *(==|!=|>=|<=|>|<) *[0-9][0-9. *,<>=!]*$"},
)
