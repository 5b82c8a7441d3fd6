"""Information is reported once for each host and day; nothing else is ever left out."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.cli import run_command_line
from launcher.commands._preflight_report import DAY_S, MOST_KEPT, note_shown, render_todays_report
from launcher.host_checks.render_text import render_report
from launcher.host_checks.result import PreflightResult
from launcher.terminal.cell_width import paint_line
from preflight.checks.finding import Finding, Severity
from tests.launcher.preflight_fleets import fleet

OFF = Finding("HEAL012", Severity.INFO, ("titan",), "gpu0", "persistence mode is off on GPU 0", "fix")
LOAD = Finding("SYS002", Severity.INFO, ("titan",), "", "load 17.9 on 2 CPUs: data loading will be slow", "")
ZOMBIE = Finding("PROC004", Severity.INFO, ("titan",), "", "pid 4242 is a zombie, 4 s old", "")


def test_information_is_repeated_for_a_day_on_each_host(tmp_path: Path) -> None:
    def repeated(*findings: Finding, at: float) -> frozenset[Finding]:
        return note_shown(findings, directory=tmp_path, now=at)

    other, both = replace(OFF, hosts=("l40s-01",)), replace(OFF, hosts=("titan", "l40s-01"))
    assert repeated(OFF, at=0.0) == frozenset()
    assert repeated(OFF, at=DAY_S - 1) == {OFF}
    assert repeated(both, at=2.0) == frozenset()  # new on one of its hosts
    assert repeated(other, both, at=3.0) == {other, both}
    assert repeated(OFF, at=DAY_S + 1) == frozenset()
    assert repeated(OFF, at=5.0) == frozenset()  # a clock that was set back
    assert (tmp_path / "shown-info.json").stat().st_mode & 0o777 == 0o600


def test_a_value_that_changes_is_no_news_and_another_process_is(tmp_path: Path) -> None:
    note_shown([LOAD, ZOMBIE], directory=tmp_path, now=0.0)
    later = replace(LOAD, message=LOAD.message.replace("17.9", "18.25"))
    older = replace(ZOMBIE, message=ZOMBIE.message.replace("4 s", "90 s"))
    newer = replace(ZOMBIE, message=ZOMBIE.message.replace("4242", "4243"))
    assert note_shown([later, older, newer], directory=tmp_path, now=1.0) == {later, older}


@pytest.mark.parametrize(
    "text", ["[" * 9999, '{"titan x": 1%s}' % ("0" * 400), '{"a": NaN}', '{"a": []}', "[1]", ""]
)
def test_a_file_that_cannot_be_read_repeats_nothing_and_is_written_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "shown-info.json").write_text(text)
    assert note_shown([OFF], directory=tmp_path, now=0.0) == frozenset()
    assert note_shown([OFF], directory=tmp_path, now=1.0) == {OFF}


@pytest.mark.parametrize("severity", [Severity.WARNING, Severity.UNKNOWN, Severity.CRITICAL])
def test_what_is_more_than_information_is_always_shown(tmp_path: Path, severity: Severity) -> None:
    findings = [replace(OFF, severity=severity), replace(OFF, ignored=True)]
    for _ in range(2):
        assert note_shown(findings, directory=tmp_path, now=0.0) == frozenset()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "[1]", '{"titan x": "soon"}', "[" * 100_000, "\udcff"])
def test_a_damaged_file_hides_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "shown-info.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert note_shown([OFF], directory=tmp_path, now=0.0) == frozenset()
    assert note_shown([OFF], directory=tmp_path, now=1.0) == {OFF}


def test_the_file_is_bounded_and_a_directory_that_cannot_be_made_stops_nothing(tmp_path: Path) -> None:
    many = [replace(OFF, hosts=tuple(f"n{number}" for number in range(MOST_KEPT + 10)))]
    note_shown(many, directory=tmp_path, now=0.0)
    assert len(json.loads((tmp_path / "shown-info.json").read_text())) == MOST_KEPT
    (tmp_path / "file").touch()
    assert note_shown([OFF], directory=tmp_path / "file" / "below", now=0.0) == frozenset()


def test_the_report_counts_what_it_leaves_out() -> None:
    def said(result: PreflightResult, **options: object) -> str:
        return "\n".join(paint_line(line, colour=False) for line in render_report(result, **options))  # type: ignore[arg-type]

    result = replace(fleet(3), findings=(LOAD, OFF, replace(OFF, hosts=("l40s-01",))))
    assert "HEAL012 on l40s-01,titan" in said(result)
    short = said(result, repeated=frozenset({LOAD, OFF}))
    assert "SYS002" not in short
    assert "HEAL012 on l40s-01 gpu0" in short
    assert short.endswith("(3 info; 2 info as in the last 24 h: -v shows them)")
    assert "SYS002" in said(result, repeated=frozenset({LOAD, OFF}), verbose=True)


def test_reports_of_hosts_leave_it_out_and_reports_of_files_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    smi = ["preflight", "--from-smi", "tests/preflight/smi/titan-rtx.q.xml"]
    for _ in range(2):
        run_command_line(smi)
        assert "HEAL012" in capsys.readouterr().out
    result = replace(fleet(3), findings=(OFF,))
    for verbose, shown in ((False, True), (False, False), (True, True)):
        text = "\n".join(
            paint_line(line, colour=False) for line in render_todays_report(result, verbose=verbose)
        )
        assert ("INFO      HEAL012" in text) == shown
    monkeypatch.setenv("PET_NNODES", "2")  # ENV005: a setting of another launch
    run_command_line(["preflight", "--gpus", "none"])
    assert "ENV005" in capsys.readouterr().out
    kept = json.loads((tmp_path / "gpulaunch" / "shown-info.json").read_text())
    assert {key.split()[0] for key in kept} == {"titan", "localhost"}
