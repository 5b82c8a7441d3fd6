"""The commands of a diagnosis, as they are typed for a run of gpulaunch and on its hosts."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from launcher import safe_json
from launcher.planning.plan import NodePlan
from preflight import regex as re
from preflight.checks.message_text import quote_path
from preflight.diagnosis.result import Cause, Diagnosis
from preflight.frozen import dataclass

_EXPORTED = re.compile(r"export ((?:[A-Z][A-Z0-9_]*=[\w.,:/-]+(?: |$))+)", re.ASCII)
"""Variables for the ranks: set where the command is typed they would not reach other hosts."""
_PYTHON = re.compile(r"(?<![\w./-])python(?= -m | -c )")
_ABSENT_FILE = re.compile(r"No such file or directory: '([^'/~][^']*)'")
_MISSING_FILE = "missing-file"
_HANGUP = "sighup"
_SENT = (
    "SIGHUP ended a rank; a run of gpulaunch has no terminal, so a program or a person on the host sent it"
)
_LOOK = "look for what sends it: the script, a program that it starts, `kill -HUP`, a job or session manager"


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Where the ranks of one host run, as far as a command for them names it."""

    host: str
    python: str
    cwd: str  # "" = the user's home on the host
    files: tuple[str, ...]  # below the run directory: script/x.py
    output: str = ""  # "" = the run config has none
    run_dir: str = ""  # of the run's logs; "" = not known


def list_places(
    nodes: Iterable[NodePlan], run_dirs: Mapping[str, str] | None = None
) -> tuple[NodePlace, ...]:
    """Return where the ranks of a plan run; `run_dirs` are by host."""
    known = run_dirs or {}
    return tuple(
        NodePlace(
            node.host,
            node.python,
            node.cwd,
            tuple(name for name, _ in node.files),
            node.output_dir,
            known.get(node.host, ""),
        )
        for node in nodes
    )


def read_places(plan: Mapping[str, Any], outcome: Mapping[str, Any]) -> tuple[NodePlace, ...]:
    """Return the same of a plan and an outcome that are kept as JSON; a node that is damaged has none."""
    run_dirs = safe_json.read_mapping(outcome.get("run_dirs"))
    return tuple(
        NodePlace(host, python, cwd, tuple(files), output, run_dir)
        for node in safe_json.read_mappings(plan.get("nodes"))
        if isinstance(host := node.get("host"), str)
        and isinstance(python := node.get("python"), str)
        and isinstance(cwd := node.get("cwd"), str)
        and isinstance(files := node.get("files"), Mapping)
        and isinstance(output := node.get("output_dir", ""), str)
        and isinstance(run_dir := run_dirs.get(host, ""), str)
    )


def with_run_commands(diagnosis: Diagnosis, places: Iterable[NodePlace] = ()) -> Diagnosis:
    """Return the diagnosis of a run of gpulaunch, with what is known of the hosts of its ranks.

    What sets variables for a script sets them for its ranks; an interpreter and a directory are those of the
    host that failed; a file that only the local directory has comes with it.
    """
    by_host = {place.host: place for place in places}
    causes = (_with_command(cause, by_host.get(cause.host)) for cause in diagnosis.causes)
    return replace(diagnosis, causes=tuple(causes))


def _with_command(cause: Cause, place: NodePlace | None) -> Cause:
    exported = _EXPORTED.fullmatch(cause.command)
    if exported is not None:
        options = " ".join(f"--set env.{variable}" for variable in exported[1].split())
        return replace(cause, command=f"gpulaunch run ... {options}")
    if cause.slug == _HANGUP and all(each.source == "exit" for each in cause.evidence):
        return replace(cause, cause=_SENT, fix=_LOOK)
    if place is None:
        return cause
    if cause.slug == _MISSING_FILE and _lies_here(cause, place):
        return replace(cause, command="gpulaunch run ... --sync")
    return replace(cause, command=_on_host(cause.command, place))


def _on_host(command: str, place: NodePlace) -> str:
    command = _PYTHON.sub(lambda _: quote_path(place.python), command)
    if command.startswith("df -h . ") and "{" not in place.cwd:
        directories = dict.fromkeys((place.cwd or "~", place.output, place.run_dir))
        named = " ".join(quote_path(path) for path in directories if path)
        command = command.replace(" . ", f" {named} ", 1)
    return command


def _lies_here(cause: Cause, place: NodePlace) -> bool:
    """Whether the script was sent alone, and the file that it misses lies in the local directory."""
    sent_alone = any(name.startswith("script/") for name in place.files)
    found = (_ABSENT_FILE.search(each.text) for each in cause.evidence)
    return sent_alone and any(match is not None and os.path.exists(match[1]) for match in found)  # noqa: PTH110 - no path raises
