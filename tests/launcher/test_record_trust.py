"""What a host's record may lead to: no host that the user has not named, and never this machine."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.commands._run_options import describe_renamed_hosts, name_node
from launcher.commands.stacks import show_stacks
from launcher.config.inventory import HostEntry, Inventory, find_local_python
from launcher.config.via_options import Via
from launcher.errors import ConnectionTimedOut, HostError, HostNotContacted, RunAlreadyEnded
from launcher.local.user import read_user_name
from launcher.planning.plan import Plan
from launcher.planning.run_record import (
    RunRecord,
    build_run_record,
    read_record,
    read_run_records,
    save_run_record,
)
from launcher.runs.access import Consent, KnownHosts, RunAccess, access_run, is_this_machine
from launcher.runs.expected_run import select_run
from launcher.runs.last_run import SearchScope
from launcher.runs.merged_runs import MergedRuns, merge_node_runs
from launcher.runs.remote_run import RemoteRun
from launcher.transports.base import Connection
from preflight.errors import BadInput
from tests.launcher.run_plans import plan, run_id
from tests.launcher.terminal import RUN, Home

A, B = HostEntry("a", address="10.0.0.1"), HostEntry("b", address="10.0.0.2", python="/evil/python")
EVIL = HostEntry("evil", address="10.9.9.9")
PLAN = plan((None,), (None,))
KEEPER: dict[str, Any] = {"boot_id": "b-1", "supervisor": [7, 9]}


def host_b(name: str) -> Plan:
    return replace(PLAN, nodes=(PLAN.nodes[0], replace(PLAN.nodes[1], host=name, python="/evil/python")))


def node_answer(
    of: Plan = PLAN, rank: int = 0, ways: tuple[HostEntry, ...] = (A, B), **state: Any
) -> dict[str, Any]:
    record = build_run_record(of, of.nodes[rank], ways)
    spec = {"node_rank": rank, "nodes": 2, "first_rank": rank, "launch": record}
    return {"run_id": of.run_id, "spec": spec, "state": {"phase": "running", "started": 10.0, **state}}


def gather(*answers: tuple[HostEntry, list[dict[str, Any]]], known: RunRecord | None = None) -> MergedRuns:
    memory = {known.plan.run_id: known} if known is not None else {}
    return merge_node_runs(((entry, {"runs": runs, "t": 50.0}, 50.0) for entry, runs in answers), memory)


def never(entry: HostEntry) -> Connection:
    raise AssertionError(f"a connection to {entry.name} was opened")


def access(
    run: RemoteRun,
    *requested: HostEntry,
    listed: tuple[HostEntry, ...] = (),
    named: Callable[[str], bool] = lambda _: False,
    consent: Consent | None = None,
) -> RunAccess:
    inventory = Inventory(hosts={entry.name: entry for entry in listed})
    known = KnownHosts({entry.name: entry for entry in requested}, inventory, named, consent)
    return access_run(run, known, never)


def test_a_node_that_only_a_record_names_is_not_logged_in_to() -> None:
    (run,) = gather((A, [node_answer()])).runs
    found = access(run, A)
    assert found.entries[0] is A
    with pytest.raises(HostNotContacted, match="b: not asked: only the record"):
        found.open(found.entries[1])
    with pytest.raises(HostNotContacted):
        found.demand()


@pytest.mark.parametrize("names", [{"b"}, {"a", "b", "evil"}])
def test_no_host_tells_in_place_of_one_that_is_silent_or_was_not_asked(names: set[str]) -> None:
    answers = [(EVIL, {"runs": [node_answer(), node_answer(rank=1)], "t": 50.0}, 50.0)]
    found = merge_node_runs(answers, names=names)
    assert [node.rank for run in found.runs for node in run.nodes] == ([] if "a" in names else [0])
    assert any(
        "evil reports node 1 of it, which is, by its record, on b" in word
        for word in found.strays[PLAN.run_id]
    )


def test_what_stop_tells_of_a_node_is_told_of_the_host_that_answered() -> None:
    assert name_node("a", "a") == "a"
    assert name_node("gpu-02", "evil") == "evil (gpu-02 in the run's record)"
    assert "\x1b" not in name_node("gpu-02\x1b[2J", "evil")
    (run,) = gather((A, [node_answer()])).runs
    to = access(run, A, listed=(B,))
    assert list(describe_renamed_hosts(to)) == []
    other = replace(to, entries=(to.entries[0], replace(B, name="titan")))
    assert list(describe_renamed_hosts(other)) == [
        "b: the name of titan in the record and the logs of the run"
    ]


def test_a_listed_node_is_reached_as_it_is_listed_with_its_own_interpreter() -> None:
    (run,) = gather((A, [node_answer()])).runs
    listed = HostEntry("b", address="192.168.0.2", user="me", python="/mine/python")
    for found in (access(run, A, listed=(listed,)), access(run, A, listed)):
        assert found.entries[1] is listed
        assert found.plan.nodes[1].python == "/mine/python"
        found.demand()


def test_a_node_that_ssh_config_names_is_reached_as_ssh_would_and_not_as_the_record_says() -> None:
    (run,) = gather((A, [node_answer()])).runs
    entry = access(run, A, named=lambda name: name == "b").entries[1]
    assert (entry.address, entry.user, entry.port, entry.python) == ("", "", None, "python3")


def test_a_person_is_asked_about_a_node_and_told_what_would_be_done_there() -> None:
    ways = (A, replace(B, user="root", port=2222))
    (run,) = gather((A, [node_answer(host_b("b"), ways=ways)])).runs
    questions: list[str] = []

    def yes(question: str) -> bool:
        questions.append(question)
        return True

    entry = access(run, A, consent=yes).entries[1]
    assert (entry.address, entry.user) == ("10.0.0.2", "root")
    for part in ("b is in no local file; a says", "root@10.0.0.2:2222", "/evil/python"):
        assert part in questions[0]
    with pytest.raises(HostNotContacted):
        access(run, A, consent=lambda _: False).demand()


@pytest.mark.parametrize("way", ["", "127.0.0.1", "::1", "0.0.0.0", "localhost", "x.localhost", "127.9.9.9"])
def test_a_record_never_leads_to_this_machine(way: str) -> None:
    here = HostEntry("localhost" if not way else "b", address=way, python="/evil/python")
    (run,) = gather((A, [node_answer(host_b(here.name), ways=(A, here))])).runs
    mine = HostEntry("localhost", python=find_local_python())
    found = access(run, A, mine, consent=lambda _: True)
    with pytest.raises(HostNotContacted, match="which is not this machine"):
        found.demand()
    assert found.plan.nodes[1].python != find_local_python()


@pytest.mark.parametrize("via", [Via("command", words=("touch", "PWNED")), Via("kubectl", "w-0")])
def test_a_record_leads_to_no_command_that_runs_locally(via: Via) -> None:
    (run,) = gather((A, [node_answer(ways=(A, HostEntry("b", via=via)))])).runs
    with pytest.raises(HostNotContacted):
        access(run, A, consent=lambda _: True).demand()
    own = build_run_record(PLAN, PLAN.nodes[0], (A, HostEntry("b", via=via)))
    assert "PWNED" not in json.dumps(own)


def test_a_person_is_asked_before_a_records_container_is_entered() -> None:
    (run,) = gather((A, [node_answer(ways=(A, replace(B, via=Via("docker", "train"))))])).runs
    questions: list[str] = []

    def yes(question: str) -> bool:
        questions.append(question)
        return True

    entry = access(run, A, consent=yes).entries[1]
    assert "Log in to 10.0.0.2, enter docker train, and run" in questions[0]
    assert entry.via == Via("docker", "train")


def test_a_container_of_a_record_has_a_name_and_no_option() -> None:
    ways = (A, replace(B, via=Via("docker", "--privileged")))
    with pytest.raises(BadInput, match="is not a name of a container"):
        read_record(build_run_record(PLAN, PLAN.nodes[0], ways))


def test_two_containers_of_one_host_are_two_places() -> None:
    ways = tuple(replace(A, name=name, via=Via("docker", name)) for name in ("a", "b"))
    launched = read_record(build_run_record(PLAN, PLAN.nodes[0], ways), sent=False)
    found = gather((ways[0], [node_answer(rank=1, ways=ways)]), known=launched)
    assert "not believed" in found.strays[PLAN.run_id][0]


def test_what_was_launched_from_here_is_reached_as_it_was_also_on_this_machine() -> None:
    own = host_b("localhost")
    launched = read_record(build_run_record(own, own.nodes[0], (A, HostEntry("localhost"))), sent=False)
    (run,) = gather((A, [node_answer(own, ways=(A, HostEntry("localhost")))]), known=launched).runs
    assert access(run, A).entries[1].is_local
    assert run.from_here


def test_the_key_of_a_launch_is_remembered_here_and_never_taken_from_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    record = build_run_record(PLAN, PLAN.nodes[0], (A, replace(B, identity_file="/k/of-b")))
    assert "of-b" not in json.dumps(record)  # which goes to the hosts
    monkeypatch.chdir(tmp_path)
    save_run_record(record, {"a": "/k/named"})
    (kept,) = tmp_path.rglob("*.json")
    (launched,) = read_run_records().values()
    assert launched.logs == str(tmp_path / "gpulaunch-runs")
    assert read_record(json.loads(kept.read_text())).logs == ""
    assert [entry.identity_file for entry in launched.entries] == ["/k/named", ""]
    assert [entry.identity_file for entry in read_record(json.loads(kept.read_text())).entries] == ["", ""]


def test_a_machine_of_another_name_is_another_machine() -> None:
    assert not is_this_machine(HostEntry("gpu-01"))
    assert not is_this_machine(HostEntry("b", address="10.0.0.1"))
    assert is_this_machine(HostEntry("b", address="::ffff:127.0.0.1"))


def test_a_host_answers_for_no_other_of_a_run_that_was_launched_from_here() -> None:
    launched = read_record(build_run_record(PLAN, PLAN.nodes[0], (A, B)), sent=False)
    both = gather((EVIL, [node_answer()]), (A, [node_answer(**KEEPER)]), known=launched)
    (run,) = both.runs
    assert [node.entry for node in run.nodes] == [A]
    words = "evil reports node 0 of it, which this machine launched on a: not believed"
    words += "; where both are one host, call it a"
    assert both.strays == {PLAN.run_id: (words,)}
    alone = gather((EVIL, [node_answer()]), known=launched)
    assert alone.runs == ()
    assert alone.strays


def test_only_a_silent_host_of_the_run_may_still_have_it() -> None:
    (run,) = gather((A, [node_answer()])).runs
    b, other = (ConnectionTimedOut(name, "no answer") for name in ("b", "c"))
    silent = {"a": other, "b": b, "c": other}
    assert replace(run, silent=silent).unheard == {"b": b}
    assert replace(run, silent=silent, record=None).unheard == silent  # of which any may have the rest
    assert run.unheard == {}
    anything: Any = None
    with pytest.raises(ConnectionTimedOut):
        show_stacks(replace(run, silent=silent), anything, anything, as_json=False)
    with pytest.raises(RunAlreadyEnded, match=f"{PLAN.run_id} is over on a "):  # b was not asked
        show_stacks(run, anything, anything, as_json=False)
    (whole,) = gather((A, [node_answer()]), (B, [node_answer(rank=1)])).runs
    with pytest.raises(RunAlreadyEnded, match=f"{PLAN.run_id} is over [(]"):
        show_stacks(whole, anything, anything, as_json=False)


def test_a_host_answers_for_no_other_that_was_asked_too() -> None:
    found = gather((EVIL, [node_answer()]), (A, [node_answer(**KEEPER)]), (B, [node_answer(rank=1)]))
    assert [node.entry for node in found.runs[0].nodes] == [A, B]
    assert "is, by its record, on a" in found.strays[PLAN.run_id][0]
    silent = gather((EVIL, [node_answer()]), (A, []))
    assert silent.runs == ()
    assert silent.strays


def test_a_host_may_have_another_name_here_than_where_it_was_launched_from() -> None:
    other = HostEntry("gpu-07", address="10.0.0.1")
    (run,) = gather((other, [node_answer(**KEEPER)]), (B, [node_answer(rank=1)])).runs
    assert [node.entry for node in run.nodes] == [other, B]


def test_two_hosts_that_claim_one_node_are_a_conflict_that_is_told() -> None:
    one, two = HostEntry("one"), HostEntry("two")
    (run,) = gather(
        (one, [node_answer(**KEEPER)]), (two, [node_answer(boot_id="b-2", supervisor=[7, 9])])
    ).runs
    with pytest.raises(BadInput, match="one and two both say that they are node 0"):
        select_run([run], PLAN.run_id)
    assert "--hosts HOST" in choose_fix(run)


def choose_fix(run: RemoteRun) -> str:
    with pytest.raises(BadInput) as caught:
        select_run([run], PLAN.run_id)
    return caught.value.fix


def test_hosts_that_tell_of_different_launches_under_one_name_are_a_conflict() -> None:
    alone = replace(PLAN, nodes=(PLAN.nodes[0], replace(PLAN.nodes[1], host="c")))
    (run,) = gather((A, [node_answer()]), (HostEntry("c"), [node_answer(alone, rank=1)])).runs
    with pytest.raises(BadInput, match="a and c report different launches"):
        select_run([run], PLAN.run_id)


def test_a_newer_run_of_a_host_is_not_taken_for_the_last_that_was_launched_from_here() -> None:
    launched = read_record(build_run_record(PLAN, PLAN.nodes[0], (A, B)), sent=False)
    other = replace(PLAN.nodes[0], host="evil")
    newer = replace(PLAN, run_id=run_id("newer"), nodes=(other, PLAN.nodes[1]))
    claim = node_answer(newer, ways=(EVIL, B), started=40.0)
    found = gather((A, [node_answer(**KEEPER)]), (EVIL, [claim]), known=launched)
    with pytest.raises(BadInput, match=f"no record that it launched the newest run, {newer.run_id} on evil"):
        select_run(found.runs, "last", SearchScope(frozenset(), frozenset(), read_user_name()).find_newest)
    assert select_run(found.runs, PLAN.run_id).from_here
    assert select_run([found.runs[-1]], "last").run_id == newer.run_id


def test_a_refused_node_is_that_nodes_error_and_no_others() -> None:
    (run,) = gather((A, [node_answer()])).runs
    found = access(run, A)
    with pytest.raises(AssertionError, match="to a was opened"):
        found.open(found.entries[0])
    with pytest.raises(HostError):
        found.open(found.entries[1])


@pytest.mark.slow
def test_no_command_about_a_run_runs_what_its_record_names_here(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    try:
        home.launch("print('up', flush=True)\n")
        run_dir = home.runs / RUN
        shutil.rmtree(home.home / ".local" / "state" / "gpulaunch" / "launches")
        evil, marker = home.home / "python", home.home / "PWNED"
        evil.write_text(f"#!/bin/sh\necho > {marker}\n")
        evil.chmod(0o755)
        add_node(run_dir / "spec.json", "localhost", str(evil))
        for words in (("stop", RUN), ("logs", RUN), ("fetch", RUN), ("attach", RUN)):
            done = home.gpulaunch(*words)
            assert done.returncode == 3, (words, done.stdout, done.stderr)
            assert "which is not this machine" in done.stderr
            assert "no process of it is left" not in done.stdout
        assert not marker.exists()
    finally:
        home.end_all()


def add_node(spec: Path, host: str, python: str) -> None:
    """Add a node to the record that a run directory holds, as a host of another name would have it."""
    document = json.loads(spec.read_text())
    (first,) = document["launch"]["nodes"]
    node = {**first, "host": host, "node_rank": 1, "first_rank": 1, "python": python}
    document["launch"] |= {"nodes": [{**first, "host": "gpu-01"}, node], "world_size": 2}
    document["nodes"] = 2
    spec.write_text(json.dumps(document))
