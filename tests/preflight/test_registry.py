"""The loop that runs the checks, and the tables that they read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.checks.finding import Problem, Severity, name_some
from preflight.checks.minimum_drivers import find_minimum_driver
from preflight.checks.registry import CHECKS, host_check
from preflight.checks.runner import check_host, list_checks_without_facts, load_checks
from preflight.checks.versions import check_specifier, parse_release, satisfies
from preflight.checks.wheels import find_wheel, runs_on
from preflight.decide.usable_gpus import select_gpus
from preflight.errors import BadInput
from preflight.facts.gpu import Capability
from preflight.job import Expect, Job
from tests.preflight.golden_cases import host


def test_a_check_without_a_docstring_is_refused() -> None:
    def mute() -> list[Problem]:
        return []

    with pytest.raises(TypeError, match="needs a docstring"):
        host_check("ZZZ001")(mute)
    assert "ZZZ001" not in CHECKS


def test_a_code_is_taken_once() -> None:
    def again() -> list[Problem]:
        """Say something."""
        return []

    load_checks()
    with pytest.raises(TypeError, match="GPU001 is taken"):
        host_check("GPU001")(again)


def test_every_check_reads_facts_that_exist() -> None:
    supplied = {
        "facts",
        "job",
        "expect",
        "use",
        "is_main",
        "hosts",
        "reach",
        "clocks",
        "ranks",
        "deep",
        "launch",
    }
    known = supplied | set(type(host()).__dataclass_fields__)
    assert all(set(check.needs) <= known for check in load_checks().values())


def test_too_many_sick_gpus_are_not_left_out() -> None:
    sick = host({f"gpus.{i}.recovery_action": "gpu_reset" for i in (0, 1)})
    findings = check_host(sick, Job(gpus=1), Expect())
    assert [finding.severity for finding in findings] == [Severity.CRITICAL, Severity.CRITICAL]


def test_a_gpu_is_sick_by_any_check_when_the_others_are_counted() -> None:
    overlay = {"gpus.0.recovery_action": "gpu_reset", "gpus.1.mig_enabled": True}
    findings = check_host(host(overlay), Job(gpus=1), Expect())
    assert all(finding.severity is Severity.CRITICAL for finding in findings)


def test_what_a_source_was_not_asked_is_listed() -> None:
    gone = {"missing": "the file does not hold it", "code": "not-asked"}
    facts = host({"ports": gone, "claims": [], "cuda": gone})
    assert list_checks_without_facts(facts) == ("DRV005", "PORT001", "PORT002")


@pytest.mark.parametrize(
    ("gpus", "allowed", "candidates", "needed", "absent"),
    [
        ("all", "all", {0, 1}, 2, ()),
        ("all", (1,), {1}, 1, ()),
        ("all", 1, {0}, 1, ()),
        (1, "all", {0, 1}, 1, ()),
        ((0,), "all", {0}, 1, ()),
        (("1",), "all", {1}, 1, ()),
        (("GPU-00000001",), "all", {1}, 1, ()),
        ((7,), "all", set(), 0, (7,)),
        ("all", ("GPU-9",), set(), 0, ("GPU-9",)),
        ("none", "all", set(), 0, ()),
    ],
)
def test_a_job_gets_the_gpus_that_it_and_the_site_name(
    gpus: object, allowed: object, candidates: set[int], needed: int, absent: tuple[object, ...]
) -> None:
    use = select_gpus(host(), Job(gpus=gpus), allowed)  # type: ignore[arg-type]
    assert use.candidates == candidates
    assert (use.needed, use.not_found) == (needed, absent)


@pytest.mark.parametrize(
    ("version", "specifier", "fits"),
    [
        ("580.95.05", ">=570", True),
        ("570", ">=570.0", True),
        ("560.35", ">=570", False),
        ("580.95", ">=570,<600", True),
        ("580.95", "==580.*", True),
        ("580.95", "!=580.*", False),
        ("N/A", ">=1", False),
        ("595.80", "", True),
    ],
)
def test_versions_fit_specifiers(version: str, specifier: str, *, fits: bool) -> None:
    assert satisfies(version, specifier) is fits


@pytest.mark.parametrize("specifier", ["~=570", ">=", "570", ">=570.*"])
def test_a_specifier_that_cannot_be_read_is_told(specifier: str) -> None:
    with pytest.raises(BadInput, match="version clause"):
        satisfies("580", specifier)


def test_a_release_is_its_leading_numbers() -> None:
    assert parse_release("2.13.0+cu130") == (2, 13, 0)
    assert parse_release("rocm6.2") == ()


@pytest.mark.parametrize(
    ("torch", "cuda", "gpu", "runs"),
    [
        ("2.13.0", "12.6", (6, 0), True),  # P100
        ("2.13.0", "12.6", (6, 1), True),  # 6.0 code runs on 6.1
        ("2.13.0", "13.0", (7, 0), False),  # V100: 7.5 code does not run on 7.0
        ("2.11.0", "12.8", (7, 0), False),
        ("2.10.0", "12.8", (7, 0), True),  # Volta came back with 2.8
        ("2.7.1", "12.8", (7, 0), False),
        ("2.13.0", "13.0", (8, 9), True),  # 8.6 code runs on 8.9
        ("2.13.0", "12.6", (12, 0), False),
        ("2.13.0", "13.0", (12, 0), True),
        ("2.13.0", "13.0", (13, 0), True),  # through PTX
        ("2.8.0", "12.8", (13, 0), False),
        ("2.13.0", "13.0", (8, 7), False),  # Jetson needs its own build
    ],
)
def test_a_wheel_runs_on_what_it_was_compiled_for(
    torch: str, cuda: str, gpu: Capability, *, runs: bool
) -> None:
    wheel = find_wheel(torch, cuda)
    assert wheel is not None
    assert runs_on(wheel, gpu) is runs


@pytest.mark.parametrize(
    ("torch", "cuda"),
    [("2.13.0a0+gitabc", "13.0"), ("2.14.0.dev20261101", "13.0"), ("2.13.0", "12.8"), ("9.0", "13.0")],
)
def test_builds_outside_the_table_are_unknown(torch: str, cuda: str) -> None:
    assert find_wheel(torch, cuda) is None


def test_a_new_cuda_major_needs_a_new_driver() -> None:
    assert find_minimum_driver("13.2") == "580"
    assert find_minimum_driver("12.8") == "525.60.13"
    assert find_minimum_driver("14.0") == ""


@given(st.text(alphabet="0123456789.,<>=!*+ ~Rx", max_size=12))
def test_a_specifier_that_is_taken_can_be_judged(text: str) -> None:
    try:
        check_specifier(text)
    except BadInput as error:
        assert error.fix  # noqa: PT017 - either is right, and both are tested
        return
    satisfies("580.65.06", text)


def test_a_message_names_six_hosts_and_counts_the_others_of_a_fleet() -> None:
    names = [f"n{number}" for number in range(36)]
    assert name_some(names[:6]) == "n0, n1, n2, n3, n4, n5"
    assert name_some(names) == "n0, n1, n2, n3, 32 more"
