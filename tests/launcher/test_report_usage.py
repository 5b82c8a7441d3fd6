"""What ranks used over a run, in its report."""

import json
import math
import re
from pathlib import Path

import pytest

from launcher.report.html.page import render_page
from launcher.report.html.svg import (
    HUES,
    Chart,
    EventMark,
    Scale,
    Series,
    bucket_points,
    calculate_running_mean,
    mean_over,
    render_svg,
)
from launcher.report.html.ticks import choose_log_ticks, format_tick, time_label, time_ticks
from launcher.rundir.layout import read_run
from launcher.rundir.usage_series import read_usage
from tests.launcher.report_runs import EVIL, PLAN, make_run, parsed, sample, with_usage


def test_samples_are_by_rank_on_our_clock_and_damaged_ones_left_out(tmp_path: Path) -> None:
    lines = (sample(100.0), "{half\n", "[1]\n", '{"event": "usage", "t": "x"}\n', sample(105.0, None))
    run = with_usage(tmp_path, *lines, sample(110.0)[:40])
    first, second = read_usage(run, PLAN, {"titan": 2.5})
    assert (first.rank, second.rank, first.at) == (0, 1, [102.5, 107.5])
    assert first.values["busy"] == pytest.approx([90.0, math.nan], nan_ok=True)
    assert (first.mean("busy"), second.peak("memory_mib"), first.has("power_w")) == (90.0, 2048.0, False)


def test_every_rank_has_a_curve_and_events_are_marked_by_time(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    for number, event in enumerate(events):
        event["at"] = 1000.0 + 300.0 * number
    (run / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    page = render_page(read_run(with_usage(run, *(sample(1000.0 + 5.0 * n) for n in range(121)))))
    parsed(page)
    chart = page[page.index("<b>GPU use, %</b>") :]
    chart = chart[: chart.index("</figure>")]
    assert chart.count("<polyline") == 2
    assert "rank 1 on titan</title>" in chart
    marks = [float(x) for x in re.findall(r'</title><line x1="([\d.]+)"', chart)]
    assert marks == pytest.approx([54.0, 301.0, 548.0]), "start, middle, end"
    for title in ("GPU memory, GiB", "CPU use of a rank", "host memory of a rank", ">6 min<"):
        assert title in page
    assert "GPU power" not in page, "it was never measured"
    assert '<td class="short">2.0 GiB</td><td class="short">90 %</td>' in page


def test_hostile_samples_and_names_stay_text(tmp_path: Path) -> None:
    run = with_usage(make_run(tmp_path, evil=EVIL), sample(1.0, gpus_missing=EVIL), sample(6.0))
    page = render_page(read_run(run))
    assert not {tag for tag, _ in parsed(page).seen} & {"script", "img"}


def test_many_ranks_are_faint_and_their_mean_is_drawn() -> None:
    series = tuple(
        Series(f"rank {n}", [0.0, 1.0, 2.0], [float(n), float(n), math.nan]) for n in range(HUES + 1)
    )
    drawn = render_svg(Chart("GPU use", series, from_zero=True))
    assert drawn.count('class="curve many"') == HUES + 1
    assert drawn.count('class="curve mean') == 1
    assert mean_over(series).ys == [4.0]


@pytest.mark.parametrize(
    ("values", "most", "top"),
    [([0.1, 0.4], None, 0.42), ([0.0], None, 1.0), ([30.0], 100.0, 100.0), ([200.0], 100.0, 210.0)],
)
def test_an_axis_from_zero_ends_above_its_values_and_at_a_known_most(
    values: list[float], most: float | None, top: float
) -> None:
    scale = Scale.of([0.0, 1.0], values, from_zero=True, y_high=most)
    assert scale.y_low == 0.0
    assert scale.y_high == pytest.approx(top)


def test_the_numbers_of_crowded_events_are_written_as_a_range() -> None:
    marks = tuple(EventMark(x, number, "x", number == 3) for number, x in enumerate((0.0, 0.1, 0.2, 50.0), 1))
    drawn = render_svg(Chart("loss", (Series("", [0.0, 100.0], [1.0, 2.0]),), marks=marks))
    assert re.findall(r'class="(mark[ bad]*)"><text[^>]*>([^<]+)<', drawn) == [
        ("mark bad", "1-3"),
        ("mark", "4"),
    ]


def test_a_long_series_is_shared_out_without_losing_its_peak() -> None:
    ys = [1.0] * 10_000
    ys[777], ys[778] = 9.0, math.nan
    points = bucket_points([float(x) for x in range(10_000)], ys, 100, max)
    assert len(points) == 100
    assert max(y for _, y in points) == 9.0


def test_a_running_mean_leaves_out_what_is_no_number() -> None:
    assert calculate_running_mean([1.0, math.nan, 3.0]) == pytest.approx([1.0, math.nan, 3.0], nan_ok=True)
    assert calculate_running_mean([0.0, 3.0, 0.0, 3.0]) == pytest.approx([1.5, 1.0, 2.0, 1.5])


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0"),
        (30, "30 s"),
        (90, "1:30 min"),
        (300, "5 min"),
        (5400, "1:30 h"),
        (86400, "1 d"),
        (97200, "1 d 3 h"),
    ],
)
def test_times_of_an_axis_are_short(seconds: float, words: str) -> None:
    assert time_label(seconds) == words


def test_times_of_an_axis_are_those_that_people_count_in() -> None:
    assert time_ticks(0, 600) == [0, 120, 240, 360, 480, 600]
    assert time_ticks(0, 7000) == [0, 1800, 3600, 5400]
    assert time_ticks(0, 864000)[1] == 172800


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0"), (1234, "1234"), (12240, "12.24k"), (2e-05, "2e-05"), (3.5e9, "3.5G")]
)
def test_numbers_of_an_axis_are_short(value: float, words: str) -> None:
    assert format_tick(value) == words


def test_a_logarithmic_axis_has_ticks_inside_it() -> None:
    assert choose_log_ticks(1e-8, 1e8)[0] >= 1e-8
    assert choose_log_ticks(3.0, 160.0) == [5.0, 10.0, 20.0, 50.0, 100.0]
    assert choose_log_ticks(1.5, 1.9) == [1.5, 1.9]
