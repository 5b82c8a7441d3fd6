"""`slurm:` of a run config: the job that `gpulaunch submit` asks for."""

from dataclasses import field

from launcher.config.value_types import Duration, Field, Integer, MapOf, Record, Scalar, Text
from launcher.config.yaml_tree import ConfigIssues, YamlNode
from preflight.frozen import dataclass

DEFAULT_WARN_S = 300.0
MAX_NODES = 4096
PLAIN_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.,:@/+-]*"
TIME = r"\d+(?::\d{1,2}){0,2}|\d+-\d{1,2}(?::\d{1,2}){0,2}"
"""man sbatch, --time: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes and
days-hours:minutes:seconds. UNLIMITED is refused by most partitions, and such jobs wait for ever."""
_OPTION = r"[a-z][a-z0-9-]*"
OPTIONS_OF_KEYS = {
    "nodes": "nodes",
    "ntasks-per-node": "",
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
    warn: float = DEFAULT_WARN_S
    sbatch: dict[str, str] = field(default_factory=dict)

    @property
    def all_nodes(self) -> int:
        """How many nodes the job requests."""
        return self.nodes + self.spare_nodes


SLURM_KEYS: tuple[Field, ...] = (
    Field("nodes", Integer(1, MAX_NODES), "Nodes that the run uses.", "2", "1"),
    Field("spare_nodes", Integer(0, 64), "Nodes asked for on top, for the places of bad ones.", "1", "0"),
    Field("gpus_per_node", Integer(0, 64), "GPUs of each node; 0: the job requests none.", "8", "0"),
    Field("time", Text("a time such as 12:00:00 or 2-00:00:00", TIME), "Time limit.", '"12:00:00"'),
    Field("partition", Text("a partition", PLAIN_NAME), "Partition.", "gpu"),
    Field("account", Text("an account", PLAIN_NAME), "Account that is charged.", "proj42"),
    Field("qos", Text("a quality of service", PLAIN_NAME), "Quality of service.", "long"),
    Field("requeue", Integer(0, 1000), "How often Slurm may start the job again.", "3", "0"),
    Field(
        "warn",
        Duration(),
        "How long before the time limit the run is ended, with `before_stop`; 0: no warning.",
        "10m",
        f"{DEFAULT_WARN_S:g}",
    ),
    Field(
        "sbatch",
        MapOf(Scalar(), "an option of sbatch without its dashes, such as reservation", _OPTION),
        "Any other option of sbatch; true: an option without a value.",
        "{reservation: maint, exclude: n3}",
    ),
)


def _refuse_options(entries: dict[str, YamlNode], mistakes: ConfigIssues) -> None:
    """Find options that keys of ours write, and values that would not stay one option."""
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


SLURM = Record(
    SLURM_KEYS,
    SlurmSpec,
    "a mapping of nodes, gpus_per_node, time, partition, sbatch and so on",
    _refuse_options,
)
