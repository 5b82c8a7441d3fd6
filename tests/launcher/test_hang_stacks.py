"""What the outcome of a hung run says of where its ranks stood."""

from pathlib import Path

from launcher.follow.failure_diagnosis import READ_BYTES, add_stacks
from launcher.rundir.log_store import LogStore
from tests.launcher.restart_cases import ended
from tests.preflight.stack_texts import REDUCES, SAVES, by_faulthandler


def test_the_rank_that_stood_apart_at_the_end_is_the_root_cause_however_long_its_log_is(
    tmp_path: Path,
) -> None:
    book = LogStore(tmp_path / "r1")
    long_ago = by_faulthandler(1, REDUCES)
    long_ago *= READ_BYTES // len(long_ago) + 1
    book.write("a", "stacks-rank-0.log", 0, by_faulthandler(0, REDUCES).encode())
    book.write("b", "stacks-rank-1.log", 0, (long_ago + by_faulthandler(1, SAVES)).encode())
    with_stacks = add_stacks(ended(code=None, hung=True), book)
    book.close()
    assert with_stacks.why.startswith(
        "it failed; rank 1 executes save (train.py:71), while rank 0 waits in all_reduce"
    )
    assert with_stacks.cause.failure is not None
    assert (with_stacks.cause.failure.host, with_stacks.cause.failure.rank) == ("b", 1)
    assert with_stacks.cause.failure.location == "/home/ada/train.py:71"
