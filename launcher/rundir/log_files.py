"""Logs to diagnose: a file, standard input, or all logs of a run that was kept locally."""

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from launcher.errors import BadInput
from launcher.rundir.run_id import started_text
from preflight.diagnosis.lines import Log

# A log is read whole up to this; of a longer one the start and the end, where causes are.
HEAD_BYTES = 16 << 20
TAIL_BYTES = 48 << 20
_BLOCK = 8 << 20
LAST = "last"
_RANK = re.compile(r"rank-(\d+)\.log$")


def read_logs(words: Sequence[str], runs: Path) -> tuple[Log, ...]:
    """Return the logs that the words name: paths, "-", run ids or starts of one. Raises BadInput."""
    return tuple(log for word in words for log in _named(word, runs))


def _named(word: str, runs: Path) -> list[Log]:
    if word == "-":
        return [read_head_and_tail(sys.stdin.buffer, Log("", "stdin"))]
    path = Path(word)
    if not word:
        return _of_run(find_local_run(word, runs))
    if path.is_dir():
        return _of_run(path)
    if path.exists() or path.is_symlink():
        return [_of_file(path, word)]
    return _of_run(find_local_run(word, runs))


def find_local_run(word: str, runs: Path) -> Path:
    """Return the directory of the run whose id is, or starts with, a word; "last" was started last.

    Raises BadInput.
    """
    if not word or "/" in word:
        raise BadInput(f"{word or '(nothing)'}: no such log", "name a log file, a run id, or - for stdin")
    kept = sorted(path for path in runs.iterdir() if path.is_dir()) if runs.is_dir() else []
    if word == LAST and kept:
        return max(kept, key=_started)
    exact = [path for path in kept if path.name == word]
    found = exact or [path for path in kept if path.name.startswith(word)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(path.name for path in found[-5:])
        raise BadInput(
            f"{word} is ambiguous, it starts the ids of several runs: {names}", "name one of them in full"
        )
    latest = (
        f"; the latest local run is {kept[-1].name}"
        if kept
        else f"; none is kept in {runs}: gpulaunch fetch RUN brings one"
    )
    raise BadInput(f"{word}: no such log and no such run", f"name a log file, a run id, or -{latest}")


def _started(directory: Path) -> tuple[str, float]:
    """Return when a local run was started, by its id: fetching makes none newer."""
    return started_text(directory.name), directory.stat().st_mtime


def _of_run(directory: Path) -> list[Log]:
    """Return every log of a run: HOST/rank-N.log and HOST/launcher.log."""
    every = sorted(directory.glob("*.log")) + sorted(directory.glob("*/*.log"))
    files = [path for path in every if not path.name.startswith("stacks-")]
    if not files:
        raise BadInput(f"{directory}: no logs in this directory", "a run's logs are HOST/rank-N.log")
    return [_of_file(path, str(path.relative_to(directory))) for path in files]


def _of_file(path: Path, name: str) -> Log:
    rank = _RANK.search(path.name)
    host = path.parent.name if rank or path.name == "launcher.log" else ""
    try:
        with path.open("rb") as file:
            return read_head_and_tail(file, Log("", name, int(rank[1]) if rank else None, host))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}", "name a log file, a run id, or - for stdin") from None


def read_head_and_tail(
    file: BinaryIO,
    log: Log,
    *,
    head_bytes: int = HEAD_BYTES,
    tail_bytes: int = TAIL_BYTES,
    block: int = _BLOCK,
) -> Log:
    """Return the log with its text: whole, or the start and the end of what is longer."""
    head = file.read(head_bytes)
    tail = bytearray()
    unread = lines = 0
    while data := file.read(block):
        tail += data
        spare = max(0, len(tail) - tail_bytes)
        lines += tail.count(b"\n", 0, spare)
        unread += spare
        del tail[:spare]
    if not unread:
        return replace(log, text=_text(head + tail))
    # The end starts on a line of its own in this text, and somewhere in a line of the file.
    cut_after = head.count(b"\n") + 1
    text = _text(head + b"\n" + tail)
    return replace(log, text=text, cut_after=cut_after, cut_lines=lines - 1, unread=unread)


def _text(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace").replace("\x00", "")
