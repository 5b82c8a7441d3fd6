"""Asking every rank of a live run for its stack."""

from collections.abc import Mapping, Sequence

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError
from launcher.planning.plan import Plan
from launcher.remote.connection_pool import OpenConnection
from launcher.remote.fanout import fanout
from launcher.runs.request import send_request
from launcher.terminal.slow_hosts import name_slow_hosts
from launcher.text import sanitize
from preflight.diagnosis.stack_analysis import Hang, RankStack, find_outliers, read_stacks

STACKS_TIMEOUT_S = 90.0  # writing stacks down takes a minute at most, where something does not answer


def request_stacks(
    plan: Plan, entries: Sequence[HostEntry], open_entry: OpenConnection
) -> tuple[Hang, Mapping[str, GpulaunchError]]:
    """Return what the ranks execute, and the hosts that did not answer."""
    request = {"mode": "stacks", "run_id": plan.run_id}

    def one(entry: HostEntry) -> Mapping[str, object]:
        with open_entry(entry) as connection:
            said = send_request(connection, entry.python, request, timeout_s=STACKS_TIMEOUT_S).get("stacks")
            return said if isinstance(said, dict) else {}

    errors: dict[str, GpulaunchError] = {}
    stacks: list[RankStack] = []
    # All at once, so that they are of one moment.
    results = fanout(one, entries, width=max(1, len(entries)), on_slow=name_slow_hosts)
    for node, result in zip(plan.nodes, results, strict=True):
        if isinstance(result, GpulaunchError):
            errors[node.host] = result
            continue
        texts = [sanitize(text) for text in result.values() if isinstance(text, str)]
        stacks += [found for text in texts if (found := read_stacks(text, node.host)) is not None]
    return find_outliers(stacks, plan.world_size), errors
