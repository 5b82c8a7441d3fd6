"""What reading a short script leaves behind: its names, the objects on the heap, and what rules were sent."""

import re
from collections.abc import Iterator

from preflight.facts.script import CodeLocation
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.program import ProgramReader
from preflight.script.libraries.call_table import LibraryModel
from preflight.script.source import Sources
from preflight.script.values import (
    Const,
    Device,
    Dtype,
    Element,
    ExternalName,
    Map,
    Method,
    Module,
    OneOf,
    RankValue,
    Ref,
    Seq,
    Unknown,
    Value,
)
from preflight.script.values.constants import FALSE, NONE
from tests.preflight.script_cases import HERE, targets_of


def scripts() -> dict[str, str]:
    """Return {heading: script} of scripts/readings.txt; a line `# file: NAME` begins a file beside it."""
    parts = (HERE / "readings.txt").read_text(encoding="utf-8").split("#### ")[1:]
    return {heading: text for heading, _, text in (part.partition("\n") for part in parts)}


def reading_transcript(text: str) -> str:
    """Return everything that one reading knows at its end; attributes that are None or False are left out."""
    return "\n".join(_Reading(text).lines())


class _Reading:
    def __init__(self, text: str) -> None:
        script, *files = re.split(r"^# file: (\S+)\n", text, flags=re.MULTILINE)
        held = dict(zip(files[::2], files[1::2], strict=True))
        self._events: list[ScriptEvent] = []
        self._it = ProgramReader(
            Sources(held.get),
            targets_of(text)[0][0],
            LibraryModel(),
            lambda _, event: self._events.append(event),
        )
        self._it.run(self._it.sources.add("t.py", script))
        self._names = {
            identity: f"{thing.kind.replace(' ', '_')}{number}"
            for number, (identity, thing) in enumerate(self._it.state.heap.items(), 1)
        }

    def lines(self) -> Iterator[str]:
        for name, value in self._it.state.frames[self._it.modules["t.py"]].items():
            if not name.startswith("__") and not isinstance(value, ExternalName):
                yield f"{name} = {self._shown(value)}"
        for identity, thing in self._it.state.heap.items():
            known = ((key, item) for key, item in thing.attrs.items() if item not in (NONE, FALSE))
            held = "".join(f" {key}={self._shown(item)}" for key, item in known)
            yield f"{self._names[identity]} {_place(thing.place)}{held}"
        for event in self._events:
            words = [event.name, _place(event.place), self._names.get(event.ref or 0, ""), event.what]
            words += [f"{key}={self._shown(item)}" for key, item in event.values.items()]
            yield f"* {' '.join(filter(None, words))}"
        for flag in ("device_set", "scaled", "dead"):
            if getattr(self._it.state, flag):
                yield f"at the end: {flag}"
        if not self._it.complete or self._it.asked_gpu:
            yield f"complete: {self._it.complete}, asked for the GPU: {self._it.asked_gpu}"

    def _shown(self, value: Value) -> str:
        match value:
            case Unknown():
                return "?"
            case Const():
                return f"{value.value!r}" + (_place(value.place) if value.place else "")
            case Dtype():
                return value.name + (f"({value.actual})" if value.actual else "") + _place(value.place)
            case RankValue():
                return "RANK"
            case Device():
                return f"{value.kind}:{'RANK' if value.of_rank else value.index}{_place(value.place)}"
            case ExternalName():
                return value.name
            case Module():
                return f"module {value.path}"
            case Ref():
                return self._names.get(value.id, "gone")
            case Element():
                return f"{value.what} of {self._names.get(value.of, 'gone')}"
            case Method():
                return f"{self._shown(value.owner)}.{value.name}()"
            case Seq() | Map():
                return self._shown_items(value)
            case OneOf():
                return f"<{' | '.join(map(self._shown, value.values))}>"
        return type(value).__name__

    def _shown_items(self, value: Seq | Map) -> str:
        more = ["..."] if value.open else []
        if isinstance(value, Seq):
            return f"[{', '.join([*map(self._shown, value.items), *more])}]"
        return f"{{{', '.join([*(f'{key!r}: {self._shown(item)}' for key, item in value.items), *more])}}}"


def _place(place: CodeLocation | None) -> str:
    return f"@{place.line}:{place.column}" if place else ""
