"""Answers of hosts as they come: lines of text, and lines of JSON."""

import gc
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from launcher.config.inventory import HostEntry
from launcher.errors import BadInput, ConnectionTimedOut, HostError
from launcher.host_checks.answers import JsonLines, TextAnswers, encode_preflight_summary
from launcher.host_checks.collection import name_awaited_hosts
from launcher.host_checks.evaluation import evaluate_facts
from launcher.host_checks.preflight import _import_judgement
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.remote.agent import GatherResult
from preflight.job import Job
from tests.preflight.golden_cases import host

RECORDINGS = Path(__file__).parents[1] / "preflight/recordings"
SILENT = ConnectionTimedOut("b", "no answer from 192.0.2.9 port 22 within 10 s", "Is the host up?")


def test_each_answer_is_a_line_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    answers = TextAnswers()
    answers.take_answer(HostEntry("a"), host({}, "a"))
    first = capsys.readouterr().out
    assert first.startswith("answered  a: 2x NVIDIA L40S, driver 595.80, torch 2.13.0+cu130")
    assert first.endswith(" s)\n")
    answers.take_answer(HostEntry("b"), SILENT)
    assert capsys.readouterr().out.startswith("unusable  b: HOST004 (")  # the report has its words


def test_hosts_without_an_answer_for_the_same_reason_are_named_up_to_a_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = TextAnswers()
    for number in range(500):
        error = ConnectionTimedOut if number % 2 else HostError
        answers.take_answer(HostEntry(f"h{number}"), error(f"h{number}", f"no answer from h{number}"))
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 42
    assert said[39].startswith("unusable  h39: HOST004 (")
    assert said[40].startswith("unusable  further hosts (-v names all): HOST001 (")


def test_modules_are_left_out_of_searches_for_garbage_before_answers_are_read() -> None:
    made: list[list[int]] = [[] for _ in range(500)]
    frozen = gc.get_freeze_count()
    _import_judgement(lambda: made.append([]), reads_script=False)
    assert len(made) == 501
    assert gc.get_freeze_count() >= frozen + 500
    assert gc.get_count()[0] < 100


def test_a_ctrl_c_names_the_hosts_that_have_not_answered(capsys: pytest.CaptureFixture[str]) -> None:
    entries = [HostEntry(name) for name in ("a-1", "a-2", "b")]
    done: list[str] = []
    awaited = name_awaited_hosts(entries, lambda entry, _result: done.append(entry.name))
    with suppress(KeyboardInterrupt), awaited as on_done:
        on_done(entries[2], SILENT)
        raise KeyboardInterrupt
    assert done == ["b"]
    assert capsys.readouterr().err == "interrupted: no answer yet from a-[1-2]\n"


def test_each_answer_is_a_line_of_json_with_what_it_says_of_that_host(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = JsonLines(Job(), PreflightOptions(), facts=True)
    sick = host({"gpus.0.recovery_action": "gpu_reset"}, "a")
    lines.take_answer(HostEntry("a"), sick)
    (first,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["schema"], first["host"], first["reached"]) == ("gpulaunch.preflight-host/1", "a", True)
    assert (first["verdict"], first["facts"]["host"]) == ("critical", "a")
    assert "HEAL001" in {finding["code"] for finding in first["findings"]}
    lines.take_answer(HostEntry("b"), SILENT)
    second = json.loads(capsys.readouterr().out)
    assert (second["reached"], [each["code"] for each in second["findings"]]) == (False, ["HOST004"])
    lines.take_answer(HostEntry("c"), BadInput("hosts.yaml is wrong"))
    assert capsys.readouterr().out == ""


def test_the_last_line_has_what_concerns_several_hosts_and_no_host_alone() -> None:
    gathered = GatherResult({name: host({}, name) for name in ("a", "c")}, {"b": SILENT})
    result = evaluate_facts([HostEntry(name) for name in "abc"], gathered, Job())
    last = encode_preflight_summary(result)
    assert (last["schema"], last["exit_code"]) == ("gpulaunch.preflight-summary/1", 1)
    assert (last["total_hosts"], last["unreachable"]) == (3, ["b"])
    assert all(len(finding["hosts"]) > 1 for finding in last["findings"])


def test_jsonl_of_recordings_and_of_an_error_is_lines() -> None:
    argv = [sys.executable, "-m", "launcher", "preflight", "--jsonl", "--from"]
    done = subprocess.run(
        [*argv, RECORDINGS / "2xl40s.json"], capture_output=True, text=True, check=False, cwd=RECORDINGS
    )
    schemas = [json.loads(line)["schema"] for line in done.stdout.splitlines()]
    assert schemas == ["gpulaunch.preflight-host/1", "gpulaunch.preflight-summary/1"]
    bad = subprocess.run(
        [*argv, RECORDINGS / "absent.json"], capture_output=True, text=True, check=False, cwd=RECORDINGS
    )
    (line,) = bad.stdout.splitlines()
    assert json.loads(line)["exit_code"] == bad.returncode == 2
