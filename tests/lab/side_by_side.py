"""Faults that mostly wait (for a cut link, a grace, a slow cable), met at once: each on hosts of its own."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.lab.fault_runs import Laptop
from tests.lab.hosts import Lab
from tests.lab.reliability import Row, Table

AT_ONCE = 6
HOSTS_EACH = 2

Body = Callable[[Laptop], Row]


class SideBySide:
    """A decorator: the test it makes waits for what its body, run in a thread, has come to."""

    def __init__(self) -> None:
        self.bodies: dict[str, Body] = {}

    def __call__(self, body: Body) -> "Callable[[dict[str, Future[Row]], Table], None]":
        """Take a body; return the test of its name."""
        self.bodies[body.__name__] = body

        def test(begun: dict[str, Future[Row]], table: Table) -> None:
            table.add(begun[body.__name__].result())

        test.__name__ = body.__name__
        return test

    @contextmanager
    def begun(self, names: Sequence[str], place: Path) -> Iterator[dict[str, Future[Row]]]:
        """Begin the bodies of these tests, as many at once as the machine bears, the first ones first."""
        wanted = [name for name in self.bodies if name in names]
        if not wanted:
            yield {}
            return
        with Lab.up(len(wanted) * HOSTS_EACH, place / "lab") as lab, ThreadPoolExecutor(AT_ONCE) as pool:
            futures = {}
            for number, name in enumerate(wanted):
                hosts = lab.hosts[number * HOSTS_EACH :][:HOSTS_EACH]
                laptop = Laptop(lab, place / f"home{number}", hosts)
                futures[name] = pool.submit(_run, self.bodies[name], laptop)
            yield futures


def _run(body: Body, laptop: Laptop) -> Row:
    try:
        return body(laptop)
    finally:
        laptop.close()
