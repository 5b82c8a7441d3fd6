"""rank.py beside plain python: the script must not be able to tell them apart."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.onhost.rank.setup import STACKS_SIGNAL
from launcher.remote.program_source import read_program_source

pytestmark = pytest.mark.slow

SELF = """
import json, os, sys, __main__
class Thing: pass
print(json.dumps({
    "argv": sys.argv, "path0": sys.path[0], "name": __name__, "file": __file__, "doc": __doc__,
    "main": __main__.__dict__ is globals(), "spec": __spec__ and __spec__.name, "package": __package__,
    "cached": globals().get("__cached__") and "there", "thing": Thing.__module__, "names": sorted(
        name for name in globals() if not name.startswith("__")),
    "builtins": type(__builtins__).__name__,
}))
"""
POOL = """
import multiprocessing, pickle, sys
class Point:
    def __init__(self, x): self.x = x
def double(point): return Point(point.x * 2)
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, [point.x for point in pool.map(double, [Point(1), Point(2)])])
    print(pickle.loads(pickle.dumps(Point(5))).x)
"""


class Place:
    """A directory with scripts and a run directory, and two ways to run a command line."""

    def __init__(self, root: Path) -> None:
        self.work = root / "work"
        self.run_dir = root / "run"
        self.work.mkdir()
        self.run_dir.mkdir()
        (self.run_dir / "rank.py").write_bytes(read_program_source("rank"))
        (self.run_dir / "events.jsonl").touch()

    def write(self, name: str, script: str) -> None:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script)

    def python(self, *argv: str, **env: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, *argv],
            cwd=self.work,
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )

    def rank(self, *argv: str, **env: str) -> tuple[int, bytes]:
        """Run argv as rank.py takes it; return exit code and what its log got."""
        log = self.run_dir / "rank-0.log"
        log.unlink(missing_ok=True)
        done = self.python(str(self.run_dir / "rank.py"), *argv, **env)
        assert done.stdout == b""
        return done.returncode, log.read_bytes()

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = (self.run_dir / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def same(self, *argv: str) -> bytes:
        """Run both ways; return the output, which must be equal, as must the exit code."""
        plain = self.python(*argv)
        code, output = self.rank(*argv)
        assert output == plain.stdout
        assert code == plain.returncode
        return output


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_script_sees_what_it_sees_under_python(place: Place) -> None:
    place.write("sub/s.py", SELF)
    output = json.loads(place.same("sub/s.py", "a b", "--x", "-m"))
    assert output["argv"] == ["sub/s.py", "a b", "--x", "-m"]
    assert output["path0"] == str(place.work / "sub")


def test_a_module_sees_what_it_sees_under_python(place: Place) -> None:
    place.write("pack/__init__.py", "")
    place.write("pack/tool.py", SELF)
    output = json.loads(place.same("-m", "pack.tool", "a", "-m", "b"))
    assert output["argv"][1:] == ["a", "-m", "b"]
    assert output["spec"] == "pack.tool"


def test_a_package_and_a_directory_run_their_main(place: Place) -> None:
    place.write("pack/__init__.py", "")
    place.write("pack/__main__.py", SELF)
    assert json.loads(place.same("-m", "pack", "a"))["spec"] == "pack.__main__"
    place.write("plain/__main__.py", SELF)
    assert json.loads(place.same("plain", "a"))["argv"] == ["plain", "a"]


def test_a_script_behind_a_link_finds_its_neighbours(place: Place) -> None:
    place.write("real/neighbour.py", "x = 1")
    place.write("real/s.py", "import neighbour, sys; print(neighbour.x, sys.path[0])")
    (place.work / "link.py").symlink_to(place.work / "real/s.py")
    assert b"real" in place.same("link.py")


@pytest.mark.parametrize(
    "ending",
    [
        "import sys; sys.exit(3)",
        "import sys; sys.exit('words')",
        "import sys; sys.exit()",
        "raise SystemExit(-1)",
        "import os; os._exit(9)",
        "raise ValueError('no')",
        "def f(): raise KeyError('a')\ntry: f()\nexcept KeyError as e: raise RuntimeError('b') from e",
        "import sys; sys.excepthook = lambda *a: print('mine', a[0].__name__)\nraise ValueError('no')",
        "import atexit; atexit.register(print, 'last'); 1 / 0",
        "import threading; threading.Timer(0.2, print, ['thread']).start(); 1 / 0",
        "def broken(:",
        "raise KeyboardInterrupt",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "# coding: latin-1\nprint('\\xe9')",
        "x: int = 1; print(__annotations__)",
    ],
)
def test_it_ends_as_under_python(place: Place, ending: str) -> None:
    place.write("s.py", ending + "\n")
    place.same("s.py")


def test_a_second_interrupt_while_the_first_is_reported_changes_nothing(place: Place) -> None:
    """Slurm signals the rank and its launcher, which passes it on."""
    hook = "lambda *a: (os.kill(os.getpid(), signal.SIGINT), print(a[0].__name__))"
    place.write("s.py", f"import os, signal, sys\nsys.excepthook = {hook}\nraise KeyboardInterrupt\n")
    assert place.rank("s.py") == (-signal.SIGINT, b"KeyboardInterrupt\n")


def test_a_traceback_through_the_ranks_own_program_does_not_print_it_whole(place: Place) -> None:
    hook = "def hook(*_):\n    raise SystemError\n"
    place.write("s.py", f"import sys\n{hook}sys.excepthook = hook\n1 / 0\n")
    code, output = place.rank("s.py")
    assert code == 1
    assert b"SystemError" in output
    assert max(map(len, output.splitlines())) < 200


def test_an_absent_script_or_module_is_told_and_fails(place: Place) -> None:
    assert place.rank("absent.py")[0] != 0
    code, output = place.rank("-m", "no_such_module")
    assert code != 0
    assert b"No module named no_such_module" in output


def test_workers_of_every_start_method_find_the_scripts_classes(place: Place) -> None:
    place.write("s.py", POOL)
    assert place.same("s.py").count(b"[2, 4]") == 3


def test_the_innermost_exception_and_the_users_line_are_reported(place: Place) -> None:
    place.write("lib.py", "def f():\n    raise KeyError('deep')\n")
    place.write(
        "s.py", "import lib\ntry:\n    lib.f()\nexcept KeyError as e:\n    raise RuntimeError('top') from e\n"
    )
    code, _ = place.rank("s.py")
    (event,) = place.events("exception")
    assert (code, event["type"], event["message"]) == (1, "KeyError", "'deep'")
    assert event["location"] == f"{place.work / 'lib.py'}:2"
    assert event["tail"][-1] == "RuntimeError: top"
    assert [event["code"] for event in place.events("script_exit")] == [1]


def test_the_users_line_is_reported_where_a_library_raised_while_it_handled_its_own_exception(
    place: Place,
) -> None:
    place.write(
        "site-packages/lib.py",
        "def write():\n    raise OSError('full')\n"
        "def save():\n    try:\n        write()\n    finally:\n        raise RuntimeError('cut')\n",
    )
    place.write("s.py", "import sys\nsys.path.append('site-packages')\nimport lib\nlib.save()\n")
    place.rank("s.py")
    (event,) = place.events("exception")
    assert (event["type"], event["location"]) == ("OSError", f"{place.work / 's.py'}:4")


def test_a_rank_that_leaves_tells_what_the_kernel_has_counted(place: Place) -> None:
    place.write("s.py", "held = bytearray(200 << 20)\nfor n in range(3_000_000): pass\n")
    assert place.rank("s.py")[0] == 0
    (left,) = place.events("script_exit")
    assert 200 < left["rss_peak_mib"] < 400
    assert 0 < left["cpu_s"] <= left["lived_s"] * 2


def test_a_fork_of_the_script_reports_nothing_in_its_name(place: Place) -> None:
    place.write(
        "s.py", "import os, sys\nif os.fork() == 0: raise ValueError('child')\nos.wait(); sys.exit(4)"
    )
    assert place.rank("s.py")[0] == 4
    assert place.events("exception") == []
    assert [event["code"] for event in place.events("script_exit")] == [4]


@pytest.mark.parametrize("error", ["ValueError('child')", "KeyboardInterrupt"])
def test_a_fork_of_the_script_fails_as_under_python(place: Place, error: str) -> None:
    place.write(
        "s.py", f"import os\ndef f(): raise {error}\nif os.fork() == 0: f()\nprint(os.wait()[1])\nf()"
    )
    assert place.same("s.py").count(b"in f\n") == 2


def test_a_masked_rank_sees_its_own_gpu_only(place: Place) -> None:
    place.write("s.py", "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['LOCAL_RANK'])")
    env = {"GPULAUNCH_MASK": "1", "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b", "LOCAL_RANK": "1", "RANK": "0"}
    assert place.rank("s.py", **env) == (0, b"GPU-b 1\n")


def test_a_script_gets_its_local_rank_first_where_its_launcher_gives_it(place: Place) -> None:
    place.write("s.py", "import sys; print(sys.argv[1:])")
    env = {"GPULAUNCH_LOCAL_RANK_OPTION": "--local_rank", "LOCAL_RANK": "3", "RANK": "0"}
    assert place.rank("s.py", "--lr", "1", **env) == (0, b"['--local_rank=3', '--lr', '1']\n")


def test_a_program_that_is_no_python_script_takes_the_ranks_place(place: Place) -> None:
    script = f"trap 'echo TERM' TERM; echo $0 $1; kill -TERM $$; kill -{int(STACKS_SIGNAL)} $$; exit 5"
    assert place.rank("--exec", "sh", "-c", script, "a b", "c") == (5, b"a b c\nTERM\n")
    code, _ = place.rank("--exec", "no-such-program")
    assert (code, place.events("exception")[0]["message"]) == (
        1,
        "[Errno 2] No such file or directory: 'no-such-program'",
    )


def test_lines_come_out_at_once(place: Place) -> None:
    place.write("s.py", "import os\nprint('one')\nprint('two', end='')\nos.kill(os.getpid(), 9)")
    code, output = place.rank("s.py")
    assert code == -signal.SIGKILL
    assert output.startswith(b"one\n")


@pytest.mark.parametrize(
    ("supervised", "code", "output"), [(True, 0, b"trains\n"), (False, -signal.SIGKILL, b"")]
)
def test_a_rank_that_starts_after_its_supervisor_and_guardian_were_killed_ends(
    tmp_path: Path, *, supervised: bool, code: int, output: bytes
) -> None:
    place = Place(tmp_path)
    place.write("a.py", "print('trains', flush=True)\n")
    os.mkfifo(place.run_dir / "lifeline")
    writer = os.open(place.run_dir / "lifeline", os.O_RDWR | os.O_NONBLOCK) if supervised else -1
    argv = [sys.executable, str(place.run_dir / "rank.py"), "a.py"]
    done = subprocess.run(argv, cwd=place.work, timeout=60, start_new_session=True, check=False)
    if supervised:
        os.close(writer)
    logs = [path.read_bytes() for path in place.run_dir.glob("rank-*.log")]
    assert (done.returncode, logs) == (code, [output])
