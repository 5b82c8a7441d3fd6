"""The gauge for real: as the supervisor's child, on this machine's processes and a simulated NVML."""

import dataclasses
import itertools
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from launcher.config.disconnect_options import DisconnectOptions
from launcher.follow import protocol
from launcher.follow.events import HostEnded, HostReport, RunEvent
from launcher.follow.node_client import NodeClient
from launcher.remote.program_source import read_program_source
from launcher.transports.base import Endpoint
from launcher.transports.local import LocalConnection
from tests.lab.silicon import Profile, load_profile, stage
from tests.lab.silicon.ask import environment
from tests.launcher.onhost_driver import LAUNCHER, Driver, pids_of
from tests.launcher.run_plans import plan

pytestmark = pytest.mark.slow

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="the simulated NVML needs a C compiler")

# A rank that holds memory, and a worker below it that holds as much again. At a word each uses a quarter
# of a second of CPU, however long it takes to get that beside others.
BUSY = """
import os, time
held = bytearray(64 << 20)
held[::4096] = b"x" * len(held[::4096])
os.fork()
go = os.path.join(os.environ["GPULAUNCH_RUN_DIR"], "go")
while not os.path.exists(go):
    time.sleep(0.02)
until = time.process_time() + 0.25
while time.process_time() < until:
    pass
print("used", flush=True)
time.sleep(60)
"""


def start(run: Driver, script: str, ranks: int = 1, **spec: Any) -> None:
    files = [["launch.py", LAUNCHER], ["s/x.py", script], ["gauge.py", read_program_source("gauge").decode()]]
    run.start(script, ranks=ranks, files=files, usage_every_s=0.2, **spec)


def samples(run: Driver) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.log("usage.jsonl").splitlines()]


def cpu_seconds(run: Driver, rank: str) -> float:
    """Return how much CPU a rank and its workers have used, going by all samples."""
    seen, total = samples(run), 0.0
    for before, now in itertools.pairwise(seen):
        total += (now["ranks"][rank]["cpu"] or 0.0) / 100 * (now["m"] - before["m"])
    return total


def test_memory_and_cpu_of_every_rank_and_its_workers_are_measured(run: Driver) -> None:
    start(run, BUSY, ranks=2)
    ranks = {"0", "1"}

    def are_whole(sample: dict[str, Any]) -> bool:
        """Their workers have been found too, for which all of /proc is looked through only now and then."""
        return set(sample["ranks"]) == ranks and all(
            128 <= rank["rss_mib"] < 400 for rank in sample["ranks"].values()
        )

    run.until(lambda: bool(samples(run)) and are_whole(samples(run)[-1]))
    (run.run_dir / "go").touch()
    run.until(lambda: all(run.log(f"rank-{rank}.log").count(b"used") == 2 for rank in ranks))
    seen = len(samples(run))
    run.until(lambda: len(samples(run)) > seen + 1)
    last = samples(run)[-1]
    assert (last["schema"], last["event"]) == ("gpulaunch.usage/1", "usage")
    assert (last["gpus"], "gpus_missing" in last) == ({}, False)
    assert are_whole(last)
    for rank in ranks:
        assert 0.4 < cpu_seconds(run, rank) < 0.7
    assert abs(last["t"] - time.time()) < 10
    run.say("stop 0 enough")
    run.ended()
    assert run.gone() == {}


def test_the_first_sample_of_a_rank_has_no_cpu_use_yet(run: Driver) -> None:
    start(run, "import time; time.sleep(60)")
    run.until(lambda: bool(samples(run)))
    assert samples(run)[0]["ranks"]["0"]["cpu"] is None
    run.until(lambda: len(samples(run)) > 1)
    assert samples(run)[1]["ranks"]["0"]["cpu"] is not None


def test_a_run_goes_on_without_its_gauge_and_it_is_said(run: Driver) -> None:
    start(run, "import time; time.sleep(1.5); print('done')")
    run.until(lambda: bool(samples(run)))
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in run.processes()}
    (gauge,) = (pid for pid, command in commands.items() if b"/gauge.py" in command)
    os.kill(gauge, signal.SIGKILL)
    assert run.ended()["exit"]["ranks"] == {"0": 0}
    assert "it was ended by signal 9 (SIGKILL)" in run.event("internal_error")["error"]
    assert run.log() == b"done\n"


def test_the_gauge_ends_with_a_supervisor_that_is_killed(run: Driver) -> None:
    start(run, "import time; time.sleep(60)")
    run.until(lambda: bool(samples(run)))
    supervisor, guardian, _ = pids_of(run.answer)
    os.kill(guardian, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    assert run.gone() == {}


def test_what_is_used_reaches_the_client_as_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    argv = (sys.executable, "{run_dir}/launch.py", "1", "{run_dir}/rank.py", "{run_dir}/s/x.py")
    files = (("launch.py", LAUNCHER), ("s/x.py", "import time; time.sleep(1.5)"))
    planned = plan((None,))
    node = dataclasses.replace(planned.nodes[0], argv=argv, files=files, python=sys.executable)
    planned = dataclasses.replace(planned, nodes=(node,))
    events: queue.Queue[RunEvent] = queue.Queue()
    follower = NodeClient(
        "r1",
        node,
        lambda: LocalConnection(Endpoint("a", "local", "")),
        lambda: protocol.StartRequests(planned, DisconnectOptions()).build_request(node),
        patience_s=5.0,
        events=events,
    )
    follower.run()
    came = [events.get_nowait() for _ in range(events.qsize())]
    (used,) = [each for each in came if isinstance(each, HostReport) and each.event == "usage"]
    assert used.fields["ranks"]["0"]["rss_mib"] > 0
    assert isinstance(came[-1], HostEnded)


class Alone:
    """The gauge without a supervisor, on the NVML that is staged in a directory."""

    def __init__(self, folder: Path, gpus: list[str], environ: Mapping[str, str]) -> None:
        self.folder = folder
        rank = {"event": "rank", "rank": 0, "pid": os.getpid(), "ticks": start_ticks()}
        (folder / "events.jsonl").write_text(json.dumps(rank) + "\n")
        (folder / "spec.json").write_text(json.dumps({"gpus": gpus, "usage_every_s": 0.1}))
        (folder / "gauge.py").write_bytes(read_program_source("gauge"))
        argv = (sys.executable, "-ISE", str(folder / "gauge.py"), str(folder))
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, env=environ)

    def samples(self, count: int) -> list[dict[str, Any]]:
        """Wait for so many."""
        path, deadline = self.folder / "usage.jsonl", time.monotonic() + 20
        while time.monotonic() < deadline:
            lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
            if len(lines) >= count:
                return [json.loads(line) for line in lines]
            time.sleep(0.05)
        raise AssertionError("the gauge wrote too little")

    def close(self) -> None:
        """End its stdin; it must end of it, whatever NVML does."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()


def start_ticks() -> int:
    return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])


def uuids(profile: Profile) -> list[str]:
    return [gpu.values["uuid"] for gpu in profile.gpus]


def watched(tmp_path: Path, profile: Profile, count: int = 2) -> dict[str, Any]:
    """Return the last of some samples of a profile's GPUs."""
    gauge = Alone(tmp_path, uuids(profile), environment(stage(profile, tmp_path / "silicon")))
    try:
        return gauge.samples(count)[-1]
    finally:
        gauge.close()


def bent(profile: Profile, index: int, **calls: str) -> Profile:
    gpus = list(profile.gpus)
    gpus[index] = dataclasses.replace(gpus[index], calls={**gpus[index].calls, **calls})
    return dataclasses.replace(profile, gpus=tuple(gpus))


@needs_cc
def test_the_gpus_of_the_run_are_read_through_nvml(tmp_path: Path) -> None:
    resting = load_profile("2xl40s")
    working = {"utilization.gpu": "97", "utilization.memory": "41", "memory.used_mib": "30123"}
    first = dataclasses.replace(resting.gpus[0], values={**resting.gpus[0].values, **working})
    profile = dataclasses.replace(resting, gpus=(first, resting.gpus[1]))
    last = watched(tmp_path, profile)
    assert "gpus_missing" not in last
    assert list(last["gpus"]) == uuids(profile)
    for gpu, measured in zip(profile.gpus, last["gpus"].values(), strict=True):
        values = gpu.values
        assert measured["power_w"] == int(values["power_mw"]) / 1000
        assert measured["busy"] == int(values["utilization.gpu"])
        assert measured["memory_busy"] == int(values["utilization.memory"])
        assert measured["memory_mib"] == int(values["memory.used_mib"])
        assert 0 < measured["memory_free_mib"] <= int(values["memory.total_mib"])


@needs_cc
def test_an_older_driver_without_the_newer_memory_call_is_read_too(tmp_path: Path) -> None:
    profile = dataclasses.replace(load_profile("t4"), missing=("nvmlDeviceGetMemoryInfo_v2",))
    (gpu,) = watched(tmp_path, profile)["gpus"].values()
    assert gpu["memory_mib"] is not None


@needs_cc
def test_a_lost_gpu_is_missing_with_its_reason_and_the_others_are_read(tmp_path: Path) -> None:
    profile = bent(load_profile("2xl40s"), 0, **{"*": "return 15"})
    last = watched(tmp_path, profile)
    first, second = uuids(profile)
    assert first not in last["gpus"] or set(last["gpus"][first].values()) == {None}
    assert last["gpus"][second]["busy"] is not None


@needs_cc
@pytest.mark.parametrize(("code", "words"), [(9, "nvmlInit_v2: "), (18, "nvmlInit_v2: ")])
def test_a_driver_that_refuses_is_the_reason(tmp_path: Path, code: int, words: str) -> None:
    profile = dataclasses.replace(load_profile("t4"), calls={"nvmlInit": f"return {code}"})
    last = watched(tmp_path, profile)
    assert last["gpus"] == {}
    assert last["gpus_missing"].startswith(words)
    assert last["ranks"]["0"]["rss_mib"] > 0


@needs_cc
def test_a_driver_that_hangs_hangs_nothing_else(tmp_path: Path) -> None:
    profile = bent(load_profile("2xl40s"), 1, nvmlDeviceGetUtilizationRates="hang")
    last = watched(tmp_path, profile, count=3)
    assert last["gpus"] == {}
    assert last["gpus_missing"].startswith("NVML has not answered for ")
    assert last["ranks"]["0"]["cpu"] is not None


def test_a_host_without_nvml_says_so(tmp_path: Path) -> None:
    gauge = Alone(tmp_path, ["GPU-1"], {"PATH": "/usr/bin"})
    last = gauge.samples(2)[-1]
    gauge.close()
    assert last["gpus"] == {}
    assert last["gpus_missing"].startswith("NVML cannot be loaded: libnvidia-ml.so.1")
