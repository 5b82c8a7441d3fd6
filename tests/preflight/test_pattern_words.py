"""Tests of passing over texts in which a pattern finds nothing, and of syntax written out as ast does it."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.script.pattern_words import Words, is_found, list_words, may_be_found
from preflight.script.syntax_trees import unparse

SCRIPTS = sorted((Path(__file__).parent / "scripts").rglob("*.py"))[::40]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (
            r"set_default_(?:device|type)|\bwith +device\b",
            ((("set_default_", (("device",), ("type",))), ("with", "device")),),
        ),
        (r"(?<!\bself)\.lin\b *=[^=]|[\"']linear\b", (((".lin",), ("linear",)),)),
        (r"[Gg]ather_?[Ww]ith(?:_all)+", ("ather", "ith", "_all")),
        (r"(?:hidden_states)?loss", ("loss",)),
        (r"(?:hidden_states)*", ()),
        (r"step|\d+", ()),
        (r"(?i)backward", ()),
        (r"(?i:back)ward", ("ward",)),
    ],
)
def test_the_words_that_a_match_has(pattern: str, words: Words) -> None:
    assert list_words(pattern, 0) == words


PATTERNS = (
    r"requires_grad *= *False|requires_grad_\(|\.grad is None",
    r"(?:broadcast|scatter)\w*\([^)\n]*(?:lr|rate)",
    r"(?:ab|cd){2,}|x(?=y)yz?|(?!q)word",
    r"(a+b)?(?:end|e)\1?",
)


@given(data=st.data(), pattern=st.sampled_from(PATTERNS))
def test_what_a_pattern_finds_is_never_passed_over(data: st.DataObject, pattern: str) -> None:
    text = data.draw(st.from_regex(pattern))
    assert may_be_found(re.compile(pattern), text)
    assert is_found(re.compile(pattern), text)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_syntax_is_written_as_by_ast(path: Path) -> None:
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, (ast.expr, ast.stmt))]
    for _ in range(2):  # the second time from what the first has kept
        assert [unparse(node) for node in nodes] == [ast.unparse(node) for node in nodes]
