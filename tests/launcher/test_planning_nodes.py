"""What a node of a plan gets: threads, sockets, the guard's environment; and which changes are reported."""

from dataclasses import replace

import pytest

from launcher.config.inventory import HostEntry
from launcher.planning.planner import LaunchDecisions, build_plan, decide_launch
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.job import GpuRequest, Job
from tests.hardware import cpu_host, l40s, titan


def settled(job: Job, *hosts: HostFacts) -> LaunchDecisions:
    return decide_launch([(HostEntry(facts.host), facts) for facts in hosts], job, run_id="run-1")


def environment(job: Job, *hosts: HostFacts) -> dict[str, str]:
    return build_plan([(HostEntry(facts.host), facts) for facts in hosts], job, run_id="run-1").nodes[0].env


def with_cpus(facts: HostFacts, cpus: int) -> HostFacts:
    assert not isinstance(facts.limits, Missing)
    return replace(facts, limits=replace(facts.limits, cpus=cpus))


@pytest.mark.parametrize(
    ("cpus", "ranks", "on_gpu", "threads"),
    [
        (32, 2, True, "8"),  # as many as help to feed a GPU
        (12, 2, True, "6"),
        (1, 2, True, "1"),
        (32, 2, False, "16"),  # CPU ranks compute with them
        (4, 1, False, "4"),
        (1, 2, False, "1"),
    ],
)
def test_the_processors_of_a_host_are_shared_among_its_ranks(
    cpus: int, ranks: int, *, on_gpu: bool, threads: str
) -> None:
    job = Job(script="x.py", gpus="all" if on_gpu else "none", processes_per_host=None if on_gpu else ranks)
    facts = with_cpus(titan(ranks) if on_gpu else cpu_host(), cpus)
    assert environment(job, facts)["OMP_NUM_THREADS"] == threads


def test_where_the_processors_are_not_known_a_rank_has_one_thread() -> None:
    facts = replace(titan(1), limits=Missing("denied", "no-permission"))
    assert environment(Job(script="x.py"), facts)["OMP_NUM_THREADS"] == "1"


def test_only_ranks_on_several_hosts_are_bound_to_an_interface() -> None:
    names = {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}
    assert not names & set(environment(Job(script="x.py"), titan(2)))
    assert names <= set(environment(Job(script="x.py"), titan(1), l40s(1)))


def test_a_rehearsal_stops_at_what_cannot_train_whatever_the_policy() -> None:
    plain = environment(Job(script="x.py", guard="warn", output="out"), titan(1))
    assert (plain["GPULAUNCH_GUARD"], "GPULAUNCH_REHEARSE" in plain) == ("warn", False)
    rehearsed = environment(Job(script="x.py", guard="off", rehearse_steps=3, output="out"), titan(1))
    assert (rehearsed["GPULAUNCH_GUARD"], rehearsed["GPULAUNCH_REHEARSE"]) == ("stop", "3")
    assert "GPULAUNCH_GUARD" not in environment(Job(script="x.py", guard="off"), titan(1))
    assert (plain["GPULAUNCH_OUTPUT"], rehearsed["GPULAUNCH_OUTPUT"]) == ("out", "out")


@pytest.mark.parametrize(("hang_timeout", "planned"), [(0.0, None), (600.0, 600.0)])
def test_a_run_that_is_not_ended_when_it_hangs_has_no_timeout(
    hang_timeout: float, planned: float | None
) -> None:
    job = Job(script="x.py", hang_timeout=hang_timeout)
    assert build_plan([(HostEntry("titan"), titan(1))], job, run_id="run-1").hang_timeout_s == planned


@pytest.mark.parametrize(("requested", "backend"), [("bf16", ""), ("fp8", "TE")])
def test_an_fp8_backend_is_chosen_for_fp8_alone(requested: str, backend: str) -> None:
    facts = l40s(1)
    assert not isinstance(facts.python, Missing)
    packages = {**facts.python.packages, "transformer-engine": "2.0"}
    facts = replace(facts, python=replace(facts.python, packages=packages))
    assert settled(Job(script="x.py", precision=requested), facts).world.fp8_backend == backend  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("requested", "facts", "changed"),
    [
        ("auto", cpu_host(), True),
        ("auto", titan(1), False),
        ("none", titan(1), False),
        ("all", titan(1), False),
    ],
)
def test_gpus_are_reported_as_changed_where_auto_became_none(
    requested: GpuRequest, facts: HostFacts, *, changed: bool
) -> None:
    made = settled(Job(script="x.py", gpus=requested), facts)
    assert any(change.field == "--gpus" for change in made.changes) is changed
