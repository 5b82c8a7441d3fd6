"""Completion in the shells themselves: bash, zsh and fish, with the lines that the documentation gives."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "completion.md").read_text()
TRIED = {
    "bash": "COMP_WORDS=(gpulaunch preflight ti); COMP_CWORD=2\n"
    "_gpulaunch_completion gpulaunch; echo ${COMPREPLY[@]}",
    "fish": 'complete -C "gpulaunch preflight ti"',
}


def documented(shell: str) -> str:
    """Return the line that the page gives for a shell's start-up file."""
    found = re.search(rf"\| {shell} \|[^|]*\| `(.*?)` \|", PAGE.replace("\\|", "\0"))
    assert found is not None
    return found[1].replace("\0", "|")


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> dict[str, str]:
    """A directory with a hosts.yaml, and the program gpulaunch of this checkout on the PATH."""
    (tmp_path / "hosts.yaml").write_text("hosts: {titan: {}, 'l40s-[01-02]': {}}\n")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "gpulaunch"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m launcher.cli "$@"\n')
    program.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(tmp_path), "TERM": "dumb", "PWD": str(tmp_path)}


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_a_host_is_completed_in_the_shell(shell: str, project: dict[str, str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        [shell, "-c", f"{documented(shell)}\n{TRIED[shell]}"],
        cwd=project["HOME"],
        env=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["titan"], done.stderr


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_a_host_is_completed_in_zsh(project: dict[str, str]) -> None:
    """zsh completes at a terminal only, so that is where a person's keys go."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=project["HOME"], env=project
    ) as zsh:
        os.close(theirs)
        try:
            line = f"autoload -Uz compinit; compinit -u -D; {documented('zsh')}; print RE''ADY"
            os.write(ours, line.encode() + b"\n")
            read_until(ours, b"READY")
            os.write(ours, b"gpulaunch preflight ti\t")
            read_until(ours, b"preflight titan")
        finally:
            zsh.kill()
            os.close(ours)


def read_until(terminal: int, words: bytes) -> None:
    """Read what a terminal shows until these words are in it, however slow this machine is."""
    shown = b""
    deadline = time.monotonic() + 120
    while words not in re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", shown):
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, shown
        shown += os.read(terminal, 4096)
