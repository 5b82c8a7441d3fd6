"""What travels of nvidia-ml-py's one module: the parts that the agent can reach, a seventh of its text.

A host with GPUs compiles what it gets, and nothing else of its answer waits as long: the whole module takes
ten times as long as these parts. Every host gets them, with GPUs or without.
"""

import ast
import zlib
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from preflight import regex as re

_USERS = Path(__file__).parents[2] / "preflight" / "probes" / "nvml"
_WORD = re.compile(r"\w+")
_PART = re.compile(
    r"^(?:(?:@.*\n)*(?:def|class) (\w+).*\n(?:[ \t#].*\n|\n)*"
    r"|(?!NVML_ERROR_)(\w+)[ \t]*=[ \t]*\w+[ \t]*(?:#.*)?\n)",  # it looks up names of errors in itself
    re.MULTILINE,
)
"""A function, a class, or a name for one number or other name. All else stays."""


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

    Of a module whose parts are written in another way, all of it: what is left would not compile.
    """
    spans: dict[str, list[tuple[int, int]]] = {}
    kept, end = [], 0
    for part in _PART.finditer(text):
        start = part.start()
        if start > end:
            kept.append((end, start))
        end = part.end()
        if part[1] and (text.count('"""', start, end) + text.count("'''", start, end)) % 2:
            return text  # a string continues at the left margin: the part is longer
        spans.setdefault(part[1] or part[2], []).append((start, end))
    kept.append((end, len(text)))
    reached, looked_at = set(words), 0
    while looked_at < len(kept):
        new = "\n".join([text[start:end] for start, end in kept[looked_at:]])
        looked_at = len(kept)
        reached.update(_WORD.findall(new))
        kept += [span for name in reached & spans.keys() for span in spans.pop(name)]
    left = "".join([text[start:end] for start, end in sorted(kept)])
    try:
        compile(left, "pynvml.py", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError):
        return text
    return left
