"""The deep checks around their launch: what is measured, what is reported, what is kept."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.cli import run_command_line
from launcher.config.inventory import HostEntry
from launcher.config.inventory_reader import load_inventory
from launcher.deep.best_values import FILE, KEPT, BestValues
from launcher.deep.measurement import build_run
from launcher.deep.save_expect import calculate_floors, save_floors, set_expectations
from launcher.deep.targets import DeepOptions, build_deep_job, choose_hosts, settle_gpus
from launcher.errors import BadInput, HostError
from launcher.exit_codes import ExitCode
from launcher.follow.events import HostReport
from launcher.follow.outcome import build_outcome
from launcher.follow.run_state import RunState
from launcher.host_checks.result import PreflightResult
from launcher.report.deep import DeepReport, encode_deep, render_deep_report
from preflight.checks.runner import check_deep
from preflight.deep.comparison import read_values
from preflight.deep.measurements import Unmeasured
from preflight.facts.host import HostFacts
from preflight.job import Job
from tests.launcher.run_plans import NOWHERE, plan
from tests.preflight.deep_runs import deep_run
from tests.preflight.golden_cases import host


def preflighted(*facts: HostFacts, errors: dict[str, HostError] | None = None) -> PreflightResult:
    names = [each.host for each in facts] + list(errors or {})
    return PreflightResult(
        job=Job(gpus="auto"),
        entries=tuple(HostEntry(name) for name in names),
        facts={each.host: each for each in facts},
        errors=errors or {},
        reach=(),
        findings=(),
        seconds=1.0,
    )


def chosen(result: PreflightResult, job: Job) -> tuple[list[str], tuple[Unmeasured, ...]]:
    entries, left_out = choose_hosts(result, settle_gpus(build_deep_job(job, DeepOptions()), result))
    return [entry.name for entry in entries], left_out


def test_a_gpu_in_use_is_not_measured_and_its_holder_is_named() -> None:
    process = {"pid": 4242, "kind": "compute", "used_mib": 9000, "name": "python"}
    row = {
        "pid": 4242, "start_ticks": 5, "ppid": 1, "uid": 1001, "user": "ana",
        "state": "S", "comm": "python", "argv": ["python", "train.py"], "age_s": 10800.0,
        "threads": 9, "tty": True, "environ": {"missing": "x", "code": "no-permission"}, "gpu_files": [],
        "cpu_ticks": 9,
    }  # fmt: skip
    busy = host({"gpus.0.processes": [process], "processes.processes": [row]}, "titan")
    free = host(name="ada")
    names, left_out = chosen(preflighted(busy, free), Job(gpus="auto"))
    assert names == ["titan", "ada"]
    assert [(each.host, each.gpu) for each in left_out] == [("titan", 0)]
    assert "pid 4242 (ana, 3 h old" in left_out[0].why
    both = {f"gpus.{at}.processes": [process] for at in (0, 1)} | {"processes.processes": [row]}
    names, left_out = chosen(preflighted(host(both, "titan"), free), Job(gpus="auto"))
    assert names == ["ada"]
    assert [each.gpu for each in left_out] == [0, 1]
    findings = check_deep(replace(deep_run(), unmeasured=left_out))
    assert [(finding.code, finding.severity.value) for finding in findings] == [("DEEP001", "unknown")] * 2


def test_hosts_without_gpus_are_measured_alone_and_not_beside_gpus() -> None:
    gpu = host(name="titan")
    bare = host({"gpus": [], "pci_gpus": []}, "bare")
    assert chosen(preflighted(bare), Job(gpus="auto")) == (["bare"], ())
    names, left_out = chosen(preflighted(gpu, bare), Job(gpus="auto"))
    assert names == ["titan"]
    assert [(each.host, each.gpu) for each in left_out] == [("bare", None)]
    gone = {"gone": HostError("gone", "it does not answer")}
    names, left_out = chosen(preflighted(gpu, errors=gone), Job(gpus="auto"))
    assert (names, left_out[0].why) == (["titan"], "it does not answer")


def reports(rank: int) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = [
        {"kind": "begin", "step": "join"},
        {"kind": "result", "step": "join", "device": "cpu", "model": "EPYC", "torch": "2.9", "node": rank},
        {"kind": "begin", "step": "memory"},
        {"kind": "result", "step": "memory", "bytes": 8, "bad_words": rank, "seconds": 0.1},
    ]
    return [{"event": "deep", "rank": rank, **step} for step in steps]


def test_what_ranks_report_reaches_the_findings_and_no_host_speaks_for_another() -> None:
    state = RunState(plan((None,), (None,)))
    for name, rank, number in (("a", 0, 0), ("b", 1, 1), ("a", 1, 0)):
        for fields in reports(rank):
            odd = {"bad_words": 7} if (name, rank) == ("a", 1) else {}
            tuple(state.handle(HostReport(name, "deep", {**fields, **odd}, at=float(number))))
    run = build_run(build_outcome(state, NOWHERE, 3.0, 1))
    assert [(rank.host, rank.memory.bad_words if rank.memory else None) for rank in run.ranks] == [
        ("a", 0),
        ("b", 1),
    ]
    rows = [(each.code, each.hosts, each.severity.value) for each in check_deep(run)]
    assert ("DEEP001", ("b",), "critical") in rows
    assert ("DEEP002", ("a", "b"), "unknown") in rows  # its products were never reported


def test_the_document_is_the_text_and_the_text_survives_any_document() -> None:
    run = deep_run(hosts=3, gpus=2, overlay={"0.matmul.tflops": [300.0, 310.0] * 10})
    report = DeepReport.of(run, check_deep(run))
    document = json.loads(json.dumps(encode_deep(report)))
    text = "\n".join(render_deep_report(document))
    assert "matrix products: median 700 TFLOPS" in text
    assert "n0 gpu0" in text
    assert "44% of peers  CRITICAL" in text
    assert "node pairs: GB/s one way" in text
    assert "pairs within n1" in text
    assert all(line.isascii() for line in render_deep_report(document, ascii_only=True))
    odd: tuple[Any, ...] = (None, 3, "x", [], [1], {}, [{"samples": 3, "members": "x", "pairs": [[]]}])
    for key in document:
        for value in odd:
            assert "\x1b" not in "".join(render_deep_report({**document, key: value}))
    hostile = {"values": [{"label": "\x1b[2J\nx", "host": "\x1b", "samples": [1, "2"], "value": 1e999}]}
    assert "\x1b" not in "".join(render_deep_report(hostile))


def test_the_best_of_each_gpu_is_kept_and_odd_files_count_as_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for rate in (600.0, 700.0, 650.0):
        store = BestValues.load()
        store.add(read_values(deep_run(gpus=1, overlay={"0.matmul.tflops": [rate]})))
    (kept,) = (each for each in BestValues.load().history(["n0"]) if each.name == "gemm_tflops")
    assert (kept.host, kept.uuid, kept.best) == ("n0", "GPU-0000", 700.0)
    assert [value for _, value in kept.last] == [600.0, 700.0, 650.0]
    for _ in range(KEPT):
        store.add(read_values(deep_run(gpus=1)))
    assert {len(each.last) for each in BestValues.load().history(["n0"])} == {KEPT}
    file = tmp_path / "gpulaunch" / "deep" / FILE
    for odd in (
        "",
        "[]",
        '{"hosts": {"n0": {"GPU-0000": {"values": {"gemm_tflops": {"best": "x", "last": 3}}}}}}',
        '{"hosts": {"n0": {"GPU-0000": 3}}}',
        '{"gpus": {}}',
        "{",
    ):
        file.write_text(odd)
        store = BestValues.load()
        assert store.history(["n0"]) == ()
        store.add(read_values(deep_run(gpus=1)))
        assert BestValues.load().history(["n0"])[0].best == 700.0


def test_a_host_sets_no_best_of_another_host_and_the_trend_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    lie = {"0.matmul.tflops": [9000.0], "1.facts.uuid": "GPU-0000", "1.matmul.tflops": [400.0]}
    store = BestValues.load()
    store.add(each for each in read_values(deep_run(hosts=2, gpus=1, overlay=lie)) if each.host == "n0")
    later = {"0.facts.uuid": "GPU-0000", "0.host": "n1"}
    run = replace(deep_run(gpus=1, overlay=later), former=store.history(["n1"]))
    assert check_deep(run) == ()
    store.add(read_values(run))
    run = replace(deep_run(gpus=1, overlay=later), former=BestValues.load().history(["n1"]))
    document = json.loads(json.dumps(encode_deep(DeepReport.of(run, ()))))
    (row,) = (each for each in document["values"] if each["name"] == "gemm_tflops")
    assert [value for _, value in row["former"]] == [700.0]
    assert any("700 to 700, 1 measurement since 20" in line for line in render_deep_report(document))
    assert all(line.isascii() for line in render_deep_report(document, ascii_only=True))


INVENTORIES = {
    "no hosts": "defaults:\n  user: ada\n",
    "empty": "",
    "bare name": "hosts:\n  titan:   # mine\n  ada:\n",
    "block": (
        "hosts:\n  titan:\n    address: 10.0.0.7  # here\n    gpus: [0, 1]\n\n"
        "# the end\ngroups: {a: [titan]}\n"
    ),
    "block with expect": (
        "hosts:\n    titan:\n        expect:\n            gpus: 4   # four\n            h2d_gbs: 3\n\n"
        "        port: 22\n"
    ),
    "flow": "hosts:\n  titan: {address: 10.0.0.7, expect: {gpus: 4}}\n  ada: {}\n",
    "flow host": "hosts:\n  titan: {address: 10.0.0.7}\n",
    "all flow": "hosts: {titan: {}, ada: {}}\n",
    "range": "hosts:\n  ti[ta-tb]n:\n    port: 3\n  other:\n    env: {A: 1}\ngroups: {}\n",
    "list at the end": "hosts:\n  titan:\n    jump:\n      - a\n      - b   # last\n",
}


@pytest.mark.parametrize("name", INVENTORIES)
def test_floors_are_written_and_nothing_else_of_hosts_yaml_changes(name: str) -> None:
    text = INVENTORIES[name]
    edited = set_expectations(text, {"titan": {"h2d_gbs": 52.4, "gemm_tflops": 0.0305}})
    data = yaml.safe_load(edited)
    assert data["hosts"]["titan"]["expect"] | {"gpus": 4} == {
        "gpus": 4,
        "h2d_gbs": 52.4,
        "gemm_tflops": 0.0305,
    }
    for line in text.splitlines():
        comment = line.partition("#")[2]
        assert comment in edited
    again = set_expectations(edited, {"titan": {"h2d_gbs": 52.4, "gemm_tflops": 0.0305}})
    assert again == edited


@pytest.mark.parametrize("name", INVENTORIES)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_floors_of_many_hosts_are_written_at_once_with_the_line_ends_of_the_file(name: str, end: str) -> None:
    text = INVENTORIES[name].replace("\n", end)
    floors = {host: {"h2d_gbs": 52.4, "gemm_tflops": 30.5} for host in ("titan", "ada", "new-1", "new-2")}
    edited = set_expectations(text, floors)
    one_by_one = INVENTORIES[name]
    for one, values in floors.items():
        one_by_one = set_expectations(one_by_one, {one: values})
    assert yaml.safe_load(edited) == yaml.safe_load(one_by_one)
    assert edited.count("\n") == edited.count(end if text else "\n")
    assert [line for line in text.split(end) if "#" in line] == [
        line for line in edited.split(end) if "#" in line
    ]
    assert set_expectations(edited, floors) == edited


def test_floors_go_below_a_key_that_is_there_without_a_value() -> None:
    text = "hosts:\n    titan:\n        expect:\n        port: 22\n"
    edited = set_expectations(text, {"titan": {"h2d_gbs": 52.4}})
    assert edited == text.replace("expect:\n", "expect:\n            h2d_gbs: 52.4\n")


def test_floors_of_many_hosts_read_the_file_a_fixed_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    load = yaml.safe_load

    def count(text: str) -> Any:
        counted.append(text)
        return load(text)

    monkeypatch.setattr(yaml, "safe_load", count)
    for hosts in (1, 40):
        counted.clear()
        text = "hosts:\n" + "".join(f"  n{at}: {{port: 22}}\n" for at in range(hosts))
        set_expectations(text, {f"n{at}": {"h2d_gbs": 3.0} for at in range(hosts)})
        assert sum(len(words) > len("3.0") for words in counted) == 2


def test_an_inventory_that_cannot_be_edited_with_certainty_is_left_alone() -> None:
    text = "base: &b {port: 22}\nhosts:\n  titan: *b\n  ada: *b\n"
    with pytest.raises(BadInput, match="cannot be edited") as refused:
        set_expectations(text, {"titan": {"h2d_gbs": 50.0}})
    assert "h2d_gbs: 50" in refused.value.fix


@pytest.mark.parametrize("user", ["2024-13-45", "0x_", "="])
def test_a_value_that_pyyaml_cannot_construct_is_an_error_of_ours(user: str) -> None:
    with pytest.raises(BadInput, match="cannot be edited"):
        set_expectations(f"hosts:\n  titan: {{user: {user}}}\n", {"titan": {"h2d_gbs": 50.0}})


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("preflight", "--deep", "--seconds", "nan"), "--seconds: expected a duration such as 90,"),
        (("bench", "--save-expect"), "gpulaunch init makes one"),
        (("bench", "--save-expect", "-i", "hosts.yaml"), "add this under hosts:"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_measured(
    words: tuple[str, ...],
    fix: str,
    tmp_path: Path,
    config_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    del config_home
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder if "-i" in words else tmp_path)
    (folder / "hosts.yaml").write_text("hosts: {n1: {user: 2024-13-45}}\n")
    assert run_command_line(words) == ExitCode.USAGE
    assert fix in capfd.readouterr().err
    assert not Path("gpulaunch-runs").exists()


def test_measured_floors_reach_the_inventory_and_what_was_slow_does_not(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text("hosts:\n  n0:\n    port: 22  # odd\n  n1:\n")
    run = deep_run(hosts=2, gpus=4, overlay={"0.matmul.tflops": [400.0] * 4})
    readings = read_values(run)
    assert "gemm_tflops" not in calculate_floors(readings)["n0"]
    lines = list(save_floors(readings, load_inventory(path)))
    assert len(lines) == 2
    loaded = load_inventory(path)
    assert loaded.hosts["n0"].expect.memory_gbs == 2470.0
    assert loaded.hosts["n0"].expect.gemm_tflops is None
    assert loaded.hosts["n1"].expect.gemm_tflops == 665.0
    assert loaded.hosts["n0"].port == 22
    path.write_bytes(b"hosts:\r\n  n0:  # first\r\n")
    path.chmod(0o640)
    list(save_floors(readings, load_inventory(path)))
    assert path.read_bytes().startswith(b"hosts:\r\n  n0:  # first\r\n    expect:\r\n")
    assert path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(BadInput, match="to write to"):
        list(save_floors(readings, replace(loaded, path=None)))
