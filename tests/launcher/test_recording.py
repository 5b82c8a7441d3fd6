"""Recordings: the same verdict elsewhere, masked or not, and nothing of the original left in a masked one."""

import gzip
import json
from pathlib import Path

import pytest

from launcher.errors import BadInput
from launcher.remote.anonymize import anonymize_facts
from launcher.remote.recording import load_recording, record_json
from preflight.checks.runner import check_host
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import decode, encode
from preflight.facts.missing import Missing
from preflight.job import Expect, Job
from tests.hardware import gpus_of
from tests.preflight.golden_cases import Case, all_cases, host

STORY = {
    "identity.user": "marta",
    "identity.hostname": "gpu-box.example.edu",
    "processes.processes": [
        {
            "pid": 4242, "start_ticks": 1, "ppid": 1, "uid": 1000, "user": "marta",
            "state": "S", "comm": "python", "age_s": 7200.0, "threads": 2, "tty": False, "cpu_ticks": 5,
            "argv": ["/home/marta/venv/bin/python", "/home/marta/secret-project/train.py", "--token=hf_abc"],
            "wchan": {"missing": "not read"},
            "environ": {"TORCHELASTIC_RUN_ID": "none", "LOCAL_RANK": "0", "MASTER_ADDR": "10.0.0.5"},
            "gpu_files": ["/dev/nvidia0"],
        }
    ],
    "script.text": "API_KEY = 'abc'",
}  # fmt: skip


def test_a_masked_recording_keeps_nothing_that_tells_who_and_where() -> None:
    said = json.dumps(record_json(host(STORY, "gpu-box"), (), masked=True))
    for secret in (
        "marta",
        "gpu-box",
        "example.edu",
        "secret-project",
        "hf_abc",
        "API_KEY",
        "10.0.0.5",
        "/ana",
        '"ana"',
    ):
        assert secret not in said, secret


def test_masked_names_still_fit_together() -> None:
    masked = anonymize_facts(encode(host(STORY, "gpu-box")))
    (process,) = [each for each in masked["processes"]["processes"] if each["pid"] == 4242]
    assert process["user"] == masked["identity"]["user"]
    network = masked["network"]
    assert network["ssh_server_address"] in network["interfaces"][1]["addresses"]
    assert process["environ"]["MASTER_ADDR"] == network["ssh_server_address"]


def test_a_user_without_a_name_hides_no_number() -> None:
    facts = {"user": "1000", "said": "1000 MHz"}
    assert anonymize_facts(facts) == facts


@pytest.mark.parametrize("case", [case for case in all_cases() if "hosts" not in case.data], ids=str)
def test_a_masked_host_is_judged_like_the_host_itself(case: Case) -> None:
    overlay = case.data.get("facts", {})
    facts = host(overlay)
    masked = decode(HostFacts, anonymize_facts(encode(facts)))

    def verdicts(of: HostFacts) -> list[tuple[str, str]]:
        return [(finding.code, finding.severity.value) for finding in check_host(of, Job(), Expect())]

    assert verdicts(masked) == verdicts(facts)


def test_a_recording_is_read_back_whole(tmp_path: Path) -> None:
    facts = host(STORY)
    path = tmp_path / "titan.json"
    path.write_text(json.dumps(record_json(facts, check_host(facts, Job(), Expect()), masked=False)))
    assert load_recording(path) == facts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ('{"schema": "gpulaunch.record/1", "facts": {"host": "ti', "cut: it ends"),
        ('{"a": 1} {"b": 2}', "several recordings"),
        ('{"a": 1}\n{"b": 2', "several recordings"),
        ("| NVIDIA-SMI 550.90.07   Driver Version: 550.90.07 |\n", "what nvidia-smi printed"),
        ("[1]", "expected an object"),
        ('{"schema": "other/1"}', "schema 'other/1'"),
        ('{"facts": {"host": 3}}', "does not hold facts"),
        ("{" * 5, "cut: it ends"),
        ('{"facts": {"host": "a"}\n', "cut: it ends"),
        ('{"facts": {}}\nthanks\n', "other text beside"),
        ('Mine:\n```\n{"schema": "gpulaunch.record/1"}\n```\n', "other text beside"),
        ('{"facts": {"host": NaN}}', "NaN is not a finite number"),
        ('{"facts": {"host": 1e999}}', "1e999 is not a finite number"),
        ("[" * 100_000, "nested too deeply"),
        ("caf\udce9", "not a text"),
    ],
)
def test_what_is_no_recording_is_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadInput, match=words) as refusal:
        load_recording(path)
    assert str(path) in refusal.value.message
    assert "--from-smi FILE" in refusal.value.fix


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-16-le"])
def test_the_encodings_of_windows_are_read(tmp_path: Path, encoding: str) -> None:
    facts = host(STORY)
    path = tmp_path / "titan.json"
    path.write_text(json.dumps(record_json(facts, (), masked=False)), encoding=encoding)
    assert load_recording(path) == facts


def test_a_recording_that_contradicts_itself_is_refused_with_the_place(tmp_path: Path) -> None:
    document = record_json(host(), (), masked=False)
    first = document["facts"]["gpus"][0]
    more = {**first["memory"], "used_mib": first["memory"]["total_mib"] + 1}
    whole = json.dumps(document)
    for text, words in (
        (json.dumps({"facts": {**document["facts"], "gpus": [first, first]}}), r"gpus\[1\].index: 0 is that"),
        (json.dumps({"facts": {**document["facts"], "gpus": [{**first, "memory": more}]}}), "MiB in use of"),
        (whole.replace('"host":', '"host": "a", "host":', 1), "'host' twice"),
        (whole.replace("record/1", "record/7"), "record/7"),
    ):
        path = tmp_path / "x.json"
        path.write_text(text)
        with pytest.raises(BadInput, match=words):
            load_recording(path)


def test_a_compressed_recording_is_read_unless_it_is_cut(tmp_path: Path) -> None:
    facts = host(STORY)
    path = tmp_path / "x.json.gz"
    packed = gzip.compress(json.dumps(record_json(facts, (), masked=False)).encode())
    path.write_bytes(packed)
    assert load_recording(path) == facts
    for broken, words in ((packed[:-40], "gzip, and cut"), (packed[:2] + b"x" * 40, "gzip, and damaged")):
        path.write_bytes(broken)
        with pytest.raises(BadInput, match=words):
            load_recording(path)


def test_an_unknown_word_of_a_newer_gpulaunch_costs_that_fact_alone(tmp_path: Path) -> None:
    document = record_json(host(), (), masked=False)
    first = document["facts"]["gpus"][0]
    first["compute_mode"] = "shared_process"
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    (gpu, *others) = gpus_of(load_recording(path))
    assert "shared_process" in str(gpu.compute_mode)
    assert isinstance(gpu.compute_mode, Missing)
    assert gpu.memory == gpus_of(host())[0].memory
    assert all(not isinstance(other.compute_mode, Missing) for other in others)
