"""Ctrl-C and SIGTERM while hosts act: what has answered is told, what has not is named; the code is 130."""

import json
import os
import random
import signal
from collections.abc import Callable
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import click
import pytest

from launcher import cli
from launcher.cleanup.clean import CleanResult
from launcher.commands import _launch, _remove, clean_zombies, ps, stop
from launcher.commands._answer import Answer
from launcher.commands._host_access import HostAccess
from launcher.commands._launch_request import LaunchSession
from launcher.commands.stop import explain_answer
from launcher.config.inventory import HostEntry, Inventory
from launcher.errors import GpulaunchError, HostError, HostInterrupted
from launcher.exit_codes import ExitCode
from launcher.launch import signals
from launcher.launch.signals import report_stop_signals
from launcher.remote.agent import GatherOptions, GatherResult
from launcher.remote.fanout import fanout
from launcher.runs.search import explain_unanswered
from tests.launcher.run_plans import plan
from tests.preflight import scenes
from tests.preflight.scenes import Scene


def interrupted_by(number: int) -> list[Any]:
    """One of two items answers, and its being told is where the signal comes."""
    with report_stop_signals():
        return fanout(
            lambda item: item if item == 1 else signal.pause(),
            [1, 2],
            on_done=lambda *_: os.kill(os.getpid(), number),
            on_interrupt=lambda item: HostInterrupted(f"h{item}"),
        )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_has_answered_before_a_signal_is_kept(number: int) -> None:
    first, second = interrupted_by(number)
    assert first == 1
    assert (second.hosts, second.exit_code) == (("h2",), 130)
    assert explain_answer(second) == (
        "interrupted before it answered: what it was asked may be done yet",
        130,
    )
    with pytest.raises(KeyboardInterrupt):
        fanout(str, [1], on_done=lambda *_: signal.raise_signal(signal.SIGINT))


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_signals_that_come_together_are_one(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with report_stop_signals():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(first)
        for number in (first, signal.SIGINT, signal.SIGTERM):
            signal.raise_signal(number)
        monkeypatch.setattr(signals, "BOUNCE_S", 0.0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_what_a_script_has_put_in_the_background_does_not_hear_its_ctrl_c() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with report_stop_signals():
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_ctrl_c_while_slurm_ends_the_job_says_what_the_nodes_have_answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = {"state": {"phase": "ended", "exit": {"ranks": {"0": -15}}}}
    monkeypatch.setattr(stop, "stop_run", lambda *_, **__: [ended])
    monkeypatch.setattr(stop, "await_end", Mock(side_effect=KeyboardInterrupt))
    to = SimpleNamespace(plan=plan((None,)), entries=[HostEntry("a")], open=None)
    found = SimpleNamespace(run_id=to.plan.run_id, grace_s=1.0)
    for name in ("open_host_access", "reach_run", "ask_slurm"):
        monkeypatch.setattr(stop, name, Mock(return_value=None))
    for name, value in {"find_run": found, "follow_next_starts": found, "open_run": to}.items():
        monkeypatch.setattr(stop, name, Mock(return_value=value))
    monkeypatch.setattr(
        stop, "reach_run", Mock(return_value=SimpleNamespace(nodes=(), inventory=Inventory()))
    )
    assert cli.run_command_line(["77", "--json"], stop.command) == ExitCode.INTERRUPTED
    out, err = capsys.readouterr()
    assert [each["ended"] for each in json.loads(out)["nodes"]] == [True]
    assert "Slurm job 77 may not have ended yet" in err


def test_a_closed_terminal_ends_what_has_no_consent_yet_and_nothing_else() -> None:
    before = signal.getsignal(signal.SIGHUP)
    with report_stop_signals():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGHUP)
        signals.outlive_terminal()
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == before


@pytest.mark.parametrize("as_json", [False, True])
def test_a_terminal_that_closes_while_clean_zombies_looks_ends_no_process(
    as_json: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scene = Scene(random.Random(1))
    scenes.dead_launch(scene)

    def look(*_: object) -> GatherResult:
        signal.raise_signal(signal.SIGHUP)
        return GatherResult({"h": scene.facts()}, {})

    ended = Mock()
    monkeypatch.setattr(clean_zombies, "gather_facts", look)
    monkeypatch.setattr(clean_zombies, "fanout", ended)
    words = ["localhost", "--yes", *["--json"] * as_json]
    assert cli.run_command_line(words, clean_zombies.command) == ExitCode.INTERRUPTED
    assert not ended.called
    assert ("interrupted" in capsys.readouterr().out) is as_json


@pytest.mark.parametrize("name", ["ps", "rm", "prune", "stop"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_ended_while_it_looks_prints_its_document(
    name: str, number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module: Any = import_module(cli.find_module(name))
    monkeypatch.setattr(module, "open_host_access", lambda *_: signal.raise_signal(number))
    words = ["r1"] if name in ("rm", "stop") else []
    assert cli.run_command_line([*words, "--json"], module.command) == ExitCode.INTERRUPTED
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "interrupted"


@pytest.mark.parametrize("as_json", [False, True])
def test_clean_zombies_tells_of_the_host_that_answered_and_names_the_other(
    as_json: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scene = Scene(random.Random(1))
    scenes.dead_launch(scene)
    facts = {name: scene.facts() for name in ("h", "silent")}
    done = CleanResult("h", (), (), (29500,), (), "/audit")

    def act(_: object, hosts: list[Any], *, on_interrupt: Callable[[Any], GpulaunchError], **__: Any) -> Any:
        return [done, on_interrupt(hosts[1])]

    monkeypatch.setattr(clean_zombies, "gather_facts", lambda *_: GatherResult(facts, {}))
    monkeypatch.setattr(clean_zombies, "fanout", act)
    inventory = Inventory(access_words=("-i", "h.yaml"))
    access = HostAccess(inventory, nullcontext, 1)  # type: ignore[arg-type]
    options = clean_zombies.CleanZombiesOptions(None, False, 1, None, yes=True, as_json=as_json)
    assert clean_zombies.clean_hosts(access, tuple(map(HostEntry, facts)), options) == ExitCode.INTERRUPTED
    text = capsys.readouterr().out
    assert "silent: interrupted before it answered: it may have ended pid " in text
    if as_json:
        document = json.loads(text)
        assert document["hosts"]["h"]["cleaned"]["ports_freed"] == [29500]
        (error,) = document["errors"]
        assert (error["host"], error["code"], document["exit_code"]) == ("silent", "interrupted", 130)
        assert error["fix"] == "gpulaunch clean-zombies -i h.yaml silent --dry-run shows what is left"
    else:
        assert "h: port 29500: held -> free" in text
        assert "fix: gpulaunch clean-zombies -i h.yaml silent --dry-run shows what is left" in text


def test_clean_zombies_names_the_hosts_whose_inspection_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gather(entries: Any, _request: object, _open: object, how: GatherOptions) -> GatherResult:
        assert how.on_done is not None
        assert how.on_slow is not None
        how.on_done(entries[0], HostError("h", "down"))
        raise KeyboardInterrupt

    monkeypatch.setattr(clean_zombies, "gather_facts", gather)
    access = HostAccess(Inventory(), nullcontext, 1)  # type: ignore[arg-type]
    options = clean_zombies.CleanZombiesOptions(None, False, 1, None)
    with pytest.raises(KeyboardInterrupt):
        clean_zombies.clean_hosts(access, (HostEntry("h"), HostEntry("silent")), options)
    assert capsys.readouterr().err == "interrupted: no answer yet from silent\n"


def test_after_an_interrupt_no_further_run_is_deleted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: Any = [
        SimpleNamespace(run_id=name, is_over=False, nodes=[SimpleNamespace(entry=HostEntry("h"))])
        for name in ("r1", "r2", "r3")
    ]
    results: list[Any] = [{}, HostInterrupted("h")]
    monkeypatch.setattr(_remove, "remove_run", lambda *_: [results.pop(0)])
    answer = Answer("gpulaunch.removal/1", as_json=True)
    with report_stop_signals():
        assert _remove.remove_runs(runs, nullcontext, answer) == 130  # type: ignore[arg-type]
    out, err = capsys.readouterr()
    assert [(each["run_id"], each["hosts"][0]["removed"]) for each in json.loads(out)["runs"]] == [
        ("r1", True),
        ("r2", False),
    ]
    assert "interrupted: r3 left as before" in err


def test_a_ctrl_c_between_two_runs_keeps_what_was_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: Any = [
        SimpleNamespace(run_id=name, is_over=True, nodes=[SimpleNamespace(entry=HostEntry("h"))])
        for name in ("r1", "r2")
    ]
    monkeypatch.setattr(_remove, "remove_run", lambda *_: [{}])
    monkeypatch.setattr(_remove, "delete_run_record", lambda _: signal.raise_signal(signal.SIGTERM))
    answer = Answer("gpulaunch.removal/1", as_json=True)
    with report_stop_signals():
        assert _remove.remove_runs(runs, nullcontext, answer) == 130  # type: ignore[arg-type]
    out, err = capsys.readouterr()
    assert [each["run_id"] for each in json.loads(out)["runs"]] == ["r1"]
    assert "interrupted: r2 left as before" in err


def test_a_full_disk_keeps_no_run_that_prune_was_to_delete(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: Any = [
        SimpleNamespace(run_id=name, is_over=False, nodes=[SimpleNamespace(entry=HostEntry("h"))])
        for name in ("r1", "r2")
    ]
    remove = Mock(return_value=[{}])
    monkeypatch.setattr(_remove, "remove_run", remove)
    answer = Answer("gpulaunch.removal/1", as_json=False)
    command = click.Command("x", callback=lambda: _remove.remove_runs(runs, nullcontext, answer))  # type: ignore[arg-type]
    with suppress(OSError), Path("/dev/full").open("w", encoding="utf-8") as full, report_stop_signals():
        monkeypatch.setattr("sys.stdout", full)
        assert cli.run_command_line([], command) == ExitCode.ABORTED
    assert [call.args[0] for call in remove.call_args_list] == ["r1", "r2"]


def test_ps_names_the_host_that_had_not_answered() -> None:
    error: HostError = ps._interrupted(HostEntry("h"))
    assert (error.detail, error.exit_code) == ("interrupted: no answer yet", 130)


def test_a_command_for_hosts_that_share_a_line_names_all_of_them() -> None:
    errors = {name: HostError(name, "interrupted", f"gpulaunch ps {name}") for name in ("titan", "n1", "n2")}
    assert list(explain_unanswered(errors)) == [
        "n[1-2],titan: interrupted",
        "  fix: gpulaunch ps 'n[1-2],titan'",
    ]
    assert list(explain_unanswered({"titan": errors["titan"]}))[1] == "  fix: gpulaunch ps titan"


def test_ctrl_c_before_a_launch_says_that_no_run_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    said: list[str] = []
    monkeypatch.setattr(_launch, "_prepared_in_turn", interrupt)
    request = SimpleNamespace(config=None, nodes=0, entries=())
    screen, unused = SimpleNamespace(notify=said.append), None
    session = LaunchSession(unused, screen, unused)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        _launch._launch_and_report(request, unused, session)  # type: ignore[arg-type]
    assert said == ["no run was started"]
