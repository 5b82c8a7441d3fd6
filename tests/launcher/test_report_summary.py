"""A report as text and as a document."""

import json
from pathlib import Path

from click.testing import CliRunner

from launcher.commands.report import command
from launcher.report.sparkline import draw_sparkline
from launcher.report.summary import encode_summary, render_summary
from launcher.rundir.layout import read_run
from launcher.rundir.log_store import LogStore
from tests.launcher.report_runs import EVIL, make_run, sample, with_usage


def test_the_text_tells_how_it_ended_its_curves_its_ranks_and_when(tmp_path: Path) -> None:
    run = with_usage(make_run(tmp_path), *(sample(float(n), 50.0) for n in range(5)))
    lines = list(render_summary(read_run(run)))
    assert lines[:6] == [
        "job-1: failed: rank 1 failed (exit code 1) after 1 h 2 min",
        "world size 2 on titan, mixed precision bf16",
        "root cause: boom",
        "  at x.py:1 on titan",
        "  diagnosis (S20): full",
        "  fix: a smaller batch",
    ]
    assert "loss      4 █" in lines[6]
    assert "lr        0.001 (one value)" in lines
    assert "1     titan  1        2.0 GiB      50 % of its GPU  ▅▅▅▅▅" in lines
    assert lines[-1].endswith("! rank 1 failed")


def test_a_short_run_has_what_the_kernel_counted_as_its_end_said_and_signals_have_names(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path)
    outcome = json.loads((run / "outcome.json").read_text())
    outcome["usage"] = [{"rank": 0, "host": "titan", "gpu": None, "rss_peak_mib": 14, "cpu_mean": 8.0}]
    (run / "outcome.json").write_text(json.dumps(outcome))
    lines = [line.split("  ") for line in render_summary(read_run(run))]
    table = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert ["0", "titan", "SIGTERM", "14 MiB", "8 % of a core"] in table
    assert ["1", "titan", "1", "not measured"] in table


def test_of_many_events_the_first_and_the_last_are_shown(tmp_path: Path) -> None:
    book = LogStore(tmp_path / "r")
    book.write("titan", "rank-0.log", 0, b"hello\n")
    for number in range(100):
        book.add_event(f"event {number}")
    book.close()
    lines = list(render_summary(read_run(tmp_path / "r")))
    assert "  ... 60 more ..." in lines
    assert [line.split()[-1] for line in lines[-1:]] == ["99"]
    assert len(lines) == 1 + 1 + 41


def test_hostile_text_cannot_steer_the_terminal(tmp_path: Path) -> None:
    run = make_run(tmp_path, evil=EVIL)
    assert not any(
        "\x1b" in line or "\u202e" in line or "\n" in line for line in render_summary(read_run(run))
    )


def test_the_document_holds_every_value_and_null_for_what_is_no_number(tmp_path: Path) -> None:
    run = with_usage(make_run(tmp_path), sample(1.0), sample(6.0, None))
    document = json.loads(json.dumps(encode_summary(read_run(run)), allow_nan=False))
    assert document["schema"] == "gpulaunch.report/1"
    loss = document["curves"]["loss"]
    assert (len(loss["value"]), loss["value"][-1], loss["step"][-1]) == (51, None, 51)
    assert document["source"] == {"rank": 0, "host": "titan"}
    assert document["usage"][1]["busy"] == [90.0, None]
    assert [event["bad"] for event in document["events"]] == [False, False, True]


def test_the_command_prints_text_or_a_document_and_may_write_a_page_too(tmp_path: Path) -> None:
    make_run(tmp_path / "runs")
    where = ["last", "--logs", str(tmp_path / "runs")]
    assert "job-1: failed" in CliRunner().invoke(command, where).stdout
    page = tmp_path / "page.html"
    result = CliRunner().invoke(command, [*where, "--json", "--html", str(page)])
    assert json.loads(result.stdout)["run_id"] == "job-1"
    assert page.read_text().startswith("<!doctype html>")


def test_a_sparkline_of_a_share_shows_how_much_it_is() -> None:
    assert draw_sparkline([50.0, 50.0], span=(0.0, 100.0)) == "▅▅"
    assert draw_sparkline([99.0, 100.0], span=(0.0, 100.0)) == "██"
