"""Where ranks stand, told for people."""

from launcher.report.hang import encode_hang, render_hang
from preflight.diagnosis.stack_analysis import RankStack, StackFrame, find_outliers

SITE = "/venv/lib/python3.11/site-packages/torch/nn/modules"
ENTERS = (
    StackFrame("Module._call_impl", f"{SITE}/module.py", 1789),
    StackFrame("Module._wrapped_call_impl", f"{SITE}/module.py", 1778),
)
NESTED = (*ENTERS, StackFrame("Sequential.forward", f"{SITE}/container.py", 253))
STACK = (StackFrame("Slow.forward", "/home/ada/train.py", 7), *NESTED, *NESTED, *ENTERS)
SCRIPT = (StackFrame("<module>", "/home/ada/train.py", 12),)


def test_calls_that_say_nothing_or_were_told_are_folded() -> None:
    ranks = [RankStack(rank, "titan", 40 + rank, "S", (*STACK, *SCRIPT)) for rank in range(2)]
    hang = find_outliers([*ranks, RankStack(2, "titan", 42, "S", SCRIPT)], 3)
    assert list(render_hang(hang))[:7] == [
        "rank 0 on titan executes Slow.forward (train.py:7)",
        "  Slow.forward (train.py:7)",
        "  Sequential.forward (container.py:253), 2 times",
        "  <module> (train.py:12)",
        "rank 1 on titan executes Slow.forward (train.py:7)",
        "  by the same calls as rank 0",
        "rank 2 on titan executes <module> (train.py:12)",
    ]
    assert len(encode_hang(hang)["ranks"][0]["stack"]) == len(STACK) + 1


def test_ranks_without_stacks_are_not_called_alike() -> None:
    hang = find_outliers([RankStack(rank, "titan", 40 + rank, "D", ()) for rank in range(2)], 2)
    assert not any("same calls" in line for line in render_hang(hang))
