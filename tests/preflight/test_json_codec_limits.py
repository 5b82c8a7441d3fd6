"""What decoding takes and what it refuses, at the limits of each type, with the place of a misfit."""

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from preflight.errors import MalformedFacts
from preflight.facts import json_codec
from preflight.facts.json_codec import decode, encode
from preflight.facts.missing import Missing


@dataclass(frozen=True)
class Part:
    """A part with each kind of value."""

    name: str
    count: int = 0
    share: float = 0.0
    mode: Literal["a", "b"] = "a"
    pair: tuple[int, str] = (0, "")
    numbers: tuple[int, ...] = ()
    names: frozenset[str] = frozenset()
    table: dict[str, int] = field(default_factory=dict)
    either: int | str | None = None
    fact: float | Missing = 0.0
    anything: Any = None


@dataclass(frozen=True)
class Link:
    """Numbers and words alone."""

    width: int
    state: Literal["up", "down"] = "up"
    errors: int | Missing = 0


@dataclass(frozen=True)
class Words:
    """Facts of which a part is one of a few words."""

    named: Link | Missing
    listed: tuple[Literal["a", "b"], ...] | Missing


def part(**values: object) -> Part:
    return decode(Part, {"name": "x", **values})


@pytest.mark.parametrize(
    "values",
    [
        {"count": (1 << 64) - 1},
        {"count": 1 - (1 << 64)},
        {"share": 1.5},
        {"mode": "b"},
        {"pair": (3, "y")},
        {"numbers": (1, 2, 3)},
        {"numbers": (1, 2, 3, 4, 5)},
        {"names": frozenset({"a", "b"})},
        {"table": {"a": 1}},
        {"either": 3},
        {"either": "three"},
        {"either": None},
        {"fact": 2.5},
        {"fact": Missing("gone", "timeout")},
        {"anything": [1, {"a": None}]},
    ],
    ids="-".join,
)
def test_what_is_written_is_read_as_it_was(values: dict[str, Any]) -> None:
    made = Part("x", **values)
    assert decode(Part, encode(made)) == made


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"name": 3}, "$.name: expected str, got 3"),
        ({"count": 1 << 64}, "$.count: expected int of 64 bits, got 18446744073709551616"),
        ({"count": -(1 << 64)}, "$.count: expected int of 64 bits, got -18446744073709551616"),
        ({"count": True}, "$.count: expected int, got True"),
        ({"count": 1.0}, "$.count: expected int, got 1.0"),
        ({"share": True}, "$.share: expected float, got True"),
        ({"share": float("inf")}, "$.share: expected finite float, got inf"),
        ({"share": 1 << 64}, "$.share: expected finite float, got 18446744073709551616"),
        ({"mode": "c"}, "$.mode: expected one of ('a', 'b'), got 'c'"),
        ({"pair": [1]}, "$.pair: expected 2 items, got 1"),
        ({"pair": [1, "a", 2]}, "$.pair: expected 2 items, got 3"),
        ({"pair": "ab"}, "$.pair: expected a list, got 'ab'"),
        ({"pair": [1, 2]}, "$.pair[1]: expected str, got 2"),
        ({"numbers": {}}, "$.numbers: expected a list, got {}"),
        ({"numbers": [1, 2, "3"]}, "$.numbers[2]: expected int, got '3'"),
        ({"numbers": [1, 2, 3, 4, "5"]}, "$.numbers[4]: expected int, got '5'"),
        ({"names": ["a", 1]}, "$.names[1]: expected str, got 1"),
        ({"table": []}, "$.table: expected an object, got []"),
        ({"table": {"a": "b"}}, "$.table.a: expected int, got 'b'"),
        ({"either": 1.5}, "$.either: expected int, got 1.5"),
        ({"fact": None}, "$.fact: expected float, got None"),
        ({"fact": {"missing": 3}}, "$.fact: expected float, got {'missing': 3}"),
        (
            {"name": "x" * 10, "mode": "y" * 70},
            "$.mode: expected one of ('a', 'b'), got '" + "y" * 56 + "...",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(values: dict[str, object], told: str) -> None:
    with pytest.raises(MalformedFacts) as refused:
        part(**values)
    assert str(refused.value) == told


def test_what_is_absent_has_its_default_or_is_missing() -> None:
    assert part() == Part("x", fact=Missing("the answer does not hold it", "not-asked"))
    with pytest.raises(MalformedFacts, match="name is absent"):
        decode(Part, {})
    with pytest.raises(MalformedFacts, match="expected an object, got 3"):
        decode(Part, 3)
    assert part(more=1, name="y").name == "y"


@pytest.mark.parametrize(
    ("code", "kept"), [("timeout", "timeout"), ("unheard of", "error"), (3, "error"), (None, "error")]
)
def test_a_reason_has_one_of_the_known_codes(code: object, kept: str) -> None:
    assert part(fact={"missing": "why", "code": code}).fact == Missing("why", kept)  # type: ignore[arg-type]
    assert part(fact={"missing": "why"}).fact == Missing("why", "error")


def test_a_whole_number_is_a_float_where_one_is_wanted() -> None:
    share = part(share=3).share
    assert (share, type(share)) == (3.0, float)


@pytest.mark.parametrize(("length", "is_shared"), [(3, False), (4, True)])
def test_long_lists_that_hosts_have_alike_are_kept_once(length: int, *, is_shared: bool) -> None:
    first, second = (part(numbers=list(range(7000, 7000 + length))).numbers for _ in range(2))
    assert first == second
    assert (first is second) is is_shared


def test_words_and_records_that_hosts_have_alike_are_kept_once() -> None:
    missing = {"missing": "not permitted", "code": "error"}
    first, second = (part(name=str(word, "ascii"), fact=dict(missing)) for word in (b"a word", b"a word"))
    assert first.name is second.name
    assert first.fact is second.fact
    links = [decode(Link, {"width": 16, "state": "up", "errors": errors}) for errors in (0, 0, 1, missing)]
    assert links[0] is links[1]
    assert links == [Link(16), Link(16), Link(16, errors=1), Link(16, errors=Missing("not permitted"))]
    assert decode(Link, {"width": 16, "errors": 0}) == links[0]  # one value fewer is no other record's key


def test_what_is_kept_is_bounded_whatever_hosts_send() -> None:
    for number in range(3 * json_codec._MOST_SHARED):
        part(name=f"word {number}", fact={"missing": f"why {number}"})
    assert len(json_codec._texts) <= json_codec._MOST_SHARED + 1
    assert len(json_codec._shared) <= json_codec._MOST_SHARED


def test_an_unknown_word_makes_the_nearest_fact_missing() -> None:
    words = decode(Words, {"named": {"width": 1, "state": "new"}, "listed": ["a", "new"]})
    assert words.named == Missing(".state: expected one of ('up', 'down'), got 'new'")
    assert words.listed == Missing("[1]: expected one of ('a', 'b'), got 'new'")
    with pytest.raises(MalformedFacts, match=r"listed\[0\]: expected one of \('a', 'b'\), got 3"):
        decode(Words, {"named": {"width": 1}, "listed": [3]})
