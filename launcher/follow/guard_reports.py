"""What the guards of all ranks report, put together: warnings to say, and what must stop the run. Pure.

The guards never talk to each other (a collective could hang a run), so whether the ranks are alike (G7) and
have a GPU each (G6) is judged by this module, from what each reported at its first optimizer step.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.text import name_first, one_line
from preflight import regex as re
from preflight.frozen import dataclass

_GPU = re.compile(r"GPU-[\w-]+")
STOP_EXIT = 86  # the exit code of a rank that its guard has stopped (launcher/onhost/guard/main.py)


@dataclass(frozen=True, slots=True)
class GuardStop:
    """Why a guard stops the run, in the lines of a root cause."""

    summary: str
    lines: tuple[str, ...]


class GuardReports:
    """Collects the reports of guards."""

    def __init__(self, *, stops: bool) -> None:
        self._stops = stops
        self._facts: dict[int, tuple[str, Mapping[str, Any]]] = {}
        self._reported: set[str] = set()
        self.rehearsal: dict[int, Mapping[str, Any]] = {}
        self.events: list[tuple[str, int, Mapping[str, Any]]] = []  # host, rank, fields of a "guard" event

    @property
    def compared(self) -> int:
        """How many ranks have reported what they train."""
        return len(self._facts)

    def add_report(self, host: str, rank: int, fields: Mapping[str, Any]) -> Iterator[str | GuardStop]:
        """Take an event "guard": something that one rank has seen."""
        self.events.append((host, rank, fields))
        message = one_line(str(fields.get("message", "")), 600)
        where = f"at optimizer step {fields.get('step')}" if fields.get("step") else "before the first step"
        text = f"{where} [{one_line(str(fields.get('code')), 20)}]: {message}"
        if fields.get("stops"):
            yield GuardStop(f"the guard stopped rank {rank} on {host} {text}", tuple(_details(fields)))
        elif (same := _GPU.sub("GPU", text)) not in self._reported:  # every rank sees it; once is enough
            self._reported.add(same)
            yield f"the guard of rank {rank} on {host} warns {text}"

    def compare_ranks(self, host: str, rank: int, fields: Mapping[str, Any]) -> Iterator[str | GuardStop]:
        """Take an event "guard_facts": what a rank trains, on what, with what."""
        gpu = str(fields.get("gpu") or "")
        for other, (other_host, known) in self._facts.items():
            if gpu and gpu == known.get("gpu"):
                text = f"rank {other} on {other_host} and rank {rank} on {host} are on one GPU, {gpu} [G6]"
                fix = "fix: use accelerator.device in the script, never a fixed cuda:N or device_map='auto'"
                yield self._wrong(text, fix)
        first = next(iter(self._facts.items()), None)
        self._facts[rank] = (host, fields)
        if first is None:
            return
        other, (other_host, known) = first
        for name, words in (("mixed_precision", "mixed precision"), ("scaler", "a GradScaler")):
            if fields.get(name) != known.get(name):
                theirs, mine = known.get(name), fields.get(name)
                yield self._unlike(words, (other, other_host, theirs), (rank, host, mine))
        dtypes = ["+".join(sorted(dict(each.get("dtypes") or {}))) for each in (known, fields)]
        if dtypes[0] != dtypes[1]:
            yield self._unlike("trainable dtypes", (other, other_host, dtypes[0]), (rank, host, dtypes[1]))
        if fields.get("versions") != known.get("versions") and "versions" not in self._reported:
            self._reported.add("versions")
            yield (
                f"rank {other} on {other_host} and rank {rank} on {host} run different versions [G7]: "
                f"{known.get('versions')} and {fields.get('versions')}"
            )

    def _unlike(
        self, subject: str, one: tuple[int, str, Any], other: tuple[int, str, Any]
    ) -> str | GuardStop:
        text = (
            f"{subject}: {one_line(str(one[2]), 80)} in rank {one[0]} on {one[1]};"
            f" {one_line(str(other[2]), 80)} in rank {other[0]} on {other[1]} [G7];"
            " DDP would mix their gradients without an error"
        )
        return self._wrong(
            text, "fix: decide precision and dtypes once for all ranks, not from each rank's own GPU"
        )

    def _wrong(self, text: str, fix: str) -> str | GuardStop:
        if self._stops:
            return GuardStop(f"the guard stops the run: {text}", (fix,))
        return f"the guard warns: {text}"


def _details(fields: Mapping[str, Any]) -> Iterator[str]:
    names = fields.get("parameters")
    if isinstance(names, list) and names:
        total = fields.get("parameters_total")
        shown = name_first([*map(str, names)], len(names), total if isinstance(total, int) else 0)
        yield one_line(f"parameters: {shown}", 2000)
    yield one_line(f"fix: {fields.get('fix', '')}", 2000)
