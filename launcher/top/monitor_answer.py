"""The answers of launcher/onhost/monitor.py as values. Pure."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from launcher.errors import AgentProtocolError
from preflight.frozen import dataclass
from preflight.probes.gpu_enums import THROTTLE

_NUMBERS = 6
_MAX_MISSING = 300


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU's numbers a moment ago; None: the GPU does not report it."""

    busy_percent: float | None = None
    used_mib: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    throttle: tuple[str, ...] | None = None  # as facts.Gpu has them, "idle" included


@dataclass(frozen=True, slots=True)
class LogTail:
    """The end of a run's log, the seconds since it grew, and the step that the guard counts."""

    tail: str
    age_s: float
    step: int | None


@dataclass(frozen=True, slots=True)
class MonitorAnswer:
    """What has changed on a host since the answer before."""

    gpus: Mapping[str, GpuSample] = field(default_factory=dict)  # by UUID
    missing: str = ""
    watch: int = 0
    request: int = 0  # how many requests the monitor had taken
    runs: Mapping[str, LogTail] = field(default_factory=dict)  # by run id


def parse_answer(host: str, answer: Mapping[str, Any]) -> MonitorAnswer:
    """Return an answer as values. Raises AgentProtocolError for one that has not its form."""
    try:
        return MonitorAnswer(
            gpus={str(uuid): _sample(row) for uuid, row in answer["gpus"].items()},
            missing=str(answer["missing"])[:_MAX_MISSING],
            watch=int(answer["watch"]),
            request=int(answer["request"]),
            runs={str(run_id): _tail(told) for run_id, told in answer["runs"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise AgentProtocolError(host, f"the answer of the monitor cannot be read: {error}") from None


def _sample(row: Any) -> GpuSample:
    if not isinstance(row, list) or len(row) != _NUMBERS:
        raise ValueError("a GPU without its numbers")
    busy, used, power, limit, celsius, bits = (None if value is None else float(value) for value in row)
    return GpuSample(busy, used, power, limit, celsius, None if bits is None else _reasons(int(bits)))


def _reasons(bits: int) -> tuple[str, ...]:
    return tuple(name for bit, name in THROTTLE if bits & bit)


def _tail(told: Any) -> LogTail:
    step = told["step"]
    return LogTail(str(told["tail"]), float(told["age_s"]), None if step is None else int(step))
