"""What the checks say together: the field's own story, saved outputs, and arbitrary facts."""

import dataclasses
import types
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.checks.finding import Severity, blocks_launch, exit_code
from preflight.checks.runner import check_cluster, check_host, load_checks
from preflight.facts.host import HostFacts, Reach
from preflight.facts.json_codec import decode, encode
from preflight.facts.missing import Missing, MissingCode
from preflight.job import Expect, Job
from tests.preflight.golden_cases import host, make_job

T = TypeVar("T")

STORY = Path(__file__).parent / "stories" / "field_note_4.yaml"
GATES = ("python", "driver", "gpus", "processes", "ports", "paths")


def test_field_note_4_is_named_in_full() -> None:
    story: dict[str, Any] = yaml.safe_load(STORY.read_text(encoding="utf-8"))
    findings = check_host(host(story["facts"]), make_job(story["job"]), Expect())
    by_code = {(finding.code, finding.subject): finding for finding in findings}
    assert "an orphan" in by_code["PROC001", "gpu0"].message
    assert "half dead" in by_code["PROC001", "gpu1"].message
    assert "Exclusive_Process" in by_code["MODE002", "gpu0"].message
    assert "Exclusive_Process" in by_code["MODE002", "gpu1"].message
    assert "20417 will be used instead: pid 4242" in by_code["PORT001", "port 29500"].message
    assert "gpulaunch clean-zombies titan" in by_code["PORT001", "port 29500"].fix
    assert exit_code(findings) == 1
    assert any(blocks_launch(finding) for finding in findings)


def test_field_note_4_on_a_titan_rtx_names_the_precision_too() -> None:
    story: dict[str, Any] = yaml.safe_load(STORY.read_text(encoding="utf-8"))
    turing = {f"gpus.{i}.{key}": value for i in (0, 1) for key, value in story["turing"].items()}
    findings = check_host(host(story["facts"] | turing), make_job(story["job"]), Expect())
    assert {"PROC001", "MODE002", "PORT001", "PREC001"} <= {finding.code for finding in findings}


# Facts of any shape that the types allow. Texts are drawn from what hosts really say, and from noise.
WORDS = st.sampled_from(
    ["", "python", "0000:65:00.0", "GPU-1", "595.80", "13.0", "cpu", "N/A", "2.13.0+cu130", "\x1b[31m", "é"]
) | st.text(max_size=8)
NUMBERS = st.sampled_from([0, 1, 7, 29500, -1, 2**40]) | st.integers(-5, 5)
FLOATS = st.sampled_from([0.0, 1.5, -1.0, 1e12])
MISSING = st.builds(Missing, WORDS, st.sampled_from(get_args(MissingCode)))


@cache
def strategy(kind: Any) -> st.SearchStrategy[Any]:
    """Return values of a fact's type."""
    origin, members = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return st.one_of([MISSING if member is Missing else strategy(member) for member in members])
    if origin is Literal:
        return st.sampled_from(members)
    if origin is tuple and members[-1] is Ellipsis:
        return st.lists(strategy(members[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*[strategy(member) for member in members])
    if origin is dict:
        return st.dictionaries(WORDS, strategy(members[1]), max_size=3)
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(
            cast("type[Any]", kind),
            **{field.name: strategy(hints[field.name]) for field in dataclasses.fields(kind)},
        )
    scalars: Mapping[Any, st.SearchStrategy[Any]] = {
        str: WORDS,
        int: NUMBERS,
        float: FLOATS,
        bool: st.booleans(),
    }
    return scalars[kind]


FACTS = strategy(HostFacts)
JOBS = st.builds(
    Job,
    script=st.sampled_from(["", "train.py"]),
    gpus=st.sampled_from(["all", "none", "auto", 1, 3, (0,), (0, 0), ("GPU-1", 7)]),
    precision=st.sampled_from(["auto", "no", "fp16", "bf16", "fp8"]),
    main_port=st.sampled_from([29500, 1, 40000]),
)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(FACTS, JOBS)
def test_no_facts_crash_a_check(facts: HostFacts, job: Job) -> None:
    findings = check_host(facts, job, Expect(gpus=2, driver=">=570"))
    crashed = [finding for finding in findings if "the check itself failed" in finding.message]
    assert crashed == []
    assert all(finding.code in load_checks() and finding.message for finding in findings)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), FACTS, max_size=3),
    JOBS,
    st.lists(strategy(Reach), max_size=2),
)
def test_no_facts_crash_a_cluster_check(hosts: dict[str, HostFacts], job: Job, reach: list[Reach]) -> None:
    findings = check_cluster(hosts, job, tuple(reach))
    assert [finding for finding in findings if "the check itself failed" in finding.message] == []


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(FACTS)
def test_facts_survive_the_wire(facts: HostFacts) -> None:
    assert decode(HostFacts, encode(facts)) == facts


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(GATES), MISSING)
def test_a_missing_gate_is_never_a_pass(fact: str, missing: Missing) -> None:
    blind = _with(host(), {fact: missing})
    assert exit_code(check_host(blind, Job(), Expect())) == 1


def _with(value: T, changes: dict[str, Any]) -> T:
    return cast("T", dataclasses.replace(cast("Any", value), **changes))


UNREAD = st.builds(
    Missing, WORDS, st.sampled_from(["error", "timeout", "no-permission", "not-found", "not-asked"])
)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(
        [
            "capability",
            "compute_mode",
            "memory",
            "processes",
            "mig_enabled",
            "ecc",
            "remap",
            "recovery_action",
        ]
    ),
    UNREAD,
)
def test_a_gpu_value_that_could_not_be_read_is_never_a_pass(value: str, missing: Missing) -> None:
    facts = host()
    assert not isinstance(facts.gpus, Missing)
    gpu = _with(facts.gpus[1], {value: missing})
    findings = check_host(dataclasses.replace(facts, gpus=(facts.gpus[0], gpu)), Job(), Expect())
    assert exit_code(findings) == 1


@pytest.mark.parametrize("code", ["gpu-lost", "reset-required"])
def test_a_gpu_that_answers_nothing_is_one_finding(code: MissingCode) -> None:
    facts = host()
    assert not isinstance(facts.gpus, Missing)
    gone = Missing("it does not answer", code)
    values: dict[str, Any] = {
        field.name: gone for field in dataclasses.fields(facts.gpus[1]) if field.name not in ("index", "uuid")
    }
    gpu = _with(facts.gpus[1], values)
    findings = check_host(dataclasses.replace(facts, gpus=(facts.gpus[0], gpu)), Job(), Expect())
    stopping = [finding for finding in findings if finding.severity in (Severity.CRITICAL, Severity.UNKNOWN)]
    assert [(finding.code, finding.subject) for finding in stopping] == [("GPU003", "gpu1")]
