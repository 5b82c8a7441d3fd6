"""Reports of NCCL's watchdogs, read together: who called another collective, who reports none."""

import pytest

from preflight.diagnosis.collective_waits import WaitSummary, summarize_waits
from preflight.diagnosis.diagnose import diagnose

WORLD = "[PG ID 0 PG GUID 0(default_pg) "


def report(rank: int, kind: str, number: int = 5003, group: str = WORLD) -> str:
    """Return what one rank prints: its wait, then how its watchdog ended."""
    work = f"WorkNCCL(SeqNum={number}, OpType={kind}, NumelIn=4)"
    waits = f"[Rank {rank}] Watchdog caught collective operation timeout: {work}"
    ended = f"{group}Rank {rank}] Process group watchdog thread terminated with exception: {waits}"
    at = f"[rank{rank}]:[E1128 09:31:12.8 ProcessGroupNCCL.cpp"
    return f"{at}:616] {waits}\n{at}:1595] {ended}\n"


def summarize(*reports: str) -> WaitSummary:
    return summarize_waits("".join(reports).splitlines())


def test_a_rank_in_another_collective_is_the_cause_although_the_others_report_first() -> None:
    log = "".join([*(report(rank, "ALLREDUCE") for rank in (0, 1, 3)), report(2, "ALLGATHER")])

    cause = diagnose(log).causes[0]

    assert (cause.code, cause.confidence) == ("S54", "likely")
    assert "collective 5003" in cause.cause
    assert "(rank 2 ALLGATHER, ranks 0, 1, 3 ALLREDUCE)" in cause.cause
    assert cause.fix.startswith("look for what rank 2 did and the others did not")
    assert cause.command == "export TORCH_DISTRIBUTED_DEBUG=DETAIL"


def test_the_rank_that_reports_nothing_is_named_with_the_call_in_which_the_others_wait() -> None:
    log = "".join(report(rank, "BARRIER", 901) for rank in (1, 2, 3))

    cause = diagnose(log).causes[0]

    assert cause.command == "rank 0 did not report, the others waited in BARRIER: look at its last lines"
    assert "gpulaunch stacks RUN" in cause.fix


def test_the_last_rank_is_known_by_other_lines_of_its_own() -> None:
    slow = "[rank3] WARNING data: reading shard 231 took 611 s\n"
    log = slow + "".join(report(rank, "ALLREDUCE") for rank in (0, 1, 2))

    assert diagnose(log).causes[0].command.startswith("rank 3 did not report, the others waited in ALLREDUCE")


def test_several_silent_ranks_are_named_but_not_those_of_a_whole_host() -> None:
    assert summarize(report(1, "BARRIER"), report(4, "BARRIER")).command.startswith("ranks 0, 2, 3 did not")
    assert summarize(report(8, "BARRIER"), report(9, "BARRIER")).command.startswith("ranks 0, 1, 2, 3, 4, 5")
    assert summarize(report(9, "BARRIER"), report(10, "BARRIER")) == WaitSummary()


@pytest.mark.parametrize("group", ["[PG ID 3 PG GUID 17(mesh_tp) ", ""])
def test_calls_of_a_group_that_may_not_be_all_ranks_are_shown_and_not_judged(group: str) -> None:
    found = summarize(report(0, "ALLREDUCE", group=group), report(1, "ALLGATHER", group=group))

    assert (found.cause, found.fix) == ("", "")
    assert found.command.startswith("rank 0 waits in ALLREDUCE 5003, rank 1 waits in ALLGATHER 5003: ")


def test_sender_and_receiver_differ_as_they_should() -> None:
    found = summarize(report(0, "SEND"), report(1, "RECV"))

    assert found.cause == ""
    assert found.command.startswith("rank 0 waits in SEND 5003")


def test_ranks_of_a_smaller_group_that_wait_alike_leave_none_out() -> None:
    group = "[PG ID 3 PG GUID 17(mesh_tp) "

    assert (
        summarize(report(1, "ALLREDUCE", group=group), report(3, "ALLREDUCE", group=group)) == WaitSummary()
    )


def test_one_rank_alone_or_all_in_one_call_say_nothing_more() -> None:
    assert summarize(report(2, "ALLREDUCE")) == WaitSummary()
    assert summarize(*(report(rank, "ALLREDUCE") for rank in range(3))) == WaitSummary()
    assert summarize_waits([]) == WaitSummary()


def test_a_first_collective_that_did_not_end_is_about_the_links() -> None:
    found = summarize(report(0, "ALLREDUCE", 1), report(1, "ALLGATHER", 1))

    assert found.cause == ""
    assert found.command.startswith("gpulaunch bench HOSTS measures the links")


def test_ranks_of_one_call_that_are_not_at_one_number_are_looked_at_from_the_last_on() -> None:
    found = summarize(report(0, "ALLREDUCE"), report(1, "ALLREDUCE", 5002), report(2, "ALLREDUCE"))

    assert found.cause == ""
    assert found.fix.startswith("look at rank 1 first, ")
