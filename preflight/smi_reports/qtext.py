"""`nvidia-smi -q` in words -> the tree of its XML, keys made alike ("FB Memory Usage" -> fb_memory_usage)."""

import re
from typing import Any

from preflight.smi_reports.qindent import indented, is_flat

Tree = dict[str, Any]

_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$")


def q_tree(text: str) -> Tree:
    """Return the tree of a `-q` text; lines that are neither "key : value" nor a heading are left out.

    Raises ValueError where the depth of its lines is lost, and where it starts within a GPU.
    """
    text = indented(text) if is_flat(text) else text
    top: Tree = {"gpu": []}
    open_at: list[tuple[int, Tree]] = [(-1, top)]
    is_within = False  # a GPU of which the first line is missing
    for line in text.split("\n"):
        gpu = _GPU.match(line)
        if gpu:
            if is_within and "attached_gpus" not in top:
                raise ValueError("it is cut at its start, and the numbers of its GPUs are not known")
            top["gpu"].append({"@id": gpu.group(1)})
            open_at = [(-1, top), (0, top["gpu"][-1])]
            continue
        words = line.expandtabs().lstrip(" ")
        label, colon, rest = words.partition(":")
        if not label.strip():
            continue
        is_within |= colon == ":" and line[:1] in " \t" and not top["gpu"]
        indent, key = len(line.expandtabs()) - len(words), _key(label)
        value = rest.removeprefix(" ") if colon else None
        if indent == 0 and len(open_at) > 1 and top["gpu"]:
            open_at = open_at[:1]  # a line of the top level ends the GPU
        while open_at[-1][0] >= indent:
            open_at.pop()
        _place(open_at, indent, key, value)
    return top


def _place(open_at: list[tuple[int, Tree]], indent: int, key: str, value: str | None) -> None:
    inside = open_at[-1][1]
    if key == "process_id" and value is not None:
        if "@id" in inside:  # and not under "Processes", as the blanks in front of the lines say
            raise ValueError("the blanks in front of its lines are not those of nvidia-smi")
        process: Tree = {"pid": value.strip()}
        known = inside.setdefault("process_info", [])
        if isinstance(known, list):  # else the text has a heading of that name, as nvidia-smi never has
            known.append(process)
        open_at.append((indent, process))
    elif value is None:
        group = inside.get(key)
        if isinstance(group, list):
            group = {}  # a heading with the name of a list of ours takes nothing away from that
        elif not isinstance(group, dict):
            group = inside[key] = {}
        open_at.append((indent, group))
    else:
        inside.setdefault(key, value.strip())
        open_at.append((indent, inside))  # "HW Slowdown : Active" has lines below it that belong beside it


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.strip().lower()).strip("_")
