import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.scheduling import send_less


@pytest.mark.parametrize("shown", [None, 5])
def test_a_worker_sends_all_that_is_shown(shown: int | None) -> None:
    sent: list[tuple[str, Any]] = []
    interactor = SimpleNamespace(sendevent=lambda name, **said: sent.append((name, said)))
    options = {"durations": shown, "xmlpath": None}
    plugins = SimpleNamespace(get_plugins=lambda: [object(), interactor])
    send_less(cast("pytest.Config", SimpleNamespace(getoption=options.get, pluginmanager=plugins)))
    reports = list(itertools.product(("setup", "call", "teardown"), ("passed", "skipped", "failed")))
    for name in ("logstart", "logfinish", "runtest_protocol_complete"):
        interactor.sendevent(name)
    for when, outcome in reports:
        interactor.sendevent("testreport", data={"when": when, "outcome": outcome})
    untold = [("setup", "passed"), ("teardown", "passed")]
    names = [name for name, said in sent if not said]
    assert names == (["logstart", "logfinish"] if shown else []) + ["runtest_protocol_complete"]
    told = [(said["data"]["when"], said["data"]["outcome"]) for _, said in sent if said]
    assert told == [each for each in reports if shown or each not in untold]
