"""A preflight judges the variables that ranks will have: of the host, of hosts.yaml, of the run config."""

from dataclasses import replace

import pytest

from launcher.config.inventory import HostEntry
from launcher.host_checks.evaluation import evaluate_facts
from launcher.remote.agent import GatherResult
from preflight.job import CommandRequest, Job
from tests.preflight.golden_cases import host

OLD = {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_P2P_DISABLE": "1"}
BOTH = {("ENV004", "NCCL_P2P_DISABLE"), ("NET002", "NCCL_SOCKET_IFNAME")}
WRONG = {("NET002", "NCCL_SOCKET_IFNAME"), ("NET002", "GLOO_SOCKET_IFNAME")}


@pytest.mark.parametrize(
    ("entries", "inherited", "found"),
    [
        ([HostEntry("a")], OLD, BOTH),
        ([HostEntry("a", env={"NCCL_SOCKET_IFNAME": "eno", "NCCL_P2P_DISABLE": "1"})], OLD, set()),
        ([HostEntry("a", env={"NCCL_SOCKET_IFNAME": "eth9"})], {}, {("NET002", "NCCL_SOCKET_IFNAME")}),
        # On several hosts a launch says the interface itself.
        ([HostEntry("a"), HostEntry("b")], OLD, {("ENV004", "NCCL_P2P_DISABLE")}),
        ([HostEntry("a"), HostEntry("b", interface="eth9")], {}, WRONG),
    ],
)
def test_variables_are_judged_as_ranks_get_them(
    entries: list[HostEntry], inherited: dict[str, str], found: set[tuple[str, str]]
) -> None:
    facts = {entry.name: replace(host(name=entry.name), environ=inherited) for entry in entries}
    result = evaluate_facts(entries, GatherResult(facts, {}), Job())
    assert {
        (each.code, each.subject) for each in result.findings if each.code in ("ENV004", "NET002")
    } == found
    removed = Job(command=CommandRequest(unset=tuple(inherited)))
    codes = {each.code for each in evaluate_facts(entries, GatherResult(facts, {}), removed).findings}
    assert not inherited or codes.isdisjoint({"ENV004", "NET002"})
