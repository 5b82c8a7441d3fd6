"""What xdist does for each test beside running it, at less cost: a third of the time of most tests."""

from collections.abc import Callable

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

_UNTOLD = (("setup", "passed"), ("teardown", "passed"))


class Files(LoadFileScheduling):  # type: ignore[misc]
    """Gives a worker another file where it has few tests left, and forgets tests that have run.

    xdist keeps them, and at each event, six a test, counts what waits among all that a worker ever had.
    """

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget a test that has run."""
        del duration
        nodeid = self.registered_collections[node][item_index]
        file = self._split_scope(nodeid)
        del self.assigned_work[node][file][nodeid]
        if not self.assigned_work[node][file]:
            del self.assigned_work[node][file]
        self._reschedule(node)


def send_less(config: pytest.Config) -> None:
    """Have a worker send one report of a test that passes, and not when it starts and ends.

    No line of the terminal is missing by that. The other reports are for `--durations` and `--junitxml`.
    """
    if config.getoption("durations") or config.getoption("xmlpath"):
        return
    interactor = next(each for each in config.pluginmanager.get_plugins() if hasattr(each, "sendevent"))
    send: Callable[..., None] = interactor.sendevent

    def send_some(name: str, **said: object) -> None:
        data = said.get("data")
        is_untold = isinstance(data, dict) and (data.get("when"), data.get("outcome")) in _UNTOLD
        if not (is_untold or name in ("logstart", "logfinish")):
            send(name, **said)

    interactor.sendevent = send_some
