"""fetch with chosen paths: what a client asks for, found below the directories of a run."""

import glob
import os
from typing import Any, Iterator

OUTPUT, WORKDIR = "output/", "workdir/"  # files below the run's output, working directory


def run_places(spec: dict[str, Any], run_dir: str) -> dict[str, str]:
    """Return {first part of names: absolute directory} of a run; its output only where its config says it."""
    output = str((spec.get("launch") or {}).get("output") or "")
    found = {OUTPUT: output, WORKDIR: str(spec.get("cwd") or "~")}
    places = {name: os.path.expanduser(path.replace("{run_dir}", run_dir)) for name, path in found.items()}
    return {name: os.path.normpath(path) for name, path in places.items() if os.path.isabs(path)}


def find_chosen(places: dict[str, str], wanted: str) -> Iterator[tuple[str, str]]:
    """Yield (name, path) of each file or directory that a path or pattern names; nothing where none has it.

    A relative one is below the output directory, of a run without it below the working directory. Links are
    followed as far as they stay below it.

    Raises:
        OSError: it leads out of the directory.

    """
    prefix, place, pattern = _locate(places, wanted)
    for path in sorted(glob.glob(os.path.join(glob.escape(place), pattern))):
        real, top = os.path.realpath(path), os.path.realpath(place)
        if real != top and not real.startswith(top.rstrip("/") + "/"):
            raise PermissionError("it leads out of " + place)
        below = os.path.relpath(path, place)
        yield prefix + ("" if below == "." else below), real


def _locate(places: dict[str, str], wanted: str) -> tuple[str, str, str]:
    """Return the first part of names, the directory, and the pattern relative to it."""
    target = os.path.expanduser(wanted)
    if not os.path.isabs(target):
        target = os.path.normpath(target)
        prefix = next(iter(places))
        if target.split("/")[0] == "..":
            raise PermissionError("it leads out of " + places[prefix])
        return prefix, places[prefix], target
    target = os.path.normpath(target)
    for prefix, place in places.items():
        if target == place or target.startswith(place.rstrip("/") + "/"):
            return prefix, place, os.path.relpath(target, place)
    raise PermissionError("it is not below " + " or ".join(places.values()))
