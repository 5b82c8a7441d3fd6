"""The answers of launcher/onhost/monitor.py as values. Pure."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from launcher.errors import AgentProtocolError
from launcher.text import one_line
from preflight.frozen import dataclass
from preflight.probes.gpu_enums import THROTTLE

_NUMBERS = 6
_MAX_MISSING = 300
_MOST = 4096
_LARGEST = 1e15
_LONGEST_TAIL = 1 << 16


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
        gpus, runs = _few(answer["gpus"]), _few(answer["runs"])
        return MonitorAnswer(
            gpus={_text(uuid): _sample(row) for uuid, row in gpus.items()},
            missing=_text(answer["missing"])[:_MAX_MISSING],
            watch=int(_number(answer["watch"])),
            request=int(_number(answer["request"])),
            runs={_text(run_id): _tail(value) for run_id, value in runs.items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise AgentProtocolError(host, f"the answer of the monitor cannot be read: {error}") from None


def _few(value: Any) -> Any:
    if len(value) > _MOST:
        raise ValueError(f"more than {_MOST} GPUs or runs")
    return value


def _sample(row: Any) -> GpuSample:
    if not isinstance(row, list) or len(row) != _NUMBERS:
        raise ValueError("a GPU without its numbers")
    busy, used, power, limit, celsius, bits = (None if value is None else _number(value) for value in row)
    throttle = None if bits is None else tuple(name for bit, name in THROTTLE if int(bits) & bit)
    return GpuSample(busy, used, power, limit, celsius, throttle)


def _tail(value: Any) -> LogTail:
    step = value["step"]
    tail = _text(value["tail"])[-_LONGEST_TAIL:]
    return LogTail(tail, _number(value["age_s"]), None if step is None else int(_number(step)))


def _number(value: object) -> float:
    """Return a number that arithmetic and a table can take: the words "inf" and "nan" are none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LARGEST:
        raise ValueError(f"{one_line(repr(value), 40)} is not a number of a monitor")
    return float(value)


def _text(value: object) -> str:
    """Return a text that can be encoded: JSON may hold half of a pair of surrogates."""
    return str(value).encode("utf-8", "replace").decode()
