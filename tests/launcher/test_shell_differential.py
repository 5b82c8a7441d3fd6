"""What is read of a script beside what bash runs of it, with doubles of the launchers.

Nothing but the doubles and a few small programs can be started: PATH has no others.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import explain_missing_value
from preflight.frozen import dataclass
from tests.launcher.shell_generator import generate_script

BASH = shutil.which("bash") or ""
_PROGRAMS = ("awk", "basename", "cat", "cut", "dirname", "grep", "head", "sed", "seq", "tr", "wc")
_DOUBLE = r"""
flag() { [[ $(declare -p "$1" 2>&1) == "declare -"*x*" $1="* ]] && printf '%s' "${!1}" || printf unset; }
torchrun() { { printf '%s\0' "$PWD" "$@"; printf '%s\0' "--- $(flag A_FLAG) $(flag B_FLAG)"; } >&3; }
"""
_FILES = {
    "settings.sh": 'FROM_FILE="of a file"\nset_it() { FROM_FUNCTION=$1; }\nset_it done\n',
    "arguments.sh": "SECOND=$2\n",
    "conf/paths.sh": 'ROOT=$(dirname "${BASH_SOURCE[0]}")/..\n',
}


def _cases(name: str) -> list[tuple[str, str]]:
    text = Path(__file__).with_name(name).read_text("utf-8")
    return re.findall(r"^### (.*)\n((?:(?!### ).*\n)+)", text, re.MULTILINE)


_CASES, _UNDECIDED = _cases("shell_scripts.txt"), _cases("shell_undecided.txt")


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: its directory below the script's, its words, and two variables that it may see."""

    directory: str
    words: tuple[str, ...]
    flags: str


def run_in_bash(text: str, folder: Path) -> list[Launch]:
    """Return every launch of bash itself, in a folder with the files that scripts here read."""
    for name, content in _FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content, "utf-8")
    (folder / "sub").mkdir(exist_ok=True)
    programs = folder / ".programs"
    programs.mkdir(exist_ok=True)
    for program in _PROGRAMS:
        if not (programs / program).exists():
            (programs / program).symlink_to(shutil.which(program) or "/bin/false")
    calls = folder / ".calls"
    with calls.open("wb") as written:
        subprocess.run(
            [BASH, "--norc", "--noprofile", "-c", f"exec 3>&{written.fileno()}\n{_DOUBLE}\n{text}", "script"],
            env={"PATH": str(programs), "HOME": "/home/ana"},
            cwd=folder,
            pass_fds=(written.fileno(),),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    return list(_launches(calls.read_text("utf-8").split("\0"), str(folder)))


def _launches(words: list[str], folder: str) -> Iterator[Launch]:
    of_launch: list[str] = []
    for word in words:
        if word.startswith("--- "):
            directory, *rest = of_launch
            yield Launch(os.path.relpath(directory, folder), tuple(rest), word[4:])
            of_launch = []
        else:
            of_launch.append(word)


def read(text: str, folder: Path) -> Launch:
    """Return what gpulaunch reads of a script. Raises CommandRefused."""
    files: Mapping[str, str] = _FILES
    parsed = parse_line(
        text, {"HOME": "/home/ana", "PWD": str(folder)}, lambda name: files.get(os.path.normpath(name))
    )
    assert parsed.launcher == "torchrun"
    assert not parsed.unknown
    flags = " ".join(parsed.env.get(name, "unset") for name in ("A_FLAG", "B_FLAG"))
    return Launch(parsed.directory or ".", (parsed.program, *parsed.args), flags)


@pytest.mark.skipif(not BASH, reason="bash is not installed")
@pytest.mark.parametrize(("name", "text"), _CASES, ids=[name for name, _ in _CASES])
def test_a_script_launches_what_bash_launches(name: str, text: str, tmp_path: Path) -> None:
    assert [read(text, tmp_path)] == run_in_bash(text, tmp_path)


@pytest.mark.skipif(not BASH, reason="bash is not installed")
@pytest.mark.parametrize(("name", "text"), _UNDECIDED, ids=[name for name, _ in _UNDECIDED])
def test_what_a_program_decides_has_no_value(name: str, text: str, tmp_path: Path) -> None:
    answers = [run_in_bash(f"ping() {{ return {code}; }}\n{text}", tmp_path) for code in (0, 1)]
    assert answers[0] != answers[1]
    assert explain_missing_value(parse_line(text)) is not None


@pytest.mark.skipif(not BASH, reason="bash is not installed")
@pytest.mark.parametrize("seed", range(4))
def test_generated_scripts_launch_what_bash_launches(seed: int, tmp_path: Path) -> None:
    """Every condition and loop of them is decided, and nothing need be refused."""
    random = Random(seed)
    for text in (generate_script(random) for _ in range(20)):
        assert [read(text, tmp_path)] == run_in_bash(text, tmp_path), text
