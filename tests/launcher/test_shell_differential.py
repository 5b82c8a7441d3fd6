"""What is read of a script beside what bash runs of it, with doubles of the launchers.

Nothing but the doubles and a few small programs can be started: PATH has no others.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.engines.command_line.parse import parse_line
from launcher.errors import CommandRefused
from preflight.frozen import dataclass

BASH = shutil.which("bash") or ""
_PROGRAMS = ("awk", "basename", "cat", "cut", "dirname", "grep", "sed", "seq", "tr", "wc")
_DOUBLE = r"""
flag() { [[ $(declare -p "$1" 2>&1) == "declare -"*x*" $1="* ]] && printf '%s' "${!1}" || printf unset; }
torchrun() { { printf '%s\0' "$PWD" "$@"; printf '%s\0' "--- $(flag A_FLAG) $(flag B_FLAG)"; } >&3; }
"""
_FILES = {
    "settings.sh": 'FROM_FILE="of a file"\nset_it() { FROM_FUNCTION=$1; }\nset_it done\n',
    "arguments.sh": "SECOND=$2\n",
    "conf/paths.sh": 'ROOT=$(dirname "${BASH_SOURCE[0]}")/..\n',
}
_CASES = re.findall(
    r"^### (.*)\n((?:(?!### ).*\n)+)",
    Path(__file__).with_name("shell_scripts.txt").read_text("utf-8"),
    re.MULTILINE,
)


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


_NAMES = st.sampled_from(("A", "B", "C"))
_TEXTS = st.sampled_from(("", "x", "7", "a b", "-2", "run.py", "x*"))
_SEEN = st.sampled_from(
    ('"$A"', "$B", '"${C:-none}"', "${A:+set}", "${B%.py}", '"${#C}"', "$((N + 1))", "$N")
)
_TESTS = st.sampled_from(
    (
        '[ -z "$A" ]',
        '[ "$B" = x ]',
        "[[ $C == x* ]]",
        "(( N > 2 ))",
        '[[ -n $A && "$B" != 7 ]]',
        "[ $N -le 3 ]",
        '! [ "$A" = "$B" ]',
        "[[ $A || $B ]]",
        "true",
        "false",
    )
)
_SIMPLE = st.one_of(
    st.builds("{}='{}'".format, _NAMES, _TEXTS),
    st.builds('{}="{}-$N"'.format, _NAMES, st.sampled_from(("$A", "${B:-y}", "$C"))),
    st.builds("{}+={}".format, _NAMES, st.sampled_from(("z", "${N}"))),
    st.sampled_from(("N=$((N + 1))", "((N *= 2))", "let N-=1", "set_a $N", "set_a", "L+=($N)", ": ${B:=b}")),
    st.builds("{} && A={} || B={}".format, _TESTS, _NAMES, _NAMES),
    st.builds("[ $N -gt {} ] && {}".format, st.integers(0, 9), st.sampled_from(("break", "continue", "C=c"))),
)


def _around(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.lists(inner, min_size=1, max_size=3).map("\n".join)
    return st.one_of(
        st.builds("if {}; then\n{}\nelse\n{}\nfi".format, _TESTS, body, body),
        st.builds("if {}; then\n{}\nelif {}; then {}; fi".format, _TESTS, body, _TESTS, body),
        st.builds("for I in 1 '2 x' {{3..4}}; do\nC=$I\n{}\ndone".format, body),
        st.builds("for ((K = 0; K < {}; K++)); do\n{}\ndone".format, st.integers(0, 3), _SIMPLE),
        st.builds("case $B in\n x|7) {};;\n *.py) {};;\n *) {};;\nesac".format, body, body, body),
        st.builds("( {} )".format, body),
        st.builds("{{ {}; }}".format, body),
        st.builds("{} && {{ {}; }}".format, _TESTS, body),
    )


_STATEMENTS = st.lists(st.recursive(_SIMPLE, _around, max_leaves=6), min_size=1, max_size=5).map("\n".join)
_HEAD = 'N=1\nL=(l)\nset_a() { local N=${1:-0}; A="$N$#"; [ $# -eq 0 ] && return; B=$1; }\n'


@pytest.mark.skipif(not BASH, reason="bash is not installed")
@settings(max_examples=40)
@given(statements=_STATEMENTS, seen=st.lists(_SEEN, min_size=1, max_size=4))
def test_generated_scripts_launch_what_bash_launches(
    tmp_path_factory: pytest.TempPathFactory, statements: str, seen: list[str]
) -> None:
    """Every variable has a value, so every condition and loop is decided, and nothing need be refused."""
    folder = tmp_path_factory.getbasetemp() / "generated"
    folder.mkdir(exist_ok=True)
    text = f'{_HEAD}A=; B=; C=\n{statements}\ntorchrun a.py {" ".join(seen)} "${{L[@]}}"\n'
    ran = run_in_bash(text, folder)
    try:
        found = read(text, folder)
    except CommandRefused as refused:
        assert "x*" in refused.message or "do not end soon" in refused.message, text  # noqa: PT017
        return
    assert [found] == [replace(one) for one in ran], text
