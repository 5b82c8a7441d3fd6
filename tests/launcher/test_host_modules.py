"""Modules of launcher/onhost/ that travel with every program: events of a run, the tree of processes."""

import json
from pathlib import Path

import pytest

from launcher.onhost.event_file import append_event, read_step
from launcher.onhost.procfs import ProcStat, list_descendants

PARENTS = {2: 1, 3: 1, 4: 2, 5: 4, 9: 8}


@pytest.mark.parametrize(
    ("pid", "parents", "below"),
    [
        (1, PARENTS, [2, 3, 4, 5]),
        (4, PARENTS, [5]),
        (7, PARENTS, []),
        (1, {**PARENTS, 1: 5}, [2, 3, 4, 5, 1]),  # the number of a parent that ended, used again below
        (6, {6: 6}, [6]),
    ],
)
def test_descendants_are_listed_once_the_nearest_first(
    pid: int, parents: dict[int, int], below: list[int]
) -> None:
    fields = dict.fromkeys(ProcStat._fields, 0)
    table = {child: ProcStat(**{**fields, "state": "S", "ppid": above}) for child, above in parents.items()}  # type: ignore[arg-type]
    assert list(list_descendants(pid, table)) == below


def test_an_event_has_fields_of_any_name_and_type(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    append_event(str(file), "guard", name="w", path=Path("p"), rank=1, t=0)
    event = json.loads(file.read_bytes())
    assert {key: event[key] for key in ("event", "name", "path", "rank", "t")} == {
        "event": "guard",
        "name": "w",
        "path": "p",
        "rank": 1,
        "t": 0,
    }


@pytest.mark.parametrize(
    ("text", "step"), [(b"12", 12), (b" 7\n", 7), (b"", None), (b"x", None), (b"9" * 9999, int("9" * 32))]
)
def test_the_step_of_a_rank_is_a_short_number(tmp_path: Path, text: bytes, step: int | None) -> None:
    (tmp_path / "steps-rank-0").write_bytes(text)
    assert (read_step(str(tmp_path), 0), read_step(str(tmp_path), "1")) == (step, None)
