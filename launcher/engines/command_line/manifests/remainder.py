"""Keys of a manifest around its command that nothing has read. Pure."""

import shlex
from collections.abc import Iterator, Sequence

from launcher.engines.command_line.manifests.counts import ASKED
from launcher.engines.command_line.manifests.lines import end_of_value, get_indent, list_levels
from launcher.engines.command_line.tables.names import as_names
from launcher.engines.command_line.unread_keys import list_unread_keys
from preflight import regex as re

_KEY = re.compile(
    r"[ ]*(?:- +)*(?P<key>[\"']?[A-Za-z_$<][\w./$<-]*[\"']?)[ \t]*:(?:[ \t]+(?P<value>\S.*)|[ \t]*)"
)
_IN_FLOW = re.compile(r"[{,][ ]*[\"']?(?P<key>[\w./-]+)[\"']?[ ]*:(?P<value>[^{},]*)")
_TEMPLATE = re.compile(r"[ ]*(?P<line>\{[{%].*[%}]\})[ \t]*")
_OF_TEMPLATE = re.compile(r"\{[{%]-?[ ]*(?:end\w*|else)[ ]*-?[%}]\}")
_GROUPS = as_names(
    "resources limits requests reservations code_source snapshot devices deploy distribution machineSpec"
    " spec template environment_variables env envs envVars environment variables secrets defaults"
)
"""Keys whose own keys are looked at."""

_STRUCTURE = as_names(
    "arguments defaults spec template jobs services steps containers command args entrypoint run script"
    " commands cmds cmd Entrypoint Args inputs vars value valueFrom pytorchReplicaSpecs mpiReplicaSpecs"
    " Launcher Master Worker replicaSpecs uses"
)
"""What a command is in, or has beside it for its own reader: `inputs:` count only where it names them."""


_WORD = re.compile(r"[\w./$<-]+")
_CALLED = {
    "device_ids": "CUDA_VISIBLE_DEVICES",
    "accelerators": "SKYPILOT_NUM_GPUS_PER_NODE",
    "gpu": "DSTACK_GPUS_PER_NODE",
}
"""What keys are called in what their readers make of them."""

_COUNTED_WITH = {"replicas": "_parallelism"}  # a key that multiplies another one

_MOST_PLACES = 50  # of one command, which are looked around

_SHORT = 4  # a value with as many characters may be in a sentence by chance


def list_unread(lines: Sequence[str], places: Sequence[tuple[int, int]], produced: str) -> Iterator[str]:
    """Yield a line of a shell that names what a manifest says around a command and no reader has taken.

    `places` are the line and the indent of its keys, `produced` is what the readers of keys have made of
    them: a key that is named in it, or whose value is, was read.
    """
    keys: dict[str, None] = {}
    known = set(_WORD.findall(produced))
    asked = tuple(word for word in known if word.startswith(ASKED))
    for line, indent in places[:_MOST_PLACES]:
        for around, column, inside in list_levels(lines, line, indent):
            for key, value in _keys(lines, around, column, inside):
                if _CALLED.get(key, key) not in known and not _is_read(key, value, asked, produced):
                    keys[key] = None
            for at in around:
                if at != inside and (template := _template(lines[at], column)):
                    keys[template] = None
    yield from (f"{text}\n" for text in list_unread_keys(keys, _STRUCTURE))


def _is_read(key: str, value: str, asked: Sequence[str], produced: str) -> bool:
    counts = (f"_{key}", _COUNTED_WITH.get(key, f"_{key}"))
    counted = any(word.endswith(counts) for word in asked)
    is_entered = f"cd {shlex.quote(value)}\n" in produced
    is_in = len(value) > _SHORT and value in produced
    return counted or is_entered or is_in


def _template(line: str, column: int) -> str:
    found = _TEMPLATE.fullmatch(line)
    is_own = found is not None and get_indent(line) <= column and not _OF_TEMPLATE.fullmatch(found["line"])
    return found["line"] if found is not None and is_own else ""


def _keys(lines: Sequence[str], around: range, column: int, inside: int) -> Iterator[tuple[str, str]]:
    """Yield the keys of a mapping, and those of its groups, with their values."""
    at = around.start
    while at < around.stop:
        found = _KEY.fullmatch(lines[at]) if get_indent(lines[at]) == column else None
        if found is None:
            at += 1
            continue
        end = min(end_of_value(lines, at, column), around.stop)
        key, value = found["key"].strip("\"'"), (found["value"] or "").strip("\"'")
        is_empty = not value or value.startswith("#")
        if at == inside or (at < inside < end):
            pass
        elif key in _GROUPS and is_empty:
            yield from _of_group(lines, at + 1, end)
        elif key in _GROUPS and value.startswith("{") and not value.startswith("{{"):
            yield from ((one["key"], one["value"].strip("\"' ")) for one in _IN_FLOW.finditer(value))
        else:
            yield key, value
        at = max(end, at + 1)


def _of_group(lines: Sequence[str], start: int, end: int) -> Iterator[tuple[str, str]]:
    body = [at for at in range(start, end) if lines[at].strip()[:1] not in ("", "#")]
    columns = {get_indent(lines[at]) for at in body}
    if columns:
        yield from _keys(lines, range(body[0], end), min(columns), -1)
