"""Asking every rank of a live run for its stack."""

from collections.abc import Mapping, Sequence

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError
from launcher.planning.plan import Plan
from launcher.remote.connection_pool import Open
from launcher.remote.fanout import fanout
from launcher.runs.request import ask
from launcher.text import clean
from preflight.diagnosis.stack_analysis import Hang, RankStack, compare, read_stacks

ASK_S = 90.0
"""Writing stacks down takes a minute at most, where something does not answer."""


def ask_stacks(
    plan: Plan, entries: Sequence[HostEntry], open_entry: Open
) -> tuple[Hang, Mapping[str, GpulaunchError]]:
    """Return what the ranks execute, and the hosts that did not answer."""
    request = {"mode": "stacks", "run_id": plan.run_id}

    def one(entry: HostEntry) -> Mapping[str, object]:
        with open_entry(entry) as connection:
            said = ask(connection, entry.python, request, timeout_s=ASK_S).get("stacks")
            return said if isinstance(said, dict) else {}

    errors: dict[str, GpulaunchError] = {}
    standings: list[RankStack] = []
    # All at once, so that they are of one moment.
    for node, result in zip(plan.nodes, fanout(one, entries, width=max(1, len(entries))), strict=True):
        if isinstance(result, GpulaunchError):
            errors[node.host] = result
            continue
        texts = [clean(text) for text in result.values() if isinstance(text, str)]
        standings += [found for text in texts if (found := read_stacks(text, node.host)) is not None]
    return compare(standings, plan.world_size), errors
