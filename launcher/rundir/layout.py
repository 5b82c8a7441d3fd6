"""What a run has left locally: gpulaunch-runs/RUN with its plan, outcome, source, events and logs."""

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher import safe_json
from launcher.errors import BadInput
from launcher.rundir.log_store import EVENTS
from launcher.rundir.state_schema import validate_state
from launcher.rundir.usage_series import RankSeries, read_usage
from preflight.frozen import dataclass

if TYPE_CHECKING:
    from launcher.rundir.log_metrics import Metrics

OUTCOME = "outcome.json"  # how a run ended, beside its local logs
PLAN = "plan.json"
_BLOCK = 1 << 20
_PRINTED = (b"loss", b"norm", b"scale")
"""One of them, in any case, is in each line that preflight.diagnosis.series takes a loss or a norm from."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """Something that was reported while the run continued, and how long each local log was at that moment."""

    at: float
    text: str
    bad: bool
    sizes: Mapping[str, int] | None  # of logs that have grown since the one before; None: not known


@dataclass(frozen=True, slots=True)
class RankLog:
    """One rank's local log, read."""

    rank: int | None  # None: a launcher's, which holds what ranks printed before they had logs of their own
    host: str
    name: str  # HOST/rank-N.log
    metrics: "Metrics"


@dataclass(frozen=True, slots=True)
class RunFiles:
    """A run as it is kept locally. Documents that do not exist are {}; their text is untrusted."""

    run_id: str
    plan: Mapping[str, Any]
    outcome: Mapping[str, Any]
    source: Mapping[str, Any]
    deep: Mapping[str, Any]  # the deep checks before it, or those that it was
    events: tuple[LoggedEvent, ...]
    logs: tuple[RankLog, ...]
    usage: tuple[RankSeries, ...] = ()
    ends: tuple[Mapping[str, Any], ...] = ()  # how each node ended, as `gpulaunch fetch` brought it

    @property
    def ends_by_rank(self) -> dict[int, Mapping[str, Any]]:
        """How each rank ended, by outcome or nodes; one that is not a number is a damaged document's."""
        fetched = [
            {"rank": int(rank), "host": end["host"], "code": code}
            for end in self.ends
            for rank, code in (end.get("ranks") or {}).items()
        ]
        ends = safe_json.read_mappings(self.outcome.get("ranks")) or fetched
        return {end["rank"]: end for end in ends if isinstance(end.get("rank"), int)}


def read_run(directory: Path) -> RunFiles:
    """Read what exists. Raises BadInput when it is not a run's directory."""
    plan = read_kept_plan(directory)
    if not plan and not rank_logs(directory):
        raise BadInput(f"{directory}: there is no run in this directory", "name a run id; they are in --logs")
    outcome = read_kept_outcome(directory)
    behind = outcome.get("clock_offset_s")
    return RunFiles(
        run_id=str(plan.get("run_id") or directory.name),
        plan=plan,
        outcome=outcome,
        source=read_kept_source(directory),
        deep=safe_json.read_document(directory / "deep.json"),
        events=_events(directory / EVENTS),
        logs=tuple(_log(path) for path in rank_logs(directory)),
        usage=read_usage(directory, plan, behind if isinstance(behind, dict) else {}),
        ends=tuple(read_kept_ends(directory)),
    )


def read_kept_plan(directory: Path) -> Mapping[str, Any]:
    """Return the plan of a run as it is kept locally, {} where none can be read. Its text is untrusted."""
    return safe_json.read_document(directory / PLAN)


def read_kept_outcome(directory: Path) -> Mapping[str, Any]:
    """Return how a run ended as it is kept locally, {} where it is not. Its text is untrusted."""
    return safe_json.read_document(directory / OUTCOME)


def read_kept_source(directory: Path) -> Mapping[str, Any]:
    """Return what a sync sent for a run as it is kept locally, {} without one. Its text is untrusted."""
    return safe_json.read_document(directory / "source.json")


def is_run(directory: Path) -> bool:
    """Return whether a launch has kept its plan in a directory."""
    return (directory / PLAN).is_file()


def has_end(directory: Path) -> bool:
    """Return whether it is kept how a run ended: its client saw it, or `gpulaunch fetch` brought it."""
    return (directory / OUTCOME).is_file() or any(True for _ in read_kept_ends(directory))


def read_kept_ends(directory: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the `exit` of every node that has ended, with the name of its directory as `host`."""
    for path in sorted(directory.glob("*/state.json")):
        state = safe_json.read_document(path)
        if state.get("phase") == "ended" and not validate_state(state):
            yield {**(state.get("exit") or {}), "host": path.parent.name}


def _events(path: Path) -> tuple[LoggedEvent, ...]:
    found: list[LoggedEvent] = []
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    for line in lines:
        try:
            said = safe_json.loads(line)
            grown = said["sizes"]
            sizes = None if grown is None else {str(name): int(size) for name, size in grown.items()}
            at = float(said["at"])
            if math.isfinite(at):
                found.append(LoggedEvent(at, str(said["text"]), bool(said.get("bad")), sizes))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # the line that a killed client was writing
    return tuple(sorted(found, key=lambda event: event.at))  # who attached later noted what was before


def _log(path: Path) -> RankLog:
    from launcher.rundir.log_metrics import read_metrics  # noqa: PLC0415 - a launch only writes logs

    name = f"{path.parent.name}/{path.name}"
    return RankLog(rank_of(path), path.parent.name, name, read_metrics(path))


def choose_metrics_log(logs: Iterable[RankLog]) -> RankLog | None:
    """Return the log that prints most of the training; of equals the lowest rank's."""
    best: RankLog | None = None
    count = 0
    for log in logs:
        found = log.metrics
        values = 4 * len(found.loss) + len(found.norm) + len(found.learning_rate) + len(found.throughput[1])
        if values > count:
            best, count = log, values
    return best


def read_run_metrics(directory: Path, *, limit: int | None = None) -> "Metrics | None":
    """Return what the first rank that prints a loss says; None: none does. `limit`: bytes of a log."""
    for path in rank_logs(directory):
        try:
            if limit is not None and path.stat().st_size > limit:
                return None
            if not _may_print_loss(path):
                continue
            from launcher.rundir.log_metrics import read_metrics  # noqa: PLC0415 - its patterns take long

            metrics = read_metrics(path)
        except OSError:
            continue
        if metrics.loss or metrics.norm:
            return metrics
    return None


def _may_print_loss(path: Path) -> bool:
    text = b""
    with path.open("rb") as file:  # in blocks: a progress bar is one line
        while block := file.read(_BLOCK):
            text = text[1 - max(map(len, _PRINTED)) :] + block.lower()
            if any(word in text for word in _PRINTED):
                return True
    return False


def rank_logs(directory: Path) -> list[Path]:
    """Return the logs of the ranks in their order, then those of the launchers."""
    ranks = [path for path in directory.glob("*/rank-*.log") if rank_of(path) is not None]
    return [*sorted(ranks, key=lambda path: rank_of(path) or 0), *sorted(directory.glob("*/launcher.log"))]


def rank_of(path: Path) -> int | None:
    """Return the rank whose log this is."""
    number = path.stem.removeprefix("rank-")
    return int(number) if path.stem.startswith("rank-") and number.isdigit() else None
