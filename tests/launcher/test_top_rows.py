"""The table of `gpulaunch top`: folded, filtered, sorted, moved through, in any window; no name steers it."""

import json
import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.cli import run_command_line
from launcher.exit_codes import ExitCode
from launcher.terminal.cell_width import measure_width, paint_line
from launcher.top.frame import calculate_table_height, render_frame, render_text_page, wrap_help
from launcher.top.full_screen import decode_keys
from launcher.top.key_actions import HELP, Position, apply_key, settle_position
from launcher.top.row_order import RowOptions, build_rows, count_totals
from launcher.top.table import Line, render_gpu_table, render_run_table
from preflight.leftovers.classify import ProcessClass
from tests.launcher.test_output import HOSTILE, assert_harmless
from tests.launcher.top_views import RUN, busy, fleet, gpu, host

IDLE = host("idle", gpu(0), gpu(1))
MIXED = host("mixed", gpu(0), busy(1), busy(2, 12.0, 45000.0, user="ben", mine=False))
LOST = host("lost", busy(0), phase="lost", note="no route to host", retry_s=8.0)
BARE = host("bare", note="no GPU")
VIEW = fleet(IDLE, MIXED, LOST, BARE, runs=(RUN,))


def keys(options: RowOptions = RowOptions()) -> list[tuple[str, int]]:  # noqa: B008 - frozen
    return [row.key for row in build_rows(VIEW, options)]


def text(lines: list[Line]) -> list[str]:
    return [paint_line(line, colour=False) for line in lines]


def test_idle_hosts_fold_and_unfold_and_a_lost_host_says_so_above_its_grey_gpus() -> None:
    mixed = [("mixed", index) for index in range(3)]
    assert keys() == [("idle", -1), *mixed, ("lost", -1), ("lost", 0), ("bare", -1)]
    assert keys(RowOptions(unfolded=frozenset({"idle"})))[:2] == [("idle", 0), ("idle", 1)]
    shown = text(render_gpu_table(build_rows(VIEW, RowOptions()), 120))
    assert shown[1] == "  idle   all free: 2x NVIDIA L40S  0%  0.0/90G  31 °C"
    assert shown[5] == "  lost   lost for 1 s: no route to host; next attempt in 8 s"
    assert shown[7] == "  bare   no GPU"


def test_a_lost_host_says_when_gpulaunch_connects_to_it_again() -> None:
    rows = build_rows(fleet(host("a", phase="lost", note="no route to host", retry_s=0.0)), RowOptions())
    shown = text(render_gpu_table(rows, 120))
    assert shown[1] == "  a  lost for 1 s: no route to host; connecting again"


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (RowOptions(only="free"), [("idle", -1), ("mixed", 0)]),
        (RowOptions(only="mine"), [("mixed", 1), ("lost", -1), ("lost", 0)]),
        (RowOptions("use"), [("mixed", 1), ("mixed", 2), ("mixed", 0), ("lost", 0)]),
        (RowOptions("memory"), [("mixed", 2), ("mixed", 1), ("mixed", 0), ("lost", 0)]),
        (RowOptions("user"), [("mixed", 1), ("mixed", 2), ("mixed", 0), ("lost", 0)]),
    ],
)
def test_filters_and_orders(options: RowOptions, wanted: list[tuple[str, int]]) -> None:
    assert keys(options)[: len(wanted)] == wanted
    if options.only != "all":
        assert len(keys(options)) == len(wanted)


def test_what_is_not_known_is_never_free() -> None:
    unknown = [
        gpu(held=None),
        gpu(claimed_by=("ben", "run-7")),
        gpu(problem="is split by MIG: NCCL cannot join slices of it"),
    ]
    assert not any(each.free for each in unknown)
    totals = count_totals([host("a", *unknown), host("b", gpu(), phase="silent"), host("c", gpu(), busy())])
    assert (totals.gpus, totals.held, totals.free, totals.unknown, totals.lost) == (6, 2, 1, 3, 1)
    words = text(render_gpu_table(build_rows(fleet(host("a", *unknown)), RowOptions()), 200))[1:]
    assert ["who holds it cannot be seen" in words[0], "by run run-7" in words[1]] == [True, True]
    assert "unusable" in words[2]
    silent = busy(percent=None)  # type: ignore[arg-type]
    assert "?" in text(render_gpu_table(build_rows(fleet(host("a", silent)), RowOptions()), 200))[1]


def test_every_host_can_be_one_line_and_what_matters_on_it_stays_in_sight() -> None:
    orphan = replace(busy(3, kind=ProcessClass.ORPHAN, user="eve"), throttle=("hw_thermal",))
    blind = host("blind", gpu(used_mib=None, held=None), note="GPUs not listed by the driver")
    view = fleet(IDLE, replace(MIXED, gpus=(*MIXED.gpus, orphan)), LOST, blind)
    options = RowOptions(by_host=True)
    lines = render_gpu_table(build_rows(view, options), 140, options=options)
    shown = text(lines)
    assert [" ".join(line.split()) for line in shown] == [
        "HOST GPUS USE MEMORY TEMP THR USER",
        "idle all free: 2x NVIDIA L40S 0% 0.0/90G 31 °C",
        "mixed 2 live, 1 free, 1 orphan: 4x NVIDIA L40S 52% 122.1/180G 31 °C T ada ben eve",
        "lost lost for 1 s: no route to host; next attempt in 8 s",
        "blind 1 unknown: 1x NVIDIA L40S 0% ?/45G 31 °C GPUs not listed by the driver",
    ]
    assert shown[1].index("G  31") == shown[2].index("G  31") == shown[4].index("G  31")  # in columns
    assert shown[0].index("MEMORY") + len("MEMORY") == shown[1].index("G  31") + 1
    assert [code for code, part in lines[2] if "orphan" in part] == ["1;31"]
    assert [code for code, part in lines[4] if "unknown" in part] == ["33"]
    by_use = [row.key[0] for row in build_rows(view, replace(options, sort="use"))]
    assert by_use == ["mixed", "idle", "blind", "lost"]
    some = build_rows(view, RowOptions())
    assert [row.key for row in some][-2:] == [("blind", -1), ("blind", 0)]  # what is amiss is above its GPUs
    assert "GPUs not listed by the driver" in text(render_gpu_table(some, 120))[-2]
    hung = host("hung", note="GPUs not read: NVML: driver hangs")
    (line,) = render_gpu_table(build_rows(fleet(hung), RowOptions()), 120)[1:]
    assert [code for code, part in line if "hangs" in part] == ["33"]


def test_a_leftover_a_throttle_and_full_memory_stand_out() -> None:
    found = busy(used_mib=45000.0, kind=ProcessClass.ORPHAN)
    hot = replace(found, throttle=("hw_thermal", "sw_power_cap"))
    line = render_gpu_table(build_rows(fleet(host("a", hot)), RowOptions()), 160)[1]
    colours = {text.strip(): code for code, text in line if code}
    assert colours["orphan"] == "1;31"
    assert colours["Tp"] == "1;31"
    assert colours["train-1"] == "36"
    assert any(code == "33" and "43.9/45G" in text for code, text in line)


@pytest.mark.parametrize("width", [1, 7, 20, 40, 59, 80, 100, 131, 159, 300])
def test_no_line_is_wider_than_the_window_and_no_name_steers_the_terminal(width: int) -> None:
    evil = replace(
        busy(user=HOSTILE, command=HOSTILE, run_id=HOSTILE), model=HOSTILE, claimed_by=(HOSTILE, HOSTILE)
    )
    hosts = [host(HOSTILE, evil), host(HOSTILE, phase="lost", note=HOSTILE), host("x", gpu(problem=HOSTILE))]
    runs = (replace(RUN, run_id=HOSTILE, hosts=(HOSTILE,)),)
    view = fleet(*hosts, runs=runs)
    rows = build_rows(view, RowOptions())
    for height in (1, 3, 12, 50):
        position = settle_position(Position(), rows, calculate_table_height(height, 1))
        lines = render_frame(view, rows, position, (width, height), message=HOSTILE)
        assert len(lines) <= height
        for colour in (True, False):
            painted = [paint_line(line, colour=colour) for line in lines]
            assert_harmless("\n".join(painted), colours=colour)
        assert all(sum(measure_width(part) for _, part in line) <= width for line in lines)
    page = render_text_page([HOSTILE], HOSTILE, Position(), (width, 5))
    assert_harmless("\n".join(text(page)), colours=False)


def test_runs_are_listed_with_step_loss_and_eta() -> None:
    titles, line = text(render_run_table((RUN,), 160))
    assert titles.split() == ["RUN", "STATE", "STEP", "LOSS", "ETA", "HOSTS", "GPUS", "LAST", "OUTPUT"]
    assert line.split() == [
        "train-1",
        "running",
        "40/120",
        "2.346",
        "6",
        "min",
        "2",
        "hosts",
        "3",
        "41",
        "s",
        "ago",
    ]
    assert render_run_table((), 160) == []


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            100,
            ["RUN STATE STEP LOSS ETA HOSTS GPUS LAST OUTPUT", "train-20261129-160151-3d2401 running 40/120"],
        ),
        (80, ["RUN STATE STEP LOSS ETA HOSTS GPUS LAST OUTPUT", "train-20...1-3d2401 running 40/120"]),
        (60, ["RUN STATE STEP LOSS ETA", "train-2...1-3d2401 running 40/120 2.346"]),
        (36, ["RUN STEP LOSS", "train-2...1-3d2401 40/120 2.346"]),
    ],
)
def test_a_narrow_terminal_shows_whole_steps_and_losses_of_runs(width: int, expected: list[str]) -> None:
    run = replace(RUN, run_id="train-20261129-160151-3d2401")
    lines = text(render_run_table((run,), width))
    assert max(map(len, lines)) <= width
    shown = [" ".join(line.split()) for line in lines]
    assert shown[0] == expected[0]
    assert shown[1].startswith(expected[1])


def test_keys_choose_scroll_filter_open_and_act() -> None:
    rows = build_rows(VIEW, RowOptions())
    position = settle_position(Position(), rows, 3)
    assert position.selected == ("idle", -1)
    position, _ = apply_key(position, "end", rows, 3)
    position = settle_position(position, rows, 3)
    assert (position.selected, position.offset) == (("bare", -1), 4)
    position, _ = apply_key(position, "page-up", rows, 3)
    assert position.selected == ("mixed", 2)
    opened, action = apply_key(position, "enter", rows, 3)
    assert (opened.page, action) == ("processes", None)
    assert apply_key(opened, "q", rows, 3)[0].page == "table"
    assert [apply_key(position, key, rows, 3)[1] for key in "qzsr?"] == [
        "quit",
        "clean",
        "stacks",
        "inspect",
        None,
    ]
    for key, options in [
        ("f", RowOptions(only="free")),
        ("m", RowOptions(only="mine")),
        ("o", RowOptions("use")),
        ("h", RowOptions(by_host=True)),
        ("space", RowOptions(folded=frozenset({"mixed"}))),
    ]:
        changed, _ = apply_key(position, key, rows, 3)
        assert changed.options == options
        assert apply_key(changed, "escape", rows, 3)[0].options == RowOptions()


def test_the_choice_stays_with_its_gpu_and_goes_to_its_host_when_that_folds() -> None:
    unfolded = build_rows(VIEW, RowOptions(unfolded=frozenset({"idle"})))
    position = settle_position(Position(selected=("idle", 1)), unfolded, 9)
    assert position.selected == ("idle", 1)
    assert settle_position(position, build_rows(VIEW, RowOptions()), 9).selected == ("idle", -1)
    assert settle_position(Position(selected=("gone", 0)), (), 9).selected == ("gone", 0)


def test_a_narrow_window_keeps_whole_words_and_the_way_to_help() -> None:
    for width in (80, 120):
        lines = text(render_frame(VIEW, build_rows(VIEW, RowOptions()), Position(), (width, 20)))
        assert "..." not in lines[0] + lines[-1]
        assert lines[-1].startswith("q quit  ? help  o order")


def test_a_filter_that_fits_nothing_says_so_and_opens_nothing() -> None:
    """A line chosen before is not on the screen, so no key may act on it."""
    idle = fleet(IDLE)
    before = settle_position(Position(), build_rows(idle, RowOptions()), 9)
    position, _ = apply_key(before, "m", build_rows(idle, before.options), 9)
    rows = build_rows(idle, position.options)
    assert "no such GPU: Escape shows all" in text(render_frame(idle, rows, position, (80, 20)))[1]
    assert apply_key(settle_position(position, rows, 9), "enter", rows, 9)[0].page == "table"


@pytest.mark.parametrize("width", [40, 59, 80])
def test_what_folded_hosts_have_is_below_each_other_in_a_narrow_window_too(width: int) -> None:
    view = fleet(IDLE, host("longer-name", gpu(0)))
    shown = text(render_gpu_table(build_rows(view, RowOptions()), width))
    assert len({line.find("all free") for line in shown[1:]}) == 1


@pytest.mark.parametrize("width", [30, 60, 200])
def test_a_narrow_screen_shows_the_whole_of_its_help(width: int) -> None:
    page = text(render_text_page(wrap_help(width), "keys", Position(), (width, 100)))
    assert max(map(len, page)) <= width
    assert " ".join(" ".join(page[2:-1]).split()) == " ".join(" ".join(HELP).split())
    at = next(number for number, line in enumerate(page) if line.startswith("Enter"))
    assert width != 60 or page[at + 1] == "         evidence of clean-zombies"


def test_bytes_of_a_terminal_become_keys() -> None:
    assert decode_keys(b"\x1b[A\x1b[B\x1bOAjk\r \x1b[5~\x1b[6~\x1b[H\x1b[F") == [
        *["up", "down", "up", "down", "up", "enter", "space", "page-up", "page-down", "home", "end"]
    ]
    assert decode_keys(b"\x1b") == ["escape"]
    assert decode_keys(b"\x1b[200~q\x1b[1;5C\xff\x00") == ["q"]


def test_one_fix_of_several_lost_hosts_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with ExitStack() as taken:
        ports = {}
        for name in ("n1", "n2", "n3"):
            mute = taken.enter_context(
                socket.socket()
            )  # nothing listens on its port, and nothing else gets it
            mute.bind(("127.0.0.1", 0))
            ports[name] = {"port": mute.getsockname()[1]}
        hosts = {"defaults": {"address": "127.0.0.1", "user": "ada"}, "hosts": ports}
        Path("hosts.yaml").write_text(json.dumps(hosts))
        assert run_command_line(["top", "--once", "n[1-3]"]) == ExitCode.UNREACHABLE
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" fix: ")[0] for line in lines] == ["n[1-3]:"]
