"""The commands of a diagnosis, as they are typed for a run of gpulaunch and on its hosts."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from launcher.planning.plan import NodePlan
from preflight.checks.message_text import quote_path
from preflight.diagnosis.result import Cause, Diagnosis

_SCRIPT = re.compile(
    r"(?P<variables>(?:[A-Z_]+=\S+ )*)python (?P<faulthandler>-X faulthandler )?train\.py", re.ASCII
)
_PYTHON = re.compile(r"(?<![\w./-])python(?= -m | -c )")
_ABSENT_FILE = re.compile(r"No such file or directory: '([^'/~][^']*)'")
_MISSING_FILE = "missing-file"


def with_run_commands(diagnosis: Diagnosis, nodes: Sequence[NodePlan] = ()) -> Diagnosis:
    """Return the diagnosis of a run of gpulaunch, whose `nodes` are known where it has just ended.

    What sets variables for a script sets them for its ranks; an interpreter and a directory are those of the
    host that failed; a file that only the local directory has comes with it.
    """
    places = {node.host: node for node in nodes}
    causes = (_with_command(cause, places.get(cause.host)) for cause in diagnosis.causes)
    return replace(diagnosis, causes=tuple(causes))


def _with_command(cause: Cause, node: NodePlan | None) -> Cause:
    script = _SCRIPT.fullmatch(cause.command)
    if script is not None:
        variables = script["variables"].split() + ["PYTHONFAULTHANDLER=1"] * bool(script["faulthandler"])
        options = " ".join(f"--set env.{variable}" for variable in variables)
        return replace(cause, command=f"gpulaunch run ... {options}")
    if node is None:
        return cause
    if not cause.command and cause.slug == _MISSING_FILE and _lies_here(cause, node):
        return replace(cause, command="gpulaunch run ... --sync")
    return replace(cause, command=_on_host(cause.command, node))


def _on_host(command: str, node: NodePlan) -> str:
    command = _PYTHON.sub(lambda _: quote_path(node.python), command)
    if command.startswith("df -h . ") and "{" not in node.cwd:
        command = command.replace(" . ", f" {quote_path(node.cwd or '~')} ", 1)
    return command


def _lies_here(cause: Cause, node: NodePlan) -> bool:
    """Whether the script was sent alone, and the file that it misses lies in the local directory."""
    sent_alone = any(name.startswith("script/") for name, _ in node.files)
    found = (_ABSENT_FILE.search(each.text) for each in cause.evidence)
    return sent_alone and any(match is not None and Path(match[1]).exists() for match in found)
