"""The pytest plugins of a mutation run: which test reaches which line, and tests that fail fast."""

import gc
import os
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from coverage import Coverage
from hypothesis import Phase, settings

from tests.mutants.operators import Mutant

_MOST_EXAMPLES = 20  # of a property, for each mutant


class Fast:
    """Properties are tried on the same few inputs each time, and a failing input is not made smaller."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Set the profile after the conftest has set its own, before a test module is imported."""
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", deadline=None, derandomize=True, database=None, phases=phases)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Cap the number of inputs, also where a test sets its own."""
        for item in items:
            function = getattr(item, "obj", None)
            own = getattr(function, "_hypothesis_internal_use_settings", None)
            if own is not None:
                fewer = settings(own, max_examples=min(own.max_examples, _MOST_EXAMPLES))
                function.__dict__["_hypothesis_internal_use_settings"] = fewer


class Record(Fast):
    """Records for every test the lines that it reaches and the seconds that it takes."""

    def __init__(self, modules: list[str]) -> None:
        self._coverage = Coverage(data_file=None, include=modules, config_file=False)
        self._coverage.start()
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure one test under its own name."""
        self._coverage.switch_context(item.nodeid)
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.perf_counter() - began

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a test that fails without any mutant."""
        if report.failed:
            self.failed.append(report.nodeid)

    def lines(self) -> dict[str, dict[int, list[str]]]:
        """Return by module and line the tests that reach it; "" stands for the import."""
        self._coverage.stop()
        data = self._coverage.get_data()
        here = Path.cwd()
        return {os.path.relpath(path, here): data.contexts_by_lineno(path) for path in data.measured_files()}


class Server(Fast):
    """Collects the tests once, and then runs some of them in a forked process for each mutant."""

    def __init__(self, serve: Callable[["Server"], None]) -> None:
        self._serve = serve
        self._items: dict[str, pytest.Item] = {}
        self._failed = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Hand over to the run, which calls `notices` in forked processes."""
        self._items = {item.nodeid: item for item in session.items}
        self._serve(self)
        return True

    def notices(self, module: str, source: bytes, mutant: Mutant, tests: Sequence[str]) -> bool:
        """Put the mutant's code into the functions of the imported module, and return if a test fails."""
        change_functions(str(Path(module).absolute()), mutant.apply(source))
        items = [self._items[each] for each in tests]
        for item, after in zip(items, [*items[1:], None], strict=True):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            if self._failed:
                return True
        return False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a failure."""
        self._failed = self._failed or report.failed


def change_functions(path: str, source: bytes) -> None:
    """Give the functions of an imported module the code of another source with the same lines."""
    codes = {_key(each): each for each in _codes(compile(source, path, "exec"))}
    gc.unfreeze()  # tests/conftest.py freezes what the collection made, and gc lists no frozen object
    for function in gc.get_objects():
        # isinstance would ask objects for __class__, and torch's deprecated names warn at that
        if type(function) is FunctionType and function.__code__.co_filename == path:
            function.__code__ = codes[_key(function.__code__)]


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Generator[CodeType, None, None]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
