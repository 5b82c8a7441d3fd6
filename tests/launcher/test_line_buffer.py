"""Bytes of logs as lines for people, whatever the pieces they come in."""

from hypothesis import example, given
from hypothesis import strategies as st

from launcher.terminal.cell_width import paint_line
from launcher.terminal.colours import split_spans
from launcher.terminal.line_buffer import BAR_EVERY_S, LineBuffer
from launcher.terminal.rows import MAX_LINE, MAX_ROWS
from launcher.text import TAB


def cut(*pieces: bytes) -> list[str]:
    cutter = LineBuffer()
    lines = [line for piece in pieces for line in cutter.feed(piece, 0.0)]
    return [paint_line(split_spans(line), colour=False) for line in lines + cutter.flush()]


def test_lines_come_out_whole() -> None:
    assert cut(b"one\ntw", b"o\nthree") == ["one", "two", "three"]


def test_of_a_progress_bar_only_the_last_state_is_a_line() -> None:
    assert cut(b"\r 1%", b"\r 50%\r100%\n", b"done\n") == ["100%", "done"]


def test_a_bar_that_ends_with_a_carriage_return_keeps_its_state() -> None:
    assert cut(b"50%\r\nnext\n") == ["50%", "next"]


def test_a_running_bar_is_shown_now_and_then_and_each_state_once() -> None:
    cutter = LineBuffer()
    assert cutter.feed(b"\r10%", 0.0) == []
    assert cutter.list_unfinished(1.0) == []
    cutter.feed(b"\r20%", 1.5)
    assert cutter.list_unfinished(BAR_EVERY_S) == ["20%"]
    assert cutter.list_unfinished(99.0) == []
    assert cutter.flush() == []


def test_a_prompt_without_a_newline_is_shown_after_a_while() -> None:
    cutter = LineBuffer()
    cutter.feed(b"password? ", 0.0)
    assert cutter.list_unfinished(0.5) == []
    assert cutter.list_unfinished(5.0) == ["password? "]


def test_escape_sequences_do_not_reach_the_terminal() -> None:
    assert cut(b"\x1b[31mred\x1b[0m\x1b]0;title\x07 \x07\xff\n") == ["red \\x07\ufffd"]


def test_an_endless_line_is_cut_and_says_so() -> None:
    (line,) = cut(*[b"x" * 1000] * 50, b"\n")
    assert line.startswith("x" * MAX_LINE + " [")


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_pieces_do_not_matter(pieces: list[bytes]) -> None:
    assert cut(*pieces) == cut(b"".join(pieces))


@given(st.binary(max_size=300))
def test_no_control_character_survives(data: bytes) -> None:
    assert all(
        char == "\ufffd" or char.isprintable() or ord(char) > 127 for line in cut(data) for char in line
    )


@given(
    st.lists(
        st.sampled_from([b"a", b"bc\n", b"\n", b"\r", b"\xc3", b"\xa9\n", b"\x1b[2J", b"x" * 5000, b"\t"])
    )
)
def test_lines_that_need_no_care_come_out_as_all_others_do(pieces: list[bytes]) -> None:
    slow, fast = LineBuffer(), LineBuffer()
    each = [line for piece in pieces for byte in piece for line in slow.feed(bytes([byte]), 0.0)]
    whole = fast.feed(b"".join(pieces), 0.0)
    assert whole == each
    assert fast.flush() == slow.flush()


BLOCK = st.lists(
    st.sampled_from(
        [b"a", b"bc\n", b"\n", b"\r", b"\r\n", b"\xc3", b"\xa9", b"\t", b"x" * 5000, b"y" * 700 + b"\n"]
        + [b"\x1b[1;31m", b"\x1b[0m", b"\x1b[2J", b"\x1b]0;title\x07", b"\x1b[", b"\x1b[A", b"\x00", b"\x7f"]
        + [text.encode() for text in ("\u2713", "\u202e", "\u200d", "\ufe0f", "\u034f", "\x9b", "\u4e2d")]
    ),
    max_size=60,
)


@given(st.lists(BLOCK, max_size=3), st.booleans())
def test_blocks_of_lines_are_the_lines_that_are_shown(feeds: list[list[bytes]], coloured: bool) -> None:  # noqa: FBT001
    lines, blocks = LineBuffer(), LineBuffer()
    each, shown = [], []
    for pieces in feeds:
        data = b"".join(pieces)
        each += [paint_line(split_spans(line), colour=coloured) for line in lines.feed(data, 0.0)]
        for block in blocks.feed_blocks(data, 0.0, coloured=coloured):
            if isinstance(block, str):
                assert block.endswith("\n")
                shown += block[:-1].expandtabs(TAB).split("\n")
            else:
                shown += [paint_line(split_spans(line), colour=coloured) for line in block]
    assert shown == each
    assert blocks.flush() == lines.flush()


def test_lines_that_need_no_care_are_one_block_beside_those_that_do() -> None:
    plain, odd = b"step 1\tloss 2.5 \x1b[32mok\x1b[0m\n" * 9000, b"\x1b[2Jcleared \x07\n"
    blocks = list(LineBuffer().feed_blocks(plain + odd + plain, 0.0, coloured=False))
    texts = [block for block in blocks if isinstance(block, str)]
    assert "".join(texts).count("step 1\tloss 2.5 ok\n") > 17_900
    assert len(blocks) < 30


@given(st.lists(st.sampled_from([b"\r", b"\r1%", b"\r2%", b"\r   ", b"\r\n", b"\x1b[A"]), max_size=30))
@example([b"\r1%"] * 2 + [b"\r2%"] + [b"\r"] * 3)
def test_states_of_a_bar_that_are_passed_over_change_nothing(pieces: list[bytes]) -> None:
    each, at_once = LineBuffer(), LineBuffer()
    lines = [line for piece in pieces for line in each.feed(piece, 0.0)]
    assert at_once.feed(b"".join(pieces), 0.0) == lines
    assert at_once.progress_bars() == each.progress_bars()
    assert at_once.flush() == each.flush()


OUTER, INNER = b"epochs:  33%|###  | 1/3 [00:01<00:02, 1s/it]", b"steps:  50%|#### | 20/40 [00:01<00:01]"
NESTED = b"\r" + OUTER + b"\n\r" + INNER + b"\x1b[A"


def test_bars_below_each_other_stay_bars_and_are_no_lines() -> None:
    cutter = LineBuffer()
    assert cutter.feed(NESTED * 50, 0.0) == []
    assert cutter.progress_bars() == [OUTER.decode(), INNER.decode()]


def test_a_line_that_is_written_through_bars_comes_out_alone() -> None:
    blank = b" " * 40
    written = b"\r" + blank + b"\r\n\r" + blank + b"\r\x1b[Anote\n"  # as tqdm.write does
    assert cut(NESTED, written, NESTED, NESTED) == ["note", OUTER.decode(), INNER.decode()]


def test_a_bar_that_is_done_becomes_a_line_once_the_next_one_is_drawn_below_it() -> None:
    cutter = LineBuffer()
    assert cutter.feed(b"\rone 100%\n", 0.0) == []
    assert cutter.feed(b"\rtwo 10%\rtwo 20%", 0.0) == ["one 100%"]
    assert cutter.progress_bars() == ["two 20%"]


def test_a_bar_that_is_left_is_a_line_a_moment_later() -> None:
    cutter = LineBuffer()
    cutter.feed(b"\r100%\n", 0.0)
    assert cutter.flush_idle(0.1) == []
    assert cutter.flush_idle(1.0) == ["100%"]
    assert cutter.progress_bars() == []


def test_a_long_bar_is_told_less_and_less_often() -> None:
    cutter = LineBuffer()
    total = 0
    for second in range(36_000):
        cutter.feed(b"\r%d/36000" % second, float(second))
        total += len(cutter.list_unfinished(float(second)))
    assert 600 <= total <= 800


def test_a_program_that_draws_on_many_rows_keeps_memory_small() -> None:
    cutter = LineBuffer()
    lines = cutter.feed(b"".join(b"\rrow %d\n" % number for number in range(100)), 0.0)
    assert len(lines) + len(cutter.progress_bars()) == 100
    assert len(cutter.progress_bars()) <= MAX_ROWS
