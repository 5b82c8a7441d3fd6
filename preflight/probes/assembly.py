"""Facts that came in parts, made whole by the agent itself once its probes have ended."""

from typing import Any

from .fact import Json, missing
from .probe_runner import PARTS
from .request import ProbeRequest, list_paths, resolve_path


def assemble_gpus(parts: Any) -> Any:
    """Return the list of GPUs out of the parts that came; a part that did not come says why."""
    if not isinstance(parts, dict) or "owed" not in parts:
        return parts
    owed, gpus = parts["owed"], []
    for index in range(owed["count"]):
        part = parts.get(str(index), {})
        excuse = parts[PARTS] or missing("the probe ended before this was read")
        left_out = owed["fixed"] if part.get("same") else ()
        names = [name for name in owed["fields"] if name not in left_out]
        gpus.append({"index": index, **{name: part.get(name, excuse) for name in names}})
    return gpus


def assemble_paths(parts: Any, ask: ProbeRequest) -> Any:
    """Return the list of PathFacts; a path that did not answer has the reason in place of every fact."""
    if not isinstance(parts, dict) or "missing" in parts:
        return parts
    found = []
    for role, path in list_paths(ask).items():
        part = parts.get(role) or {}
        facts = part.get("facts")
        if isinstance(facts, dict) and "missing" not in facts:
            found.append(facts)
            continue
        excuse = facts or parts.get(PARTS) or part.get(PARTS) or missing("the paths probe ended early")
        mount = part.get("mount") or {"resolved": resolve_path(path), "filesystem": excuse, "source": excuse}
        names = ("exists", "writable", "free_mib", "total_mib", "free_inodes_percent")
        found.append({"role": role.partition(":")[0], "path": path, **mount, **dict.fromkeys(names, excuse)})
    return found


def list_named_pids(answer: Json) -> set[int]:
    """Return pids that the driver lists on a GPU and the process table does not hold."""
    table, gpus = answer.get("processes"), answer.get("gpus")
    if not isinstance(table, dict) or "processes" not in table or not isinstance(gpus, list):
        return set()
    lists = [gpu["processes"] for gpu in gpus if isinstance(gpu["processes"], list)]
    have = {row["pid"] for row in table["processes"]}
    return {process["pid"] for processes in lists for process in processes} - have


def merge_named(answer: Json) -> None:
    """Put the rows of `probe_named` into the table."""
    rows = answer.pop("named", None)
    if isinstance(rows, list):
        table = answer["processes"]
        table["processes"] = sorted(table["processes"] + rows, key=lambda row: int(row["pid"]))
