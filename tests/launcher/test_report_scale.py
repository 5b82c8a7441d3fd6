"""Reports of many hosts: calls and characters grow as the hosts do, and the text fits two screens."""

import cProfile
import json
from collections.abc import Callable

import pytest
from ClusterShell.NodeSet import NodeSet

from launcher.config.inventory import HostEntry
from launcher.config.node_sets import fold_hosts, format_host_range
from launcher.errors import HostError, NameNotResolved
from launcher.host_checks.evaluation import evaluate_facts
from launcher.host_checks.render_json import encode_preflight
from launcher.host_checks.render_text import render_report
from launcher.host_checks.result import PreflightResult
from launcher.remote.agent import GatherResult
from launcher.terminal.cell_width import paint_line
from preflight.facts.host import HostFacts, Reach
from preflight.job import Job
from tests.preflight.golden_cases import host

pytestmark = pytest.mark.slow


def address(number: int) -> str:
    """Return a name that folds with no other."""
    return f"ip-10-{number * 7 % 251}-{number * 13 % 241}-{number % 239}"


def with_findings(size: int, name: Callable[[int], str]) -> PreflightResult:
    """Judge hosts of which each has troubles of its own, and those that a fleet shares."""
    facts: dict[str, HostFacts] = {
        name(number): host(
            {"gpus.0.recovery_action": "gpu_reset", "gpus.1.memory.used_mib": 9000 + number}, name(number)
        )
        for number in range(size)
    }
    main, *others = facts
    reach = tuple(Reach(each, main, "10.0.0.5", 29500, ok=False, error="refused", ms=0.3) for each in others)
    return evaluate_facts([HostEntry(each) for each in facts], GatherResult(facts, {}), Job(), reach=reach)


def unresolved(size: int, name: Callable[[int], str]) -> PreflightResult:
    """Judge hosts whose names do not resolve."""
    errors: dict[str, HostError] = {
        name(number): NameNotResolved(name(number), f"{name(number)} does not resolve: no such name", "Check")
        for number in range(size)
    }
    return evaluate_facts([HostEntry(each) for each in errors], GatherResult({}, errors), Job())


def text(result: PreflightResult) -> str:
    return "\n".join(paint_line(line, colour=False) for line in render_report(result))


def document(result: PreflightResult) -> str:
    return json.dumps(encode_preflight(result))


def calls(function: Callable[[], object]) -> int:
    """Count the calls, and the steps of generators, that a function takes."""
    profile = cProfile.Profile()
    profile.runcall(function)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("name", [address, "n{:04}".format], ids=["unlike names", "a range"])
@pytest.mark.parametrize("made", [with_findings, unresolved])
def test_judging_and_reporting_twice_as_many_hosts_take_twice_the_calls(
    made: Callable[[int, Callable[[int], str]], PreflightResult], name: Callable[[int], str]
) -> None:
    def taken(size: int) -> list[int]:
        results: list[PreflightResult] = []
        documents: list[str] = []
        return [
            calls(lambda: results.append(made(size, name))),
            calls(lambda: text(results[0])),
            calls(lambda: documents.append(document(results[0]))),
            len(documents[0]),
        ]

    taken(4)  # what is done once
    for few, many in zip(taken(150), taken(300), strict=True):
        assert many <= 2.2 * few


@pytest.mark.parametrize("name", [address, "n{:04}".format], ids=["unlike names", "a range"])
@pytest.mark.parametrize("made", [with_findings, unresolved])
def test_the_text_of_many_hosts_fits_two_screens_and_names_every_code(
    made: Callable[[int, Callable[[int], str]], PreflightResult], name: Callable[[int], str]
) -> None:
    result = made(300, name)
    said = text(result)
    assert sum(max(1, -(-len(line) // 120)) for line in said.splitlines()) <= 48
    assert {finding.code for finding in result.findings} <= set(said.replace("[", " ").split())


def test_what_many_hosts_share_is_printed_once() -> None:
    said = text(unresolved(5000, address))
    assert said.count("HOST002") == 1
    assert "... (5000 hosts)" in said
    assert len(said) < 2000


NAMES = (
    ([f"l40s-{n:02}" for n in range(1, 8)], "l40s-[01-07]"),
    (["n8", "n9", "n10", "n12"], "n[8-10,12]"),
    ([f"r{r}-n{n:02}" for r in (1, 2) for n in range(1, 20)], "r[1-2]-n[01-19]"),
    (["n08", "n09", "n10", "n9", "n100"], "n[08-10],n[9,100]"),
    (["a", "b", "a"], "a,b"),
    (["n1.dc2.example", "n2.dc2.example"], "n[1-2].dc2.example"),
)


@pytest.mark.parametrize(("names", "folded"), NAMES)
def test_folded_names_are_what_clustershell_reads(names: list[str], folded: str) -> None:
    assert format_host_range(names) == folded
    assert {str(name) for name in NodeSet(folded)} == set(names)


def test_a_range_that_was_cut_says_of_how_many_hosts() -> None:
    cut = fold_hosts(tuple(f"n{number:04}" for number in range(0, 400, 2)))
    assert cut.startswith("n[0000,0002,")
    assert cut.endswith(",...],... (200 hosts)")
    assert len(cut) < 150
