"""A saved output of nvidia-smi (and its neighbours) -> HostFacts, for what it holds.

`surroundings` takes away what is around the lines, `hosts` separates hosts, `several_commands` reads the
commands of one host, and `forms` what one command printed.
"""

from dataclasses import replace
from typing import Any

from preflight import regex as re
from preflight.errors import BadInput
from preflight.facts import json_codec
from preflight.facts.host import HostFacts
from preflight.probes.fact import missing, truncate
from preflight.probes.main import AGENT_VERSION
from preflight.probes.nvidia_smi.values import NOT_HELD
from preflight.smi_reports.excerpt import cut_excerpt
from preflight.smi_reports.hosts import (
    Parts,
    split_by_column,
    split_gpustat,
    split_headed,
    split_prefixed,
    split_prompted,
    split_titled,
)
from preflight.smi_reports.repeated_recordings import DifferentHostsError
from preflight.smi_reports.several_commands import read_capture
from preflight.smi_reports.surroundings import clean_text, decode_text, strip_marks, strip_prefixes
from preflight.smi_reports.unsupported_files import RECORD, SCRIPT, explain_unrecognised

__all__ = ["decode_text", "parse_hosts"]

EXPECTED = (
    "`nvidia-smi -q -x > FILE` (best), `nvidia-smi -q`, `nvidia-smi`,"
    " `nvidia-smi --query-gpu=... --format=csv`, `nvidia-smi -L`, `nvidia-smi nvlink -s`, `topo -m`, `pmon`,"
    " `dmon`, `lspci -nn`, `dmesg`, `gpustat`, or several of these in one file"
)
Facts = dict[str, Any]
_COMMENT = re.compile(r"^[ \t]*#(?!!|[ \t]*(?:gpu|Idx|Date|Time)\b).*$", re.MULTILINE)


def parse_hosts(text: str, host: str) -> tuple[HostFacts, ...]:
    """Return what `text` says about each of its hosts.

    One that it does not name is `host`; several are `host-1`, `host-2`. What it does not say is
    Missing(not-asked); of several hosts, one whose text is not understood has its GPUs missing. Raises
    BadInput, naming what is accepted, where the text is none of the forms of `EXPECTED`, or is cut.
    """
    if re.match(RECORD, text):
        raise explain_unrecognised(text, EXPECTED)
    text = _COMMENT.sub("", text) if re.match(SCRIPT, text) else text
    text = clean_text(cut_excerpt(text))
    found = _read_hosts(strip_marks(text) if text.lstrip().startswith(">") else text)
    if len(found) < 2:
        try:
            facts = read_capture(strip_prefixes(text))
        except DifferentHostsError as error:
            found = _read_parts([(f"{host}-{at}", part) for at, part in enumerate(error.texts, 1)])
        except ValueError as error:
            message = f"this is not a whole recording of nvidia-smi: {error}"
            raise BadInput(message, f"record it again: {EXPECTED}") from None
        else:
            if facts is None:
                raise explain_unrecognised(text, EXPECTED)
            found = [(host, facts)]
    read = {id(facts): _host_facts(facts) for _, facts in found}
    return tuple(replace(read[id(facts)], host=name) for name, facts in found)


_OF_CLIENT = frozenset({"host", "agent_version", "probe_ms", "reused", "earlier_gpus"})


def _host_facts(facts: Facts) -> HostFacts:
    fields = HostFacts.__dataclass_fields__
    blank = {name: NOT_HELD for name in fields if name not in _OF_CLIENT}
    known = {"host": "", "agent_version": AGENT_VERSION, "probe_ms": {}}
    return json_codec.decode(HostFacts, {**blank, **facts, **known})


def _read_hosts(text: str) -> list[tuple[str, Facts]]:
    """Return (host, facts) of a file of several hosts, [] for one of one host.

    Titles may also be those of commands or of states: then two of the texts must list GPUs, or one, where the
    names are numbered or ssh names a reason, and the others are as short as the reason for no answer.
    """
    parts = split_by_column(text) or split_gpustat(text) or split_prefixed(text) or split_headed(text)
    for titled, is_numbered in () if parts else split_titled(text):
        found = _read_parts(titled)
        rest = [
            part
            for (_, part), (_, facts) in zip(titled, found, strict=True)
            if not isinstance(facts["gpus"], list)
        ]
        listed = len(titled) - len(rest)
        is_of_hosts = is_numbered or all(map(_NO_ANSWER.match, rest))
        if listed > 1 or (is_of_hosts and listed and max(map(len, rest)) < _LONGEST_REASON):
            return found
    found = _read_parts(parts or split_prompted(text))
    return found if any(_UNKNOWN_FORM not in str(facts["gpus"]) for _, facts in found) else []


_LONGEST_REASON = 400
_NO_ANSWER = re.compile(
    r"\s*(?:ssh: |Connection (?:to|closed|reset|timed) |Host key verification failed|\S+: Permission denied)"
)
"""The words of ssh."""
_UNKNOWN_FORM = "nothing that nvidia-smi prints"


def _read_parts(parts: Parts) -> list[tuple[str, Facts]]:
    """Return the facts of each host of several."""
    facts = {text: _read_or_missing(text) for text in {text for _, text in parts}}
    return [(name, facts[text]) for name, text in parts]


def _read_or_missing(text: str) -> Facts:
    """Return the facts of one host; a text that is not understood is a reason."""
    try:
        facts = read_capture(strip_prefixes(text))
    except ValueError as error:
        facts = {"gpus": missing(f"not a whole recording of nvidia-smi: {error}", "error")}
    if facts is None:
        said = truncate(" ".join(text.split()))[:120]
        facts = {"gpus": missing(f"{_UNKNOWN_FORM} is in its part of the file: {said!r}", "error")}
    return {"gpus": NOT_HELD, **facts}
