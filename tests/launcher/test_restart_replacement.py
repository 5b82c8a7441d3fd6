"""Who goes on after a failure, judged on real preflights of hosts that are harmed in one thing each."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from launcher.config.inventory import HostEntry
from launcher.launch.launch import CheckedLaunch
from launcher.launch.request import LaunchRequest
from launcher.planning.planner import build_plan
from launcher.remote.connection_pool import ConnectionPool
from launcher.restart.launch_changes import describe_changes
from launcher.restart.replacement import (
    HostAssignment,
    HostFault,
    exclude_faulty,
    rank_counts_after,
    replace_host,
)
from launcher.transports.base import Endpoint
from launcher.transports.local import LocalConnection
from preflight.checks.finding import blocks_launch
from preflight.job import Job
from tests.launcher.restart_cases import JOB, entries, preflighted

LOST = {"missing": "GPU is lost", "code": "gpu-lost"}
LOST_GPU = {"gpus.1.memory": LOST, "gpus.1.name": LOST}
OLD = {"python.packages.torch": "1.0.0"}
TITAN = {
    f"gpus.{n}.{key}": value
    for n in (0, 1)
    for key, value in (("capability", [7, 5]), ("name", "NVIDIA TITAN RTX"))
}


def names(lineup: HostAssignment) -> list[str]:
    return [entry.name for entry in lineup.entries]


def settled(
    lineup: HostAssignment, overlays: Mapping[str, Mapping[str, Any]], **words: Any
) -> HostAssignment:
    """Preflight and improve until nothing changes, as a restart does."""
    condemned = words.pop("condemned", ())
    while lineup.entries:
        unreachable = tuple(name for name in words.get("unreachable", ()) if name in names(lineup))
        result = preflighted(lineup.entries, overlays, unreachable=unreachable, cut=words.get("cut", ()))
        better = exclude_faulty(lineup, result, JOB, condemned)
        condemned = ()
        if better == lineup:
            return lineup
        lineup = better
    return lineup


def test_hosts_that_are_fine_stay_as_they_are() -> None:
    lineup = HostAssignment(entries("a", "b"), entries("s"))
    assert settled(lineup, {}) == lineup


def test_a_spare_takes_the_very_place() -> None:
    lineup = settled(HostAssignment(entries("a", "b", "c"), entries("s", "t")), {}, unreachable=("a",))
    assert names(lineup) == ["s", "b", "c"]
    assert (lineup.replaces, lineup.excluded) == ({"s": "a"}, {"a": "cannot be used: no answer"})
    assert [entry.name for entry in lineup.spares] == ["t"]


def test_without_a_spare_the_others_close_up() -> None:
    assert names(settled(HostAssignment(entries("a", "b", "c")), {}, unreachable=("b",))) == ["a", "c"]


def test_a_spare_that_is_bad_too_gives_its_place_on() -> None:
    lineup = settled(HostAssignment(entries("a", "b"), entries("s", "t")), {}, unreachable=("b", "s"))
    assert names(lineup) == ["a", "t"]
    assert lineup.replaces == {"t": "b"}


def test_a_host_goes_on_without_a_gpu_that_has_failed() -> None:
    lineup = settled(HostAssignment(entries("a", "b")), {"b": LOST_GPU})
    assert [entry.gpus for entry in lineup.entries] == ["all", ("GPU-b-0",)]
    assert "gpu1: the GPU is lost" in lineup.reduced_gpus["b"]
    assert lineup.excluded == {}


def test_a_gpu_that_does_not_even_tell_its_uuid_is_left_out() -> None:
    gone = {f"gpus.1.{key}": value for key, value in (("uuid", LOST), ("memory", LOST), ("name", LOST))}
    lineup = settled(HostAssignment(entries("a", "b")), {"b": gone})
    assert [entry.gpus for entry in lineup.entries] == ["all", ("GPU-b-0",)]


def test_a_whole_spare_is_better_than_a_host_without_a_gpu() -> None:
    lineup = settled(HostAssignment(entries("a", "b"), entries("s")), {"b": LOST_GPU})
    assert names(lineup) == ["a", "s"]
    assert (lineup.replaces, lineup.reduced_gpus) == ({"s": "b"}, {})


def test_a_host_without_a_gpu_is_better_than_no_host() -> None:
    lineup = settled(HostAssignment(entries("a", "b"), entries("s")), {"b": LOST_GPU}, unreachable=("s",))
    assert names(lineup) == ["a", "b"]
    assert lineup.entries[1].gpus == ("GPU-b-0",)
    assert list(lineup.reduced_gpus) == ["b"]


def test_a_gpu_that_only_the_ranks_log_condemns_is_left_out() -> None:
    fault = HostFault("b", "gpu0: uncorrectable ECC error", ("GPU-b-0",))
    lineup = settled(HostAssignment(entries("a", "b")), {}, condemned=(fault,))
    assert lineup.entries[1].gpus == ("GPU-b-1",)


def test_what_hosts_yaml_keeps_from_launches_stays_kept() -> None:
    hosts = (HostEntry("a"), HostEntry("b", gpus=(1, 0)))
    assert settled(HostAssignment(hosts), {"b": LOST_GPU}).entries[1].gpus == ("GPU-b-0",)
    only = (HostEntry("a"), HostEntry("b", gpus=(1,)))
    assert names(settled(HostAssignment(only), {"b": LOST_GPU})) == ["a"]


def test_a_count_of_gpus_is_kept_or_the_host_is_not() -> None:
    job = Job(name="j", gpus=2, workdir="/work")
    lineup = HostAssignment(entries("a", "b"))
    better = exclude_faulty(lineup, preflighted(lineup.entries, {"b": LOST_GPU}, job=job), job)
    assert names(better) == ["a"]


def test_the_main_host_that_nobody_reaches_is_the_one_that_goes() -> None:
    three = HostAssignment(entries("a", "b", "c"))
    assert names(exclude_faulty(three, preflighted(three.entries, cut=("b", "c")), JOB)) == ["b", "c"]
    assert names(settled(three, {}, cut=("b",))) == ["a", "c"]


def test_no_host_is_bad_where_the_port_of_the_main_host_was_taken_meanwhile() -> None:
    three = HostAssignment(entries("a", "b", "c"), entries("s"))
    taken = preflighted(three.entries, cut=("b", "c"), why="a cannot listen on it: Address already in use")
    assert exclude_faulty(three, taken, JOB) == three
    assert not any(map(blocks_launch, taken.findings))
    launch = LaunchRequest(
        entries=three.entries,
        job=JOB,
        connections=ConnectionPool(lambda entry: LocalConnection(Endpoint(entry.name, "local", ""))),
    )
    assert CheckedLaunch(launch, taken, None).plan().main_port == 20417
    assert taken.would_use is not None
    assert taken.would_use.main_port == 20417


def test_a_spare_that_does_not_fit_the_others_is_not_taken() -> None:
    lineup = settled(HostAssignment(entries("a", "b"), entries("s", "t")), {"s": OLD}, unreachable=("b",))
    assert names(lineup) == ["a", "t"]
    assert lineup.excluded["s"].startswith("does not fit the others: torch differs")


def test_with_nobody_left_there_is_nobody() -> None:
    assert settled(HostAssignment(entries("a")), {}, unreachable=("a",)).entries == ()


def test_a_host_that_came_back_may_take_its_own_place() -> None:
    lineup = replace_host(HostAssignment(entries("a", "b"), entries("b")), "b", "it was lost (no answer)")
    assert (names(lineup), lineup.replaces) == (["a", "b"], {"b": "b"})


def test_a_spare_gets_as_many_cpu_ranks_as_the_host_before_it() -> None:
    job = Job(gpus="none", processes_per_host={"a": 1, "b": 3})
    lineup = replace_host(HostAssignment(entries("a", "b"), entries("s")), "b", "gone")
    assert rank_counts_after(job, lineup).processes_per_host == {"a": 1, "b": 3, "s": 3}
    named = replace(job, processes_per_host={"a": 1, "b": 3, "s": 2})
    assert rank_counts_after(named, lineup) == named


UNLESS = "unless the script divides a fixed one by its ranks"
BATCH = {"batch": "--batch-size", "accumulation": "--acc"}


def changes(
    lineup: HostAssignment, before: tuple[str, ...], job: Job, overlays: Mapping[str, Any]
) -> list[str]:
    """Return what is said of a lineup after a run on the hosts before."""
    hosts = entries(*before)
    old = preflighted(hosts)
    new = preflighted(lineup.entries, overlays)
    plans = [
        build_plan([(entry, result.facts[entry.name]) for entry in given], job, run_id="r")
        for given, result in ((hosts, old), (lineup.entries, new))
    ]
    return list(describe_changes(plans[0], plans[1], lineup, job))


def test_hosts_that_are_left_out_for_one_reason_share_a_line() -> None:
    lineup = HostAssignment(entries("n1", "n2", "n3"))
    for host in ("n2", "n3"):
        lineup = replace_host(lineup, host, "it was lost (no answer)")
    assert (
        changes(lineup, ("n1", "n2", "n3"), JOB, {})[0]
        == "each of n[2-3] is left out: it was lost (no answer)"
    )


def test_a_smaller_world_is_said_with_what_it_does_to_the_batch() -> None:
    job = replace(JOB, script="t.py", args=("--batch-size", "8", "--acc", "4"), batch_args=BATCH)
    lineup = replace_host(HostAssignment(entries("a", "b", "c")), "b", "it was lost (no answer)")
    assert changes(lineup, ("a", "b", "c"), job, {}) == [
        "b is left out: it was lost (no answer)",
        "world size 6 -> 4",
        f"effective batch size 192 -> 128 (--batch-size 8 x --acc 4 x world size), {UNLESS}",
    ]


def test_without_batch_args_it_is_said_that_the_batch_changes() -> None:
    lineup = settled(HostAssignment(entries("a", "b")), {"b": LOST_GPU})
    lines = changes(lineup, ("a", "b"), replace(JOB, script="t.py"), {"b": LOST_GPU})
    assert lines[0].startswith("b stays with its other GPUs: gpu1: the GPU is lost")
    assert lines[1:] == ["world size 4 -> 3", f"the effective batch size changes with it, {UNLESS}"]


def test_a_gpu_that_the_driver_no_longer_lists_is_named() -> None:
    hosts, script = entries("a", "b"), replace(JOB, script="t.py")
    before, now = preflighted(hosts), preflighted(hosts)
    (gpu, _) = now.facts["b"].gpus if isinstance(now.facts["b"].gpus, tuple) else ()
    facts = now.facts | {"b": replace(now.facts["b"], gpus=(gpu,))}
    old = build_plan([(entry, before.facts[entry.name]) for entry in hosts], script, run_id="r")
    new = build_plan([(entry, facts[entry.name]) for entry in hosts], script, run_id="r")
    said = list(describe_changes(old, new, HostAssignment(hosts), script))
    assert said[:2] == ["b no longer uses GPU 1 (GPU-b-1)", "world size 4 -> 3"]


def test_another_precision_and_another_main_host_are_said_with_the_reason() -> None:
    lineup = replace_host(HostAssignment(entries("a", "b"), entries("titan")), "a", "it was lost (no answer)")
    lines = changes(lineup, ("a", "b"), replace(JOB, script="t.py"), {"titan": TITAN})
    assert lines[:3] == [
        "a is left out: it was lost (no answer)",
        "titan takes the place of a",
        "main host a -> titan: rank 0 runs on it",
    ]
    assert lines[3].startswith("mixed precision bf16 -> fp16: titan has TITAN RTX, compute capability 7.5")
    assert len(lines) == 4


@pytest.mark.parametrize("spares", [(), ("s",)])
def test_hosts_that_are_left_out_are_never_asked_again(spares: tuple[str, ...]) -> None:
    lineup = settled(HostAssignment(entries("a", "b"), entries(*spares)), {}, unreachable=("a", "b"))
    assert set(names(lineup)) == set(spares)
    assert set(lineup.excluded) == {"a", "b"}
