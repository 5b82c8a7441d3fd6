"""The logic of the suite for real GPUs, on saved and simulated boards: its faults are found without a GPU."""

import json
import os
import re
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from preflight.facts.gpu import Gpu
from preflight.facts.missing import Missing
from tests.gpu import patience, report, smi, strays, suite
from tests.gpu.board import MARK, ROOT, Board, NoGpu, environment, simulated_environment
from tests.gpu.case import CANNOT_RUN
from tests.gpu.cases import CASES
from tests.gpu.cases.facts import GPU_ROWS, compare_gpu
from tests.gpu.ledger import Ledger, Observation, Verdict, read
from tests.gpu.report_files import Reporter
from tests.gpu.suite import Result, Status
from tests.smi_reading import parse_smi

SMI = ROOT / "tests" / "preflight" / "smi"
RECORDED = sorted(SMI.glob("*.q.xml"))
OK, WRONG, UNABLE = Verdict.OK, Verdict.WRONG, Verdict.UNABLE


def board(place: Path, xml: str = "") -> Board:
    """A board whose nvidia-smi prints what lies in `place`/xml; without it there is no nvidia-smi."""
    env = {"PATH": f"{place}:/usr/bin:/bin", MARK: f"test-{place.name}-{os.getpid()}"}
    if xml:
        program = place / "nvidia-smi"
        program.write_text(f"#!/bin/sh\ncat {place}/xml\n")
        program.chmod(0o755)
        (place / "xml").write_text(xml)
    return Board(place, env)


def seen(*verdicts: Verdict) -> list[Observation]:
    return [Observation(f"thing {at}", "1", "2", verdict) for at, verdict in enumerate(verdicts)]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_facts_agree_with_what_nvidia_smi_prints_and_each_other_value_is_noticed(path: Path) -> None:
    text = path.read_text()
    facts = parse_smi(text, "recorded").gpus
    assert not isinstance(facts, Missing)
    for gpu, element in zip(facts, smi.gpus(text), strict=True):
        found = {what: ok for what, _, _, ok in compare_gpu(gpu, element, element)}
        assert len(found) > 12
        assert all(found.values()), found
        for what in found:
            changed = {name: ok for name, _, _, ok in compare_gpu(other(gpu, what), element, element)}
            assert changed[what] is False, what


def other(gpu: Gpu, path: str) -> Gpu:
    """The same GPU with one value changed."""
    head, _, rest = path.partition(".")
    whole = getattr(gpu, head)
    if not rest:
        return replace(gpu, **{head: different(whole)})
    return replace(gpu, **{head: replace(whole, **{rest: different(getattr(whole, rest))})})


def different(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1000
    return Missing("changed", "error") if isinstance(value, tuple) else f"{value} changed"


def test_rows_name_facts_that_exist() -> None:
    names = {row.fact.partition(".")[0] for row in GPU_ROWS}
    assert names <= set(Gpu.__dataclass_fields__)


@pytest.mark.parametrize(
    ("code", "verdicts", "status", "word"),
    [
        (0, [OK], Status.PASSED, ""),
        (0, [OK, UNABLE], Status.PASSED, "cannot say: thing 1"),
        (0, [OK, WRONG], Status.FAILED, "not as expected: thing 1"),
        (0, [], Status.FAILED, "judged nothing"),
        (0, [Verdict.NOTE], Status.FAILED, "judged nothing"),
        (0, [UNABLE], Status.CANNOT_RUN, "thing 0: 2"),
        (CANNOT_RUN, [], Status.CANNOT_RUN, "said"),
        (CANNOT_RUN, [WRONG], Status.FAILED, "not as expected"),
        (1, [OK], Status.FAILED, "said"),
        (-11, [OK], Status.FAILED, "said"),
        (None, [OK], Status.FAILED, "did not end within 9 s"),
    ],
)
def test_what_becomes_of_a_case(code: int | None, verdicts: list[Verdict], status: Status, word: str) -> None:
    judged, reason = suite._judge(code, "said", seen(*verdicts), 9.0)
    assert judged is status
    assert word in reason
    assert bool(reason) == bool(word)


def test_a_ledger_survives_the_end_of_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    ledger.equal("one", 1, 1)
    ledger.between("two", None, 0, 1)
    ledger.unable("three", "why")
    ledger.close()
    with path.open("a") as file:
        file.write('["four", "cut')
    assert [(each.what, each.verdict) for each in read(path)] == [
        ("one", OK),
        ("two", WRONG),
        ("three", UNABLE),
    ]
    assert read(tmp_path / "absent") == []


def test_a_changed_machine_is_noticed_and_our_processes_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "SETTLE_S", 0.0)
    before = (SMI / "2xl40s-busy.q.xml").read_text()
    machine = board(tmp_path, before)
    assert suite.afterwards(machine, before).status is Status.PASSED
    mode = smi.text(smi.gpus(before)[0], "compute_mode")
    used = smi.text(smi.gpus(before)[0], "fb_memory_usage/used")
    changed = before.replace(f"<compute_mode>{mode}<", "<compute_mode>Prohibited<", 1)
    changed = changed.replace(f"<used>{used}<", "<used>40000 MiB<", 1)
    changed = re.sub(r"<pid>\d+<", "<pid>4194305<", changed, count=1)
    (tmp_path / "xml").write_text(changed)
    with subprocess.Popen([sys.executable, "-c", "input()"], env=machine.env, stdin=subprocess.PIPE) as left:
        while not strays.marked(machine.env[MARK]):
            assert left.poll() is None
        result = suite.afterwards(machine, before)
        assert left.wait() == -9
    wrong = [each.what.partition(" GPU-")[0] for each in result.observations if each.verdict is WRONG]
    assert result.status is Status.FAILED
    assert wrong == ["processes of the suite", "settings that changed", "new processes on", "memory used on"]


def test_cases_that_do_not_fit_into_the_time_say_so(tmp_path: Path) -> None:
    machine = board(tmp_path, (SMI / "titan-rtx.q.xml").read_text())
    *results, after = suite.run_cases(machine, CASES, 0.0)
    assert [each.name for each in results] == [case.name for case in CASES]
    assert all(each.status is Status.CANNOT_RUN and "out of time" in each.reason for each in results)
    assert after.name == "afterwards"


def test_a_machine_without_a_gpu_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(NoGpu, match="there is no nvidia-smi"):
        board(tmp_path).smi_xml()
    env = {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    argv = [sys.executable, "-m", "tests.gpu", "--out", str(tmp_path / "out")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: there is no nvidia-smi")
    assert not (tmp_path / "out").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_report_names_neither_machine_nor_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    xml = (SMI / "titan-rtx.q.xml").read_text()
    uuid = smi.text(smi.gpus(xml)[0], "uuid")
    machine = board(tmp_path, xml)
    monkeypatch.setitem(machine.__dict__, "torch", {"version": "2.13.0", "cuda": "13.0"})
    reporter = Reporter(machine, tmp_path / "out", "abc", "2026-11-22")
    one = Observation("a | b", f"{uuid} `x` {tmp_path}/job", "", WRONG)
    reporter.add(Result("facts", "title", Status.FAILED, 1.0, f"on {uuid}", [one]))
    page = reporter.page_path.read_text()
    assert "The suite has not ended" in page
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "stderr").write_text("why it failed")
    (tmp_path / "facts" / "large").write_bytes(bytes(1 << 20))
    reporter.finish()
    page = reporter.page_path.read_text()
    assert "has not ended" not in page
    assert "| a / b | `GPU-0 'x' SCRATCH/job` |  | **wrong** |" in page
    assert "2.13.0, CUDA 13.0" in page
    document = json.loads(reporter.page_path.with_suffix(".json").read_text())
    assert document["schema"] == report.SCHEMA
    assert document["complete"] is True
    assert document["counts"] == {"failed": 1}
    assert document["cases"][0]["observations"][0]["verdict"] == "wrong"
    with tarfile.open(next((tmp_path / "out").glob("*.failed.tar.gz"))) as kept:
        assert kept.getnames() == ["facts", "facts/stderr"]
    assert all(uuid not in path.read_text() for path in (tmp_path / "out").iterdir() if path.suffix != ".gz")


def test_the_page_about_the_suite_lists_every_case() -> None:
    text = (ROOT / "docs" / "hardware" / "README.md").read_text()
    table = "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`([a-z-]+)`", table)) == {case.name for case in CASES}
    assert len({case.name for case in CASES}) == len(CASES)


def test_limits_are_longer_on_a_busy_machine_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert patience.stretch(0.4, 2) == 1.0
    assert patience.stretch(6.0, 2) == 3.0
    assert patience.stretch(900.0, 2) == patience.MOST_STRETCH
    now = [0.0]
    monkeypatch.setattr("tests.gpu.patience.time.monotonic", lambda: now[0])
    monkeypatch.setattr(patience, "stretch", lambda: 4.0)
    waits = patience.Patience(10.0)
    now[0] = 39.0
    assert not waits.is_over()
    now[0] = 40.0
    assert waits.is_over()
    assert patience.Patience(10.0, at_most_s=0.0).is_over()


def test_a_fault_of_the_suite_fails_its_case_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object) -> suite.Result:
        raise ValueError("a bug")

    monkeypatch.setattr(suite, "run_case", fault)
    machine = board(tmp_path, (SMI / "titan-rtx.q.xml").read_text())
    *results, after = suite.run_cases(machine, CASES[:2], 100.0)
    assert [each.status for each in results] == [Status.FAILED] * 2
    assert "ValueError: a bug" in results[0].reason
    assert after.name == "afterwards"


def test_what_torch_says_is_asked_once_for_all_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def ask(self: Board) -> dict[str, str]:
        asked.append(self.scratch)
        return {"version": "2"}

    monkeypatch.setattr(Board, "_ask_torch", ask)
    assert board(tmp_path).torch == {"version": "2"}
    (tmp_path / "case").mkdir()
    assert board(tmp_path / "case").torch == {"version": "2"}
    assert asked == [tmp_path]


def test_values_that_a_driver_prints_in_another_form_are_named_not_a_crash() -> None:
    path = SMI / "titan-rtx.q.xml"
    facts = parse_smi(path.read_text(), "recorded").gpus
    assert not isinstance(facts, Missing)
    odd = re.sub("<pci_bus_id>[^<]*", "<pci_bus_id>new-form", path.read_text())
    odd = odd.replace("minor_number", "minor")
    element = smi.gpus(odd)[0]
    found = {what for what, *_ in compare_gpu(facts[0], element, element)}
    assert "uuid" in found
    assert not {"pci_bus_id", "minor"} & found


@pytest.mark.slow
def test_a_case_runs_in_a_process_of_its_own_on_a_simulated_board(tmp_path: Path) -> None:
    env = environment(tmp_path, f"test-{os.getpid()}") | simulated_environment("h200", tmp_path)
    (case,) = [each for each in CASES if each.name == "facts-smi"]
    result = suite.run_case(Board(tmp_path, env, "h200"), case, 60.0)
    assert result.status is Status.PASSED, result
    assert len([each for each in result.observations if each.verdict is OK]) > 30
