"""A batch script of Slurm as a run config: `#SBATCH` lines as `slurm:`, the rest as the command. Pure.

Options are those of man sbatch (Slurm 22.05). gpulaunch starts one task on each node, so what a script asks
for each task becomes what the node's one task gets.
"""

import shlex
from collections.abc import Iterator, Mapping

from launcher.config.before_stop_options import SIGNALS
from launcher.config.slurm_options import OPTIONS_OF_KEYS, PLAIN_NAME, TIME
from launcher.errors import BadInput
from preflight import regex as re
from preflight.frozen import dataclass

_LETTERS = (
    "A=account a=array D=chdir M=clusters C=constraint S=core-spec c=cpus-per-task d=dependency"
    " m=distribution e=error x=exclude B=extra-node-info G=gpus H=hold i=input J=job-name L=licenses"
    " k=no-kill F=nodefile w=nodelist N=nodes n=ntasks o=output O=overcommit s=oversubscribe p=partition"
    " q=qos Q=quiet t=time v=verbose W=wait"
)
_SHORT = {"b": "begin", **{pair[0]: pair[2:] for pair in _LETTERS.split()}}
_FLAGS = frozenset(
    [
        *("contiguous", "exclusive", "get-user-env", "hold", "ignore-pbs", "nice", "no-kill", "no-requeue"),
        *("overcommit", "oversubscribe", "parsable", "propagate", "quiet", "reboot", "requeue"),
        *("spread-job", "test-only", "use-min-nodes", "verbose", "wait"),
    ]
)
"""Options that take no value, or one only behind `=`."""
_OF_SBATCH = frozenset(
    ["help", "parsable", "quiet", "test-only", "usage", "verbose", "version", "wait", "wrap"]
)
"""What changes how sbatch itself behaves, not the job."""
_TASKS = frozenset({"ntasks", "ntasks-per-node", "ntasks-per-gpu", "ntasks-per-socket", "ntasks-per-core"})
_JOINED = "mail-type"  # of any other option that is given twice, sbatch takes the last
_PER_TASK = frozenset({"gpu-bind", "gpus-per-task", "gpus"})
_GPUS = ("gpus-per-node", "gres", "gpus-per-task", "gpus")
_HEAD = re.compile(r"#SBATCH\s+(.*)")
_COUNT = re.compile(r"(?:gpu:)?(?:(?P<type>[^:=,]+)[:=])?(?P<count>\d+)")
_SIGNAL = re.compile(r"(?P<batch>[RB]+:)?(?:SIG)?(?P<name>\w+)(?:@(?P<seconds>\d+))?")
_DEFAULT_WARN_S = 60
REQUEUES = 3  # how often a job with --requeue may start again; Slurm itself has no limit


@dataclass(frozen=True, slots=True)
class BatchScript:
    """What a batch script says. `notes` name what it asks for in another way, or not at all."""

    command: str
    slurm: Mapping[str, "str | int"]
    sbatch: Mapping[str, str]
    before_stop: str = ""  # the signal that Slurm sends to its ranks
    notes: tuple[str, ...] = ()


def read_batch_script(text: str) -> BatchScript | None:
    """Return what a batch script says, None without `#SBATCH`. Raises BadInput for what cannot be read."""
    options: dict[str, str] = {}
    rest: list[str] = []
    in_head = True
    found = False
    for line in text.splitlines():
        in_head = in_head and (not line.strip() or line.startswith("#"))
        match = _HEAD.match(line) if in_head else None
        if match is not None:
            found = True
            for name, value in _options(match[1]):
                earlier = f"{options[name]}," if name == _JOINED and name in options else ""
                options[name] = earlier + value
        elif not line.lstrip().startswith("#"):
            rest.append(line)
    if not found:
        return None
    return _Reader(options).script("\n".join(rest).strip())


def _options(line: str) -> Iterator[tuple[str, str]]:
    """Yield the options of one line with their values, "true" for none."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        raise BadInput(f"#SBATCH {line}: a quote does not end", "") from None
    while words:
        word = words.pop(0)
        if word in ("hetjob", "packjob"):
            raise BadInput(
                "this batch script asks for a heterogeneous job, whose nodes one step cannot span",
                "write the nodes that train as one job",
            )
        name, is_given, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") and word.startswith("-") and word[1:2] in _SHORT:
            name, value = _SHORT[word[1]], word[2:].removeprefix("=")
            is_given = "=" if value else ""
        elif not word.startswith("--"):
            raise BadInput(f"#SBATCH {line}: sbatch has no option {word}", "")
        if not is_given and name not in _FLAGS and words:
            value = words.pop(0)
        yield re.sub(r"\Atasks", "ntasks", name), value or "true"  # --tasks-per-node is an older name


class _Reader:
    """Takes the options of a script apart."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = dict(options)
        self._keys: dict[str, str | int] = {}
        self._sbatch: dict[str, str] = {}
        self._notes: list[str] = []
        self._before_stop = ""

    def script(self, command: str) -> BatchScript:
        """Return the whole of it."""
        tasks = self._nodes_and_tasks()
        self._gpus(tasks)
        self._texts()
        self._end()
        for name, value in self._given.items():
            if name in _OF_SBATCH:
                self._note(name, value, "left out: it is about sbatch, not about the job")
            elif name in OPTIONS_OF_KEYS or not re.fullmatch(r"[^\"'\\]*", value):
                self._note(name, value, "left out")
            else:
                self._sbatch[name] = value
        return BatchScript(command, self._keys, self._sbatch, self._before_stop, tuple(self._notes))

    def _nodes_and_tasks(self) -> int:
        """Take nodes, tasks and processors; return how many tasks a node was to have."""
        given = self._given.pop("nodes", "")
        least = given.partition("-")[0]
        nodes = int(least) if least.isdecimal() and int(least) else 1
        self._keys["nodes"] = nodes
        if given and given != str(nodes):
            self._note("nodes", given, f"nodes: {nodes}")
        tasks = {name: self._given.pop(name) for name in tuple(self._given) if name in _TASKS}
        per_node = _number(tasks.get("ntasks-per-node")) or max(1, _number(tasks.get("ntasks")) // nodes)
        if "ntasks" in tasks and not given and "ntasks-per-node" not in tasks:
            per_node = 1
            self._note("ntasks", tasks["ntasks"], "it does not say how many nodes: set nodes")
        elif per_node > 1:
            cpus = per_node * max(1, _number(self._given.get("cpus-per-task")))
            self._given["cpus-per-task"] = str(cpus)
            self._notes.append(f"{per_node} tasks of a node -> one task, with all their processors: {cpus}")
        return per_node

    def _gpus(self, tasks: int) -> None:
        """Take the GPUs of a node; a type of GPU stays an option of sbatch."""
        for name in _GPUS:
            match = _COUNT.fullmatch(self._given.get(name, ""))
            if match is None or (name == "gres" and not self._given[name].startswith("gpu:")):
                continue
            value, kind, count = self._given.pop(name), match["type"], int(match["count"])
            nodes = int(self._keys["nodes"])
            total = count * tasks if name == "gpus-per-task" else count
            total = total // nodes if name == "gpus" else total
            if kind:
                self._sbatch["gres"] = f"gpu:{kind}:{total}"
            else:
                self._keys["gpus_per_node"] = total
            if name in ("gpus-per-task", "gpus"):
                self._note(name, value, f"{total} GPUs of each node")
            for other in _PER_TASK & self._given.keys():
                self._note(other, self._given.pop(other), "left out: one task has all GPUs of its node")
            return

    def _texts(self) -> None:
        patterns = {"time": TIME, "partition": PLAIN_NAME, "account": PLAIN_NAME, "qos": PLAIN_NAME}
        for name, pattern in patterns.items():
            if re.fullmatch(pattern, self._given.get(name, "")):
                self._keys[name] = self._given.pop(name)

    def _end(self) -> None:
        """Take what is said about another start, and the signal before the end."""
        if self._given.pop("requeue", ""):
            self._keys["requeue"] = REQUEUES
        self._given.pop("no-requeue", "")
        if self._given.pop("no-kill", ""):
            self._note("no-kill", "true", "spare_nodes says so")
        value = self._given.pop("signal", "")
        match = _SIGNAL.fullmatch(value)
        if match is None:
            if value:
                self._note("signal", value, "left out")
            return
        self._keys["warn"] = f"{match['seconds'] or _DEFAULT_WARN_S}s"
        if not match["batch"] and match["name"] in SIGNALS:
            self._before_stop = match["name"]
        self._note("signal", value, "gpulaunch gets the warning; before_stop says what ranks get")

    def _note(self, name: str, value: str, meaning: str) -> None:
        option = f"--{name}" if value == "true" else f"--{name}={value}"
        self._notes.append(f"{option} -> {meaning}")


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0
