"""Programs that use torch, started by a case beside it."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.gpu.board import SCRIPTS, Board
from tests.gpu.ledger import Stopped


def answer(board: Board, script: str, *words: str, limit_s: float = 90.0, **env: str) -> dict[str, Any]:
    """Run a script to its end; return the JSON of its last line. Raises Stopped."""
    try:
        done = board.run((sys.executable, str(SCRIPTS / script), *words), limit_s, **env)
    except subprocess.TimeoutExpired:
        raise Stopped(f"{script} did not end within {limit_s:.0f} s") from None
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        raise Stopped(f"{script}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


@contextmanager
def holder(
    board: Board, mib: int, within: Sequence[str] = (), **env: str
) -> Iterator[tuple["subprocess.Popen[bytes]", dict[str, Any]]]:
    """Hold GPU memory; give the process and what it says of itself; kill it at the end. Raises Stopped."""
    argv = (*within, sys.executable, str(SCRIPTS / "hold.py"), str(mib))
    with (
        (board.scratch / "hold.log").open("wb") as errors,
        subprocess.Popen(
            argv, env={**board.env, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        ) as child,
    ):
        try:
            yield child, _first_line(child, board)
        finally:
            child.kill()


def _first_line(child: "subprocess.Popen[bytes]", board: Board, limit_s: float = 60.0) -> dict[str, Any]:
    assert child.stdout is not None
    if not select.select([child.stdout], [], [], limit_s)[0]:
        raise Stopped(f"hold.py holds nothing after {limit_s:.0f} s")
    line = os.read(child.stdout.fileno(), 1 << 16)
    if not line:
        words = (board.scratch / "hold.log").read_text(errors="replace").strip().splitlines()
        raise Stopped(f"hold.py: {(words or ['?'])[-1]}")
    found: dict[str, Any] = json.loads(line)
    return found
