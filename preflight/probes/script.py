"""The training script's text."""

import os
from typing import Any

from .fact import Emit, missing
from .request import ProbeRequest, resolve

_MOST_SCRIPT = 512 << 10


def probe(ask: ProbeRequest, emit: Emit) -> None:
    """Emit facts.ScriptFacts of the training script."""
    import hashlib  # loads OpenSSL: every other probe would wait for it

    path = os.path.join(resolve(ask.paths.get("workdir") or "~"), os.path.expanduser(ask.script))
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
    emit("script", {"path": path, "sha256": digest.hexdigest(), "size": size, "text": text})
