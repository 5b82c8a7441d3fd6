"""Golden cases: an overlay on a healthy host, a job, and what the check must say. New cases are data."""

import json
import pickle
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from preflight.checks.finding import Finding
from preflight.checks.runner import PlannedLaunch, check_cluster, check_deep, check_host, load_checks
from preflight.decide.gpu_assignment import map_ranks
from preflight.errors import GpulaunchError
from preflight.facts.host import HostFacts, Reach
from preflight.facts.json_codec import decode
from preflight.facts.missing import Missing
from preflight.job import DeepSpeedConfig, EngineTraits, Expect, GpuRequest, Job
from preflight.script.analyze import analyze_script
from tests.preflight.deep_runs import deep_run

CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Case:
    """One file under cases/CODE/."""

    code: str
    name: str
    data: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.code}/{self.name}"

    @property
    def wanted(self) -> list[dict[str, str]]:
        """What the check must say, one mapping per finding: severity, subject, and words of the message."""
        says: list[dict[str, str]] = self.data.get("says", [])
        return says

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """All findings of all checks of the case's scope."""
        job = make_job(self.data.get("job", {}))
        expect = Expect(**_tuples(self.data.get("expect", {})))
        allowed = _tuples({"gpus": self.data.get("allowed", "all")})["gpus"]
        if "deep" in self.data:
            return check_deep(deep_run(**self.data["deep"]))
        if "hosts" in self.data:
            hosts = {name: host(overlay, name) for name, overlay in self.data["hosts"].items()}
            reach = tuple(decode(Reach, item) for item in self.data.get("reach", []))
            clocks = {name: (low, high) for name, (low, high) in self.data.get("clocks", {}).items()}
            launch = _launch(hosts, job, allowed)
            return check_cluster(
                hosts, job, reach, expect=dict.fromkeys(hosts, expect), clocks=clocks, launch=launch
            )
        return check_host(
            host(self.data.get("facts", {})),
            job,
            expect,
            allowed=allowed,
            node="only" if self.data.get("is_main", True) else "other",
        )

    def said(self) -> list[Finding]:
        """Return what the check of this case says."""
        return [finding for finding in self.findings if finding.code == self.code]


@cache
def all_cases() -> list[Case]:
    """Return every case, by code and name."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where PyYAML has it
    return [
        Case(path.parent.name, path.stem, yaml.load(path.read_text(encoding="utf-8"), loader))
        for path in sorted(CASES.glob("*/*.yaml"))
        if path.parent.name in load_checks()
    ]


def host(overlay: dict[str, Any] | None = None, name: str = "titan") -> HostFacts:
    """Return the healthy host with dotted keys replaced: {"gpus.0.compute_mode": "prohibited"}."""
    data: dict[str, Any] = pickle.loads(_base())  # a fifth of the time of a copy
    data["host"] = name
    for dotted, value in (overlay or {}).items():
        _put(data, dotted.split("."), value)
    if "missing" not in data["processes"]:
        data["processes"]["processes"] = _whole_table(data["processes"]["processes"])
    return decode(HostFacts, data)


def _whole_table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a case with what every answer holds: PID 1 above them, and their namespace."""
    init = {
        "pid": 1, "start_ticks": 1, "ppid": 0, "uid": 0, "user": "root", "state": "S",
        "comm": "systemd", "argv": ["/sbin/init"], "age_s": 864000.0, "threads": 1, "tty": False,
        "environ": {"missing": "not yours to read", "code": "no-permission"},
        "gpu_files": {"missing": "not yours to read", "code": "no-permission"}, "cpu_ticks": 1,
    }  # fmt: skip
    above = [] if not rows or any(row["pid"] == 1 for row in rows) else [init]
    return [{"namespace_pids": [row["pid"]], **row} for row in (*above, *rows)]


def _launch(hosts: dict[str, HostFacts], job: Job, allowed: GpuRequest) -> PlannedLaunch:
    """Return the ranks that a launch would have, and what its script is found to do."""
    found = next(iter(hosts.values())).script
    text = "" if isinstance(found, Missing) or isinstance(found.text, Missing) else found.text
    script = analyze_script(text, "train.py", args=job.args) if text else None
    try:
        ranks = {name: map_ranks(facts, job, allowed=allowed) for name, facts in hosts.items()}
        return PlannedLaunch(ranks, script)
    except GpulaunchError:
        return PlannedLaunch(script=script)


def make_job(values: dict[str, Any]) -> Job:
    """Return a job; lists are tuples there."""
    values = _tuples(values)
    if "engine" in values:
        values["engine"] = EngineTraits(**values["engine"])
    if "deepspeed" in values:
        text = values["deepspeed"]
        values["deepspeed"] = DeepSpeedConfig("ds.json", text if isinstance(text, str) else json.dumps(text))
    return Job(**values)


@cache
def _base() -> bytes:
    return pickle.dumps(yaml.safe_load((CASES / "base.yaml").read_text(encoding="utf-8")))


def _put(data: Any, keys: list[str], value: Any) -> None:
    *path, last = keys
    for key in path:
        data = data[int(key)] if isinstance(data, list) else data[key]
    if last == "+":
        data.append(value)
    elif isinstance(data, list):
        data[int(last)] = value
    else:
        data[last] = value


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
