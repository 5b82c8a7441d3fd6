"""The logs that `diagnose` is tried on, and what terminals, launchers and collectors do to logs."""

import html
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

LOGS = Path(__file__).parent / "logs"
ALL_FROM = 1000
STEPS = "".join(f"2024-05-01 08:0{n}:00 step {n} loss: {2 - n / 10}\n" for n in range(9))
TYPE_ERROR = """Traceback (most recent call last):
  File "train.py", line 12, in <module>
    main()
  File "train.py", line 7, in main
    update(1)
TypeError: update() missing 1 required positional argument: 'scale'
"""


def blocks(name: str) -> list[tuple[str, str]]:
    """Return (heading, log) of each log in a file; a line "#### HEADING" begins one."""
    parts = (LOGS / name).read_text(encoding="utf-8").split("#### ")[1:]
    return [(heading, log) for heading, _, log in (part.partition("\n") for part in parts)]


HITS = blocks("hits.txt")
OTHERS = [*blocks("composed.txt"), *blocks("healthy.txt")]


def every_log_is_tried() -> bool:
    """Return whether every form is tried on every log."""
    return int(os.environ.get("EXAMPLES", "0")) >= ALL_FROM


def in_turn(logs: Iterable[str], turn: int, share: int) -> list[str]:
    """Return one in `share` of the names of logs, others with the next turn; all of them for many EXAMPLES.

    Which these are depends on their own names alone: whoever adds a log tries none of the others anew.
    """
    return [log for log in logs if every_log_is_tried() or (zlib.crc32(log.encode()) + turn) % share == 0]


def near_misses() -> list[tuple[str, str]]:
    """Return (code, line) for lines that a row must not match."""
    lines = (LOGS / "near_misses.txt").read_text(encoding="utf-8").splitlines()
    return [(code, line) for code, _, line in (text.partition("\t") for text in lines)]


def messages() -> list[tuple[str, str]]:
    """Return (class, message): the forms in which libraries of many versions name one failure."""
    lines = (LOGS / "messages.txt").read_text(encoding="utf-8").splitlines()
    return [(slug, message) for slug, _, message in (text.partition("|") for text in lines)]


def recorded() -> list[tuple[str, Path]]:
    """Return (class, path) of the logs that `tests.failures.provoke` recorded."""
    return [(path.name.partition("__")[0], path) for path in sorted((LOGS / "recorded").glob("*.txt"))]


def whole_logs() -> dict[str, str]:
    """Return {heading or file name: log} of every log, made by hand or recorded."""
    made = [block for name in ("hits", "composed", "healthy", "judged") for block in blocks(f"{name}.txt")]
    return dict([*made, *((path.name, path.read_text(encoding="utf-8")) for _, path in recorded())])


def _each(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda log: "\n".join(change(line) for line in log.split("\n"))


def _wrapped(log: str, width: int = 80) -> str:
    """Cut as a terminal of that width does, below three lines that fill it."""
    full = "\n".join(f"{index} " + "x y z w " * 40 for index in range(3))
    lines = f"{full}\n{log}".split("\n")
    return "\n".join(
        line[start : start + width] for line in lines for start in range(0, max(len(line), 1), width)
    )


def _amid(log: str) -> str:
    """Follow a run of more lines than any part of diagnose looks back."""
    before = "".join(f"step {step} | loss {3 - step / 1000:.4f} | lr 1e-4\n" for step in range(450))
    return before + log


def _doubled(log: str) -> str:
    return "\n".join(line for text in log.split("\n") for line in (text, text))


SEEN_THROUGH: dict[str, Callable[[str], str]] = {
    "carriage returns": lambda log: log.replace("\n", "\r\n"),
    "colours": _each(lambda line: f"\x1b[31m{line}\x1b[0m" if line else line),
    "torchrun --tee": _each(lambda line: f"[default3]:{line}"),
    "srun --label": _each(lambda line: f"3: {line}"),
    "mpirun --tag-output": _each(lambda line: f"[1,3]<stderr>:{line}"),
    "kubernetes": _each(lambda line: f"2026-03-01T10:00:00.123456789Z stderr F {line}"),
    "docker": _each(lambda line: f"2026-03-01T10:00:00.123456789Z {line}"),
    "compose": _each(lambda line: f"trainer-1  | {line}" if line else line),
    "Ray": _each(lambda line: f"(TrainWorker pid=411, ip=10.0.0.4) {line}"),
    "journald": _each(lambda line: f"Mar 01 10:00:00 node-1 train[411]: {line}"),
    "a progress bar": lambda log: "  3%|▎         | 3/100 [00:01<00:40,  2.40it/s]" + log,
    "behind a long run": _amid,
    "lines twice": _doubled,
    "blank lines": lambda log: log.replace("\n", "\n\n"),
    "80 columns": _wrapped,
    "120 columns": lambda log: _wrapped(log, 120),
}


def _lines(log: str) -> list[str]:
    return log.rstrip("\n").split("\n")


def _numbered(form: str) -> Callable[[str], str]:
    """Return a change that puts each {line} into a form: {n} counts, {s} are seconds, {x} varies in width."""
    return lambda log: "\n".join(
        form.format(line=line, n=n, s=n % 60, x=n * n * 7919 % 9973) for n, line in enumerate(_lines(log), 1)
    )


def _records(record: Callable[[str], object], form: str = "{}") -> Callable[[str], str]:
    return lambda log: "\n".join(form.format(json.dumps(record(line))) for line in _lines(log))


def _document(record: Callable[[list[str]], object], cut: int | None = None) -> Callable[[str], str]:
    """Return a change that makes one JSON document of a log, spread over lines and perhaps cut at its end."""
    return lambda log: json.dumps(record(_lines(log)), indent=2)[:cut]


def _of_two(form: str) -> Callable[[str], str]:
    return lambda log: "\n".join(
        form.format(who=who, line=line) for line in _lines(log) for who in ("ax7kq", "bm24p")
    )


def _table(log: str) -> str:
    rows = (f'17723592{n},"{_quoted(line)}"' for n, line in enumerate(_lines(log)))
    return "timestamp,message\n" + "\n".join(rows)


def _by_time(log: str) -> list[tuple[str, str]]:
    """Return (stamp, line) of each line, a second apart."""
    lines = enumerate(_lines(log))
    return [(f"2026-03-01T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}", line) for n, line in lines]


def _quoted(line: str) -> str:
    return line.replace('"', '""')


def _in_parts(log: str, width: int = 60) -> str:
    """Cut lines as the runtime of a container does, at a width that is smaller than any real one."""
    stamp = "2026-03-01T10:00:00.123456789Z std"
    parts = [[line[at : at + width] for at in range(0, max(len(line), 1), width)] for line in _lines(log)]
    return "\n".join(
        f"{stamp}{'err' if n % 3 else 'out'} {'F' if at == len(line) - 1 else 'P'} {part}"
        for n, line in enumerate(parts)
        for at, part in enumerate(line)
    )


def _records_of_parts(log: str, width: int = 200) -> str:
    parts = (f"{line}\n"[at : at + width] for line in _lines(log) for at in range(0, len(line) + 1, width))
    return "\n".join(json.dumps({"log": part, "stream": "stderr"}) for part in parts)


def _of_two_streams(form: str, names: tuple[str, str]) -> Callable[[str], str]:
    """Return a change that labels every third line with the first of two streams."""
    return lambda log: "\n".join(
        form.format(stream=names[n % 3 > 0], line=line) for n, line in enumerate(_lines(log))
    )


def _page(log: str) -> str:
    escaped = html.escape(log).replace("&#x27;", "&#39;")
    return f"<details><summary>log</summary>\n<pre><code>{escaped}</code></pre>\n</details>"


def _box(log: str) -> str:
    return f"┌{'─' * 170}┐\n{_numbered('│ {line:<168} │')(log)}\n└{'─' * 170}┘"


NAME_A_RANK = frozenset({"a rank by its name", "a service's mpirun", "SkyPilot"})
"""Of those below: around a log whose lines name ranks too, they say something else."""
_STAMP = "2026-03-01T10:00:{s:02}"
AROUND_WHOLE_LOGS: dict[str, Callable[[str], str]] = {
    "docker's json-file": _records(lambda line: {"log": f"{line}\n", "stream": "stderr", "time": "2026"}),
    "structured logger": _records(lambda line: {"ts": 1772359200.5, "level": "info", "msg": line}),
    "Loki": _records(lambda line: {"labels": {"pod": "train-0"}, "line": line}),
    "Cloud Logging": _records(lambda line: {"jsonPayload": {"message": line}, "severity": "ERROR"}),
    "Cloud Logging, spread": _document(
        lambda lines: [{"textPayload": line, "resource": {"type": "pod"}} for line in lines]
    ),
    "a spread document, cut": _document(lambda lines: [{"id": "1", "message": line} for line in lines], -4),
    "CloudWatch": _document(lambda lines: {"events": [{"timestamp": 1, "message": line} for line in lines]}),
    "a field of a status": lambda log: json.dumps({"status": "failed", "logs": log}),
    "journald's JSON": _records(lambda line: {"PRIORITY": "6", "MESSAGE": list(line.encode()) or ""}),
    "fluentd": _records(lambda line: {"log": line}, "2026-03-01T10:00:00+00:00\tkube.train\t{}"),
    "logfmt": _records(lambda line: line, 'time="2026-03-01T10:00:00Z" level=info msg={}'),
    "a table's export": _table,
    "kubectl --prefix": _numbered("[pod/train-7d9f6-x2k4p/pytorch] {line}"),
    "kubectl --prefix --timestamps": _numbered("[pod/train-7d9f6-x2k4p/pytorch] " + _STAMP + ".{x}Z {line}"),
    "stern": _numbered("train-worker-0 \u203a pytorch {line}"),
    "journald, ISO": _numbered(_STAMP + "+0100 node-1 python3[411]: {line}"),
    "syslog": _numbered("<14>1 " + _STAMP + ".{x}Z node-1 train 411 - - {line}"),
    "srun, a label by hand": _numbered("[3] {line}"),
    "a rank by its name": _numbered("Rank 0: {line}"),
    "a role's prefix": _numbered("[trainer0|0]:{line}"),
    "mpirun with stamps": _numbered("Sun Mar  1 10:00:{s:02} 2026[1,0]<stderr>:{line}"),
    "a service's mpirun": _numbered("[1,mpirank:0,algo-1]<stderr>:{line}"),
    "pdsh": _numbered("gpu-node-a: {line}"),
    "fabric": _numbered("[node3] out: {line}"),
    "GitHub Actions": _numbered("train\tRun training\t" + _STAMP + ".{x:07}Z {line}"),
    "GitLab": _numbered(_STAMP + ".{x:06}Z 00O {line}"),
    "Jenkins": _numbered("[" + _STAMP + ".{x}Z] {line}"),
    "ts": _numbered("Mar 01 10:00:{s:02} {line}"),
    "seconds": _numbered("{n}.{x} {line}"),
    "a parent's logger": _numbered("2026-03-01 10:00:{s:02},{x:03} - launcher - INFO - {line}"),
    "SkyPilot": _numbered("(worker1, rank=1, pid=411, ip=10.0.0.4) {line}"),
    "a group's events": _numbered(_STAMP + ".{x:06}+00:00 train/default/4f0c1d2e3b {line}"),
    "journald, monotonic": _numbered("[{n:5}.{x:06}] node-1 python3[411]: {line}"),
    "newest first": lambda log: "\n".join(
        ['"Time","Line"', *(f'"{stamp}","{_quoted(line)}"' for stamp, line in _by_time(log)[::-1])]
    ),
    "newest first, in records": lambda log: "\n".join(
        [json.dumps({"message": line, "@timestamp": stamp}) for stamp, line in _by_time(log)][::-1]
    ),
    "newest first, a document": lambda log: json.dumps(
        [{"textPayload": line, "timestamp": stamp} for stamp, line in _by_time(log)][::-1], indent=2
    ),
    "newest first, behind stamps": lambda log: "\n".join(
        [f"{stamp}Z {line}" for stamp, line in _by_time(log)][::-1]
    ),
    "lines in parts": _in_parts,
    "records of parts": _records_of_parts,
    "two streams": _of_two_streams("[trainer]<std{stream}>: {line}", ("out", "err")),
    "OpenTelemetry": _records(lambda line: {"severityText": "INFO", "body": {"stringValue": line}}),
    "a tool's result": lambda log: "n1 | FAILED! => " + json.dumps({"rc": 1, "stderr": "", "stdout": log}),
    "a string's repr": lambda log: f"CompletedProcess(args=['a.sh'], returncode=1, stdout={log!r})",
    "two pods": _of_two("[pod/train-{who}/pytorch] {line}"),
    "two hosts": _of_two("{who}: {line}"),
    "colours without their escape": lambda log: "\n".join(f"^[[31m{line}^[[0m" for line in log.split("\n")),
    "colours as text": lambda log: "\n".join(f"\\u001b[31m{line}\\u001b[0m" for line in log.split("\n")),
    "a quote": _numbered("> {line}"),
    "a quote of a quote": _numbered(">> {line}"),
    "a narrow quote": _numbered(">{line}"),
    "bullets": _numbered("- {line}"),
    "a comment": _numbered("# {line}"),
    "a difference": _numbered("+{line}"),
    "code marks": lambda log: "\n".join(f"`{line}`" if line else line for line in log.split("\n")),
    "cat -n": _numbered("{n:6}\t{line}"),
    "grep -n": _numbered("{n}:{line}"),
    "grep of a file": _numbered("logs/slurm-123.out:{n}:{line}"),
    "an editor": _numbered("{n:4} | {line}"),
    "a margin": _numbered("    {line}"),
    "a margin but in the first line": lambda log: _numbered("    {line}")(log)[4:],
    "carriage returns twice": lambda log: log.replace("\n", "\r\r\n"),
    "holes": lambda log: "\0" * 400 + log,
    "a byte order mark": lambda log: f"\ufeff{log}",
    "blanks of a page": lambda log: log.replace(" ", "\xa0"),
    "typographic quotes": lambda log: log.replace("'", "\u2019"),
    "continued lines": _numbered("{line}\\"),
    "entities": html.escape,
    "entities of a page": _page,
    "a pane": _numbered("│{line}"),
    "a box": _box,
    "omitted lines": lambda log: f"... (12873 lines omitted) ...\n{log}",
}  # fmt: skip


def disguised(log: str) -> Iterator[tuple[str, str]]:
    """Yield (name, log) for everything that is put around logs."""
    for name, change in SEEN_THROUGH.items():
        yield name, change(log)


def name(number: int) -> str:
    """A word without a digit, another for each number."""
    return f"{number:b}".translate(str.maketrans("01", "xy"))
