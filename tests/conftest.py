"""The simulated hosts as fixtures: `lab` for tests that leave hosts as they were, `fresh_lab` for others."""

import functools
import gc
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from tests import document_fit, environment
from tests.lab import needs, sshd
from tests.lab.hosts import Lab

environment.settle()  # before a test module is imported
document_fit.watch_documents()
SETTLE_S = float(os.environ.get("LAB_SETTLE_S", "3"))
# Scripts as users write them, whatever they are called.
collect_ignore_glob = ["preflight/scripts/*", "failures/scripts/*", "failures/preparation/*"]

settings.register_profile("any machine", deadline=None)  # what is proven is not how fast a busy machine is
if not os.access(Path(__file__).parents[1], os.W_OK):  # where failing inputs are kept
    settings.register_profile("any machine", deadline=None, database=None)
settings.load_profile("any machine")
MOST_EXAMPLES = int(os.environ.get("EXAMPLES", "0"))
"""The most inputs that a property is tried on; 0: as many as its test says."""

SETTINGS_OF_TEST = "_hypothesis_internal_use_settings"  # hypothesis has no public name for it

FreshLab = Callable[..., Lab]


@functools.cache
def _missing() -> str:
    return needs.missing()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a lab test where no lab can be."""
    if item.get_closest_marker("lab") is not None and _missing():
        needs.skip_without(_missing())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: it would visit each of nine thousand tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with files that train, which compute, among those in the lab or that fuzz, which mostly wait."""
    train = {item.path: None for item in items if item.get_closest_marker("train")}
    lab = {item.path: None for item in items if item.get_closest_marker("lab") or "fuzz" in item.path.parts}
    lab = {path: None for path in lab if path not in train}
    place = {path: at / len(some) for some in (train, lab) for at, path in enumerate(some)}
    items.sort(key=lambda item: place.get(item.path, 1.0))
    for item in items if MOST_EXAMPLES else ():
        _try_fewer(getattr(item, "obj", None))


def _try_fewer(test: object) -> None:
    """Cap the inputs of a property, also where its test sets their number."""
    own = getattr(test, SETTINGS_OF_TEST, None)
    if own is not None:
        setattr(test, SETTINGS_OF_TEST, settings(own, max_examples=min(own.max_examples, MOST_EXAMPLES)))


@pytest.fixture(scope="session")
def _session_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab.up(3, tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture
def lab(_session_lab: Lab) -> Iterator[Lab]:
    """Three hosts shared by the whole session. A test that leaves a process on one of them fails."""
    yield _session_lab
    left = strays(_session_lab, SETTLE_S)
    broken = [host.name for host in _session_lab.hosts if not sshd.is_well(host)]
    for host in _session_lab.hosts:
        for pid in host.strays():
            host.kill(pid)
        if host.name in broken:
            sshd.restart(host)
    assert not left, f"the test left processes on {left}"
    assert not broken, f"the test left no working sshd on {broken}"


@pytest.fixture
def fresh_lab(tmp_path: Path) -> Iterator[FreshLab]:
    """Return a factory of labs for tests that break hosts: `fresh_lab(2)`, `fresh_lab("titan")`."""
    labs: list[Lab] = []

    def bring_up(
        hosts: int | str | Sequence[str] = 2,
        *,
        profiles: Sequence[str] = (),
        shares: Sequence[Path] = (),
        one_home: bool = False,
    ) -> Lab:
        out = tmp_path / f"lab{len(labs)}"
        labs.append(Lab.up(hosts, out, profiles=profiles, shares=shares, one_home=one_home))
        return labs[-1]

    yield bring_up
    for lab in labs:
        lab.down()


def strays(lab: Lab, within_s: float) -> dict[str, dict[int, str]]:
    """Return by host the processes still there after within_s, which sessions get to close."""
    deadline = time.monotonic() + within_s
    while True:
        left = {host.name: found for host in lab.hosts if (found := host.strays())}
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)
