"""`make mutants`: how many of the mutants of our modules their tests notice.

Each mutant is written into a copy of the repository, and a forked process runs the tests that reach its line,
the quickest first, until one fails. A mutant inside a function that no import calls is put into the module
that the tests have imported: so a mutant costs a fork and its tests. A mutant that no test reaches counts as
not noticed.
"""

import argparse
import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mutants import targets
from tests.mutants.operators import Mutant, mutants
from tests.mutants.plugin import Fast, Record, Server

_PYTEST = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not lab and not train and not slow")
_SPARE_S = 20.0  # beyond ten times what the tests took without a mutant
_RETURNED = (
    100  # added to what a forked process returns: the code under test may end it with any other number
)


@dataclass(frozen=True, slots=True)
class Task:
    """One mutant and the tests that can notice it, the quickest first."""

    module: str
    mutant: Mutant
    tests: tuple[str, ...]
    limit_s: float
    at_import: bool  # what it changes runs at import: the modules are imported anew to try it


@dataclass(frozen=True, slots=True)
class Reach:
    """Which tests reach which lines of which module, and how long each takes."""

    lines: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def task(self, module: str, mutant: Mutant) -> Task:
        """Return the task for a mutant.

        What an import computes, on whichever line of a table, is the concern of every file of tests that
        reaches its package: a test that makes a record or reads a table runs no line of the module that
        declares it, nor of a function that made the table. What runs as a program of its own is tried by all
        tests that start it.
        """
        lines = self.lines.get(module, {})
        # A mutant of an expression over several lines is reached by the first of them or by a later one.
        names = {name for line in range(mutant.line, mutant.line + mutant.old.count("\n") + 1)
                 for name in lines.get(line, ())}  # fmt: skip
        at_import = "" in names or not mutant.in_function
        if at_import and lines:
            files = {name.partition("::")[0] for name in self._tests_below(str(Path(module).parent))}
            names = {name for name in self.seconds if name.partition("::")[0] in files}
        if module.startswith(targets.AGENT):
            names |= {name for name in self.seconds if name.startswith(targets.AGENT_TESTS)}
        tests = sorted(names & self.seconds.keys(), key=self.seconds.__getitem__)
        limit_s = _SPARE_S + 10 * sum(self.seconds[each] for each in tests)
        return Task(module, mutant, tuple(tests), limit_s, at_import)

    def _tests_below(self, place: str) -> set[str]:
        reached = (lines for module, lines in self.lines.items() if module.startswith(place))
        return {name for lines in reached for each in lines.values() for name in each if name}


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, print and return 1 if a score is too low."""
    options = _options(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [_copy(Path(folder) / str(number)) for number in range(options.jobs)]
        os.chdir(copies[0])
        _preload()
        ok = True
        if options.critical:
            ok = _critical(options, copies)
        if options.sample:
            ok = _sample(options, copies) and ok
        os.chdir(targets.ROOT)
    print(f"{time.monotonic() - began:.0f} s")
    return 0 if ok else 1


def _critical(options: argparse.Namespace, copies: Sequence[Path]) -> bool:
    chosen = {
        module: tests
        for module, tests in targets.CRITICAL.items()
        if not options.modules or any(part in module for part in options.modules)
    }
    scores = []
    for module, tests in chosen.items():
        reach = _measure([module], tests)
        tasks = [reach.task(module, each) for each in mutants(Path(module).read_bytes())]
        scores.append(_score(module, tasks, _try(tasks, copies)))
    return all(score >= targets.LEAST_CRITICAL for score in scores)


def _sample(options: argparse.Namespace, copies: Sequence[Path]) -> bool:
    modules = targets.sampled()
    reach = _measure(modules, targets.SAMPLED_TESTS)
    every = [(module, each) for module in modules for each in mutants(Path(module).read_bytes())]
    chosen = random.Random(options.seed).sample(every, min(options.sample, len(every)))
    tasks = [reach.task(module, mutant) for module, mutant in sorted(chosen)]
    survivors = _try(tasks, copies)
    print(f"a sample of {len(tasks)} of {len(every)} mutants in the other modules of {targets.SAMPLED}/")
    return _score("", tasks, survivors) >= targets.LEAST_SAMPLED


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", help="parts of names of critical modules (default: all)")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--sample", type=int, default=0, help="mutants of the other modules of preflight/")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-critical", dest="critical", action="store_false")
    return parser.parse_args(arguments)


def _copy(folder: Path) -> Path:
    """Return a copy of the files that git knows or would add."""
    listed = subprocess.run(
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        cwd=targets.ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        source = targets.ROOT / name
        if source.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    return folder


def _preload() -> None:
    """Import what every test imports and no mutant changes, so that a forked process need not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in (
            "hypothesis",
            "yaml",
            "click",
            "rich.console",
            "paramiko",
            "psutil",
            "pynvml",
            "ClusterShell",
        ):
            __import__(name)


def _measure(modules: Sequence[str], tests: Sequence[str]) -> Reach:
    """Run the tests once without a mutant; those that fail are left out.

    Raises SystemExit where pytest or its recorder does not come to its end.
    """
    with tempfile.NamedTemporaryFile() as file:

        def record() -> int:
            recorder = Record([str(Path(each).absolute()) for each in modules])
            status = _run_pytest([each for each in _PYTEST if each != "-x"], tests, recorder)
            kept = {name: spent for name, spent in recorder.seconds.items() if name not in recorder.failed}
            Path(file.name).write_bytes(pickle.dumps((recorder.lines(), kept, recorder.failed)))
            return 0 if status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else status

        status = _fork(record, limit_s=24 * 3600)
        if status:
            raise SystemExit(
                f"the tests were not recorded: pytest or its recorder ended with {status}\n"
                "set MUT_LOG=FILE to keep what they print"
            )
        lines, seconds, failed = pickle.loads(Path(file.name).read_bytes())
    if failed:
        print(f"{len(set(failed))} tests fail without a mutant, and are left out")
    return Reach(lines, seconds)


def _try(tasks: Sequence[Task], copies: Sequence[Path]) -> set[Task]:
    """Return the tasks whose mutants no test noticed."""
    parts = [tasks[number :: len(copies)] for number in range(len(copies))]
    with ThreadPoolExecutor(len(copies)) as pool:
        found = pool.map(_survivors, parts, copies)
    return {task for each in found for task in each}


def _survivors(tasks: Sequence[Task], copy: Path) -> set[Task]:
    """Try the mutants one after the other in one copy, in a process of its own."""
    with tempfile.NamedTemporaryFile("r") as file:

        def work() -> int:
            os.chdir(copy)
            imported = [n for n, each in enumerate(tasks) if each.at_import]
            called = [n for n, each in enumerate(tasks) if not each.at_import]
            left = [n for n in imported if not _is_noticed_at_import(tasks[n])]

            def serve(server: Server) -> None:
                left.extend(n for n in called if not _is_noticed_in_call(server, tasks[n]))

            files = {test.partition("::")[0] for n in called for test in tasks[n].tests}
            status = _run_pytest(_PYTEST, sorted(files), Server(serve)) if files else 0
            Path(file.name).write_text(json.dumps(left))
            return status

        _fork(work, limit_s=24 * 3600)
        return {tasks[n] for n in json.load(file)}


def _is_noticed_at_import(task: Task) -> bool:
    with _written(task):
        return bool(task.tests) and _fork(lambda: _run_pytest(_PYTEST, task.tests, Fast()), task.limit_s) != 0


def _is_noticed_in_call(server: Server, task: Task) -> bool:
    source = Path(task.module).read_bytes()
    with _written(task):
        return (
            bool(task.tests)
            and _fork(lambda: server.notices(task.module, source, task.mutant, task.tests), task.limit_s) != 0
        )


@contextmanager
def _written(task: Task) -> Iterator[None]:
    """Have the mutant in the file, for programs that tests start."""
    path = Path(task.module)
    source, status = path.read_bytes(), path.stat()
    path.write_bytes(task.mutant.apply(source))
    # Bytecode is valid for one size and one second: the mutant gets a second of its own.
    os.utime(path, (status.st_atime, status.st_mtime + task.mutant.start + 1))
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _run_pytest(options: Iterable[str], tests: Iterable[str], plugin: Fast) -> int:
    sys.path.insert(0, str(Path.cwd()))
    for name in [
        name for name in sys.modules if name.partition(".")[0] in ("tests", "preflight", "launcher")
    ]:
        del sys.modules[name]
    ignored = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    return int(pytest.main([*options, *ignored, *tests], plugins=[plugin]))


def _fork(call: Callable[[], int], limit_s: float) -> int:
    """Return what a call returns in a process of its own; below 0 if that takes longer, is killed or ends."""
    child = os.fork()
    if child == 0:
        os.setsid()
        nothing = os.open(os.environ.get("MUT_LOG", os.devnull), os.O_RDWR | os.O_CREAT | os.O_APPEND)
        for number in range(3):
            os.dup2(nothing, number)
        status = 1
        try:
            status = min(call(), 125)
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(_RETURNED + status)
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            _kill_group(child)
            code = os.waitstatus_to_exitcode(status)
            return code - _RETURNED if code >= _RETURNED else -1
        time.sleep(0.01)
    _kill_group(child)
    os.waitpid(child, 0)
    return -1


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _score(module: str, tasks: Sequence[Task], survivors: set[Task]) -> float:
    """Print how many mutants were noticed and which were not; return the share."""
    reasons = {(each.module, each.line, each.old, each.new) for each in targets.equivalents()}
    left: dict[str, list[str]] = defaultdict(list)
    equal = total = 0
    for task in tasks:
        if module not in ("", task.module):
            continue
        line = Path(task.module).read_text().splitlines()[task.mutant.line - 1].strip()
        if (task.module, line, task.mutant.old, task.mutant.new) in reasons:
            equal += 1
            continue
        total += 1
        if task in survivors:
            what = f"{task.mutant.line}: {task.mutant.old!r} -> {task.mutant.new!r}"
            left[task.module].append(what if task.tests else f"{what} (no test reaches it)")
    lost = sum(map(len, left.values()))
    share = (total - lost) / total if total else 1.0
    print(
        f"{module or 'all'}: {total - lost} of {total} noticed ({share:.1%}), {equal} equivalent", flush=True
    )
    for name, rows in sorted(left.items()):
        for row in rows:
            print(f"  {name}:{row}")
    return share


if __name__ == "__main__":
    raise SystemExit(main())
