"""The client as one text: with it a host restarts a run by the same rules while no client follows it.

It is what a restart may import or send, found from its entry by what each module names, and PyYAML in Python,
which the packages of a run config need; nothing else is installed on the host. The keeper of the run unpacks
it (launcher/onhost/supervisor/daemon/restart_keeper.py).
"""

import base64
import json
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from launcher.remote.program_source import strip_docstrings
from preflight import regex as re

PACK_NAME = "client.pack"
_TOP = Path(__file__).parents[2]
_ENTRY = "launcher.restart.on_host"
_AGENT = "preflight.probes"  # a program of which all is sent
_WITH_TEXTS = ("preflight.checks.", "preflight.script.rules.")  # docstrings that are texts of findings
_IMPORT = re.compile(r"\n *(?:from|import) ((?:launcher|preflight)[\w.]*)(?: import (\([^)]*\)|.*))?")
_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r'"(\w+)(?:\.py)?"')
_LEVEL = 5  # the last two per cent of size would take half as long again


@cache
def pack_client() -> str:
    """Return the files as compressed JSON {path: text}, in ASCII."""
    data = json.dumps(dict(sorted(_files()))).encode()
    return base64.b64encode(zlib.compress(data, _LEVEL)).decode()


def _files() -> Iterator[tuple[str, str]]:
    modules = {
        ".".join(path.relative_to(_TOP).with_suffix("").parts).removesuffix(".__init__"): path
        for wing in ("launcher", "preflight")
        for path in (_TOP / wing).rglob("*.py")
    }
    pending = [_ENTRY, *(name for name in modules if name.startswith(_AGENT))]
    while pending:
        name = pending.pop()
        path = modules.pop(name, None)
        if path is not None:
            is_whole = name.startswith(_WITH_TEXTS)
            text = path.read_text(encoding="utf-8") if is_whole else strip_docstrings(path)
            pending += (name.rpartition(".")[0], *_reach(name, text, modules))
            yield path.relative_to(_TOP).as_posix(), text
    found = find_spec("yaml")
    if found is None or found.origin is None:
        raise AssertionError("PyYAML is a dependency")
    for path in Path(found.origin).parent.glob("*.py"):
        yield f"yaml/{path.name}", path.read_text(encoding="utf-8")


def _reach(module: str, text: str, modules: Iterable[str]) -> Iterator[str]:
    """Yield what a module may import, in functions too, or send to a host; and names that no module has."""
    for package, names in _IMPORT.findall(text):
        yield package
        yield from (f"{package}.{name}" for name in _WORD.findall(names))
    if "import_module(" in text:
        yield from (f"{module.rpartition('.')[0]}.{name}" for name in _QUOTED.findall(text))
    if "read_program_source(" in text or "rpc." in text:
        sent = {f"launcher.onhost.{name}" for name in _QUOTED.findall(text)}
        yield from (name for name in modules if ".".join(name.split(".")[:3]) in sent)
