"""Ranks of which a rehearsal proved the same, told as one."""

import pytest

from launcher.rehearsal.render import group_ranks, merge_texts
from launcher.rehearsal.verdict import Proof, RankVerdict


def ranked(rank: int, host: str, *proofs: tuple[bool | None, str]) -> RankVerdict:
    return RankVerdict(rank, host, tuple(Proof("memory", ok, text) for ok, text in proofs), None, {})


def test_ranks_of_which_the_same_is_proven_are_one_with_ranges() -> None:
    ranks = [ranked(n, f"l40s-0{1 + n // 4}", (True, f"peak {10 + n / 2} of 44.5 GiB")) for n in range(7)]
    bad = ranked(7, "l40s-02", (False, "peak 44.5 of 44.5 GiB"))
    unseen = [ranked(n, "titan", (None, f"not seen {n}")) for n in (8, 9)]
    groups = group_ranks([*ranks, bad, *unseen])
    assert list(groups) == [
        "ranks 0-6 (l40s-[01-02])",
        "rank 7 (l40s-02)",
        "rank 8 (titan)",
        "rank 9 (titan)",
    ]
    assert next(iter(groups.values())) == (Proof("memory", True, "peak 10.0..13.0 of 44.5 GiB"),)
    assert list(group_ranks([ranks[0], ranks[2], ranks[3]])) == ["ranks 0, 2-3 (l40s-01)"]


@pytest.mark.parametrize(
    ("texts", "merged"),
    [
        (("a 1", "a 1"), "a 1"),
        (("5.0 -> 4.2", "5.1 -> 4.0"), "5.0..5.1 -> 4.0..4.2"),
        (("1e-3", "2e-4", "-1"), "-1..1e-3"),
        (("cuda:0 (GPU-7a)", "cuda:1 (GPU-8b)", "cuda:1 (GPU-9c)"), "cuda:0 (GPU-7a), and 2 others"),
        (("bf16, scaler off", "bf16, scaler off"), "bf16, scaler off"),
    ],
)
def test_texts_that_differ_in_numbers_become_ranges(texts: tuple[str, ...], merged: str) -> None:
    assert merge_texts(texts) == merged
