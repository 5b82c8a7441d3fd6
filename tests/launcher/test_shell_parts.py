"""Nothing of a text of a shell is lost in silence: what is around a launch is read, named or refused.

`shell_parts.txt` has what people write; each part alone, and beside others, changes what is said of it.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import ParsedCommand
from launcher.errors import CommandRefused

_LAUNCH = "torchrun --nproc_per_node 2 a.py --lr 1"
_KNOWN = {"PWD": "/w", "HOME": "/h"}
_HARMLESS: Mapping[str, str] = {
    "A=1": "no program sees a variable that is not exported",
    "A=1 B=2": "no program sees them",
    "declare -A M=([a]=1)": "no program sees it",
    "export A=1; export -n A": "it is taken back",
    "(cd x)": "a group in parentheses changes nothing outside of it",
    "(export A=1)": "the same",
    "cd x; cd -": "it returns",
    "pushd x; popd": "it returns",
    "f() { export A=1; }": "nothing calls it",
    "test -d data || exit 1": "a failed check would end the text without a launch",
    "true": "it does nothing",
    "# a comment": "no shell reads it",
}
_HARMLESS_BEHIND = ("|| exit 1", "|| true", "# a comment")
"""The exit code is that of the run."""


def _parts(section: str) -> Iterator[str]:
    lines = Path(__file__).with_name("shell_parts.txt").read_text("utf-8").splitlines()
    heads = [at for at, line in enumerate(lines) if line.startswith("# ")]
    start = next(at for at in heads if lines[at].startswith(section))
    end = next((at for at in heads if at > start), len(lines))
    yield from (line.replace(r"\n", "\n") for line in lines[start + 1 : end])


def _read(text: str) -> ParsedCommand | str:
    """Return what is said of a text without its words, or why it is refused."""
    try:
        return replace(parse_line(text, _KNOWN), words=(), owned=(), kept=())
    except CommandRefused as refused:
        return refused.message


def _with(part: str, section: str) -> str:
    return f"{part}\n{_LAUNCH}" if section == "# What" else _around(part, section)


def _around(part: str, section: str) -> str:
    return f"{part} {_LAUNCH}" if section == "# front" else f"{_LAUNCH} {part}"


def _uses(text: str) -> object:
    try:
        parsed = parse_line(text, _KNOWN)
    except CommandRefused:
        return None
    return [(use.name, use.values) for use in (*parsed.owned, *parsed.kept)]


@pytest.mark.parametrize("section", ["# What", "# front", "# behind"])
def test_each_part_around_a_launch_is_read_or_named_or_refused(section: str) -> None:
    alone, uses = _read(_LAUNCH), _uses(_LAUNCH)
    texts = {part: _with(part, section) for part in _parts(section)}
    assert len(texts) >= 20
    lost = [part for part, text in texts.items() if _read(text) == alone and _uses(text) == uses]
    assert lost == []


def test_what_is_said_to_be_harmless_changes_nothing() -> None:
    alone = _read(_LAUNCH)
    assert [part for part in _HARMLESS if _read(f"{part}\n{_LAUNCH}") != alone] == []
    assert [part for part in _HARMLESS_BEHIND if _read(f"{_LAUNCH} {part}") != alone] == []


def _effects(alone: ParsedCommand, changed: ParsedCommand) -> frozenset[str]:
    """Return what a part changes: the fields that it sets, the sentences and the variables that it adds."""
    effects = {
        field.name
        for field in fields(ParsedCommand)
        if field.name not in ("dropped", "env", "unknown")
        and getattr(alone, field.name) != getattr(changed, field.name)
    }
    named = (said.removeprefix("export ").partition(":")[0] for said in changed.dropped)
    lacking = (one.message for one in changed.unknown)
    return frozenset((*effects, *named, *changed.env, *changed.unset, *lacking))


def test_each_part_is_seen_beside_others() -> None:
    """Four parts of which none hides another: the text without one of them is another text."""
    alone = _read(_LAUNCH)
    assert isinstance(alone, ParsedCommand)
    readings = {part: _read(f"{part}\n{_LAUNCH}") for part in _parts("# What")}
    known = {
        part: _effects(alone, reading)
        for part, reading in readings.items()
        if isinstance(reading, ParsedCommand) and _effects(alone, reading) and "exit" not in part
    }
    assert len(known) >= 60
    choice = random.Random(23)
    lost = []
    for _ in range(150):
        chosen: list[str] = []
        for part in choice.sample(list(known), 12):
            if len(chosen) < 4 and not any(known[part] & known[other] for other in chosen):
                chosen.append(part)
        whole = _read("\n".join((*chosen, _LAUNCH)))
        for part in chosen:
            rest = "\n".join((*(other for other in chosen if other != part), _LAUNCH))
            lost += [(part, chosen)] if _read(rest) == whole else []
    assert lost == []
