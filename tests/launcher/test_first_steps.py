"""Commands as somebody types them for the first time, and where things are not as they should be."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.needs import why_no_namespaces
from tests.launcher.terminal import Home

pytestmark = pytest.mark.slow

SHORT = "for n in range(20000): print('line \\u00e9', n)\n"
ASCII_ONLY = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
CLI = f"{shlex.quote(sys.executable)} -m launcher.cli"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with one run that is over, and another whose name begins alike; no test changes them."""
    home = Home(tmp_path_factory.mktemp("first") / "home")
    home.launch(SHORT, "train-20261122-100001-aaaaaa")
    home.launch(SHORT, "train-20261122-100002-bbbbbb")
    yield home
    home.end_all()


def shell(home: Home, line: str, **env: str) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        ["bash", "-c", line.replace("gpulaunch", CLI, 1)],
        cwd=home.home,
        env={**home.env, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=90,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done


NO_RUN = 'error: no run called "nothing" was found on localhost\n  fix: gpulaunch ps --all lists your runs'


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("logs nothing", 2, NO_RUN),
        ("stop nothing", 2, NO_RUN),
        (
            "stacks train-20261122-100001-aaaaaa",
            1,
            "train-20261122-100001-aaaaaa is over (finished): its ranks have no stacks any more\n",
        ),
        (
            "logs tra",
            2,
            "2 runs: train-20261122-100001-aaaaaa, train-20261122-100002-bbbbbb\n  fix: give more",
        ),
        (
            "logs train-20261122-100001-aaaaaa --rank 7",
            2,
            "train-20261122-100001-aaaaaa has no such log: it has rank 0, on localhost",
        ),
        ("logs train-20261122-100001-aaaaaa --since 5x", 2, "  fix: --since 10m, or --since 64kB\n"),
        (
            "fetch train-20261122-100001-aaaaaa --host b",
            2,
            "train-20261122-100001-aaaaaa has no node called b\n  fix: it ran on localhost\n",
        ),
        (
            "stop train-20261122-100001-aaaaaa --grace nan",
            2,
            '--grace: expected a duration such as 90, 30s, 10m, 2h or 30d, got "nan"',
        ),
        ("run -c nothing", 2, "\n  fix: gpulaunch init SCRIPT writes one; a path to a file works too\n"),
        ("run -c /", 2, "error: /: this is a directory\n  fix: name the YAML file in it\n"),
        ("diagnose ''", 2, 'error: expected a word, got ""'),
        ("stop '' --yes", 2, 'error: expected a word, got ""'),
        ("report nothing --html x --logs elsewhere", 2, "gpulaunch fetch RUN brings one"),
        ("clean-zombies --pid -3", 2, '--pid: expected a whole number of at least 1, got "-3"'),
        ("preflight 'node[1-'", 2, "fix: write it as l40s-[01-04]"),
        ("explain NOPE", 2, "error: no finding NOPE\n  fix: gpulaunch checks lists those of preflight"),
    ],
)
def test_a_mistake_is_told_with_the_next_step(home: Home, words: str, code: int, message: str) -> None:
    done = home.gpulaunch(*shlex.split(words))
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert done.stdout == ""


def test_a_file_that_is_no_config_at_all_is_not_told_line_by_line(home: Home) -> None:
    (home.home / "wrong.yaml").write_text("".join(f"key{n}: 1\n" for n in range(300)))
    done = home.gpulaunch("run", "-c", "./wrong.yaml")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) < 25
    assert "  and 30 more\n" in done.stderr


def test_a_log_in_a_pipe_that_no_word_names_is_said_not_to_be_read(home: Home) -> None:
    for words, is_said in (("diagnose", True), ("diagnose last", False)):
        done = shell(home, f"echo boom | gpulaunch {words}")
        assert ("standard input is not read; gpulaunch diagnose - reads it" in done.stderr) is is_said


@pytest.mark.parametrize(
    "words",
    [
        "logs train-20261122-100001-aaaaaa",
        "logs train-20261122-100001-aaaaaa --rank 0",
        "attach train-20261122-100001-aaaaaa",
    ],
)
def test_a_reader_that_has_enough_ends_it_quietly(home: Home, words: str) -> None:
    done = shell(home, f"gpulaunch {words} | head -1; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("gpulaunch ps --all >&-", 0),
        ("gpulaunch logs train-20261122-100001-aaaaaa >&- 2>&-", 0),
        ("gpulaunch ps --all <&-", 0),
        ("gpulaunch rm train-20261122-100001-aaaaaa <&-", 2),
        ("gpulaunch ps --all >/dev/full", 5),
        ("gpulaunch attach train-20261122-100001-aaaaaa >/dev/full", 0),  # the run's own exit code
        ("gpulaunch attach --json train-20261122-100001-aaaaaa >/dev/full", 5),
        ("gpulaunch logs train-20261122-100001-aaaaaa >/dev/full", 5),
        ("gpulaunch logs --rank 0 train-20261122-100001-aaaaaa >/dev/full", 5),
        ("gpulaunch logs nothing 2>/dev/full", 2),
    ],
)
def test_closed_and_full_standard_streams_are_no_bugs(home: Home, line: str, code: int) -> None:
    done = shell(home, line, PYTHONUNBUFFERED="")  # what is buffered fails once more at the end
    assert done.returncode == code, done.stderr
    assert "bug" not in done.stderr


def test_text_that_the_locale_has_no_letters_for_is_shown_escaped(home: Home) -> None:
    done = shell(home, "gpulaunch logs train-20261122-100001-aaaaaa | tail -1", **ASCII_ONLY)
    assert done.stdout == "[localhost r0] line \\xe9 19999\n"


def test_an_interpreter_whose_path_the_locale_has_no_letters_for_is_started(home: Home) -> None:
    place = home.home / "mod\u00e8le"
    place.mkdir()
    (place / "python").symlink_to(sys.executable)
    (place / "hosts.yaml").write_text(json.dumps({"hosts": {"localhost": {"python": str(place / "python")}}}))
    done = shell(home, f"cd {place} && gpulaunch ps", **ASCII_ONLY)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("somewhere", [{"HOME": "/dev/null/x"}, {"HOME": ""}, {"COLUMNS": "20"}])
def test_a_home_that_cannot_be_and_few_columns_are_borne(home: Home, somewhere: dict[str, str]) -> None:
    # Without a HOME that of the machine's user counts, whose launches are not ours to ask for.
    state = {"XDG_STATE_HOME": str(home.home / "state")} if somewhere.get("HOME") == "" else {}
    for words in ("ps", "clean-zombies --dry-run --port 1", "logs nothing --hosts localhost"):
        done = home.gpulaunch(*words.split(), **somewhere, **state)
        assert done.returncode == (2 if "nothing" in words else 0), done.stderr


def test_a_directory_that_has_gone_is_named(home: Home) -> None:
    gone = "mkdir gone && cd gone && rmdir ../gone && "
    commands = ("fetch train-20261122-100001-aaaaaa", "run train.py", "run -- python a.py", "init train.py")
    for words in commands:
        done = shell(home, f"{gone}gpulaunch {words}")
        assert (done.returncode, done.stderr) == (
            2,
            "error: the current directory has been deleted\n  fix: cd to one that exists\n",
        )


@pytest.mark.skipif(bool(why_no_namespaces()), reason=why_no_namespaces())
def test_a_disk_that_is_full_here_is_named_and_leaves_no_half_file(home: Home, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(small)], check=True)
    try:
        run = "train-20261122-100001-aaaaaa"
        place = f"gpulaunch-runs/{run}/localhost/rank-0.log"
        done = shell(home, f"cd {small} && gpulaunch fetch {run}")
        assert done.returncode == 5, done.stderr
        assert f"no space left: {place}\n  fix: make room, then try again\n" in done.stderr
        shutil.rmtree(small / "gpulaunch-runs")
        done = shell(home, f"cd {small} && gpulaunch attach {run}")  # the copy here is no reason to end it
        assert done.returncode == 0, done.stderr
        assert (
            f"local logs are no longer written (No space left on device: {place}); its hosts keep all"
            in done.stdout
        )
        assert f"the hosts keep all: gpulaunch fetch {run}\n" in done.stdout
        shutil.rmtree(small / "gpulaunch-runs")
        done = shell(home, f"gpulaunch record localhost -o {small}/facts.json")
        assert done.returncode == 5, done.stderr
        assert f"no space left: {small}/facts.json" in done.stderr
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_what_is_named_to_be_ended_and_is_no_leftover_is_told(home: Home) -> None:
    done = home.gpulaunch("clean-zombies", "--dry-run", "--pid", str(os.getpid()))
    assert done.returncode == 2
    assert f"pid {os.getpid()} (" in done.stderr
    assert "is neither rank nor launcher, and holds no GPU" in done.stderr
    done = home.gpulaunch("clean-zombies", "--dry-run", "--pid", "4194303")
    assert (done.returncode, "localhost has no process 4194303" in done.stderr) == (2, True)
    done = home.gpulaunch("clean-zombies", "--dry-run", "--gpu", "99")
    assert done.returncode == 2
    assert "localhost has no GPU 99: it has" in done.stderr
