"""Fixtures of the tests that break runs."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.fault_runs import RUNS, Laptop, claims
from tests.lab.hosts import Lab
from tests.lab.reliability import Table


@pytest.fixture(scope="session")
def table() -> Iterator[Table]:
    table = Table()
    yield table
    table.write()


@pytest.fixture
def laptop(lab: Lab, tmp_path: Path) -> Iterator[Laptop]:
    laptop = Laptop(lab, tmp_path / "home")
    yield laptop
    laptop.close()
    for host in lab.hosts:
        shutil.rmtree(host.path(RUNS), ignore_errors=True)
        for claim in claims(host):
            claim.unlink()  # a failed test must not make the next one fail
