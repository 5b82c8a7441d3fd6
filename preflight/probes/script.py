"""The training script's text, and which of its imports lie beside it."""

import glob
import os
import re
from typing import Any

from .fact import Emit, missing
from .request import ProbeRequest, resolve_path

_MOST_SCRIPT = 512 << 10
_IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]+(\w[\w., \t]*)", re.MULTILINE)


def probe(ask: ProbeRequest, emit: Emit) -> None:
    """Emit facts.ScriptFacts of the training script."""
    import hashlib  # loads OpenSSL: every other probe would wait for it

    path = os.path.join(resolve_path(ask.paths.get("workdir") or "~"), os.path.expanduser(ask.script))
    with open(path, "rb") as file:
        data = file.read(_MOST_SCRIPT + 1)
        digest = hashlib.sha256(data)
        size = len(data)
        while size > _MOST_SCRIPT:
            part = file.read(1 << 20)
            if not part:
                break
            digest.update(part)
            size += len(part)
    text: Any = data.decode("utf-8", "replace")
    if size > _MOST_SCRIPT:
        text = missing("the script has %d bytes; up to %d are sent" % (size, _MOST_SCRIPT), "not-supported")
    own = [name for name in _imported(data) if _lies_in(os.path.dirname(path), name)]
    answer = {"path": path, "sha256": digest.hexdigest(), "size": size, "text": text, "own_modules": own}
    emit("script", answer)


def _imported(data: bytes) -> list[str]:
    lists = _IMPORT.findall(data)
    found = (name for names in lists for name in re.findall(rb"(?:^|,)[ \t]*(\w+)", names))
    return list(dict.fromkeys(name.decode() for name in found))


def _lies_in(folder: str, module: str) -> bool:
    at = glob.escape(os.path.join(folder, module))
    return bool(glob.glob(at + ".py") or glob.glob(os.path.join(at, "*.py")))
