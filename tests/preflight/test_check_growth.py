"""Checks of many hosts compare no host with all others: their work grows as the hosts do."""

import json
from dataclasses import replace
from itertools import count
from pathlib import Path

from preflight.checks.runner import check_cluster
from preflight.facts.host import HostFacts, Reach
from preflight.facts.json_codec import decode
from preflight.job import Job

RECORDING = Path(__file__).parent / "recordings" / "8xh100.json"


class Name(str):
    """A name of a host that counts how often it is compared."""

    __slots__ = ()
    comparisons = count()

    def __eq__(self, other: object) -> bool:
        next(self.comparisons)
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def comparisons(size: int) -> int:
    """Return how often names are compared while so many hosts of 8 GPUs are judged."""
    recorded = decode(HostFacts, json.loads(RECORDING.read_text())["facts"])
    names = [Name(f"node-{number:04}") for number in range(size)]
    hosts: dict[str, HostFacts] = {name: replace(recorded, host=name) for name in names}
    main, *others = names
    reach = tuple(Reach(name, main, "192.0.2.5", 29500, ok=False, error="refused", ms=1.0) for name in others)
    before = next(Name.comparisons)
    findings = check_cluster(hosts, Job(), reach)
    assert findings
    return next(Name.comparisons) - before - 1


def test_checks_of_twice_as_many_hosts_compare_twice_as_many_names() -> None:
    few, many = comparisons(60), comparisons(120)
    assert many <= 2 * few + 120, (few, many)
