"""Processes that open a simulated GPU: listed, counted, refused, and held as the real driver does it."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.lab.silicon import compute
from tests.lab.silicon.ask import ask, environment, smi
from tests.lab.silicon.from_xml import profile_from_xml
from tests.lab.silicon.profile import load_profile
from tests.lab.silicon.state import stage

pytestmark = pytest.mark.slow

MIB = 1 << 20
BUSY = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n"


class Opened:
    """A running compute process, and those that it forked."""

    def __init__(self, process: "subprocess.Popen[str]", pids: Sequence[int]) -> None:
        self.process = process
        self.pid = pids[0]
        self.workers = tuple(pids[1:])


Open = Callable[..., Opened]


@pytest.fixture
def silicon(tmp_path: Path) -> Path:
    """Two idle L40S."""
    return stage(load_profile("2xl40s"), tmp_path / "silicon")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Starts compute processes on `tmp_path / "silicon"`; all of them are gone afterwards."""
    pids: list[int] = []
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> Opened:
        directory = tmp_path / "silicon"
        argv = (str(directory / "bin" / "compute"), *arguments)
        process = subprocess.Popen(argv, env=environment(directory), stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        words = process.stdout.readline().split()
        assert words[:1] == ["ready"]
        found = [int(word) for word in words[1:]]
        pids.extend(found)
        return Opened(process, found)

    yield start
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for process in processes:
        assert process.stdout is not None
        process.stdout.close()
        process.wait(60)


def refused(directory: Path, *arguments: str) -> str:
    """The words on stderr of a compute process that must not get its GPU."""
    argv = (str(directory / "bin" / "compute"), "--seconds", "0.1", *arguments)
    done = subprocess.run(
        argv, env=environment(directory), capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 1, done.stdout
    return done.stderr


def listed(directory: Path, kind: str = "Compute") -> list[dict[int, int]]:
    """{pid: MiB} for each GPU, as NVML lists it."""
    read = ask(directory, [(f"nvmlDeviceGet{kind}RunningProcesses_v3", [])])["gpu"]
    return [{one["pid"]: one["usedGpuMemory"] // MIB for one in gpu[0]} for gpu in read]


def used_mib(directory: Path) -> list[int]:
    """Used memory of each GPU, without the reserve."""
    return [gpu[0]["used"] // MIB for gpu in ask(directory, [("memory_v2", [])])["gpu"]]


def wait_for(holds: Callable[[], Any], timeout_s: float = 10.0) -> None:
    """Until the condition holds. Raises AssertionError."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    """Whether no process has this pid, or only its name is left."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_an_open_gpu_lists_its_process_and_counts_its_memory(silicon: Path, opened: Open) -> None:
    one = opened("--gpu", "0", "--mib", "4000")
    assert listed(silicon) == [{one.pid: 4000}, {}]
    assert used_mib(silicon) == [4001, 1]
    memory = ask(silicon, [("memory_v2", [])])["gpu"][0][0]
    assert memory["free"] == (45539 - 4000) * MIB


def test_a_process_that_ends_gives_its_memory_back(silicon: Path, opened: Open) -> None:
    one = opened("--gpu", "0", "--mib", "4000")
    one.process.kill()
    one.process.wait(60)
    assert listed(silicon) == [{}, {}]
    assert used_mib(silicon) == [1, 1]


def test_one_process_may_hold_two_gpus(silicon: Path, opened: Open) -> None:
    one = opened("--gpu", "0", "--gpu", "1", "--mib", "300")
    assert listed(silicon) == [{one.pid: 300}, {one.pid: 300}]


def test_a_gpu_is_opened_by_uuid_too(silicon: Path, opened: Open) -> None:
    uuid = load_profile("2xl40s").gpus[1].values["uuid"]
    one = opened("--gpu", uuid)
    assert listed(silicon) == [{}, {one.pid: 500}]


def test_kinds_go_to_their_lists(silicon: Path, opened: Open) -> None:
    both = opened("--gpu", "0", "--kind", "C+G")
    mps = opened("--gpu", "0", "--kind", "M+C")
    assert listed(silicon)[0] == {both.pid: 500, mps.pid: 500}
    assert listed(silicon, "Graphics")[0] == {both.pid: 500}
    assert listed(silicon, "MPSCompute")[0] == {mps.pid: 500}


def test_the_drivers_name_for_a_live_process_is_its_program(silicon: Path, opened: Open) -> None:
    one = opened("--gpu", "0")
    name = ask(silicon, system=[("nvmlSystemGetProcessName", [one.pid])])["system"][0]
    assert name == Path(f"/proc/{one.pid}/cmdline").read_bytes().split(b"\0")[0].decode()


def test_more_memory_than_is_free_is_out_of_memory(silicon: Path, opened: Open) -> None:
    opened("--gpu", "0", "--mib", "40000")
    words = refused(silicon, "--gpu", "0", "--mib", "6000")
    assert words == (
        "RuntimeError: CUDA error: out of memory. Tried to allocate 6000.00 MiB. GPU has 5539.00 MiB free\n"
    )


def test_a_gpu_that_is_not_there_is_an_invalid_ordinal(silicon: Path) -> None:
    assert refused(silicon, "--gpu", "2") == "RuntimeError: CUDA error: invalid device ordinal\n"


def test_default_mode_takes_a_second_process(silicon: Path, opened: Open) -> None:
    pids = {opened("--gpu", "0").pid, opened("--gpu", "0").pid}
    assert set(listed(silicon)[0]) == pids


def test_exclusive_process_refuses_a_second_one_in_cudas_words(tmp_path: Path, opened: Open) -> None:
    directory = stage(load_profile("2xl40s-exclusive"), tmp_path / "silicon")
    first = opened("--gpu", "0")
    assert refused(directory, "--gpu", "0") == BUSY
    second = opened("--gpu", "1")
    assert listed(directory) == [{first.pid: 500}, {second.pid: 500}]
    first.process.kill()
    first.process.wait(60)
    assert opened("--gpu", "0").pid in listed(directory)[0]


def test_of_many_at_once_exclusive_process_takes_one(tmp_path: Path) -> None:
    directory = stage(load_profile("2xl40s-exclusive"), tmp_path / "silicon")
    argv = (str(directory / "bin" / "compute"), "--gpu", "0", "--seconds", "60")
    with contextlib.ExitStack() as stack:
        started: list[subprocess.Popen[str]] = [
            stack.enter_context(
                subprocess.Popen(
                    argv,
                    env=environment(directory),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(6)
        ]
        wait_for(lambda: sum(process.poll() is not None for process in started) == 5, timeout_s=40)
        for process in started:
            process.kill()
        ended = [process.communicate(timeout=30) for process in started]
    assert sum(out.startswith("ready") for out, _ in ended) == 1
    assert [errors for out, errors in ended if not out] == [BUSY] * 5


def test_exclusive_process_lets_a_desktop_draw(tmp_path: Path, opened: Open) -> None:
    directory = stage(load_profile("2xl40s-exclusive"), tmp_path / "silicon")
    opened("--gpu", "0", "--kind", "G")
    assert opened("--gpu", "0").pid in listed(directory)[0]


def test_prohibited_refuses_every_process(tmp_path: Path) -> None:
    directory = stage(load_profile("2xl40s").with_gpu(0, compute_mode="2"), tmp_path / "silicon")
    assert refused(directory, "--gpu", "0") == BUSY


def test_the_refusal_carries_cudas_number(tmp_path: Path) -> None:
    directory = stage(load_profile("2xl40s").with_gpu(0, compute_mode="2"), tmp_path / "silicon")
    with pytest.raises(compute.CudaError) as caught:
        compute.open_gpu("0", directory=str(directory))
    assert caught.value.code == 46


def test_an_opened_gpu_can_take_more_and_give_it_back(silicon: Path) -> None:
    context = compute.open_gpu("1", 100, directory=str(silicon))
    context.grow(2500)
    assert listed(silicon) == [{}, {os.getpid(): 2500}]
    context.close()
    assert listed(silicon) == [{}, {}]


def test_a_worker_without_parent_keeps_the_memory_under_the_dead_parents_pid(
    silicon: Path, opened: Open
) -> None:
    one = opened("--gpu", "0", "--mib", "900", "--workers", "2", "--exit-after-fork")
    one.process.wait(60)
    assert gone(one.pid)
    assert listed(silicon) == [{one.pid: 900}, {}]
    os.kill(one.workers[0], signal.SIGKILL)
    wait_for(lambda: gone(one.workers[0]))
    assert listed(silicon) == [{one.pid: 900}, {}]
    os.kill(one.workers[1], signal.SIGKILL)
    wait_for(lambda: listed(silicon) == [{}, {}])


def test_a_zombie_leader_with_a_live_thread_keeps_the_memory(silicon: Path, opened: Open) -> None:
    one = opened("--gpu", "0", "--mib", "700", "--zombie-leader")
    wait_for(lambda: gone(one.pid))
    assert len(os.listdir(f"/proc/{one.pid}/task")) == 2  # noqa: PTH208 - procfs
    assert listed(silicon) == [{one.pid: 700}, {}]
    os.kill(one.pid, signal.SIGKILL)
    one.process.wait(60)
    assert listed(silicon) == [{}, {}]


def test_a_stopped_process_keeps_the_memory(silicon: Path, opened: Open) -> None:
    one = opened("--gpu", "0", "--stop")
    stat = Path(f"/proc/{one.pid}/stat")
    wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
    assert listed(silicon) == [{one.pid: 500}, {}]


def test_a_process_may_ignore_sigterm(silicon: Path, opened: Open) -> None:
    one = opened("--gpu", "0", "--ignore-term")
    os.kill(one.pid, signal.SIGTERM)
    time.sleep(0.2)
    assert listed(silicon) == [{one.pid: 500}, {}]


def test_nvidia_smi_lists_the_same_live_process(silicon: Path, opened: Open) -> None:
    one = opened("--gpu", "1", "--mib", "1234", "--name", "train.py")
    seen = profile_from_xml(smi(silicon, "-q", "-x").stdout)
    assert seen.gpus[0].processes == ()
    (process,) = seen.gpus[1].processes or ()
    assert (process.pid, process.kind, process.used_mib) == (one.pid, "C", 1234)
    assert "compute" in process.name
    assert seen.gpus[1].values["memory.used_mib"] == "1235"


def test_device_files_are_open_where_there_are_any(tmp_path: Path, silicon: Path) -> None:
    root = tmp_path / "dev"
    root.mkdir()
    for name in ("nvidiactl", "nvidia-uvm", "nvidia1"):
        (root / name).touch()
    context = compute.open_gpu("1", directory=str(silicon), device_root=str(root))
    held = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)}  # noqa: PTH115, PTH208 - procfs
    context.close()
    assert {str(root / name) for name in ("nvidiactl", "nvidia-uvm", "nvidia1")} <= held


def _is_open(descriptor: str) -> bool:
    return Path(f"/proc/self/fd/{descriptor}").is_symlink()
