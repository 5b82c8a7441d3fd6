"""What a driver can do wrong, the simulated one does too: codes, missing functions, slowness, silence."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.silicon.ask import ask, ask_profile, environment, smi
from tests.lab.silicon.profile import Profile, load_profile
from tests.lab.silicon.state import stage, write_state

pytestmark = pytest.mark.slow

CODES = {
    2: "Invalid Argument",
    3: "Not Supported",
    4: "Insufficient Permissions",
    6: "Not Found",
    9: "Driver Not Loaded",
    10: "Timeout",
    14: "Corrupted infoROM",
    15: "GPU is lost",
    16: "GPU requires restart",  # pynvml's own words, see the next test for the library's
    17: "The operating system has blocked the request.",
    18: "RM has detected an NVML/RM version mismatch.",
    19: "In use by another client",
    20: "Insufficient Memory",
    21: "No data",
    26: "Requested functionality has been deprecated",
    27: "System is not ready for the request",
    28: "GPU not found",
    999: "Unknown Error",
}
every_code = pytest.mark.parametrize(("code", "words"), CODES.items())


def two_l40s(**calls: str) -> Profile:
    """Two GPUs, the second bent by rules."""
    profile = load_profile("2xl40s")
    return replace(profile, gpus=(profile.gpus[0], replace(profile.gpus[1], calls=calls)))


@every_code
def test_a_value_fails_with_the_code_it_is_given(code: int, words: str, tmp_path: Path) -> None:
    profile = load_profile("2xl40s").with_gpu(1, compute_mode=f"!{code}")
    healthy, failing = ask_profile(profile, tmp_path, [("nvmlDeviceGetComputeMode", [])])["gpu"]
    assert healthy == [0]
    assert failing == [{"error": code, "words": words}]


@every_code
def test_a_function_fails_on_one_gpu_alone(code: int, words: str, tmp_path: Path) -> None:
    profile = two_l40s(nvmlDeviceGetMemoryInfo=f"return {code}")
    calls: list[tuple[str, list[int]]] = [
        ("nvmlDeviceGetMemoryInfo", []),
        ("memory_v2", []),
        ("nvmlDeviceGetComputeMode", []),
    ]
    healthy, failing = ask_profile(profile, tmp_path, calls)["gpu"]
    assert "error" not in healthy[0]
    assert [failing[0]["error"], failing[1]["error"], failing[2]] == [code, code, 0]


@every_code
def test_the_start_fails_with_the_code_it_is_given(code: int, words: str, tmp_path: Path) -> None:
    profile = replace(load_profile("2xl40s"), calls={"nvmlInit": f"return {code}"})
    assert ask_profile(profile, tmp_path) == {"error": code, "words": words}


def test_the_library_has_words_for_every_code(tmp_path: Path) -> None:
    said = ask_profile(
        load_profile("t4"), tmp_path, system=[("nvmlErrorString", [code]) for code in (15, 16, 18, 12345)]
    )["system"]
    assert said == ["GPU is lost", "GPU requires reset", "Driver/library version mismatch", "Unknown Error"]


def test_without_a_driver_nvml_does_not_start(tmp_path: Path) -> None:
    profile = replace(load_profile("2xl40s"), driver_loaded=False)
    assert ask_profile(profile, tmp_path)["error"] == 9


def test_a_rule_for_one_version_leaves_the_others_alone(tmp_path: Path) -> None:
    profile = two_l40s(nvmlDeviceGetMemoryInfo_v2="return 999")
    _, bent = ask_profile(profile, tmp_path, [("nvmlDeviceGetMemoryInfo", []), ("memory_v2", [])])["gpu"]
    assert "error" not in bent[0]
    assert bent[1]["error"] == 999


def test_a_lost_gpu_costs_only_its_own_handle(tmp_path: Path) -> None:
    read = ask_profile(load_profile("8xh100-broken"), tmp_path, [("nvmlDeviceGetName", [])])["gpu"]
    assert read[2] == {"error": 15, "words": "GPU is lost"}
    assert [one for at, one in enumerate(read) if at != 2] == [["NVIDIA H100 80GB HBM3"]] * 7


def test_a_gpu_lost_after_the_start_fails_every_call(tmp_path: Path) -> None:
    profile = two_l40s(**{"*": "return 15"})
    calls: list[tuple[str, list[int]]] = [
        ("nvmlDeviceGetName", []),
        ("nvmlDeviceGetUUID", []),
        ("memory_v2", []),
    ]
    _, lost = ask_profile(profile, tmp_path, calls)["gpu"]
    assert [one["error"] for one in lost] == [15, 15, 15]


def test_a_gpu_in_need_of_a_reset_says_so_in_its_recovery_action(tmp_path: Path) -> None:
    calls = [("field", [230]), ("nvmlDeviceGetUtilizationRates", [])]
    read = ask_profile(load_profile("8xh100-broken"), tmp_path, calls)["gpu"]
    assert [one[0] for at, one in enumerate(read) if at != 2] == [0, 0, 0, 1, 0, 0, 0]
    assert read[4][1]["error"] == 16


def test_a_function_that_the_library_lacks_is_not_found(tmp_path: Path) -> None:
    profile = replace(
        load_profile("2xl40s"), missing=("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMigMode")
    )
    calls: list[tuple[str, list[int]]] = [
        ("nvmlDeviceGetComputeRunningProcesses_v3", []),
        ("nvmlDeviceGetMigMode", []),
        ("nvmlDeviceGetComputeRunningProcesses_v2", []),
    ]
    read = ask_profile(profile, tmp_path, calls)["gpu"][0]
    assert [read[0]["error"], read[1]["error"], read[2]] == [13, 13, []]


def test_a_wrong_struct_version_is_refused(tmp_path: Path) -> None:
    read = ask_profile(load_profile("t4"), tmp_path, [("nvmlDeviceGetMemoryInfo", [0x01000028])])["gpu"]
    assert read[0][0]["error"] == 25


def test_a_slow_call_takes_its_time_and_then_answers(tmp_path: Path) -> None:
    profile = two_l40s(nvmlDeviceGetComputeMode="delay 700")
    started = time.monotonic()
    read = ask_profile(profile, tmp_path, [("nvmlDeviceGetComputeMode", [])])["gpu"]
    assert read == [[0], [0]]
    assert time.monotonic() - started >= 0.7


def test_a_state_written_anew_is_read_at_the_next_start(tmp_path: Path) -> None:
    profile = load_profile("2xl40s")
    assert ask_profile(profile, tmp_path, [("nvmlDeviceGetComputeMode", [])])["gpu"] == [[0], [0]]
    write_state(profile.with_gpu(0, compute_mode="3"), tmp_path)
    assert ask(tmp_path, [("nvmlDeviceGetComputeMode", [])])["gpu"] == [[3], [0]]


def state_of(pid: int) -> str:
    """The state letter of a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_for(true: object, *, timeout_s: float = 10.0) -> None:
    """Until the condition holds. Raises AssertionError."""
    assert callable(true)
    end = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


@pytest.fixture
def hung(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process inside an NVML call that never returns."""
    stage(replace(load_profile("t4"), calls={"nvmlDeviceGetCount": "hang"}), tmp_path)
    code = "import pynvml; pynvml.nvmlInit(); print('in', flush=True); pynvml.nvmlDeviceGetCount()"
    argv = (sys.executable, "-c", code)
    with subprocess.Popen(argv, env=environment(tmp_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        yield process
        process.kill()


def stays_in_d(pid: int) -> bool:
    """Whether a process is in state D and stays there: a page that is read takes a moment of it."""
    for _ in range(10):
        if state_of(pid) != "D":
            return False
        time.sleep(0.02)
    return True


def test_a_call_that_hangs_shows_as_state_d(hung: "subprocess.Popen[str]") -> None:
    wait_for(lambda: stays_in_d(hung.pid))
    assert hung.poll() is None


def test_a_call_that_hangs_ignores_a_polite_signal(hung: "subprocess.Popen[str]") -> None:
    wait_for(lambda: stays_in_d(hung.pid))
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(hung.pid, number)
    time.sleep(0.3)
    assert hung.poll() is None
    assert state_of(hung.pid) == "D"


def test_what_hangs_leaves_nothing_behind_when_it_is_killed(hung: "subprocess.Popen[str]") -> None:
    wait_for(lambda: stays_in_d(hung.pid))
    children = Path(f"/proc/{hung.pid}/task/{hung.pid}/children").read_text().split()
    assert len(children) == 1
    hung.kill()
    assert hung.wait(60) == -signal.SIGKILL
    wait_for(lambda: not Path(f"/proc/{children[0]}").exists() or state_of(int(children[0])) == "Z")


def test_other_threads_go_on_while_one_hangs(tmp_path: Path) -> None:
    stage(two_l40s(nvmlDeviceGetComputeMode="hang"), tmp_path)
    code = """
import os, threading, pynvml as n
n.nvmlInit()
def ask(index):
    print(index, n.nvmlDeviceGetComputeMode(n.nvmlDeviceGetHandleByIndex(index)), flush=True)
threads = [threading.Thread(target=ask, args=(index,), daemon=True) for index in (1, 0)]
for thread in threads: thread.start()
threads[1].join(10); threads[0].join(0.3)
print(threads[0].is_alive(), flush=True)
os._exit(0)
"""
    argv = (sys.executable, "-c", code)
    done = subprocess.run(
        argv, env=environment(tmp_path), capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout.split("\n")[:2] == ["0 0", "True"]


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        (9, 9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
        (18, 18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90"),
        (999, 231, "Failed to initialize NVML: Unknown Error"),  # an exit status has eight bits
    ],
)
def test_nvidia_smi_fails_in_its_own_words(code: int, status: int, words: str, tmp_path: Path) -> None:
    stage(replace(load_profile("2xl40s"), calls={"nvmlInit": f"return {code}"}), tmp_path)
    done = smi(tmp_path, "-q", "-x")
    assert done.stdout.startswith(words)
    assert done.returncode == status


def test_nvidia_smi_ends_at_a_lost_gpu(tmp_path: Path) -> None:
    stage(load_profile("8xh100-broken"), tmp_path)
    done = smi(tmp_path, "-q", "-x")
    assert done.returncode == 15
    assert done.stdout == (
        "Unable to determine the device handle for GPU 0000:4C:00.0: GPU is lost.  "
        "Reboot the system to recover this GPU\n"
    )
