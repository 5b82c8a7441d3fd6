"""Logs to diagnose: a file, standard input, or all logs of a run that was kept here."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from launcher.errors import BadInput
from preflight.diagnosis.lines import Log

# A log is read whole up to this; of a longer one the beginning and the end, where causes stand.
HEAD_BYTES = 16 << 20
TAIL_BYTES = 48 << 20
LAST = "last"
_RANK = re.compile(r"rank-(\d+)\.log$")


def read_logs(words: Sequence[str], runs: Path) -> tuple[Log, ...]:
    """Return the logs that the words name: paths, "-", run ids or beginnings of one. Raises BadInput."""
    return tuple(log for word in words for log in _named(word, runs))


def _named(word: str, runs: Path) -> list[Log]:
    if word == "-":
        return [Log(_ends(sys.stdin.buffer.read()), "stdin")]
    path = Path(word)
    if not word:
        return _of_run(run_called(word, runs))
    if path.is_dir():
        return _of_run(path)
    if path.exists() or path.is_symlink():
        return [_of_file(path, word)]
    return _of_run(run_called(word, runs))


def run_called(word: str, runs: Path) -> Path:
    """Return the directory of the run whose id is, or begins with, a word; "last" is the newest one here.

    Raises BadInput.
    """
    if not word or "/" in word:
        raise BadInput(f"{word or '(nothing)'}: no such log", "name a log file, a run id, or - for stdin")
    kept = sorted(path for path in runs.iterdir() if path.is_dir()) if runs.is_dir() else []
    if word == LAST and kept:
        return max(kept, key=lambda path: path.stat().st_mtime)
    exact = [path for path in kept if path.name == word]
    found = exact or [path for path in kept if path.name.startswith(word)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(path.name for path in found[-5:])
        raise BadInput(f"{word} begins several runs: {names}", "name one of them in full")
    latest = (
        f"; the latest run here is {kept[-1].name}"
        if kept
        else f"; none is kept in {runs}: gpulaunch fetch RUN brings one"
    )
    raise BadInput(f"{word}: no such log and no such run", f"name a log file, a run id, or -{latest}")


def _of_run(directory: Path) -> list[Log]:
    """Return every log of a run: HOST/rank-N.log and HOST/launcher.log."""
    every = sorted(directory.glob("*.log")) + sorted(directory.glob("*/*.log"))
    files = [path for path in every if not path.name.startswith("stacks-")]
    if not files:
        raise BadInput(f"{directory}: no logs in this directory", "a run's logs are HOST/rank-N.log")
    return [_of_file(path, str(path.relative_to(directory))) for path in files]


def _of_file(path: Path, name: str) -> Log:
    try:
        with path.open("rb") as file:
            text = _ends_of(file)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}", "name a log file, a run id, or - for stdin") from None
    rank = _RANK.search(path.name)
    host = path.parent.name if rank or path.name == "launcher.log" else ""
    return Log(text, name, int(rank[1]) if rank else None, host)


def _ends_of(file: BinaryIO) -> str:
    head = file.read(HEAD_BYTES + TAIL_BYTES + 1)
    if len(head) <= HEAD_BYTES + TAIL_BYTES:
        return _text(head)
    if not file.seekable():
        return _ends(head + file.read())
    file.seek(-TAIL_BYTES, 2)
    return _text(head[:HEAD_BYTES] + b"\n" + file.read())


def _ends(data: bytes) -> str:
    if len(data) <= HEAD_BYTES + TAIL_BYTES:
        return _text(data)
    return _text(data[:HEAD_BYTES] + b"\n" + data[-TAIL_BYTES:])


def _text(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace").replace("\x00", "")
