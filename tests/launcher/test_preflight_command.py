"""`gpulaunch preflight`, explain, checks and record as a user types them."""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from launcher.cli import cli
from launcher.commands._preflight import parse_gpus
from launcher.error_codes import list_host_codes
from launcher.errors import HOST_FIXES, BadInput, GpulaunchError
from launcher.remote.recording import record_json
from preflight.checks.runner import load_checks
from tests.extra_recordings import SMI
from tests.lab.silicon.recordings import RECORDINGS
from tests.pages.checks import render_pages
from tests.preflight.golden_cases import host

DOCS = Path(__file__).parents[2] / "docs" / "checks"


def gpulaunch(*argv: str) -> Result:
    return CliRunner().invoke(cli, argv, standalone_mode=False)


def saved(tmp_path: Path, overlay: dict[str, object] | None = None, name: str = "titan") -> str:
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(record_json(host(overlay, name), (), masked=False)))
    return str(path)


def test_a_healthy_recording_is_fine(tmp_path: Path) -> None:
    result = gpulaunch("preflight", "--from", saved(tmp_path), "--gpus", "all")
    assert result.return_value == 0
    assert result.output.startswith("OK        titan: 2x NVIDIA L40S")


def test_a_sick_recording_is_not_and_says_what_to_type(tmp_path: Path) -> None:
    result = gpulaunch("preflight", "--from", saved(tmp_path, {"gpus.0.recovery_action": "gpu_reset"}))
    assert result.return_value == 1
    assert "fix: end its processes, then: sudo nvidia-smi --gpu-reset -i 0" in result.output


def test_a_recording_is_judged_by_what_a_named_inventory_expects_of_its_host(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yaml"
    inventory.write_text("hosts: {titan: {ignore: [GPU004], expect: {gpus: 8}}, other: {}}")
    for name, ignored in (("titan", [True]), ("other", [])):
        path = saved(tmp_path, name=name)
        result = gpulaunch("preflight", "--from", path, "-i", str(inventory), "--json")
        found = json.loads(result.output)["findings"]
        assert [each["ignored"] for each in found if each["code"] == "GPU004"] == ignored


def test_ignore_takes_codes_in_any_case_and_with_commas(tmp_path: Path) -> None:
    path = saved(tmp_path, {"gpus.0.recovery_action": "gpu_reset"})
    assert gpulaunch("preflight", "--from", path, "--ignore", "heal001,mode001").return_value == 0


def test_ignoring_a_code_that_does_not_exist_is_a_mistake(tmp_path: Path) -> None:
    result = gpulaunch("preflight", "--from", saved(tmp_path), "--ignore", "HEAL999")
    assert isinstance(result.exception, BadInput)
    assert "HEAL999" in result.exception.message


def test_the_precision_that_is_asked_for_is_judged(tmp_path: Path) -> None:
    path = saved(tmp_path, {f"gpus.{i}.capability": [7, 5] for i in (0, 1)})
    result = gpulaunch("preflight", "--from", path, "--precision", "bf16", "--json")
    document = json.loads(result.output)
    assert "PREC001" in {finding["code"] for finding in document["findings"]}
    assert document["would_use"]["precision"] == "fp16"


def test_a_port_that_was_not_recorded_was_not_checked(tmp_path: Path) -> None:
    result = gpulaunch("preflight", "--from", saved(tmp_path), "--port", "31000")
    assert result.return_value == 1
    assert "PORT001 on titan port 31000" in result.output


def test_localhost_is_asked_without_ssh() -> None:
    result = gpulaunch("preflight", "localhost", "--gpus", "none", "--json")
    document = json.loads(result.output)
    assert document["hosts"]["localhost"]["reached"] is True
    assert document["hosts"]["localhost"]["summary"]["python"]
    assert document["exit_code"] == result.return_value


def test_record_then_judge_gives_the_same_facts(tmp_path: Path) -> None:
    path = tmp_path / "here.json"
    assert gpulaunch("record", "localhost", "-o", str(path), "--mask").exception is None
    document = json.loads(path.read_text())
    assert document["masked"] is True
    assert gpulaunch("preflight", "--from", str(path), "--gpus", "none").exception is None
    assert "exists" in str(gpulaunch("record", "localhost", "-o", str(path)).exception)


SAVED: tuple[tuple[str, int, str], ...] = (
    ("titan-rtx.q.xml", 0, "OK "),
    ("h100-remap-pending.q.txt", 0, "HEAL003"),
    ("8xa100-mig.table.txt", 1, "GPU005"),
    ("8xh100-broken.table.txt", 1, "DRV001"),
    ("error_not-loaded.table.txt", 1, "DRV001"),
    ("error_library-mismatch.table.txt", 1, "DRV001"),
    ("error_no-devices.q.txt", 1, "DRV001"),
    ("2xl40s-held-by-nobody.table.txt", 1, "PROC002"),
    ("2xl40s-busy.capture.txt", 1, "PROC001"),
    ("2xl40s-busy.query.csv", 1, "MODE002"),
)
SAVED_ELSEWHERE: tuple[tuple[str, int, str], ...] = (
    ("rtx-3090_driver-590.44.01.xml", 0, "OK "),
    ("a10_driver-535.129.03_remap-pending_q.txt", 1, "HEAL003"),
    ("a100-sxm4-80gb_driver-535.54.03_mig.xml", 1, "GPU005"),
    ("error_driver-not-communicating.txt", 1, "DRV001"),
    ("error_driver-library-mismatch_driver-470.txt", 1, "DRV001"),
    ("error_no-devices.txt", 1, "DRV001"),
    ("2xgtx-1080ti_driver-440.82_memory-used-no-process-table.txt", 1, "PROC002"),
    ("8xrtx-4090_driver-535.154.05_busy_q.txt", 1, "PROC001"),
    ("2xrtx-a5000_driver-590.44.01.xml", 1, "PROC001"),
)
FILES = [(RECORDINGS / name, code, words) for name, code, words in SAVED]
FILES += [(SMI / name, code, words) for name, code, words in SAVED_ELSEWHERE if (SMI / name).exists()]
ENDLESS = "/dev/zero"


@pytest.mark.parametrize(("path", "code", "words"), FILES, ids=[path.name for path, *_ in FILES])
def test_a_saved_output_of_nvidia_smi_is_judged(path: Path, code: int, words: str) -> None:
    result = gpulaunch("preflight", "--from-smi", str(path))
    assert result.return_value == code, result.output
    assert words in result.output
    assert "not asked of this source: ENV001" in result.output


def test_what_nvidia_smi_prints_can_be_piped() -> None:
    path, code, words = next(each for each in FILES if each[0].suffix == ".xml")
    result = CliRunner().invoke(
        cli, ["preflight", "--from-smi", "-"], input=path.read_bytes(), standalone_mode=False
    )
    assert (result.return_value, words in result.output) == (code, True), result.output


@pytest.mark.parametrize("options", [("--from-smi", ENDLESS), ("--from", ENDLESS), ("-i", ENDLESS, "node1")])
def test_what_never_ends_is_refused_after_a_bounded_part(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launcher.commands._preflight._MOST_OUTPUT", 1 << 20)
    monkeypatch.setattr("launcher.remote.recording.MAX_BYTES", 1 << 20)
    refused = gpulaunch("preflight", *options).exception
    assert isinstance(refused, GpulaunchError)
    assert f"{ENDLESS}: larger than 1 MiB" in refused.message


def test_files_that_a_shell_puts_behind_the_first_are_judged_too(tmp_path: Path) -> None:
    first, second = saved(tmp_path), saved(tmp_path, name="other")
    result = gpulaunch("preflight", "--from", first, second)
    assert "2 hosts: ok" in result.output
    refused = gpulaunch("preflight", "--from", first, "node7").exception
    assert isinstance(refused, BadInput)
    assert "--from judges files, and node7 is none" in refused.message


def test_files_of_one_name_are_hosts_by_their_directories(tmp_path: Path) -> None:
    packed = gzip.compress(next(path for path, code, _ in FILES if code == 0).read_bytes())
    paths = [tmp_path / name / "smi.txt.gz" for name in ("node1", "node2")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(packed)
    result = gpulaunch("preflight", "--from-smi", *map(str, paths))
    assert result.output.startswith("OK        node[1-2]: 1x"), result.output
    paths[0].write_bytes(packed[:-20])
    refused = gpulaunch("preflight", "--from-smi", str(paths[0])).exception
    assert isinstance(refused, BadInput)
    assert "gzip, and cut" in refused.message


def test_codes_of_every_kind_are_explained_as_json() -> None:
    codes = {"GPU001": "check", "HOST004": "host", "G4": "guard", "P101": "rule", "S06": "signature"}
    document = json.loads(gpulaunch("explain", *codes, "--json").output)
    assert document["schema"] == "gpulaunch.explain/1"
    assert {row["code"]: row["kind"] for row in document["codes"]} == codes
    assert "\n".join(row["text"] for row in document["codes"]) == gpulaunch("explain", *codes).output


def test_every_code_can_be_explained() -> None:
    for code in [*load_checks(), *list_host_codes()]:
        assert gpulaunch("explain", code.lower()).output.startswith(f"{code}: ")


def test_a_misspelt_code_names_the_nearest() -> None:
    result = gpulaunch("explain", "GPU03")
    assert isinstance(result.exception, BadInput)
    assert "GPU003" in result.exception.fix


def test_checks_lists_all_of_them() -> None:
    said = gpulaunch("checks").output
    assert all(code in said for code in [*load_checks(), *list_host_codes()])
    document = json.loads(gpulaunch("checks", "--json").output)
    assert [check["code"] for check in document["checks"]] == list(load_checks())


def test_the_pages_of_the_checks_are_current() -> None:
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    assert on_disk == render_pages(), "run: python -m tests.pages"


def test_fixes_of_hosts_start_as_all_others_do() -> None:
    assert [code for code in list_host_codes() if HOST_FIXES[code][0].isupper()] == []


def test_other_words_for_gpus_are_refused() -> None:
    with pytest.raises(BadInput, match="--gpus"):
        parse_gpus("some")


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A project as `gpulaunch init` leaves it, and a host that holds nothing of it yet."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\n")
    absent = {"missing": "no such file", "code": "not-found"}
    return saved(tmp_path, {"paths.0.exists": False, "script": absent})


def reasons(recording: str, config: str) -> dict[str, str]:
    Path("job.yaml").write_text(f"script: train.py\nworkdir: ~/train\n{config}")
    result = gpulaunch("preflight", "-c", "./job.yaml", "--from", recording, "--json")
    findings = json.loads(result.output)["findings"]
    return {item["code"]: item["fix"] for item in findings if item["severity"] == "critical"}


def test_a_tree_that_a_sync_will_bring_is_not_missed_before(written: str) -> None:
    found = reasons(written, "sync: true\n")
    assert not {"DISK001", "DISK003"} & set(found)
    result = gpulaunch("preflight", "-c", "./job.yaml", "--from", written)
    assert result.output.startswith("sync: hosts are judged as if train.py were on them already\n")


def test_without_a_sync_its_absence_names_the_option_that_sends_it(written: str) -> None:
    found = reasons(written, "")
    assert "gpulaunch run --sync" in found["DISK003"]
    assert "DISK001" in found


def test_a_prolog_waits_for_no_agent_that_never_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launcher.commands._prolog.LIMIT_S", 1)
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexec cat > /dev/null\n")  # it ends with its client
    python.chmod(0o755)
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(json.dumps({"hosts": {"localhost": {"python": str(python)}}}))
    done = CliRunner().invoke(cli, ["preflight", "--prolog", "-i", str(hosts)], standalone_mode=False)
    assert done.return_value == 1
    assert done.output == "the checks did not end within 1 s: the driver or a disk does not answer\n"
