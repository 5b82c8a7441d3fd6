"""Thousands of hosts that are mistakes: names that do not resolve, one host again and again, garbage."""

from typing import cast

import paramiko

from launcher.config.inventory import HostEntry, Inventory
from launcher.errors import AgentProtocolError, HostError, NameNotResolved
from launcher.host_checks.evaluation import evaluate_facts
from launcher.host_checks.render_text import render_report
from launcher.remote.agent import GatherResult
from launcher.transports.ssh.connection import SshStream
from preflight.job import Job

MANY = 10_000
TWO_SCREENS = 48


def _report(errors: dict[str, HostError]) -> list[str]:
    entries = [HostEntry(name) for name in errors]
    result = evaluate_facts(entries, GatherResult({}, errors), Job())
    assert result.exit_code == 1
    lines = [
        line if isinstance(line, str) else "".join(text for _, text in line) for line in render_report(result)
    ]
    assert len(lines) <= TWO_SCREENS
    assert max(map(len, lines)) < 1000
    return lines


def test_names_that_do_not_resolve_are_one_finding() -> None:
    names = [f"ip-10-{number * 7919 % 9973}-x{number}" for number in range(MANY)]  # that do not fold
    errors: dict[str, HostError] = {
        name: NameNotResolved(name, f"{name} does not resolve: no such name", "Check the name")
        for name in names
    }
    told = [line for line in _report(errors) if "HOST002" in line]
    assert len(told) == 1
    assert f"{MANY:,}".replace(",", "") in told[0].replace(",", "")


def test_garbage_of_each_kind_is_one_finding() -> None:
    kinds = ("sent more than 8 MiB before its answer; it was not read further", "its answer is not JSON: x")
    errors: dict[str, HostError] = {
        f"node-{number:05}": AgentProtocolError(f"node-{number:05}", kinds[number % 2])
        for number in range(MANY)
    }
    told = [line for line in _report(errors) if AgentProtocolError.code in line]
    assert 1 <= len(told) <= len(kinds)


def test_a_host_that_is_listed_often_is_one_host() -> None:
    inventory = Inventory(hosts={"titan": HostEntry("titan")}, groups={"all-of-them": ("titan",) * 3})
    found = inventory.resolve(("titan",) * MANY + ("all-of-them",))
    assert [entry.name for entry in found] == ["titan"]


class _TalksOnStderr:
    """A channel on which more has come whenever one looks."""

    in_window_size = 1 << 21

    def recv_stderr_ready(self) -> bool:
        return True

    def recv_stderr(self, size: int) -> bytes:
        return b"garbage "[:size]


def test_a_host_that_talks_faster_than_it_is_read_holds_nobody() -> None:
    assert SshStream("titan", cast("paramiko.Channel", _TalksOnStderr())).read_stderr() == b"garbage "
