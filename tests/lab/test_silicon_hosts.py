"""Simulated hosts with simulated GPUs: found without any environment, held by processes of the host."""

import contextlib
import json
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from launcher.remote.program_source import read_agent_source
from launcher.remote.pynvml_source import pack_pynvml
from launcher.rundir.run_id import make_run_id
from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts, Process
from preflight.facts.json_codec import decode
from preflight.facts.missing import Missing
from tests.lab import sshd
from tests.lab.client import Client
from tests.lab.hosts import Lab, LabHost
from tests.lab.silicon import install, load_profile, update
from tests.lab.silicon.from_xml import profile_from_xml
from tests.launcher.top_screen import Seen

Open = Callable[..., list[int]]
pytestmark = pytest.mark.lab
REQUEST = {"skip": ["python", "network", "paths", "kernel_log", "infiniband"]}
BUSY = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n"

# What gather's bootstrap does, for a test that talks to a host without SSH: the payload comes as a file.
RUN_AGENT = "exec /usr/bin/env python3 {agent} < {payload}"


@pytest.fixture(scope="module")
def gpu_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One host with two L40S in Exclusive_Process, one with eight B200."""
    out = tmp_path_factory.mktemp("gpus") / "lab"
    with Lab.up(["l40s", "b200"], out, profiles=["2xl40s-exclusive", "8xb200"]) as lab:
        yield lab


@pytest.fixture
def l40s(gpu_lab: Lab) -> LabHost:
    """The host of field note 4."""
    return gpu_lab.host("l40s")


def wait_for(holds: Callable[[], Any], timeout_s: float = 10.0) -> None:
    """Until the condition holds. Raises AssertionError."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


def facts(host: LabHost) -> HostFacts:
    """What the agent reads on the host."""
    body, pynvml = json.dumps(REQUEST).encode(), pack_pynvml()
    assert zlib.decompress(pynvml)
    header = json.dumps({"request_len": len(body), "pynvml_len": len(pynvml)}).encode()
    payload = host.put("/tmp/payload", header + b"\n" + body + pynvml)
    agent = host.put("/tmp/agent.py", read_agent_source())
    text = host.run(["sh", "-c", RUN_AGENT.format(agent=agent, payload=payload)]).stdout
    _, _, rest = text.partition("GPULAUNCH-FACTS-1 ")
    found = decode(HostFacts, json.loads(rest.partition("\n")[2]))
    assert isinstance(found, HostFacts)
    return found


def gpus(host: LabHost) -> tuple[Gpu, ...]:
    """The host's GPUs, as the agent reads them."""
    found = facts(host).gpus
    assert not isinstance(found, Missing), found
    return found


def launched(host: LabHost) -> Iterator[Open]:
    """Starts compute processes on a host and closes what it holds of them."""
    with contextlib.ExitStack() as stack:

        def start(*arguments: str, user: str = "root") -> list[int]:
            process = stack.enter_context(host.popen(["silicon-compute", *arguments], user=user))
            words = process.read_line().split()
            assert words[:1] == ["ready"], words
            return [int(word) for word in words[1:]]

        yield start
        for pid in host.strays():
            host.kill(pid)
    wait_for(lambda: not host.strays())


@pytest.fixture
def opened(l40s: LabHost) -> Iterator[Open]:
    """Starts a compute process on the L40S host: its pid and those of its workers."""
    yield from launched(l40s)


def holders(gpu: Gpu) -> dict[int, Any]:
    """{pid: MiB} of the GPU's compute processes."""
    assert not isinstance(gpu.processes, Missing)
    return {process.pid: process.used_mib for process in gpu.processes}


def l40s_pids(lab: Lab) -> set[int]:
    """Return the processes of the L40S host."""
    return set(lab.host("l40s").pids())


def process_of(found: HostFacts, pid: int) -> Process:
    """A process among the facts."""
    assert not isinstance(found.processes, Missing)
    return next(process for process in found.processes.processes if process.pid == pid)


def test_the_library_is_found_without_any_environment(gpu_lab: Lab) -> None:
    assert [gpu.name for gpu in gpus(gpu_lab.host("l40s"))] == ["NVIDIA L40S"] * 2
    assert [gpu.compute_mode for gpu in gpus(gpu_lab.host("l40s"))] == ["exclusive_process"] * 2
    assert [gpu.name for gpu in gpus(gpu_lab.host("b200"))] == ["NVIDIA B200"] * 8


def test_nvidia_smi_is_on_the_path(l40s: LabHost) -> None:
    printed = profile_from_xml(l40s.run(["nvidia-smi", "-q", "-x"]).stdout)
    assert [gpu.values["compute_mode"] for gpu in printed.gpus] == ["3", "3"]


def test_nvidia_smi_answers_what_launchers_ask_it(l40s: LabHost, opened: Open) -> None:
    opened("--gpu", "1", "--mib", "3000")
    fields = "count,name,driver_version,index,memory.used,compute_cap"
    printed = l40s.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]).stdout
    used = [gpu.memory.used_mib for gpu in gpus(l40s) if not isinstance(gpu.memory, Missing)]
    driver = load_profile("2xl40s-exclusive").system["driver_version"]
    assert used[1] - used[0] == 3000
    assert printed.splitlines() == [
        f"2, NVIDIA L40S, {driver}, {index}, {used[index]}, 8.9" for index in range(2)
    ]
    refused = l40s.run(["nvidia-smi", "--query-gpu=nonsense", "--format=csv"], check=False)
    assert (refused.returncode, refused.stdout) == (2, 'Field "nonsense" is not a valid field to query.\n')


def test_hosts_of_one_profile_have_gpus_of_their_own(tmp_path: Path) -> None:
    query = ["nvidia-smi", "--query-gpu=uuid,serial,pci.bus_id", "--format=csv,noheader"]
    with Lab.up(2, tmp_path / "lab", profiles=["2xl40s"]) as lab:
        printed = [host.run(query).stdout.splitlines() for host in lab.hosts]
        read = [[gpu.uuid for gpu in gpus(host)] for host in lab.hosts]
    uuids, serials, buses = zip(*(line.split(", ") for host in printed for line in host), strict=True)
    assert uuids == (*read[0], *read[1])
    assert len(set(uuids)) == len(set(serials)) == 4
    assert buses[:2] == buses[2:]


def test_the_pci_bus_shows_the_gpus(gpu_lab: Lab) -> None:
    found = facts(gpu_lab.host("l40s")).pci_gpus
    assert not isinstance(found, Missing)
    assert [(gpu.bus_id, gpu.device_id, gpu.driver) for gpu in found] == [
        ("0000:01:00.0", "26b9", "nvidia"),
        ("0000:c1:00.0", "26b9", "nvidia"),
    ]


@pytest.mark.skipif(not Path("/proc/modules").exists(), reason="this kernel has no module list to lay over")
def test_the_driver_is_among_the_modules(l40s: LabHost) -> None:
    found = facts(l40s).system
    assert not isinstance(found, Missing)
    assert "nvidia" in found.modules


def test_a_holder_has_the_hosts_own_pid_and_open_device_files(l40s: LabHost, opened: Open) -> None:
    (pid,) = opened("--gpu", "0", "--mib", "20000", user="alice")
    assert pid < 1000, "pids of a host start at 1"
    found = facts(l40s)
    assert not isinstance(found.gpus, Missing)
    assert [holders(gpu) for gpu in found.gpus] == [{pid: 20000}, {}]
    process = process_of(found, pid)
    assert process.user == "alice"
    assert process.gpu_files == ("/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl")


def test_exclusive_process_refuses_another_user(l40s: LabHost, opened: Open) -> None:
    opened("--gpu", "0", user="alice")
    done = l40s.run(["silicon-compute", "--gpu", "0"], user="bob", check=False)
    assert (done.returncode, done.stderr) == (1, BUSY)
    opened("--gpu", "1", user="bob")


def test_orphaned_workers_hold_the_memory_of_a_pid_that_is_gone(l40s: LabHost, opened: Open) -> None:
    parent, worker = opened(
        "--gpu", "1", "--mib", "9000", "--workers", "1", "--exit-after-fork", user="alice"
    )
    wait_for(lambda: not l40s.state(parent))
    found = facts(l40s)
    assert not isinstance(found.gpus, Missing)
    assert [holders(gpu) for gpu in found.gpus] == [{}, {parent: 9000}]
    orphan = process_of(found, worker)
    assert (orphan.ppid, orphan.comm) == (1, "pt_data_worker")
    assert not isinstance(orphan.gpu_files, Missing)
    assert "/dev/nvidia1" in orphan.gpu_files
    l40s.kill(worker)
    wait_for(lambda: holders(gpus(l40s)[1]) == {})


def test_a_zombie_leader_with_a_live_thread_shows_its_device_files(l40s: LabHost, opened: Open) -> None:
    (pid,) = opened("--gpu", "0", "--zombie-leader", user="alice")
    wait_for(lambda: l40s.state(pid) == "Z")
    found = facts(l40s)
    assert not isinstance(found.gpus, Missing)
    assert holders(found.gpus[0]) == {pid: 500}
    process = process_of(found, pid)
    assert (process.state, process.threads) == ("Z", 2)
    assert not isinstance(process.gpu_files, Missing)
    assert "/dev/nvidia0" in process.gpu_files


def test_the_driver_may_change_its_mind_while_processes_live(l40s: LabHost, opened: Open) -> None:
    profile = load_profile("2xl40s-exclusive")
    (pid,) = opened("--gpu", "0")
    update(l40s, profile.with_gpu(0, recovery_action="2"))
    assert [gpu.recovery_action for gpu in gpus(l40s)] == ["node_reboot", ANY]
    assert holders(gpus(l40s)[0]) == {pid: 500}
    update(l40s, profile)


def test_a_host_without_driver_still_shows_its_gpus_on_the_bus(gpu_lab: Lab) -> None:
    host = gpu_lab.host("b200")
    profile = load_profile("8xb200")
    install(host, replace(profile, driver_loaded=False))
    found = facts(host)
    assert isinstance(found.gpus, Missing)
    assert found.gpus.code == "not-loaded"
    assert not isinstance(found.pci_gpus, Missing)
    assert len(found.pci_gpus) == 8
    assert not Path(host.path("/dev/nvidia0")).exists()
    install(host, profile)
    assert len(gpus(host)) == 8


WAITS = """
import time
print("step 1/9 loss: 2.5", flush=True)
time.sleep(600)
"""


def test_top_shows_hosts_over_ssh_and_its_keys_work(gpu_lab: Lab, opened: Open, tmp_path: Path) -> None:
    client = Client(gpu_lab, tmp_path / "home")
    *_, worker = opened("--gpu", "0", "--mib", "9000", "--workers", "1", "--exit-after-fork")
    run_id = start_waiting_run(client)
    words = ("l40s,b200", "-i", str(client.inventory), "--interval", "0.5")
    top = Seen(client.home, client.env, *words, size=(24, 140))
    try:
        for shown in ("orphan", "all free: 8x NVIDIA B200", "10 GPUs: 1 held, 9 free", run_id):
            top.until(shown)
        top.show("f", "shown: free")
        assert "orphan" not in top.text
        top.show("foo", "order: memory")
        assert top.text.index("l40s") < top.text.index("b200")
        top.show("\x1b", "order: host")
        top.show("\x1b[H\r", "processes on l40s, GPU 0", f"pid {worker}")
        top.show("q", "order: host")
        top.show("h", "by host", "1 orphan, 1 free: 2x NVIDIA L40S")
        top.show("s", "rank 0 on l40s executes <module> (x.py:", "Enter goes back")
        top.show("\n", "by host")
        top.show("z", "End 1 process? [y/N]")
        assert worker in l40s_pids(gpu_lab)
        top.show("y\n", f"pid {worker}: ended", "Enter goes back")
        top.show("\n", "10 GPUs: 0 held, 10 free")
        assert worker not in l40s_pids(gpu_lab)
        sshd.kill(gpu_lab.host("b200"), sessions=True)
        top.until("2 hosts (1 lost)")
        top.until("lost for ")
        assert b"\x1b[2mb200" in top.raw  # grey
        sshd.start(gpu_lab.host("b200"))
        top.show("jr", "10 GPUs: 0 held, 10 free")
        top.press("\x03")
        assert top.end() == 130
    finally:
        top.close()
        if not gpu_lab.host("b200").sshd_pid():
            sshd.start(gpu_lab.host("b200"))
        client.run("stop", run_id, "--now")


def start_waiting_run(client: Client) -> str:
    """Start a run of one rank on the L40S host that waits, and leave it; return its id."""
    run_id = make_run_id("lora")
    config = {"inventory": str(client.inventory), "hosts": ["l40s"], "ranks": 1, "detach": True}
    config |= {"run_id": run_id, "script": WAITS, "claims": False, "quiet_s": 0.1}
    path = client.home / "run.json"
    path.write_text(json.dumps(config | {"disconnect": ["continue", 600.0, 2.0]}))
    argv = [sys.executable, "-m", "tests.lab.fault_client", str(path)]
    subprocess.run(argv, cwd=client.home, env=client.env, check=True, capture_output=True, timeout=60)
    return run_id
