"""The diagnosis of a file that a run misses, where the sync before it left that file out."""

import os
import posixpath
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from launcher import safe_json
from launcher.config.sync_options import MAX_MIB
from launcher.errors import SyncFailed
from launcher.sync.left_out import find_left_out, is_write
from launcher.text import one_line
from preflight import regex as re
from preflight.diagnosis.result import Cause, Diagnosis

_MISSING_FILE = "missing-file"
_LOOK = ("ls -ld ", "")  # what may be typed so far: where nothing better is known than to look
_PATHS = re.compile(
    r"'([^'\n]{1,400})'|\"([^\"\n]{1,400})\"|(?<![\w'\"])([\w./~+-]{2,400})(?![\w'\"])", re.ASCII
)


def name_left_out(
    found: Diagnosis,
    source: Mapping[str, Any],
    starts: Mapping[str, str],
    logins: Mapping[str, str] = MappingProxyType({}),
) -> Diagnosis:
    """Return the diagnosis with what sends each missing file that the sync left out.

    `source` is the run's source.json, {} without a sync, and untrusted; `starts` says by host where its
    ranks start, `logins` how ssh reaches it, where that is known.
    """
    if not isinstance(source.get("from"), str):
        return found
    with suppress(SyncFailed, OSError, ValueError):  # git refuses the checkout by now: the diagnosis stays
        causes = (
            _with_left_out(cause, source, starts.get(cause.host, ""), logins.get(cause.host) or cause.host)
            if cause.slug == _MISSING_FILE and cause.command.startswith(_LOOK)
            else cause
            for cause in found.causes
        )
        return replace(found, causes=tuple(causes))
    return found


def _with_left_out(cause: Cause, source: Mapping[str, Any], start: str, login: str) -> Cause:
    host = safe_json.read_mapping(safe_json.read_mapping(source.get("hosts")).get(cause.host))
    target = host.get("directory")
    root = Path(source["from"])
    if not isinstance(target, str) or not target:
        return cause
    if is_write(root, posixpath.relpath(posixpath.join(target, cause.location), target)):
        return cause
    cwd = start if start.startswith("/") else _below(target, start.removeprefix("~"))
    for match in (match for each in cause.evidence for match in _PATHS.finditer(each.text)):
        path = match[1] or match[2] or match[3]
        is_local = path.startswith(f"{root}/") and os.path.exists(path)  # noqa: PTH110 - no path raises
        name = posixpath.relpath(posixpath.join(cwd, path), root if is_local else target)
        left_out = find_left_out(root, name, _texts(source.get("exclude")))
        shown = one_line(name, 120)
        if left_out is not None:
            words = f"{shown} exists locally, and the sync left it out: {left_out.rule}"
            limit, sent = (safe_json.read_number(source.get(key)) for key in ("max_mib", "bytes"))
            room = (int(limit or MAX_MIB) << 20) - int(sent or 0)
            command = left_out.command(root, login, target, room, _texts(source.get("include")))
            also = f", and name it {shown} in the arguments of the script" if is_local else ""
            return replace(cause, cause=words, fix=f"send {left_out.amount}{also}", command=command)
        if is_local and str(root) != target:
            words = f"{one_line(path)} is its local path; on {cause.host} the tree is in {target}"
            start = posixpath.relpath(posixpath.join(target, name), cwd)
            return replace(cause, cause=words, fix=f"name it {one_line(start)}", command="")
    return cause


def _texts(kept: object) -> list[str]:
    return [text for text in kept if isinstance(text, str)] if isinstance(kept, list) else []


def _below(target: str, start: str) -> str:
    """Return where ranks start in a tree whose directory is known, by the end that the two share."""
    above = next((part for part in map(str, PurePosixPath(start, "_").parents) if target.endswith(part)), "")
    return target + start.removeprefix(above) if len(above) > 1 else target
