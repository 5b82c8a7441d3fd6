"""Every check against its golden cases; a new case is a file under cases/CODE/."""

import pytest

from preflight.checks.finding import Severity, blocks_launch, exit_code
from preflight.checks.runner import check_cluster, check_host, load_checks
from preflight.facts.missing import Missing
from preflight.job import Expect, Job
from tests.preflight.golden_cases import CASES, Case, all_cases, host
from tests.preflight.transcripts import WRITES_ANEW, changed_transcripts

CASE_LIST = all_cases()


@pytest.mark.parametrize("case", CASE_LIST, ids=str)
def test_a_check_says_what_its_case_expects(case: Case) -> None:
    said = case.said()
    rows = [(finding.severity.value, finding.subject) for finding in said]
    assert rows == [(want["severity"], want["subject"]) for want in case.wanted], said
    for finding, want in zip(said, case.wanted, strict=True):
        assert want["words"] in finding.message
        assert want.get("fix", "") in finding.fix


def test_hosts_are_reported_word_for_word_as_last_read_by_eye() -> None:
    """`python -m tests.preflight.transcripts` writes a change down: read it in `git diff`."""
    assert changed_transcripts("cases") == {}, WRITES_ANEW


@pytest.mark.parametrize("case", [case for case in CASE_LIST if case.wanted], ids=str)
def test_a_finding_ends_in_what_to_type_or_whom_to_ask(case: Case) -> None:
    assert all(finding.fix for finding in case.said())


@pytest.mark.parametrize("code", sorted(load_checks()))
def test_a_check_has_an_ok_and_a_bad_case(code: str) -> None:
    named = {case.name: case for case in CASE_LIST if case.code == code}
    assert named["ok"].wanted == []
    assert named["bad"].wanted


def test_every_folder_of_cases_belongs_to_a_check() -> None:
    assert {path.name for path in CASES.iterdir() if path.is_dir()} == set(load_checks())


@pytest.mark.parametrize("code", sorted(load_checks()))
def test_a_check_says_why_how_to_fix_it_and_where_it_is_from(code: str) -> None:
    check = load_checks()[code]
    assert check.title.endswith(".")
    assert "\nFix: " in check.text
    assert "\nSource: " in check.text


def test_a_healthy_host_is_fine_and_quiet() -> None:
    assert check_host(host(), Job(script="train.py"), Expect()) == ()


def test_equal_hosts_are_fine_together_once_they_reach_each_other() -> None:
    findings = check_cluster({"a": host(name="a"), "b": host(name="b")}, Job(), ())
    assert [(finding.code, finding.severity) for finding in findings] == [("NET004", Severity.UNKNOWN)]


def test_a_cpu_job_hears_nothing_about_gpus() -> None:
    bare = host(
        {
            name: {"missing": "no NVIDIA driver is installed", "code": "no-library"}
            for name in ("driver", "gpus")
        }
        | {
            "pci_gpus": [],
            "python.torch_cuda": "cpu",
            "kernel_log": {"missing": "x", "code": "no-permission"},
        }
    )
    assert check_host(bare, Job(gpus="none"), Expect()) == ()


def test_an_ignored_code_is_shown_and_stops_nothing() -> None:
    sick = host({"gpus.0.recovery_action": "gpu_reset"})
    (finding,) = check_host(sick, Job(), Expect(), ignore=frozenset({"HEAL001"}))
    assert finding.ignored
    assert not blocks_launch(finding)
    assert exit_code([finding]) == 0


@pytest.mark.parametrize("fact", ["python", "gpus", "driver", "processes", "ports", "paths"])
def test_a_host_whose_gate_facts_are_missing_is_never_fine(fact: str) -> None:
    blind = host({fact: {"missing": "the probe ended early", "code": "error"}})
    findings = check_host(blind, Job(), Expect())
    assert not isinstance(getattr(host(), fact), Missing)
    assert any(blocks_launch(finding) for finding in findings)


def test_a_crash_of_one_check_hides_no_other() -> None:
    findings = check_host(
        host(
            {
                "driver.version": "560.35.05",
                "driver.cuda_version": "12.6",
                "gpus.0.recovery_action": "gpu_reset",
            }
        ),
        Job(),
        Expect(driver="nonsense"),
    )
    rows = {finding.code: finding.severity for finding in findings}
    assert rows["DRV002"] is Severity.UNKNOWN
    assert rows["DRV003"] is Severity.CRITICAL
    assert rows["HEAL001"] is Severity.CRITICAL
