"""What a person sees on a terminal: what the program writes is drawn by an emulator of one."""

import io

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.follow.usage import RankUsage
from launcher.terminal.bottom_area import BottomArea
from launcher.terminal.cell_width import measure_width, truncate
from launcher.terminal.live_screen import FRAME_S, LiveScreen, choose_screen
from launcher.terminal.outlet import Outlet
from launcher.terminal.screen import Screen

WIDTH, HEIGHT = 60, 12
OUTER = "epochs:  50%|#####     | 1/2 [00:04<00:04,  4.00s/it]"
INNER = "steps:  10%|#         | 3/30 [00:01<00:09,  3.00it/s]"


class Terminal(io.StringIO):
    """A terminal of a size, which keeps what has scrolled away."""

    def __init__(self, width: int = WIDTH, height: int = HEIGHT) -> None:
        super().__init__()
        self.emulator = pyte.HistoryScreen(width, height, history=100_000)
        self.parser = pyte.Stream(self.emulator)
        self.writes = 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.writes += 1
        self.parser.feed(text.replace("\n", "\r\n"))  # what the line discipline does
        return len(text)

    @property
    def rows(self) -> list[str]:
        """Every row, also those that have scrolled away; empty ones at the end left out."""
        gone = ["".join(row[column].data for column in range(len(row))) for row in self.emulator.history.top]
        rows = [row.rstrip() for row in [*gone, *self.emulator.display]]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def size(self) -> tuple[int, int]:
        return self.emulator.columns, self.emulator.lines


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


@pytest.fixture
def screen(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> LiveScreen:
    monkeypatch.setenv("NO_COLOR", "1")
    return LiveScreen(terminal, size=terminal.size)


def running(screen: LiveScreen) -> LiveScreen:
    screen.phase("run", 0.0)
    return screen


def test_lines_scroll_above_and_the_status_stays_below(terminal: Terminal, screen: LiveScreen) -> None:
    running(screen)
    for step in range(1, 41):
        screen.output("a", "rank-0.log", b"step %d/40 loss: 0.5\n" % step, step * 1.0)
    assert terminal.rows[:-1] == [f"[a r0] step {step}/40 loss: 0.5" for step in range(1, 41)]
    assert terminal.rows[-1].startswith("run 0:40  step 40/40  loss 0.5")


def test_bars_of_rank_0_are_drawn_in_place_each_on_its_row(terminal: Terminal, screen: LiveScreen) -> None:
    running(screen)
    for number in range(30):
        inner = INNER.replace(" 3/30", f" {number}/30")
        screen.output("a", "rank-0.log", f"\r{OUTER}\n\r{inner}\x1b[A".encode(), number * 1.0)
    screen.tick(31.0)
    assert terminal.rows == [
        f"[a r0] {OUTER}"[: WIDTH - 4] + "...",
        f"[a r0] {INNER.replace(' 3/30', ' 29/30')}"[: WIDTH - 4] + "...",
        "run 0:31  step 29/30  3 steps/s  ETA 0:04",
    ]


def test_a_finished_bar_becomes_a_line_and_the_area_goes_with_the_run(
    terminal: Terminal, screen: LiveScreen
) -> None:
    running(screen).output("a", "rank-0.log", b"\r 50%|#| 1/2\r100%|#| 2/2\n", 1.0)
    screen.output("a", "rank-0.log", b"saved\n", 2.0)
    screen.finish()
    assert terminal.rows == ["[a r0] 100%|#| 2/2", "[a r0] saved"]
    assert terminal.emulator.cursor.x == 0


def test_our_own_words_come_at_once_and_above(terminal: Terminal, screen: LiveScreen) -> None:
    running(screen).tick(1.0)
    screen.notify("rank 1 failed", bad=True)
    assert terminal.rows[0] == "==> rank 1 failed"
    assert terminal.rows[1].startswith("run ")


def test_a_question_has_the_terminal_for_itself(terminal: Terminal, screen: LiveScreen) -> None:
    running(screen).notify("stop it?")
    screen.clear()
    assert terminal.rows == ["==> stop it?"]
    assert (terminal.emulator.cursor.x, terminal.emulator.cursor.y) == (0, 1)


def test_a_narrow_terminal_gets_cut_rows_and_no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal(14, 6)
    screen = running(LiveScreen(terminal, size=terminal.size))
    for step in range(20):
        screen.output("a", "rank-0.log", f"\r{OUTER}".encode(), step * 1.0)
        screen.tick(step + 0.5)
    screen.output("a", "rank-0.log", b"\nend\n", 30.0)
    screen.finish()
    text = "".join(terminal.rows)
    assert text.count("[a r0]") == 2, "one line of the bar, one of the end"
    assert "run 0:" not in text


def test_a_window_that_changes_its_size_is_drawn_anew(terminal: Terminal, screen: LiveScreen) -> None:
    running(screen).output("a", "rank-0.log", f"\r{INNER}".encode(), 1.0)
    terminal.emulator.resize(HEIGHT, 100)
    screen.tick(2.0)
    assert terminal.rows[0] == f"[a r0] {INNER}"
    assert len(terminal.rows) == 2


def test_wide_characters_take_two_columns_and_marks_none(terminal: Terminal) -> None:
    assert (measure_width("a"), measure_width("数据"), measure_width("e\u0301"), measure_width("é")) == (
        1,
        4,
        1,
        1,
    )
    assert truncate([("", "数据集合")], 6) == [("", "数"), ("", "...")]
    area = BottomArea(Outlet(terminal), terminal.size, colour=False)
    for count in range(50):
        area.draw((), [[("", "数据" * 40 + str(count))]])
    assert len(terminal.rows) == 1


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from([b"x\n", b"\r10%", b"\n", b"\x1b[A", b"\x1b[2J", b"\x1b[9;9H", b"\xe6\x95\xb0"]))
)
def test_output_never_reaches_the_rows_of_others(pieces: list[bytes]) -> None:
    terminal = Terminal()
    screen = LiveScreen(terminal, folds=False, size=terminal.size)
    screen.notify("before")
    running(screen)
    for number, piece in enumerate(pieces):
        screen.output("a", "rank-0.log", piece, number * 1.0)
    screen.finish()
    assert terminal.rows[0] == "==> before"
    assert all(row.startswith("[a r0]") for row in terminal.rows[1:] if row.strip())


@pytest.mark.slow
def test_a_rank_that_prints_at_full_speed_is_drawn_ten_times_a_second(
    terminal: Terminal, screen: LiveScreen
) -> None:
    running(screen)
    for number in range(1000):
        screen.output("a", "rank-0.log", b"line\n" * 10, number / 1000)
    screen.finish()
    assert terminal.writes <= 1 / FRAME_S + 3
    assert terminal.rows.count("[a r0] line") == 10_000


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    for value in ("", "1"):
        monkeypatch.setenv("NO_COLOR", value)
        monkeypatch.setenv("TERM", "xterm")
        stream = io.StringIO()
        stream.isatty = lambda: True  # type: ignore[method-assign]
        screen = choose_screen(stream)
        screen.phase("run", 0.0)
        screen.notify("hello")
        texts.append(stream.getvalue())
    assert "\x1b[1m==>" in texts[0]
    assert "\x1b[1m" not in texts[1]
    assert "==> hello\n" in texts[1]


@pytest.mark.parametrize(
    ("tty", "term", "plain"), [(False, "xterm", False), (True, "dumb", False), (True, "xterm", True)]
)
def test_pipes_dumb_terminals_and_plain_get_lines(
    monkeypatch: pytest.MonkeyPatch, *, tty: bool, term: str, plain: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    stream = io.StringIO()
    stream.isatty = lambda: tty  # type: ignore[method-assign]
    screen = choose_screen(stream, plain=plain)
    assert type(screen) is Screen
    screen.phase("run", 0.0)
    screen.output("a", "rank-1.log", b"whole\n", 0.0)
    screen.tick(1.0)
    screen.finish()
    assert "whole\n" in stream.getvalue()
    assert "\x1b[J" not in stream.getvalue()


def test_the_next_start_begins_without_what_the_last_one_said(terminal: Terminal, screen: LiveScreen) -> None:
    running(screen).output("a", "rank-0.log", b"step 7/40 loss: 0.5\nCUDA error\n", 1.0)
    screen.take_usage([RankUsage(0, "a", "GPU-0", 1, 91.0, 2048.0, None, None)])
    screen.finish()
    before = terminal.rows
    screen.phase("start", 2.0)
    screen.output("b", "rank-1.log", b"CUDA error\n", 3.0)
    assert terminal.rows == [*before, "[b r1] CUDA error", "start 0:01"]


def test_what_ranks_use_is_told_one_by_one_or_together(terminal: Terminal, screen: LiveScreen) -> None:
    def used(rank: int, busy: float) -> RankUsage:
        return RankUsage(rank, "a", f"GPU-{rank}", 1, busy, 2048.0 * (rank + 1), None, None)

    running(screen).take_usage([used(0, 91.0), used(1, 50.0)])
    screen.tick(1.0)
    assert terminal.rows[-1] == "r0 GPU 91% 2.0 GiB  r1 GPU 50% 4.0 GiB"
    screen.take_usage([used(rank, 10.0 * rank) for rank in range(8)])
    screen.tick(2.0)
    assert terminal.rows[-1] == "8 GPUs 35% (0..70%)  GPU memory 2.0..16.0 GiB"
