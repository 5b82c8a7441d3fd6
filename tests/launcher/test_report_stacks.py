"""Where ranks stand, told for people."""

from launcher.report.stacks import encode_hang, render_hang
from preflight.diagnosis.stack_analysis import RankStack, StackFrame, find_outliers

SITE = "/venv/lib/python3.11/site-packages/torch/nn/modules"
ENTERS = (
    StackFrame("Module._call_impl", f"{SITE}/module.py", 1789),
    StackFrame("Module._wrapped_call_impl", f"{SITE}/module.py", 1778),
)
NESTED = (*ENTERS, StackFrame("Sequential.forward", f"{SITE}/container.py", 253))
STACK = (StackFrame("Slow.forward", "/home/ada/train.py", 7), *NESTED, *NESTED, *ENTERS)


def script(rank: int) -> tuple[StackFrame, ...]:
    return (StackFrame("<module>", f"/home/ada/runs/n{rank}/train.py", 12),)


def test_calls_that_say_nothing_or_were_told_are_folded() -> None:
    ranks = [RankStack(rank, f"n{rank}", 40 + rank, "S", (*STACK, *script(rank))) for rank in range(3)]
    other = StackFrame("Slow.forward", "/home/ada/train.py", 9)
    ranks.append(RankStack(3, "n3", 43, "S", (other, *STACK[1:], *script(3))))
    hang = find_outliers([*ranks, RankStack(4, "n4", 44, "S", script(4))], 5)
    assert list(render_hang(hang))[:9] == [
        "each of ranks 0-2 on n[0-2] executes Slow.forward (train.py:7)",
        "  Slow.forward (train.py:7)",
        "  Sequential.forward (container.py:253), 2 times",
        "  <module> (train.py:12)",
        "rank 3 on n3 executes Slow.forward (train.py:9)",
        "  Slow.forward (train.py:9)",
        "  Sequential.forward (container.py:253), 2 times",
        "  <module> (train.py:12)",
        "rank 4 on n4 executes <module> (train.py:12)",
    ]
    assert len(encode_hang(hang)["ranks"][0]["stack"]) == len(STACK) + 1
