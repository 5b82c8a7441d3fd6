"""What travels of nvidia-ml-py's one module: the parts that the agent can reach, a seventh of its text.

A host with GPUs compiles what it gets, and nothing else of its answer waits as long: the whole module takes
ten times as long as these parts. Every host gets them, with GPUs or without.
"""

import zlib
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from preflight import regex as re

_USERS = Path(__file__).parents[2] / "preflight" / "probes" / "nvml"
_WORD = re.compile(r"\w+")
_PART = re.compile(
    r"^(?:(?:@.*\n(?:#.*\n)*)*(?:def|class) (\w+).*:[ \t]*(?:#.*)?\n(?:[ \t#].*\n|\n)*"
    r"|(?!NVML_ERROR_)(\w+)[ \t]*=[ \t]*\w+[ \t]*(?:#.*)?\n)",  # it looks up names of errors in itself
    re.MULTILINE,
)
"""A function, a class, or a name for one number or other name. All else stays."""

_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"))


@cache
def pack_pynvml() -> bytes:
    """Return the module as it is sent; nothing where it is not installed, and the agent asks nvidia-smi."""
    spec = find_spec("pynvml")
    if spec is None or not spec.origin:
        return b""
    found = Path(spec.origin)
    beside = found if found.name == "pynvml.py" else found.parent.with_name("pynvml.py")
    try:  # the old `pynvml` package, where it is installed too, hides the module that lies beside it
        text = beside.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return b""
    words = {word for path in _USERS.glob("*.py") for word in _WORD.findall(path.read_text(encoding="utf-8"))}
    return zlib.compress(trim_module(text, words).encode())


def trim_module(text: str, words: Iterable[str]) -> str:
    """Return a module without the parts that neither `words` nor what is left of it name.

    Of a module whose parts may be longer than they look, all of it. To parse what is left would say the
    same, and costs the client more than all else: brackets, quotes and decorators are counted instead.
    """
    spans: dict[str, list[tuple[int, int]]] = {}
    kept, end = [], 0
    for part in _PART.finditer(text):
        start = part.start()
        if start > end:
            kept.append((end, start))
            if text.startswith("@", end) or "\n@" in text[end:start]:
                return text  # of a part whose decorator has several lines
        end = part.end()
        if part[1] and not _is_whole(text[start:end]):
            return text
        spans.setdefault(part[1] or part[2], []).append((start, end))
    kept.append((end, len(text)))
    reached, looked_at = set(words), 0
    while looked_at < len(kept):
        new = "\n".join([text[start:end] for start, end in kept[looked_at:]])
        looked_at = len(kept)
        reached.update(_WORD.findall(new))
        kept += [span for name in reached & spans.keys() for span in spans.pop(name)]
    return "".join([text[start:end] for start, end in sorted(kept)])


def _is_whole(part: str) -> bool:
    """Say whether a function or class ends where its text does, not in a later line at the left margin."""
    quotes = part.count('"""') + part.count("'''")
    balanced = all(part.count(left) == part.count(right) for left, right in _PAIRS)
    return balanced and quotes % 2 == 0 and not part.endswith("\\\n")
