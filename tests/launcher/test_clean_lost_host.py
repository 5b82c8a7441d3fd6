"""A host that is gone while clean-zombies works on it: what was ended there is told all the same."""

import json
import random
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from launcher.cleanup import before_launch, clean
from launcher.commands import clean_zombies
from launcher.commands._host_access import HostAccess
from launcher.config.inventory import HostEntry, Inventory
from launcher.errors import AgentTimedOut, ConnectionLost, HostError
from launcher.exit_codes import ExitCode
from launcher.remote import rpc
from launcher.remote.agent import AgentRequest, GatherResult
from tests.preflight import scenes
from tests.preflight.scenes import Scene


@pytest.mark.parametrize(("answers", "ended"), [(0, False), (1, True)])
@pytest.mark.parametrize("as_json", [False, True])
def test_what_was_ended_is_told_where_the_host_is_gone_afterwards(
    answers: int,
    ended: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scene = Scene(random.Random(1))
    scenes.dead_launch(scene)
    facts, left = scene.facts(), [scene.facts()] * answers

    def look(*_: object) -> Any:
        if left:
            return left.pop()
        raise ConnectionLost("h", "the connection is gone")

    def end(_: object, __: object, ___: object, asked: Any, **____: object) -> dict[str, Any]:
        records = [{**each, "result": "ended", "signals": ["SIGTERM"]} for each in asked["victims"]]
        return {"records": records, "audit": "/var/audit"}

    entry = HostEntry("h")
    monkeypatch.setattr(clean_zombies, "gather_facts", lambda *_: GatherResult({"h": facts}, {}))
    monkeypatch.setattr(clean, "query_agent", look)
    monkeypatch.setattr(rpc, "run_program", end)
    connection = type("Gone", (), {"name": "h"})()
    access = HostAccess(Inventory(), lambda _: nullcontext(connection), 1)  # type: ignore[arg-type,return-value]
    options = clean_zombies.CleanZombiesOptions(None, False, 1, None, yes=True, as_json=as_json)
    assert clean_zombies.clean_hosts(access, (entry,), options) == ExitCode.UNREACHABLE
    text = capsys.readouterr().out
    assert "the connection is gone" in text
    if as_json:
        document = json.loads(text)
        cleaned = document["hosts"]["h"]["cleaned"]
        assert [each["code"] for each in document["errors"]] == ["HOST001"]
        assert (cleaned is not None and cleaned["complete"]) is ended
    else:
        assert ("ended (SIGTERM)" in text) is ended
        assert ("-> unknown" in text) is ended


def test_a_host_that_is_gone_while_it_ends_processes_may_have_ended_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(random.Random(1))
    scenes.dead_launch(scene)
    before = clean.find_leftovers(HostEntry("h"), scene.facts(), clean.CleanOptions())
    monkeypatch.setattr(clean, "query_agent", lambda *_: scene.facts())
    monkeypatch.setattr(
        rpc, "run_program", Mock(side_effect=AgentTimedOut("h", "it did not answer within 60 s"))
    )
    connection: Any = SimpleNamespace(name="h")
    victims = before.list_approved(yes=True)
    with pytest.raises(HostError) as lost:
        clean.clean_host(connection, before, victims, clean.CleanOptions(), AgentRequest("h"))
    pid = victims[0].process.pid
    assert lost.value.detail.startswith(f"it did not answer within 60 s: it may have ended pid {pid}")
    assert (lost.value.fix, lost.value.exit_code) == (
        "gpulaunch clean-zombies h --dry-run shows what is left",
        ExitCode.UNREACHABLE,
    )


def test_an_interrupt_of_a_launch_says_first_what_it_may_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(random.Random(1))
    scenes.dead_launch(scene)
    before = clean.find_leftovers(HostEntry("h"), scene.facts(), clean.CleanOptions())

    def act(_: object, hosts: list[Any], *, on_interrupt: Any) -> Any:
        return [on_interrupt(host) for host in hosts]

    monkeypatch.setattr(before_launch, "fanout", act)
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        before_launch.clean_before_launch((before,), Mock(), said.append, certain=True, confirm=None)
    assert said[-1].startswith("h: interrupted before it answered: it may have ended pid ")
