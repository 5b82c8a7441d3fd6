"""All that a restart needs of a run, as a value and as JSON: any client can continue from it.

The main host keeps the JSON in memory, for it has the values of the environment. Every host keeps its digest:
a client that starts a run again on several hosts believes what one of them has kept where all agree on it.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from launcher.config.disconnect_options import DisconnectOptions
from launcher.config.inventory import HostEntry
from launcher.config.restart_options import RestartOptions
from launcher.follow.outcome import Outcome
from launcher.follow.restart_history import RestartHistory, StartRecord
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.launch.request import FollowOptions, LaunchRequest
from launcher.planning.plan import RestartSpec, ScriptFile
from launcher.remote.connection_pool import ConnectionPool
from launcher.text import one_line
from preflight.errors import BadInput, MalformedFacts
from preflight.facts.host import KernelLog
from preflight.facts.json_codec import decode, encode
from preflight.facts.redaction import redact_text
from preflight.frozen import dataclass
from preflight.job import Job

SCHEMA = "gpulaunch.restart-order/1"
MAX_WIDTH = 256
_WAY = ("name", "address", "port", "user", "identity_file", "jump", "via", "alias", "in_inventory")
"""What of a host says how it is reached."""


@dataclass(frozen=True, slots=True)
class LoopHistory:
    """The starts of a run so far, and what they have used up."""

    starts: tuple[StartRecord, ...] = ()
    attempts: int = 0
    tried: int = 0  # restarts, also those for which no host was usable
    elapsed_s: float = 0.0  # since the first start began
    resumed_from: str = ""  # of the start that the order goes with
    changes: tuple[str, ...] = ()  # in that start, against the one before


@dataclass(frozen=True, slots=True)
class RestartOrder:
    """What a restart needs. `job` has no arguments that resume it; `syncs`: hosts got the working tree."""

    entries: tuple[HostEntry, ...]
    spares: tuple[HostEntry, ...]
    job: Job
    options: RestartOptions
    disconnect: DisconnectOptions
    history: LoopHistory
    kernel_logs: dict[str, KernelLog]
    sent: ScriptFile | None = None
    ignore: frozenset[str] = frozenset()
    width: int = 64
    extra_files: tuple[tuple[str, str], ...] = ()
    syncs: bool = False

    def launch(
        self, entries: Iterable[HostEntry], connections: ConnectionPool, follow: FollowOptions
    ) -> LaunchRequest:
        """Return the launch as the first client made it, on hosts reached in these ways."""
        return LaunchRequest(
            entries=tuple(map(take_connection, self.entries, entries)),
            job=self.job,
            connections=connections,
            preflight=PreflightOptions(
                sent=self.sent, ignore=self.ignore, width=min(max(1, self.width), MAX_WIDTH)
            ),
            follow=replace(follow, disconnect=self.disconnect),
            extra_files=self.extra_files,
        )


def take_connection(entry: HostEntry, way: HostEntry) -> HostEntry:
    """Return a host of an order as this client reaches it."""
    return replace(entry, **{name: getattr(way, name) for name in _WAY})


def build_spec(order: RestartOrder, *, after: str) -> RestartSpec:
    """Return what a launch leaves on its hosts. `after`: the run id of the start before, "" for the first."""
    text = json.dumps({"schema": SCHEMA, **encode(order)})
    known = {
        "max": order.options.max,
        "starts": [_known_start(start) for start in order.history.starts],
        "after": after,
        "resumed_from": order.history.resumed_from,
        "changes": [redact_text(change) for change in order.history.changes],
        "digest": digest_order(text),
        "python": sys.executable if all(entry.is_local for entry in order.entries) else "",
    }
    return RestartSpec(known, text)


def _known_start(start: StartRecord) -> Any:
    changes = tuple(map(redact_text, start.changes))
    return encode(replace(start, why=redact_text(start.why), changes=changes))


def digest_order(text: str) -> str:
    """Return what every host keeps of an order."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_order(text: object, known: Iterable[object]) -> RestartOrder:
    """Return the order that the main host has kept; `known` is what each host has of it in its spec.json.

    Raises BadInput where it is none, or the hosts do not agree on it.
    """
    if not isinstance(text, str):
        raise BadInput("the host has not sent what a restart needs")
    own = digest_order(text)
    if any(not isinstance(each, Mapping) or each.get("digest") != own for each in known):
        raise BadInput("the hosts do not agree on what was launched; it is not started again")
    try:
        return decode(RestartOrder, json.loads(text))
    except (ValueError, RecursionError, MalformedFacts) as error:
        words = one_line(str(error))
        raise BadInput(f"what the host has kept for a restart cannot be read: {words}") from None


def parse_history(known: object, stop_reason: str) -> RestartHistory | None:
    """Return the earlier starts of a run by the spec.json of its main host; None where it had no restarts."""
    if not isinstance(known, Mapping):
        return None
    try:
        starts = decode(tuple[StartRecord, ...], known.get("starts"))
        return RestartHistory(decode(int, known.get("max")), starts, stop_reason)
    except MalformedFacts:
        return None


def build_start_record(
    outcome: Outcome, logs: str, resumed_from: str, changes: tuple[str, ...] = ()
) -> StartRecord:
    """Return a start that is over; what it failed of is not judged yet."""
    return StartRecord(
        run_id=outcome.plan.run_id,
        verdict=outcome.verdict,
        exit_code=outcome.exit_code,
        why=outcome.why,
        identity=("", "", ""),
        world_size=outcome.plan.world_size,
        mixed_precision=outcome.plan.precision.mixed_precision,
        hosts=tuple(node.host for node in outcome.plan.nodes),
        seconds=outcome.seconds,
        logs=logs,
        resumed_from=resumed_from,
        changes=changes,
    )
