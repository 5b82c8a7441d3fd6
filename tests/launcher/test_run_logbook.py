"""Logs here: every byte once, at its place, wherever a host's name would like them to land."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from launcher.running.logbook import MOST_OPEN, LogBook


def test_bytes_that_come_twice_are_there_once(tmp_path: Path) -> None:
    book = LogBook(tmp_path)
    book.write("a", "rank-0.log", 0, b"hello ")
    book.write("a", "rank-0.log", 3, b"lo world")
    book.close()
    assert (tmp_path / "a" / "rank-0.log").read_bytes() == b"hello world"


def test_a_thousand_logs_do_not_need_a_thousand_descriptors(tmp_path: Path) -> None:
    book = LogBook(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for offset, data in ((0, b"one "), (4, b"two")):
        for rank in range(1000):
            book.write("a", f"rank-{rank}.log", offset, data)
    assert len(list(Path("/proc/self/fd").iterdir())) - before == MOST_OPEN
    book.note("end")
    book.close()
    assert {path.read_bytes() for path in tmp_path.glob("a/*.log")} == {b"one two"}
    sizes = json.loads((tmp_path / "events.jsonl").read_text())["sizes"]
    assert (len(sizes), set(sizes.values())) == (1000, {7})


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_name_leads_out_of_the_directory(host: str, log: str) -> None:
    book = LogBook(Path("/base"))
    path = book.path(host, log)
    assert len(path.parts) == 4
    assert ".." not in path.parts


def test_last_lines_are_safe_and_of_a_bar_the_last_state(tmp_path: Path) -> None:
    book = LogBook(tmp_path)
    book.write("a", "rank-0.log", 0, b"x" * 99999 + b"\n10%\r20%\n\x1b[2Jend\n\n")
    book.close()
    assert book.last_lines("a", "rank-0.log", 2) == ("20%", "end")
    assert book.last_lines("a", "rank-1.log", 2) == ()
