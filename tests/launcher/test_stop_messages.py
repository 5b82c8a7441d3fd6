"""`gpulaunch stop` says how each rank has ended, in words."""

from typing import Any

import pytest

from launcher.commands.stop import NodeAnswer, explain_answer, list_unwritable, render_ends
from launcher.errors import HostError
from launcher.follow.stop_timeout import StopPatience
from launcher.onhost.exit_status import describe_exit, describe_exit_code
from launcher.runs.request import RequestDenied
from tests.launcher.broken_links import SetClock


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exit code 0"),
        (3, "exit code 3"),
        (-15, "ended by SIGTERM"),
        (-9, "ended by SIGKILL"),
        (-99, "ended by signal 99"),
        (None, "exit code not seen"),
        ("x", "exit code not seen"),
    ],
)
def test_a_code_is_told_in_words(code: object, words: str) -> None:
    assert describe_exit(code) == words


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-11, "was ended by signal 11 (SIGSEGV)"),
        (139, "failed with exit code 139, a shell's word for SIGSEGV"),
        (137, "failed with exit code 137, a shell's word for SIGKILL"),
        (145, "failed with exit code 145"),
        (128, "failed with exit code 128"),
        (0, "ended with exit code 0"),
    ],
)
def test_an_exit_code_of_a_shell_names_the_signal_of_its_child(code: int, words: str) -> None:
    assert describe_exit_code(code) == words


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        ({}, "ended (no rank had started)"),
        ({"0": -15}, "ended (rank 0: ended by SIGTERM)"),
        ({str(rank): -15 for rank in range(12)}, "ended (ranks 0-11: ended by SIGTERM)"),
        ({"0": -15, "1": 0, "2": -15}, "ended (ranks 0, 2: ended by SIGTERM; rank 1: exit code 0)"),
    ],
)
def test_ranks_that_ended_alike_are_told_together(codes: dict[str, Any], words: str) -> None:
    assert explain_answer({"state": {"phase": "ended", "exit": {"ranks": codes}}}) == (words, 0)


def test_ranks_whose_supervisor_was_killed_had_started() -> None:
    end: dict[str, Any] = {"ranks": {}, "launcher_code": None}
    state: dict[str, Any] = {"phase": "ended", "launcher": [7, 70], "exit": end}
    assert explain_answer({"state": state}) == ("ended (exit codes not seen)", 0)
    assert explain_answer({"state": {**state, "launcher": None}}) == ("ended (no rank had started)", 0)
    early = {**state, "exit": {**end, "launcher_code": -15}}
    assert explain_answer({"state": early}) == ("ended (no rank had started)", 0)


def test_nodes_whose_ranks_ended_alike_are_one_line() -> None:
    def ended(*, port_free: bool = True, **codes: int) -> dict[str, Any]:
        ranks = {name.removeprefix("r"): code for name, code in codes.items()}
        return {"state": {"phase": "ended", "exit": {"ranks": ranks, "port_free": port_free}}}

    answers: dict[str, NodeAnswer] = {
        "n1": ended(r0=-15, r1=0),
        "n2": ended(r2=-15, r3=0),
        "n3": ended(r4=-9, r5=0),
        "n4": HostError("n4", "no route"),
        "n5": HostError("n5", "no route"),
        "n8": RequestDenied("n8", "no run called r"),
        "n6": ended(port_free=False, r6=-15, r7=0),
    }
    assert list(render_ends(list(answers), list(answers.values()))) == [
        ("n[1-2]: ended (ranks 0, 2: ended by SIGTERM; ranks 1, 3: exit code 0)", 0),
        ("n3: ended (rank 4: ended by SIGKILL; rank 5: exit code 0)", 0),
        ("n[4-5]: not stopped: no route", 3),
        ("n8: not stopped: no run called r", 5),
        ("n6: ended (rank 6: ended by SIGTERM; rank 7: exit code 0), its port is still in use", 0),
    ]


def test_nodes_that_could_not_hear_the_grace_of_a_stop_are_known() -> None:
    answers: list[NodeAnswer] = [{"unwritable": True}, {"unwritable": False}, {}, HostError("d", "no route")]
    assert list_unwritable(["a", "b", "c", "d"], answers) == ["a"]


@pytest.mark.parametrize(
    ("request_s", "heard", "is_over"),
    [
        ((0.0,), ((1.0, 500.0), (65.0, 564.0)), False),
        ((0.0,), ((1.0, 500.0), (67.0, 566.0)), True),
        ((0.0,), ((50.0, 500.0), (67.0, 517.0)), False),  # of a slow link: its words are old
        ((0.0,), ((1.0, 500.0), (9.0, 900.0)), False),  # this client slept
        ((0.0, 40.0), ((1.0, 500.0), (67.0, 566.0)), True),  # a request with more time changes nothing
        ((), ((1.0, 500.0), (900.0, 1400.0)), False),  # nothing asks it to end
    ],
)
def test_a_host_that_answers_has_its_grace_and_the_time_to_kill_a_supervisor(
    request_s: tuple[float, ...], heard: tuple[tuple[float, float], ...], *, is_over: bool
) -> None:
    patience = StopPatience(clock := SetClock())
    for clock.at in request_s:
        patience.start(10.0, stacks=False)
    said = []
    for ours, its in heard:
        clock.at = ours
        said.append(patience.explain_end({"alive": its}))
    assert list(map(bool, said)) == [False, is_over]
