"""A saved output of nvidia-smi (and its neighbours) -> HostFacts, for what it holds.

`surroundings` takes away what is around the lines, `hosts` separates hosts, `captures` reads the
commands of one host, and `forms` what one command printed.
"""

from typing import Any

from preflight.agent import AGENT_VERSION
from preflight.errors import BadInput
from preflight.facts import json_codec
from preflight.facts.host import HostFacts
from preflight.probes.fact import missing, truncate
from preflight.probes.nvidia_smi.values import NOT_HELD
from preflight.smi_reports.captures import read_capture
from preflight.smi_reports.excerpt import excerpt
from preflight.smi_reports.foreign import unrecognised
from preflight.smi_reports.hosts import (
    Parts,
    column_parts,
    headed_parts,
    prefixed_parts,
    prompted_parts,
    titled_parts,
)
from preflight.smi_reports.repeats import DifferentHostsError
from preflight.smi_reports.surroundings import cleaned, decoded, plain_text

__all__ = ["decoded", "parse_hosts", "parse_smi"]

EXPECTED = (
    "`nvidia-smi -q -x > FILE` (best), `nvidia-smi -q`, `nvidia-smi`,"
    " `nvidia-smi --query-gpu=... --format=csv`, `nvidia-smi -L`, `nvidia-smi nvlink -s`, `topo -m`, `pmon`,"
    " `dmon`, `lspci -nn`, `dmesg`, or several of these in one file"
)
Facts = dict[str, Any]


def parse_smi(text: str, host: str) -> HostFacts:
    """Return what `text` says about one host; everything else is Missing(not-asked).

    Raises BadInput, naming what is accepted, where the text is none of the forms of `EXPECTED`, is cut, or
    is of several hosts.
    """
    found = parse_hosts(text, host)
    if len(found) > 1:
        names = ", ".join(facts.host for facts in found[:20])
        raise BadInput(f"it holds the outputs of several hosts: {names}", "read it with parse_hosts")
    return found[0]


def parse_hosts(text: str, host: str) -> tuple[HostFacts, ...]:
    """Return what `text` says about each of its hosts.

    One that it does not name is `host`; several are `host-1`, `host-2`. Of several, one whose text is not
    understood has its GPUs missing. Raises BadInput as `parse_smi` does.
    """
    text = cleaned(excerpt(text))
    parts = _host_parts(text)
    if len(parts) > 1:
        return tuple(_host_facts(_read_or_missing(part), name) for name, part in parts)
    try:
        facts = read_capture(plain_text(text))
    except DifferentHostsError as error:
        apart = enumerate(error.texts, 1)
        return tuple(_host_facts(_read_or_missing(part), f"{host}-{at}") for at, part in apart)
    except ValueError as error:
        raise _not_whole(error) from None
    if facts is None:
        raise unrecognised(text, EXPECTED)
    return (_host_facts(facts, host),)


def _not_whole(error: ValueError) -> BadInput:
    return BadInput(f"this is not a whole recording of nvidia-smi: {error}", f"record it again: {EXPECTED}")


def _host_facts(facts: Facts, host: str) -> HostFacts:
    fields = HostFacts.__dataclass_fields__
    blank = {name: NOT_HELD for name in fields if name not in ("host", "agent_version", "probe_ms", "reused")}
    known = {"host": host, "agent_version": AGENT_VERSION, "probe_ms": {}}
    return json_codec.decode(HostFacts, {**blank, **facts, **known})


def _host_parts(text: str) -> Parts:
    """Return (host, text) of a file of several hosts, [] for one of one host.

    Titles may also be those of commands or of states: then two of the texts must list GPUs, or one, where the
    names are numbered and the others are as short as the reason that a host did not answer.
    """
    parts = column_parts(text) or prefixed_parts(text) or headed_parts(text)
    if parts:
        return parts if any(map(_is_understood, map(_read_or_missing, (part for _, part in parts)))) else []
    for parts, is_numbered in titled_parts(text):
        known = [_read_or_missing(part) for _, part in parts]
        listed = [isinstance(facts["gpus"], list) for facts in known]
        rest = [part for (_, part), is_listed in zip(parts, listed, strict=True) if not is_listed]
        if sum(listed) > 1 or (is_numbered and any(listed) and max(map(len, rest)) < _LONGEST_REASON):
            return parts
    parts = prompted_parts(text)
    known = [_read_or_missing(part) for _, part in parts]
    return parts if any(map(_is_understood, known)) else []


def _is_understood(facts: Facts) -> bool:
    return _UNKNOWN_FORM not in str(facts["gpus"])


_LONGEST_REASON = 400
_UNKNOWN_FORM = "nothing that nvidia-smi prints"


def _read_or_missing(text: str) -> Facts:
    """Return the facts of one host of several; a text that is not understood is a reason."""
    try:
        facts = read_capture(plain_text(text))
    except ValueError as error:
        facts = {"gpus": missing(f"not a whole recording of nvidia-smi: {error}", "error")}
    if facts is None:
        said = truncate(" ".join(text.split()))[:120]
        facts = {"gpus": missing(f"{_UNKNOWN_FORM} is in its part of the file: {said!r}", "error")}
    return {"gpus": NOT_HELD, **facts}
