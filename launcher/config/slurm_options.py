"""`slurm:` of a run config: the job that `gpulaunch submit` asks for."""

import os
from collections.abc import Callable
from dataclasses import field

from launcher.config.value_types import SCALAR, Custom, Field, MapOf, Schema, Section, Text, duration, integer
from launcher.config.yaml_tree import ConfigIssues, YamlNode
from launcher.durations import format_duration, parse_duration
from preflight import regex as re
from preflight.frozen import dataclass

JOB_ID = "SLURM_JOB_ID"
JOB_VARIABLES = {
    **dict.fromkeys((JOB_ID, "SLURM_JOBID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_MAX"), "1"),
    **dict.fromkeys(("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_RESTART_COUNT"), "0"),
    **dict.fromkeys(("SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_STEP"), "1"),
    **dict.fromkeys(
        ("SLURM_JOB_NAME", "SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT", "SLURM_CLUSTER_NAME"), "job"
    ),
}
"""Of man sbatch (OUTPUT ENVIRONMENT VARIABLES): each job has its own, and until then the like of these."""
DEFAULT_WARN_S = 300.0
_WARN_SHARE = 0.1
_SHORTEST_WARNED_S = 300.0  # Slurm may warn up to a minute early (man sbatch, --signal)
MAX_NODES = 4096
PLAIN_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.,:@/+-]*"
TIME = r"\d{1,9}(?::\d{1,2}){0,2}|\d{1,9}-\d{1,2}(?::\d{1,2}){0,2}"
"""man sbatch, --time: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes and
days-hours:minutes:seconds. UNLIMITED is refused by most partitions, and such jobs wait for ever."""
_OPTION = r"[a-z][a-z0-9-]*"
OPTIONS_OF_KEYS = {
    "nodes": "nodes",
    "ntasks-per-node": "",
    "tasks-per-node": "",
    "gpus-per-node": "gpus_per_node",
    "time": "time",
    "partition": "partition",
    "account": "account",
    "qos": "qos",
    "requeue": "requeue",
    "no-requeue": "requeue",
    "signal": "warn",
    "no-kill": "spare_nodes",
}
"""Options of sbatch that are written from keys of ours, "": for every job."""


KILL_WAIT_S = 30.0  # from SIGTERM to SIGKILL of scancel and of a limit: KillWait (man slurm.conf)


@dataclass(frozen=True, slots=True)
class SlurmSpec:
    """What `slurm:` says. `requeue` is how often the job may be started again."""

    nodes: int = 1
    spare_nodes: int = 0
    gpus_per_node: int = 0
    time: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    requeue: int = 0
    warn: float | None = None
    sbatch: dict[str, str] = field(default_factory=dict)

    @property
    def warn_s(self) -> float:
        """How long before the time limit Slurm warns; without `warn` a tenth of a short job's time."""
        if self.warn is not None:
            return self.warn
        limit_s = parse_time_limit(self.time)
        if limit_s is None:
            return DEFAULT_WARN_S
        return min(DEFAULT_WARN_S, _WARN_SHARE * limit_s) if limit_s >= _SHORTEST_WARNED_S else 0.0


def parse_time_limit(text: str) -> float | None:
    """Return the seconds of a time as sbatch takes it (TIME), None for no limit: 0 or another text."""
    if re.fullmatch(TIME, text) is None:
        return None
    days, dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:  # days-hours[:minutes[:seconds]]
        hours, minutes, seconds = [*parts, 0, 0][:3]
    elif len(parts) < 3:  # minutes[:seconds]
        hours, minutes, seconds = 0, *[*parts, 0][:2]
    else:
        hours, minutes, seconds = parts
    return int(days or 0) * 86400.0 + hours * 3600.0 + minutes * 60.0 + seconds or None


_TIME_EXPECTED = "a time such as 12:00:00 or 2-00:00:00"


def _read_time(item: YamlNode) -> str:
    if re.fullmatch(TIME, item.text):
        return item.text
    if item.text.upper() in ("UNLIMITED", "INFINITE"):
        raise ValueError(f"{_TIME_EXPECTED} (leave it out: the partition's limit holds)")
    minutes = round((parse_duration(item.text) or 0) / 60)
    raise ValueError(_TIME_EXPECTED + (f" (write {minutes}, in minutes)" if minutes else ""))


_TIME_SCHEMA: Schema = {
    "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": f"^(?:{TIME})$"}]
}
# fmt: off
SLURM_KEYS: tuple[Field, ...] = (
    Field("nodes", integer(1, MAX_NODES), "Nodes that the run uses.", "2", "1"),
    Field("spare_nodes", integer(0, 64), "Nodes asked for on top, for the places of bad ones.", "1", "0"),
    Field("gpus_per_node", integer(0, 64), "GPUs of each node; 0: the job requests none.", "8", "0"),
    Field("time", Custom(_TIME_EXPECTED, _read_time, lambda: _TIME_SCHEMA), "Time limit.", '"12:00:00"'),
    Field("partition", Text("a partition", PLAIN_NAME), "Partition.", "gpu"),
    Field("account", Text("an account", PLAIN_NAME), "Account that is charged.", "proj42"),
    Field("qos", Text("a quality of service", PLAIN_NAME), "Quality of service.", "long"),
    Field("requeue", integer(0, 1000), "How often Slurm may start the job again.", "3", "0"),
    Field("warn", duration(),
          "How long before the time limit the run is ended, with `before_stop`; without it at most a tenth of"
          " `time`, of less than 5 minutes nothing; 0: no warning.", "10m", f"{DEFAULT_WARN_S:g}"),
    Field("sbatch", MapOf(SCALAR, "an option of sbatch without its dashes, such as reservation", _OPTION),
          "Any other option of sbatch; true: an option without a value.",
          "{reservation: maint, exclude: n3}"),
)
# fmt: on


def _check(entries: dict[str, YamlNode], mistakes: ConfigIssues) -> None:
    """Find options that keys of ours write, values that would not stay one option, and an early warning."""
    _refuse_long_warning(entries, mistakes)
    options = entries.get("sbatch")
    for name, part in (options.value if options and isinstance(options.value, dict) else {}).items():
        if name in OPTIONS_OF_KEYS:
            key = OPTIONS_OF_KEYS[name]
            mistakes.add(
                part, f"say it with `{key}` of slurm:" if key else "is written for every job: a task per node"
            )
        elif isinstance(part.value, str) and any(
            not sign.isprintable() or sign in "\"'\\" for sign in part.value
        ):
            mistakes.add(part, "expected a value without line breaks, quotes and backslashes")


def _refuse_long_warning(entries: dict[str, YamlNode], mistakes: ConfigIssues) -> None:
    """Find a warning that would come with the start of the job."""
    warn = entries.get("warn")
    warn_s = _seconds(warn, parse_duration)
    limit_s = _seconds(entries.get("time"), parse_time_limit)
    if warn is not None and warn_s is not None and limit_s is not None and warn_s >= limit_s:
        mistakes.add(warn, f"expected less than the time limit ({format_duration(limit_s)})")


def _seconds(node: YamlNode | None, read: Callable[[str], float | None]) -> float | None:
    return read(str(node.value)) if node is not None else None


_USUAL = re.compile(
    "array|begin|chdir|comment|constraint|cpus|dependency|error|exclu|gpus-per-task|gres|hold|job-name|licenses"
    "|mail|mem|nodelist|ntasks|output|reservation"
)


def is_usual_option(name: str) -> bool:
    """Return whether `sbatch:` often has an option, in lower case, that has no key of its own."""
    return bool(_USUAL.match(name) and re.fullmatch(_OPTION, name) and name not in OPTIONS_OF_KEYS)


def _sbatch_option(name: str) -> str:
    """Return where an option of sbatch goes that has no key of its own, "" for another name."""
    option = name.replace("_", "-").lower()
    return f"; an option of sbatch goes under sbatch: {{{option}: ...}}" if is_usual_option(option) else ""


SLURM = Section(
    SLURM_KEYS,
    "a mapping of nodes, gpus_per_node, time, partition, sbatch and so on",
    _sbatch_option,
    make=SlurmSpec,
    judge=_check,
)


def is_inside_job() -> bool:
    """Return whether this process belongs to a job of Slurm."""
    return bool(os.environ.get(JOB_ID, ""))
