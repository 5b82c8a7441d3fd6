"""Lines of many ranks: what repeats rank 0 is counted, what only one rank says is shown."""

from launcher.terminal.line_deduplicator import DEDUP_WINDOW_S, HOLD_S, LineDeduplicator

R0, R1, R2 = (("a", f"rank-{rank}.log") for rank in range(3))
TRACEBACK = [
    "[rank1]: Traceback (most recent call last):",
    '[rank1]:   File "x.py", line 1, in <module>',
    "[rank1]: ValueError: step 3",
]


def lines(said: object) -> list[str]:
    return [each.line for each in said]  # type: ignore[attr-defined]


def test_what_rank_0_says_too_is_folded_whoever_was_first() -> None:
    folding = LineDeduplicator()
    assert lines(folding.add(R1, ["step 1 loss 0.5"], 0.0)) == []
    folding.add_lead(R0, ["step 1 loss 0.7"], 0.2)
    assert lines(folding.add(R2, ["step 1 loss 0.6"], 0.3)) == []
    assert lines(folding.ready(0.3 + HOLD_S)) == []
    assert folding.folded == 2


def test_what_one_rank_alone_says_is_shown_after_a_moment() -> None:
    folding = LineDeduplicator()
    folding.add_lead(R0, ["step 1"], 0.0)
    assert lines(folding.add(R1, ["skipping a bad file"], 0.0)) == []
    assert lines(folding.ready(0.5)) == []
    assert lines(folding.ready(HOLD_S)) == ["skipping a bad file"]
    assert folding.folded == 0


def test_the_same_from_several_ranks_is_shown_once_and_later_again() -> None:
    folding = LineDeduplicator()
    folding.add(R1, [], 0.0)
    for speaker in (R1, R2):
        assert lines(folding.add(speaker, ["slow disk"], 0.0)) == []
    assert lines(folding.ready(HOLD_S)) == ["slow disk"]
    assert folding.folded == 1
    assert lines(folding.add(R2, ["slow disk"], DEDUP_WINDOW_S + 1)) == []
    assert lines(folding.ready(DEDUP_WINDOW_S + 3)) == ["slow disk"]


def test_a_rank_that_repeats_itself_is_shown_each_time() -> None:
    folding = LineDeduplicator()
    assert lines(folding.add(R1, ["retrying"] * 3, 0.0)) == []
    assert lines(folding.ready(HOLD_S)) == ["retrying"] * 3


def test_an_error_is_shown_at_once_with_what_its_rank_said_before() -> None:
    folding = LineDeduplicator()
    said = folding.add(R1, ["reading shard 7", "RuntimeError: NCCL"], 0.0)
    assert lines(said) == ["reading shard 7", "RuntimeError: NCCL"]


def test_tracebacks_of_every_rank_are_shown_whole() -> None:
    folding = LineDeduplicator()
    folding.add_lead(R0, TRACEBACK, 0.0)
    assert lines(folding.add(R1, TRACEBACK, 0.0)) == TRACEBACK
    assert lines(folding.add(R2, TRACEBACK, 0.0)) == TRACEBACK
    assert lines(folding.add(R1, ["step 1"], 0.0)) == [], "the traceback is over"


def test_what_waits_is_bounded_and_comes_out_at_the_end() -> None:
    folding = LineDeduplicator()
    shown = lines(folding.add(R1, (f"{'x' * (n % 97)}{'y' * (n // 97)}" for n in range(5000)), 0.0))
    assert len(shown) + len(lines(folding.flush())) == 5000
    assert len(shown) >= 3000
