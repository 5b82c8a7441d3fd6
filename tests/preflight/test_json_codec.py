"""Facts to JSON and back: what goes in comes out, and nothing else gets in."""

import dataclasses
import json
import types
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.errors import MalformedFacts
from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts, Identity, Process
from preflight.facts.json_codec import decode, encode
from preflight.facts.missing import Missing

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS: dict[object, st.SearchStrategy[Any]] = {
    str: st.text(max_size=8),
    int: st.integers(-(2**63), 2**64 - 1),
    bool: st.booleans(),
    float: NUMBERS,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Every value that an annotation of the facts allows."""
    origin, members = get_origin(kind), get_args(kind)
    if kind in SCALARS:
        return SCALARS[kind]
    if origin is Literal:
        return st.sampled_from(members)
    if origin in (Union, types.UnionType):
        return st.one_of(*[values(member) for member in members])
    if origin is dict:
        keys = st.text(max_size=5).filter(lambda key: key != "missing")
        return st.dictionaries(keys, values(members[1]), max_size=2)
    if origin is tuple and members[1:] == (Ellipsis,):
        return st.lists(values(members[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*[values(member) for member in members])
    build: Callable[..., Any] = kind
    hints = get_type_hints(kind)
    return st.builds(build, **{field.name: values(hints[field.name]) for field in dataclasses.fields(kind)})


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(values(HostFacts))
def test_facts_survive_the_wire(facts: HostFacts) -> None:
    assert decode(HostFacts, json.loads(json.dumps(encode(facts)))) == facts


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from([Gpu, Process, Identity]).flatmap(values))
def test_parts_survive_the_wire(part: Any) -> None:
    assert decode(type(part), json.loads(json.dumps(encode(part)))) == part


@given(JSON)
def test_any_json_is_facts_or_malformed(data: object) -> None:
    try:
        facts = decode(HostFacts, data)
    except MalformedFacts as error:
        assert error.message.startswith("$")  # noqa: PT017 - either outcome is right
    else:
        assert isinstance(facts, HostFacts)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_damaged_answer_is_malformed_or_still_typed(data: st.DataObject) -> None:
    answer = encode(data.draw(values(Process)))
    answer[data.draw(st.sampled_from(sorted(answer)))] = data.draw(JSON)
    try:
        process = decode(Process, answer)
    except MalformedFacts:
        return
    again = decode(Process, json.loads(json.dumps(encode(process))))
    assert again == process


def test_absent_facts_are_missing_and_unknown_keys_are_ignored() -> None:
    facts = decode(HostFacts, {"host": "a", "agent_version": "9", "probe_ms": {}, "of_the_future": [1]})
    assert facts.gpus == Missing("the answer does not hold it", "not-asked")


def test_an_unknown_code_of_absence_is_an_error() -> None:
    answer = {
        "host": "a",
        "agent_version": "9",
        "probe_ms": {},
        "gpus": {"missing": "x", "code": "of-the-future"},
    }
    assert decode(HostFacts, answer).gpus == Missing("x", "error")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"host": 3}, "$.host: expected str, got 3"),
        ({"probe_ms": {"nvml": "fast"}}, "$.probe_ms.nvml: expected float"),
        ({"gpus": [{"index": True}]}, "$.gpus[0].index: expected int, got True"),
        ({"gpus": "none"}, "$.gpus: expected a list"),
        ({"gpus": [{"index": 10**30}]}, "$.gpus[0].index: expected int of 64 bits"),
        (
            {"gpus": [{"index": 10**5000}]},
            "$.gpus[0].index: expected int of 64 bits, got a number without end",
        ),
        ({"probe_ms": {"nvml": float("inf")}}, "$.probe_ms.nvml: expected finite float, got inf"),
        ({"probe_ms": {"nvml": float("nan")}}, "$.probe_ms.nvml: expected finite float, got nan"),
        ({"probe_ms": {"nvml": 10**400}}, "$.probe_ms.nvml: expected finite float"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, object], where: str) -> None:
    with pytest.raises(MalformedFacts) as error:
        decode(HostFacts, {"host": "a", "agent_version": "1", "probe_ms": {}, **change})
    assert error.value.message.startswith(where)
