"""JSON that is laid out for people is still the same document."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.terminal.json_text import lay_out_json, lay_out_pieces

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(VALUES, st.integers(0, 6))
def test_the_document_is_the_same_at_every_depth(value: object, depth: int) -> None:
    assert json.loads(lay_out_json(value, depth=depth)) == value


@pytest.mark.parametrize(
    ("depth", "text"),
    [
        (0, '{"a": [1, {"b": 2}], "c": []}'),
        (1, '{\n "a": [1, {"b": 2}],\n "c": []\n}'),
        (2, '{\n "a": [\n  1,\n  {"b": 2}\n ],\n "c": []\n}'),
    ],
)
def test_what_lies_deeper_stays_within_its_line(depth: int, text: str) -> None:
    assert lay_out_json({"a": [1, {"b": 2}], "c": []}, depth=depth) == text


def test_a_function_among_laid_out_values_is_called_for_its_value() -> None:
    lazy = {"hosts": {"a": lambda: {"x": [1]}}, "reach": lambda: [1, 2]}
    whole = {"hosts": {"a": {"x": [1]}}, "reach": [1, 2]}
    for depth in (2, 3, 4):
        assert "".join(lay_out_pieces(lazy, depth=depth)) == lay_out_json(whole, depth=depth)
