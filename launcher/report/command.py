"""A command that was pasted, beside what the plan makes of it: word by word, with the reasons."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from launcher.engines.command_line.parsed_command import OptionUse, ParsedCommand
from launcher.local.home import abbreviate_home
from launcher.planning.plan import Change, Plan
from launcher.report.plan import change_text, redact_change
from launcher.text import sanitize
from preflight.facts.redaction import redact_text, redact_words
from preflight.frozen import dataclass

_ASKED = (
    *("hosts", "hostfile", "include", "exclude", "gpus", "on_cpu", "max_restarts", "omp_threads"),
    "log_dir",
)
"""Fields of a request that stay in the line as they are: the plan honours them."""


@dataclass(frozen=True, slots=True)
class Correction:
    """The command as it was given and as it is launched, and why they differ."""

    pasted: tuple[str, ...]
    launched: tuple[str, ...]
    edits: tuple[Change, ...]
    left_out: tuple[str, ...]  # what is around the command, and what looks like a mistake in it
    unknown: tuple[tuple[str, str], ...]  # options that no launcher knows, each with what to do

    @property
    def redacted(self) -> "Correction":
        """The same without secrets, by their names and by their look."""
        return Correction(
            redact_words(self.pasted),
            redact_words(self.launched),
            tuple(map(redact_change, self.edits)),
            tuple(map(redact_text, self.left_out)),
            tuple((redact_text(what), redact_text(fix)) for what, fix in self.unknown),
        )


def build_correction(parsed: ParsedCommand, plan: Plan) -> Correction:
    """Return what the plan makes of a command's owned options. Everything else stays as it was typed."""
    words: list[str | None] = list(parsed.words)
    edits: list[Change] = []
    for use in parsed.owned:
        value = _planned(use, plan)
        changed = [each for each in plan.changes if each.field == use.spelling]
        if value == use.value:
            continue
        span = range(use.position, use.position + use.width)
        if value is None:
            edits += changed or [Change(use.spelling, " ".join(use.values), "", use.reason)]
            new: list[str] = []
        else:
            edits += changed or [Change(use.spelling, " ".join(use.values), value, _why(use, plan))]
            new = [f"{use.spelling}={value}"] if use.width == 1 and use.values else [use.spelling, value]
        if use.position < 0:  # exported before the line
            continue
        for place, index in enumerate(span):
            words[index] = new[place] if place < len(new) else None
    launched = tuple(word for word in words if word is not None)
    left_out = (*parsed.dropped, *parsed.remarks, *_interpreters(parsed, plan))
    unknown = tuple((each.message, each.fix) for each in parsed.unknown)
    return Correction(parsed.words, launched, tuple(edits), left_out, unknown)


def _interpreters(parsed: ParsedCommand, plan: Plan) -> Iterator[str]:
    """Yield the hosts on which another interpreter than the command's runs the script."""
    own = (parsed.python, abbreviate_home(parsed.python))
    others = [f"{node.python} on {node.host}" for node in plan.nodes if node.python not in own]
    if "/" in parsed.python and others:
        yield f"{parsed.python} is local: {', '.join(others)} (python: of hosts.yaml)"
    elif "." in parsed.python and others:  # `python3.11`
        yield f"{parsed.python} of the line: {', '.join(others)} (python: of hosts.yaml)"


def render_command(parsed: ParsedCommand, plan: Plan, *, show_secrets: bool = False) -> Iterator[str]:
    """Yield both lines and what was changed from one to the other, for people."""
    found = build_correction(parsed, plan)
    shown = found if show_secrets else found.redacted
    yield sanitize(f"command:  {shlex.join(shown.pasted)}", keep_lines=False)
    if found.launched != found.pasted:
        yield sanitize(f"becomes:  {shlex.join(shown.launched)}", keep_lines=False)
    unknown = (f"{what}: {fix}" for what, fix in shown.unknown)
    for sentence in (*map(change_text, shown.edits), *shown.left_out, *unknown):
        yield sanitize(f"  {sentence}", keep_lines=False)
    yield ""


def without_edits(parsed: ParsedCommand, plan: Plan) -> Plan:
    """Return the plan without the changes that `render_command` has printed."""
    edits = set(build_correction(parsed, plan).edits)
    return replace(plan, changes=tuple(change for change in plan.changes if change not in edits))


def encode_command(parsed: ParsedCommand, plan: Plan, *, show_secrets: bool = False) -> dict[str, Any]:
    """Return both lines and the edits as plain JSON types."""
    found = build_correction(parsed, plan)
    found = found if show_secrets else found.redacted
    return {
        "launcher": parsed.launcher,
        "words": list(found.pasted),
        "launched": list(found.launched),
        "edits": [{"what": e.field, "old": e.old, "new": e.new, "why": e.why} for e in found.edits],
        "left_out": list(found.left_out),
        "unknown": [{"what": what, "fix": fix} for what, fix in found.unknown],
    }


def _planned(use: OptionUse, plan: Plan) -> str | None:
    """Return the value that the plan gives an owned option, None where it has no place in the plan."""
    if use.sets in _ASKED or (not use.values and not use.sets):
        return use.value
    counts = [len(node.ranks.slots) for node in plan.nodes]
    values: dict[str, str] = {
        "nodes": str(len(plan.nodes)),
        "per_node": "/".join(map(str, counts if len(set(counts)) > 1 else counts[:1])),
        "total": str(plan.world_size),
        "main_address": plan.main_address + (f":{plan.main_port}" if ":" in use.value else ""),
        "main_port": str(plan.main_port),
        "precision": plan.precision.mixed_precision,
    }
    return values.get(use.sets)


def _why(use: OptionUse, plan: Plan) -> str:
    hosts = ", ".join(f"{len(node.ranks.slots)} on {node.host}" for node in plan.nodes)
    if use.sets in ("per_node", "total"):
        return f"{hosts}: {use.reason}" if use.reason else hosts
    wanted = int(use.value) if use.sets == "nodes" and use.value.isdecimal() else 0
    fewer = f"; --nodes {wanted} takes {wanted} alone"
    return use.reason + fewer * (0 < wanted < len(plan.nodes))
