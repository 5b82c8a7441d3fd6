"""Whether another sync has changed the tree on hosts since a run started from it."""

import json
from collections.abc import Sequence
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError
from launcher.remote import rpc
from launcher.remote.connection_pool import OpenConnection
from launcher.remote.fanout import fanout
from launcher.text import one_line

SOURCE = "source.json"
_NAME = "the question for the tree"
_ANSWER_S = 30.0

ExtraFiles = tuple[tuple[str, str], ...]


def note_other_tree(
    files: ExtraFiles, entries: Sequence[HostEntry], opener: OpenConnection
) -> tuple[ExtraFiles, tuple[str, ...]]:
    """Return a start's files with what source.json says of other trees, and a line for each such host.

    A host that does not answer is named as well: whether its tree is the same is not known.
    """
    try:
        source = json.loads(dict(files).get(SOURCE, "{}"))
        known = {str(name): str(host["directory"]) for name, host in source["hosts"].items()}
        started = str(source["content_sha256"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return files, ()
    asked = [entry for entry in entries if entry.name in known]

    def one(entry: HostEntry) -> str:
        with opener(entry) as connection:
            request = {"directory": known[entry.name]}
            answer = rpc.run_program(
                connection, entry.python, "tree_hash", request, name=_NAME, timeout_s=_ANSWER_S
            )
        return one_line(str(answer.get("content_sha256", "")), 64)

    lines: list[str] = []
    others: dict[str, Any] = {}
    for entry, found in zip(asked, fanout(one, asked), strict=True):
        where = f"{known[entry.name]} on {entry.name}"
        if isinstance(found, GpulaunchError):
            lines.append(f"whether {where} has the tree of the first start is not known: {found.message}")
        elif found and found != started:
            others[entry.name] = found
            lines.append(
                f"another sync has changed {where} since this run started: this start runs tree"
                f" {found[:12]}, the first one ran {started[:12]}"
            )
    if others:
        text = json.dumps({**source, "changed_since_start": others}, indent=1) + "\n"
        files = tuple((name, text if name == SOURCE else old) for name, old in files)
    return files, tuple(lines)
