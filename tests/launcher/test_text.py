"""Text from hosts cannot steer the terminal."""

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.text import one_line, open_console, sanitize, supports_color


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("ümläut → 日本 👩‍🔬", "ümläut → 日本 👩‍🔬"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("dos\r\nline", "dos\nline"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[1;1Hgone", "gone"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP+q544e\x1b\\x", "x"),
        ("\x1b]0;never closed", "\\x1b]0;never closed"),
        ("\x1bc", "\\x1bc"),
        ("over\rwrite", "over\\rwrite"),
        ("back\x08\x07", "back\\x08\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("a\u2028b", "a\\u2028b"),
        ("\udcff", "\\udcff"),
        ("\U000e0041", "\\U000e0041"),
        (b"caf\xe9 \x1b[1mx", "caf\ufffd x"),
        (b"", ""),
    ],
)
def test_escapes_are_dropped_or_made_visible(text: str | bytes, expected: str) -> None:
    assert sanitize(text) == expected


def test_one_line_is_one_line_of_limited_length() -> None:
    assert one_line("a\nb\tc") == "a\\nb    c"
    assert one_line("x" * 500, 11) == "xxxx...xxxx"


@given(st.text() | st.binary())
def test_nothing_that_a_terminal_obeys_is_left(text: str | bytes) -> None:
    result = sanitize(text)
    left = {
        c
        for c in result
        if unicodedata.category(c) in ("Cc", "Cs") or unicodedata.bidirectional(c) in ("RLO", "LRO")
    }
    assert left <= {"\t", "\n"}
    assert sanitize(result) == result


@given(st.text(alphabet="ab\n\t é→"))
def test_ordinary_text_stays(text: str) -> None:
    assert sanitize(text) == text


def test_an_endless_sequence_costs_no_endless_time() -> None:
    assert len(sanitize("\x1b]" * 100_000)) == 500_000


def test_a_pipe_gets_plain_wide_text() -> None:
    stream = io.StringIO()
    assert not supports_color(stream)
    open_console(stream).print("[bold]x[/bold] " + "y" * 120, style="red")
    assert stream.getvalue() == "[bold]x[/bold] " + "y" * 120 + "\n"


@pytest.mark.parametrize(
    ("term", "no_color", "coloured"),
    [("xterm", "", True), ("xterm", "1", False), ("dumb", "", False), ("", "", False), (None, "", False)],
)
def test_a_terminal_that_names_no_abilities_gets_no_colours(
    monkeypatch: pytest.MonkeyPatch, *, term: str | None, no_color: str, coloured: bool
) -> None:
    monkeypatch.delenv("TERM")
    if term is not None:
        monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("NO_COLOR", no_color)
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    assert supports_color(stream) == coloured
