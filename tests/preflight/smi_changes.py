"""Saved outputs of nvidia-smi: what they hold, and what is read when a line is lost or holds another word."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from preflight.errors import BadInput
from preflight.facts.json_codec import encode
from tests.smi_reading import parse_smi

_SMI = Path(__file__).parent / "smi"
_GPUS_CHANGED = 1
"""Of an output only the lines of the first GPU are changed: others have the same."""


def smi_transcript(path: Path) -> str:
    """Return the facts of one output; of a GPU only what the first has not said."""
    held = _facts(path.read_text(encoding="utf-8"))
    first = {key.removeprefix("gpus.0."): value for key, value in held.items() if key.startswith("gpus.0.")}
    rows = []
    for key, value in held.items():
        of_gpu = re.fullmatch(r"gpus\.[1-9]\d*\.(.*)", key)
        if not of_gpu or first.get(of_gpu[1]) != value:
            rows.append(f"{key} = {value!r}")
    return "\n".join(rows)


def changes_transcript(path: Path, *words: str) -> str:
    """Return what becomes of the facts where one line is lost, or its value is another word."""
    lines = path.read_text(encoding="utf-8").split("\n")
    own = _facts("\n".join(lines))
    rows = []
    for at, line in enumerate(lines):
        if _of_another_gpu(lines, at):
            break
        for what, other in _others(line, words):
            facts = _facts("\n".join([*lines[:at], *other, *lines[at + 1 :]]))
            if facts != own:
                rows.append(f"{at + 1} {what}: {_difference(own, facts)}")
    return "\n".join(rows)


def capture_transcript(path: Path) -> str:
    """Return what becomes of the facts without one of the commands of a capture, and with one alone."""
    head, *sections = re.split(r"^(?=# \$ nvidia-smi)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    own = _facts("".join([head, *sections]))
    rows = []
    for at, section in enumerate(sections):
        name = section.partition("\n")[0].removeprefix("# $ nvidia-smi ")[:40]
        for what, kept in (("without", sections[:at] + sections[at + 1 :]), ("alone", [section])):
            rows.append(f"{what} {name}: {_difference(own, _facts(''.join([head, *kept])))}")
    return "\n".join(rows)


def _difference(own: dict[str, Any], facts: dict[str, Any]) -> str:
    changed = [
        f"{key} = {facts.get(key, 'gone')!r}" for key in {**own, **facts} if facts.get(key) != own.get(key)
    ]
    return "; ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")


def _of_another_gpu(lines: list[str], at: int) -> bool:
    begun = [line for line in lines[: at + 1] if re.match(r"\s*<gpu id=|GPU [0-9A-F]{8}:|GPU \d+:", line)]
    return len(begun) > _GPUS_CHANGED


def _others(line: str, words: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    if line.strip():
        yield "lost", []
    value = re.search(r"(?<=>)[^<]+(?=</)|(?<= : ).+$", line)
    for word in words if value else ():
        assert value is not None
        yield word, [line[: value.start()] + word + line[value.end() :]]


def _facts(text: str) -> dict[str, Any]:
    try:
        facts = encode(parse_smi(text, "host"))
    except BadInput as error:
        return {"refused": str(error).split("\n")[0][:80]}
    return dict(_flat({key: value for key, value in facts.items() if not _not_asked(value)}))


def _not_asked(value: Any) -> bool:
    return isinstance(value, dict) and value.get("code") == "not-asked"


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield leaves; a missing value is one leaf with its code."""
    if isinstance(value, dict) and "missing" in value:
        yield path, f"{value['code']}: {value['missing'][:60]}"
    elif isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def smi_readings() -> dict[str, Callable[[], str]]:
    """Return {heading: what makes its transcript}: each output, and one of each form line by line."""
    changed = {
        "titan-rtx.q.xml": ("odd",),
        "p100.q.txt": ("7",),
        "2xl40s-busy.table.txt": (),
        "titan-rtx.query.csv": (),
        "8xa100-mig.nvlink.txt": (),
        "2xl40s-busy.list.txt": (),
    }
    lines = {name: partial(changes_transcript, _SMI / name, *words) for name, words in changed.items()}
    return {
        **{path.name: partial(smi_transcript, path) for path in sorted(_SMI.iterdir())},
        **{
            f"command by command: {path.name}": partial(capture_transcript, path)
            for path in sorted(_SMI.glob("*.capture.txt"))
        },
        **{f"line by line: {name}": make for name, make in lines.items()},
    }
