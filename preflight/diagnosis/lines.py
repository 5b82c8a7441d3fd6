"""A log as lines without what launchers, terminals and collectors put around them. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_LINE = 8192
"""Characters of a line that are read; a longer one (a dumped tensor, a 50 MB line) says it in its beginning."""

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_]")
_RANK = re.compile(
    r"""
    ^(?:
        \[(?:[\w.-]+\ )?(?:rank|default|r)(?P<torch>\d+)\]:?      # torch, torchrun --tee, gpulaunch
      | (?P<srun>\d{1,5}):\                                       # srun --label
      | \[\d+,(?P<mpi>\d+)\]<std(?:err|out)>:?                    # mpirun --tag-output
    )\s?
    """,
    re.VERBOSE,
)
_WRAPPER = re.compile(
    r"""
    ^(?:
        \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)\ (?:std(?:out|err)\ [FP]\ )?   # docker, k8s
      | \(\w+(?:\ pid=\d+)?(?:,\ ip=[\d.]+)?\)\                                                    # Ray
      | [\w.-]{1,64}\ +\|\ (?=\S)                                                                  # docker compose
      | [\w.-]{1,64}:\ (?=\[rank\d+\]|Traceback|\ \ File\ )                                        # pdsh, clush
    )
    """,
    re.VERBOSE,
)
# A progress bar glued to what was printed after it: " 25%|██▌   | 5/20 [00:00<00:00, 77.45it/s]RuntimeError: ..."
_BAR = re.compile(r"^.{0,120}?\d{1,3}%\|[^|]{0,200}\|[^\[\]]{0,60}\[[^\]]{0,120}\]\s?")
_BOX_EDGE = re.compile(r"^[╭┌][─━]+ ?(?P<title>[^─━]*?) ?[─━]+[╮┐]$|^[╰└][─━]+[╯┘]$")


@dataclass(frozen=True, slots=True)
class Line:
    """One line; `number` counts the physical lines of the text from 1, `rank` is None where nothing says it."""

    number: int
    text: str
    rank: int | None


def read_lines(text: str) -> tuple[Line, ...]:
    """Return the log's lines, stripped of colours, rank and collector prefixes, boxes and progress bars."""
    return tuple(_read(text))


def _read(text: str) -> Iterator[Line]:
    for number, raw in enumerate(text.split("\n"), 1):
        for part in raw[:MAX_LINE].split("\r"):
            if part.strip():
                rank, bare = _unwrap(_ANSI.sub("", part))
                yield Line(number, bare, rank)


def _unwrap(text: str) -> tuple[int | None, str]:
    rank: int | None = None
    for _ in range(4):  # a torch prefix inside srun's inside docker's, and no more
        found = _RANK.match(text)
        if found:
            rank = next(int(value) for value in found.groups() if value)
        elif not (found := _WRAPPER.match(text)):
            break
        text = text[found.end() :]
    text = _unbox(text)
    bar = _BAR.match(text)
    if bar and text[bar.end() :].strip():
        text = text[bar.end() :]
    return rank, text.rstrip()


def _unbox(text: str) -> str:
    """Undo what rich draws around tracebacks."""
    stripped = text.strip()
    edge = _BOX_EDGE.match(stripped)
    if edge:
        title = (edge["title"] or "").strip()
        return title + ":" if title.startswith("Traceback") else title
    if len(stripped) > 1 and stripped[0] in "│┃" and stripped[-1] in "│┃":
        return stripped[1:-1].rstrip()
    return text
