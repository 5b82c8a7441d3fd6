"""`gpus: auto` on a host that has lost its GPUs: what earlier launches had there stops the next one."""

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.config.inventory import LOCALHOST, HostEntry
from launcher.host_checks.earlier_gpus import note_earlier_gpus
from launcher.host_checks.evaluation import evaluate_facts
from launcher.planning.run_record import build_run_record, read_run_records, save_run_record
from launcher.remote.agent import GatherResult
from launcher.rundir.run_id import is_run_id
from preflight.checks.finding import blocks_launch
from preflight.facts.host import HostFacts
from preflight.job import Job
from tests.hardware import cpu_host, titan
from tests.launcher.run_plans import plan

A, B = HostEntry("a", address="10.0.0.1"), HostEntry("b", address="10.0.0.2")
HERE = HostEntry(LOCALHOST)
AUTO = Job(gpus="auto")


@pytest.fixture(autouse=True)
def _memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def remember(*ways: HostEntry, started_by: str = "") -> str:
    """Keep a launch that had two GPUs on the first host and the CPU of the others; return its id."""
    made = plan(("GPU-1", "GPU-2"), *((None,) for _ in ways[1:]))
    nodes = tuple(replace(node, host=way.name) for node, way in zip(made.nodes, ways, strict=True))
    made = replace(made, nodes=nodes)
    record = build_run_record(made, made.nodes[0], ways)
    save_run_record({**record, **({"started_by": started_by} if started_by else {})})
    assert is_run_id(made.run_id)
    assert list(read_run_records()) == [made.run_id]
    return made.run_id


def said_of(entry: HostEntry, facts: HostFacts, job: Job = AUTO) -> list[str]:
    """Return the messages of what stops a launch on one host for want of GPUs."""
    gathered = note_earlier_gpus([entry], GatherResult({entry.name: facts}, {}), job)
    result = evaluate_facts([entry], gathered, job)
    return [each.message for each in result.findings if each.code == "GPU008" and blocks_launch(each)]


def bare(name: str) -> HostFacts:
    return replace(cpu_host(name), pci_gpus=())


def test_an_earlier_launch_on_gpus_stops_one_that_would_go_to_the_cpu() -> None:
    run_id = remember(A, B)
    (message,) = said_of(A, bare("a"))
    assert run_id in message
    assert "had 2 GPUs on it" in message
    assert said_of(B, bare("b")) == []
    assert said_of(A, bare("a"), Job(gpus="none")) == []
    assert said_of(A, titan(name="a")) == []


def test_another_machine_of_the_same_name_has_no_part_in_it() -> None:
    remember(A)
    assert said_of(replace(A, address="10.9.9.9"), bare("a")) == []


@pytest.mark.parametrize(("started_by", "count"), [("", 1), ("ada@another-node", 0)])
def test_localhost_is_the_machine_that_launched_and_no_other_with_this_home(
    started_by: str, count: int
) -> None:
    remember(HERE, started_by=started_by)
    assert len(said_of(HERE, bare(LOCALHOST))) == count
