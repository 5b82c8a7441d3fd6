"""Logs to diagnose: a file, standard input, or all logs of a run that was kept locally."""

import codecs
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from launcher.errors import BadInput
from launcher.rundir.end_state import summarize_ends
from launcher.rundir.layout import is_run, read_kept_ends, read_kept_outcome
from launcher.rundir.local_runs import find_local_run
from launcher.text import one_line
from preflight import regex as re
from preflight.diagnosis.condensed_log import MOST_WHOLE, LogCondenser
from preflight.diagnosis.lines import Log

_BLOCK = 1 << 20
_MOST_NAMES = 5
STDIN = "stdin"
_RANK = re.compile(r"rank-(\d+)\.log$")
_PACKED = {b"\x1f\x8b": "zcat", b"BZh": "bzcat", b"\xfd7zXZ\x00": "xzcat", b"\x28\xb5\x2f\xfd": "zstdcat"}
"""The first bytes of files that a compressor wrote, and what prints such a file."""
_NO_TEXT = re.compile(r"[\x01-\x06\x0e-\x1a\x1c-\x1f\x7f\ufffd]")
_SAMPLE = 1 << 16
_MOST_NO_TEXT = 0.3  # of characters that no text has; Latin-1 or GBK logs have less


class NoText(BadInput):
    """A file that was named as a log is compressed, binary or a script."""


def _ignore(text: str) -> None:
    """Take a remark and say nothing."""


def read_logs(words: Sequence[str], runs: Path, warn: Callable[[str], None] = _ignore) -> tuple[Log, ...]:
    """Return the logs that the words name: paths, "-", run ids or starts of one.

    Of several files (`*`, a directory) those that are not text are left out, and `warn` names them. Raises
    BadInput for what cannot be read, is not text, or has no line at all: nothing is known of such a run,
    which is not the same as a run that did not fail, unless its outcome says what failed, or that it
    finished.
    """
    logs = tuple(_keep_texts([partial(_named, word, runs, warn) for word in words], warn))
    is_silent = not any(log.kept or log.text.strip() for log in logs)
    if is_silent and not any(map(_says_end, map(read_kept_outcome, list_run_directories(words, runs)))):
        names = ", ".join(log.name for log in logs[:_MOST_NAMES])
        kept = list_run_directories(words, runs)
        if len(kept) == 1 and (ends := tuple(read_kept_ends(kept[0]))):
            raise _ended_silently(kept[0], summarize_ends(ends)[1])
        fix = (
            f"gpulaunch fetch {kept[0].name} brings what it has printed since"
            if kept
            else "name a log with lines"
        )
        raise BadInput(f"{names}: no line of text, so nothing is known of the run", fix)
    return logs


def _keep_texts(reads: Sequence[Callable[[], Sequence[Log]]], warn: Callable[[str], None]) -> list[Log]:
    """Return the logs of all reads but those that find no text. Raises NoText where none finds any."""
    logs: list[Log] = []
    refused: list[NoText] = []
    for read in reads:
        try:
            logs.extend(read())
        except NoText as error:
            refused.append(error)
    if refused and not logs:
        raise refused[0]
    for left_out in refused:
        warn(f"left out: {left_out.message}")
    return logs


def _named(word: str, runs: Path, warn: Callable[[str], None]) -> list[Log]:
    if word == "-":
        return [read_log(sys.stdin.buffer, Log("", STDIN))]
    if word.endswith(".py"):  # its error messages would be read as if they had been printed
        raise NoText(
            f"{one_line(word)} is a script and no log", f"gpulaunch lint {shlex.quote(one_line(word))}"
        )
    directory = _directory_of(word, runs)
    return _of_file(Path(word), word) if directory is None else _of_run(directory, warn)


def _directory_of(word: str, runs: Path) -> Path | None:
    """Return the directory that a word means, None for a file. Raises BadInput."""
    path = Path(word)
    if path.is_dir():
        return path
    if path.exists() or path.is_symlink():
        return None
    return find_local_run(word, runs)


def list_run_directories(words: Sequence[str], runs: Path) -> list[Path]:
    """Return the directories of the runs among the words, of those that have kept their plan."""
    found = (_directory_of(word, runs) for word in words if word != "-")
    return [path for path in found if path is not None and is_run(path)]


def _of_run(directory: Path, warn: Callable[[str], None]) -> list[Log]:
    """Return every log of a run: HOST/rank-N.log and HOST/launcher.log."""
    every = sorted(directory.glob("*.log")) + sorted(directory.glob("*/*.log"))
    files = [path for path in every if not path.name.startswith("stacks-")]
    if not files and is_run(directory):
        run, outcome = one_line(directory.name), read_kept_outcome(directory)
        if _says_end(outcome):
            return []
        said = f"; {one_line(str(why), 400)}" if (why := outcome.get("why")) else ""
        has_none = outcome.get("verdict") in ("interrupted", "verification_failed", "aborted")
        if has_none and _has_all_logs(outcome):
            raise _ended_silently(directory, str(why or ""))
        raise BadInput(f"{run}: no logs of it are kept locally{said}", f"gpulaunch fetch {run} brings them")
    if not files:
        raise BadInput(f"{directory}: no logs in this directory", "a run's logs are HOST/rank-N.log")
    reads = [partial(_of_file, path, str(path.relative_to(directory))) for path in files]
    return _keep_texts(reads, warn)


def _ended_silently(directory: Path, why: str) -> BadInput:
    run = one_line(directory.name)
    said = f"; {one_line(why, 400)}" if why else ""
    fix = f"gpulaunch report {run} shows its course"
    return BadInput(f"{run}: it ended before a rank of it had written a line{said}", fix)


def _says_end(outcome: Mapping[str, Any]) -> bool:
    """Return whether an outcome says how a run ended of which no rank has printed a line."""
    return _has_all_logs(outcome) and bool(outcome.get("root_cause") or outcome.get("verdict") == "finished")


def _has_all_logs(outcome: Mapping[str, Any]) -> bool:
    return outcome.get("logs_incomplete") == "" and not outcome.get("lost_hosts")


def _of_file(path: Path, name: str) -> list[Log]:
    rank = _RANK.search(path.name)
    host = path.parent.name if rank or path.name == "launcher.log" else ""
    try:
        with path.open("rb") as file:
            return [read_log(file, Log("", name, int(rank[1]) if rank else None, host))]
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}", "name a log file, a run id, or - for stdin") from None


def read_log(file: BinaryIO, log: Log, *, block: int = _BLOCK) -> Log:
    """Return the log; a long one as what it is condensed to. Raises NoText for what is not text."""
    start = file.read(MOST_WHOLE + 1)
    wide = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    encoding = "utf-16" if wide else "utf-8"
    _require_text(start[:_SAMPLE], encoding, log.name)
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    if len(start) <= MOST_WHOLE:
        return replace(log, text=decoder.decode(start, final=True).replace("\x00", ""))
    condenser = LogCondenser()
    while start:
        condenser.feed(decoder.decode(start).encode("utf-8", "replace") if wide else start)
        start = file.read(block)
    return replace(log, kept=condenser.lines())


def _require_text(sample: bytes, encoding: str, name: str) -> None:
    """Raise NoText for what is compressed or binary. Zeros are holes that a crash left in a log."""
    tool = next((tool for start, tool in _PACKED.items() if sample.startswith(start)), "")
    if tool:
        file = "FILE" if name == STDIN else shlex.quote(name)
        raise NoText(f"{name} is compressed", f"{tool} {file} | gpulaunch diagnose -")
    text = sample.decode(encoding, "replace").replace("\x00", "")
    share = len(_NO_TEXT.findall(text)) / max(1, len(text))
    if share > _MOST_NO_TEXT:
        wrong = f"{name} is a binary file: {share:.0%} of its first characters cannot be in a text"
        raise NoText(wrong, "name a log file")
