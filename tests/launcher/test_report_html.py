"""The report of a run, made from files as a run leaves them."""

import json
import math
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from launcher.commands.report import command
from launcher.errors import BadInput
from launcher.report.html.page import render_page
from launcher.report.html.svg import MOST_POINTS, Chart, Series, downsample_points, render_svg
from launcher.report.html.ticks import choose_ticks
from launcher.report.sparkline import draw_sparkline, render_curves
from launcher.rundir.layout import read_run
from launcher.rundir.local_runs import find_local_run
from launcher.rundir.log_metrics import CHUNK, Metrics, collect_metrics, place_samples, read_metrics
from launcher.rundir.log_store import LogStore
from launcher.text import spell_duration
from tests.launcher.report_runs import EVIL, make_run, parsed


def read(text: str) -> Metrics:
    offset, lines = 0, []
    for line in text.encode().split(b"\n"):
        lines.append((offset, line))
        offset += len(line) + 1
    return collect_metrics(lines)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "{'loss': 2.5, 'grad_norm': 1.25, 'learning_rate': 2e-05, 'epoch': 0.1}",
            (None, 2.5, 1.25, 2e-05, {}),
        ),
        (
            "step 40/120 loss=0.5 lr: 3e-4 grad_norm=nan tokens/s: 1200.5",
            (40, 0.5, math.nan, 3e-4, {"tokens": 1200.5}),
        ),
        (" 33%|###   | 40/120 [00:12<00:24,  2.50it/s, loss=1.5]", (40, 1.5, None, None, {"steps": 2.5})),
        (" 33%|###   | 41/120 [00:12<00:24,  4.00s/it]", (41, None, None, None, {"steps": 0.25})),
        ("\x1b[A\x1b[1mstep 3 loss: 2.0\x1b[0m", (3, 2.0, None, None, {})),
        ("Step 7: loss 3.0, 12.5k tok/s", (7, 3.0, None, None, {"tokens": 12500.0})),
        ("iteration 9 | samples per second: 31.5", (9, None, None, None, {"samples": 31.5})),
        (
            "{'train_runtime': 7.9, 'train_samples_per_second': 97.3, 'train_loss': 5.0}",
            (None, None, None, None, {"samples": 97.3}),
        ),
        ("step 30 loss 1.6 grad_norm 0.37 lr 5.00e-04", (30, 1.6, 0.37, 5e-4, {})),
        ("iter 3, learning rate 0.001, loss 2.5", (3, 2.5, None, 1e-3, {})),
        ("lr 3 groups, lr 2x, lr 0.1.2", (None, None, None, None, {})),
        ("100 MB/s read, colours, all right, allre: 3", (None, None, None, None, {})),
    ],
    ids=[
        "Trainer",
        "key=value",
        "tqdm",
        "slow tqdm",
        "escapes",
        "k tokens",
        "words",
        "Trainer's last",
        "a rate behind a space",
        "a rate in words",
        "no rate",
        "other numbers",
    ],
)
def test_a_line_says_its_step_and_values(
    line: str, expected: tuple[int | None, float | None, float | None, float | None, dict[str, float]]
) -> None:
    found = read(line)
    step, *values, rates = expected
    assert found.last_step == step
    for samples, value in zip((found.loss, found.norm, found.learning_rate), values, strict=True):
        assert [sample.value for sample in samples] == pytest.approx(
            [] if value is None else [value], nan_ok=True
        )
    assert {unit: samples[0].value for unit, samples in found.rates.items()} == pytest.approx(rates)


def test_a_log_is_read_at_its_offsets_whatever_its_lines_are(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    head = b"x" * (2 * CHUNK) + b"\n" + b"\xff\xfe binary \x00\r\n"
    path.write_bytes(head + b"1/9 [00:01<00:02]\r2/9 [00:02<00:01]\nloss: 1.5\nloss: 0.5")
    found = read_metrics(path)
    assert [(sample.value, sample.step) for sample in found.loss] == [(1.5, 2), (0.5, 2)]
    assert path.read_bytes()[found.loss[1].offset :] == b"loss: 0.5"
    assert found.size == path.stat().st_size


def test_steps_are_the_axis_only_where_every_value_has_one() -> None:
    assert place_samples(read("step 10 loss: 1.0\nstep 20 loss: 0.5").loss) == ([10.0, 20.0], "step")
    assert place_samples(read("loss: 1.0\nstep 20 loss: 0.5").loss) == ([1.0, 2.0], "value in the log")
    assert place_samples(read("step 20 loss: 1.0\nstep 10 loss: 0.5").loss) == (
        [1.0, 2.0],
        "value in the log",
    )


def test_epochs_are_the_axis_where_no_step_is_printed_and_a_mean_of_the_run_is_no_step() -> None:
    found = read(
        "{'loss': '5.0', 'epoch': '0.25'}\n{'loss': '4.0', 'epoch': '0.5'}\n"
        "{'train_runtime': '4.1', 'train_samples_per_second': '31.5', 'train_loss': '4.5', 'epoch': '0.5'}"
    )
    assert place_samples(found.loss) == ([0.25, 0.5], "epoch")
    assert [sample.value for sample in found.rates["samples"]] == [31.5]
    assert place_samples(read("epoch 1/3 loss: 5.0\nepoch 1/3 loss: 4.0").loss)[1] == "value in the log"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], ""),
        ([1.0], "▅"),
        ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], "▁▂▃▄▅▆▇█"),
        ([7.0, math.nan, 0.0], "█x▁"),
        ([math.inf, math.nan], "xx"),
    ],
)
def test_a_sparkline_has_a_bar_for_each_share(values: list[float], expected: str) -> None:
    assert draw_sparkline(values) == expected


def test_a_sparkline_is_never_wider_and_hides_no_nan() -> None:
    values = [float(number) for number in range(1000)]
    values[500] = math.nan
    drawn = draw_sparkline(values, width=40)
    assert len(drawn) == 40
    assert drawn.count("x") == 1
    assert draw_sparkline([0.0, 1.0], ascii_only=True).isascii()


def test_ticks_are_round_and_inside() -> None:
    assert choose_ticks(0.0, 1.0) == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert choose_ticks(-3.0, 117.0) == pytest.approx([0.0, 25.0, 50.0, 75.0, 100.0])


def test_a_long_series_keeps_its_peak() -> None:
    values = [1.0] * 100_000
    values[77_777] = 9.0
    points = downsample_points([float(number) for number in range(100_000)], values)
    assert len(points) <= MOST_POINTS
    assert (77_777.0, 9.0) in points


@pytest.mark.parametrize(
    "ys",
    [
        [1.0, 1.0],
        [0.0, 0.0],
        [math.nan, math.nan],
        [1e-8, 1e8],
        [-1e300, 1e300],
        [5e-324, 1.0],
        [-5.0, math.inf],
    ],
    ids=str,
)
def test_every_series_can_be_drawn(ys: list[float]) -> None:
    drawn = render_svg(Chart("loss", (Series("", [1.0, 2.0], ys),)))
    assert not re.search(r"\b(nan|inf)\b", re.sub(r'class="nan"', "", drawn))
    assert drawn.count('class="nan"') == sum(not math.isfinite(y) for y in ys)


def test_a_report_tells_how_it_ended_and_draws_what_was_printed(tmp_path: Path) -> None:
    page = render_page(read_run(make_run(tmp_path)))
    tags = parsed(page)
    assert [tag for tag, _ in tags.seen].count("svg") == 2, "loss and gradient norm"
    for words in (
        "failed: rank 1 failed",
        "1 h 2 min",
        "GPU 1 L40S GPU-1",
        "--mixed_precision",
        "warm",
        "GPU memory and use over time: nothing was recorded",
        "throughput: not printed",
        "learning rate: one value, 0.001",
        "c" * 40 + " with edits",
    ):
        assert words in page
    assert page.count('class="nan"') == 1


def test_events_are_marked_where_the_log_was_when_they_happened(tmp_path: Path) -> None:
    page = render_page(read_run(make_run(tmp_path)))
    marks = re.findall(r'<g class="(mark(?: bad)?)"><title>([^<]*)</title><line x1="([\d.]+)"', page)
    loss = marks[:2]
    assert [(kind, title) for kind, title, _ in loss] == [
        ("mark", "2: 2 ranks as planned"),
        ("mark bad", "3: rank 1 failed"),
    ]
    assert float(loss[0][2]) < float(loss[1][2]) == pytest.approx(548.0), "the failure is at the last step"


def test_nothing_in_a_report_is_executed_or_fetched(tmp_path: Path) -> None:
    page = render_page(read_run(make_run(tmp_path, evil=EVIL)))
    tags = parsed(page)
    names = {tag for tag, _ in tags.seen}
    assert not names & {"script", "img", "iframe", "link", "object", "embed", "base", "form", "a"}
    for _, attributes in tags.seen:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "href")]
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;" in page
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_a_run_without_an_outcome_or_a_plan_is_told_as_such(tmp_path: Path) -> None:
    book = LogStore(tmp_path / "r")
    book.write("titan", "rank-0.log", 0, b"hello\n")
    book.close()
    page = render_page(read_run(tmp_path / "r"))
    parsed(page)
    assert "No outcome is kept locally" in page
    assert "No log holds a loss" in page


def test_a_page_names_its_columns_and_the_reasons_before_their_sources(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    plan = json.loads((run / "plan.json").read_text())
    finding = {"severity": "info", "code": "SYS002", "hosts": ["titan"], "message": "load 9"}
    reason = {"text": "all ranks run on the CPU", "source": "gpus: none"}
    (run / "plan.json").write_text(json.dumps({**plan, "findings": [finding], "reasons": [reason]}))
    page = render_page(read_run(run))
    assert "<th>event</th>" in page
    assert "<th>finding</th>" in page
    assert '<td class="short">SYS002</td>' in page
    assert page.index("all ranks run on the CPU") < page.index("gpus: none")


@pytest.mark.parametrize(
    "text", ["[]", "{", "null", '{"nodes": 3, "changes": [1], "findings": {}}', '{"ranks": "x"}']
)
def test_damaged_documents_still_give_a_report(tmp_path: Path, text: str) -> None:
    run = make_run(tmp_path)
    for name in ("plan", "outcome", "source"):
        (run / f"{name}.json").write_text(text)
    with (run / "events.jsonl").open("a") as file:
        file.write('{"at": "x"}\n[]\n{"half')
    page = render_page(read_run(run))
    parsed(page)
    assert "<svg" in page  # what the logs hold is still shown


def test_the_command_writes_one_file_for_a_beginning_of_an_id_or_the_last_run(tmp_path: Path) -> None:
    make_run(tmp_path / "runs")
    for word in ("job", "last"):
        target = tmp_path / f"{word}.html"
        result = CliRunner().invoke(command, [word, "--html", str(target), "--logs", str(tmp_path / "runs")])
        assert result.exit_code == 0, result.output
        assert target.read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.html", "last.html", "runs"]


def test_last_is_the_run_that_was_started_last(tmp_path: Path) -> None:
    import os  # noqa: PLC0415

    for name, when in (("b", 100), ("a", 200)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (when, when))
    assert find_local_run("last", tmp_path).name == "a"
    with pytest.raises(BadInput, match="no such run"):
        find_local_run("c", tmp_path)
    (tmp_path / "job-20261125-210248-4fc2de").mkdir()
    assert find_local_run("4fc2de", tmp_path).name == "job-20261125-210248-4fc2de"
    for name in ("job-20261124-210248-000000", "job-long-20261126-210248-000000"):
        (tmp_path / name).mkdir()
    assert find_local_run("job", tmp_path).name == "job-20261125-210248-4fc2de"  # of that name, the newest
    with pytest.raises(BadInput, match="is ambiguous"):
        find_local_run("jo", tmp_path)


def test_the_id_of_a_slurm_job_means_the_last_run_of_it(tmp_path: Path) -> None:
    for day, job in ((24, "17"), (25, "17"), (26, "17_3"), (27, "5_1"), (28, "5_0")):
        (tmp_path / f"job-202611{day}-210248-4fc2de").mkdir()
        plan = json.dumps({"slurm_job": job})
        (tmp_path / f"job-202611{day}-210248-4fc2de/plan.json").write_text(plan)
    assert find_local_run("17", tmp_path).name == "job-20261125-210248-4fc2de"
    assert find_local_run("17_3", tmp_path).name == "job-20261126-210248-4fc2de"
    with pytest.raises(BadInput, match="no such run"):
        find_local_run("1", tmp_path)
    with pytest.raises(BadInput, match="job 5 is an array: each task has its run") as refused:
        find_local_run("5", tmp_path)
    assert refused.value.fix == "name one: 5_0, 5_1"


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no run in this directory"):
        read_run(tmp_path)


def test_curves_at_the_end_of_a_run_are_one_line_each(tmp_path: Path) -> None:
    lines = list(render_curves(make_run(tmp_path)))
    assert [line.split()[0] for line in lines] == ["loss", "grad"]
    assert "51 values, 1 of them NaN or infinite" in lines[0]
    assert list(render_curves(tmp_path)) == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1.25, "1.2 s"), (61, "1 min 1 s"), (7325, "2 h 2 min"), (None, "?"), (math.nan, "?")],
)
def test_a_duration_is_told_as_people_do(seconds: float | None, words: str) -> None:
    assert spell_duration(seconds) == words
