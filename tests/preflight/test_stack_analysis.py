"""Stacks as py-spy and faulthandler write them, and which rank stands apart."""

import pytest

from preflight.diagnosis.stack_analysis import find_outliers, read_stacks
from tests.preflight.stack_texts import (
    BACKWARD,
    BROADCASTS,
    LIB,
    LOADS,
    REDUCES,
    RUN,
    SAVES,
    WRAPPED,
    by_faulthandler,
    frame,
    standing,
)


def test_the_main_thread_of_the_rank_itself_is_read() -> None:
    found = standing(2, REDUCES)
    assert (found.rank, found.pid, found.state) == (2, 42, "S in futex_do_wait")
    assert found.location == "waits in all_reduce, called by step (train.py:41)"


def test_py_spy_is_read_like_faulthandler() -> None:
    text = f"""=== rank 0, pid 29724, state S in futex_do_wait, py-spy, 2026-11-21 20:45:34
Process 29724: python rank.py x.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 29800 (idle): "Thread-1 (_pin_memory_loop)"
    wait (/usr/lib/python3.11/threading.py:331)
Thread 29724 (idle): "MainThread"
    all_reduce ({LIB}/distributed/distributed_c10d.py:3252)
    _exception_logger.<locals>.wrapper ({LIB}/distributed/c10d_logger.py:83)
    step (/home/ada/train.py:41)
    <module> (/home/ada/train.py:60)
    Ending.run ({RUN}/rank.py:382)
"""
    found = read_stacks(text, "a")
    assert found is not None
    assert found.location == standing(0, REDUCES).location


def test_what_the_guard_wraps_is_called_by_the_script() -> None:
    """Its modules have no file; tracebacks call them by their package."""
    wrapped = BACKWARD.replace(
        f'  File "{LIB}/_tensor.py", line 648 in backward\n',
        f'  File "{LIB}/_tensor.py", line 648 in backward\n'
        '  File "gpulaunch_guard/torch_hooks.py", line 95 in backward\n',
    )
    assert "torch_hooks" in wrapped
    assert standing(0, wrapped).location == standing(0, BACKWARD).location
    assert standing(0, wrapped).location == "waits in backward, called by step (train.py:44)"


def test_the_last_dump_counts() -> None:
    found = read_stacks(by_faulthandler(0, REDUCES) + by_faulthandler(0, SAVES), "a")
    assert found is not None
    assert found.location == "executes save (train.py:71)"


def test_the_rank_that_does_not_wait_stands_apart() -> None:
    hang = find_outliers([standing(n, SAVES if n == 3 else REDUCES) for n in range(4)], 4)
    assert hang.outliers == (3,)
    assert hang.summary == (
        "rank 3 executes save (train.py:71), "
        "while each of ranks 0, 1, 2 waits in all_reduce, called by step (train.py:41)"
    )


def test_backward_waits_for_others_too() -> None:
    hang = find_outliers([standing(0, BACKWARD), standing(1, LOADS)], 2)
    assert hang.outliers == (1,)
    assert hang.summary.startswith(
        "rank 1 waits for the data loader in epoch (train.py:58), while rank 0 waits in"
    )


def test_the_users_code_inside_a_wrapped_model_waits_for_nobody() -> None:
    gathers = frame(f"{LIB}/distributed/fsdp/_flat_param.py", 1383, "_all_gather_flat_param") + WRAPPED
    computes = frame("/home/ada/model.py", 9, "forward") + WRAPPED
    hang = find_outliers([standing(0, gathers), standing(1, computes)], 2)
    assert hang.outliers == (1,)
    assert hang.summary.startswith("rank 1 executes forward (model.py:9), while rank 0 waits in ")


def test_another_collective_than_most_stands_apart() -> None:
    hang = find_outliers([standing(0, REDUCES), standing(1, BROADCASTS), standing(2, REDUCES)], 3)
    assert hang.outliers == (1,)
    assert "rank 1 waits in broadcast" in hang.summary


def test_of_two_ranks_in_two_collectives_neither_is_blamed() -> None:
    hang = find_outliers([standing(0, REDUCES), standing(1, BROADCASTS)], 2)
    assert hang.outliers == ()
    assert "rank 0 waits in all_reduce" in hang.summary
    assert "rank 1 waits in broadcast" in hang.summary


@pytest.mark.parametrize("state", ["T", "t", "T in do_signal_stop", "t (tracing stop)"])
def test_a_stopped_rank_stands_apart_without_stacks(state: str) -> None:
    stopped = read_stacks(f"=== rank 1, pid 7, state {state}, no stacks, now\nit is stopped\n", "a")
    assert stopped is not None
    hang = find_outliers([standing(0, REDUCES), stopped], 2)
    assert hang.outliers == (1,)
    assert hang.summary.startswith("rank 1 is stopped")


def test_ranks_that_all_stand_alike_are_told_once() -> None:
    hang = find_outliers([standing(0, REDUCES), standing(1, REDUCES)], 3)
    assert hang.outliers == ()
    assert hang.summary == "each of ranks 0, 1 waits in all_reduce, called by step (train.py:41)"
    assert hang.missing == (2,)


def test_a_rank_without_stacks_proves_nothing() -> None:
    silent = read_stacks("=== rank 1, pid 7, state D in nfs_wait, no stacks, now\nno handler\n", "a")
    assert silent is not None
    hang = find_outliers([standing(0, REDUCES), silent], 2)
    assert hang.outliers == ()
    assert silent.location == "gave no stacks (state D in nfs_wait)"


def test_a_rank_that_has_left_its_script_stands_apart_from_those_that_wait_for_it() -> None:
    ended = f"""=== rank 0, pid 40, state S in hrtimer_nanosleep, faulthandler, 2026-11-21 22:14:15
Current thread 0x00007fc55ac86b80 (most recent call first):
  File "{RUN}/rank.py", line 448 in join_gloo
  File "{RUN}/rank.py", line 424 in _last
"""
    found = [read_stacks(ended, "a"), read_stacks(by_faulthandler(1, REDUCES), "b")]
    hang = find_outliers([each for each in found if each is not None], 2)
    assert hang.outliers == (0,)
    assert hang.summary.startswith(
        "rank 0 is outside its script: it has not started, or has come to its end, while"
    )


def test_text_that_is_no_dump_gives_nothing() -> None:
    assert read_stacks("", "a") is None
    assert read_stacks("garbage\n=== nonsense\n", "a") is None
