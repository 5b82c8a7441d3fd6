"""`restart:` through the command line, on this machine with simulated GPUs."""

import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.onhost.supervisor import next_start
from launcher.onhost.supervisor.run_dir import DETACHED
from tests.command_server import Command, start_module
from tests.lab.silicon.state import state_text
from tests.launcher.test_restart_on_host import await_
from tests.torchless import write_python
from tests.users import TORCH_BUILD, User

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="the simulated NVML needs a C compiler"),
]
RESTART: dict[str, Any] = {"max": 2, "resume_args": ["--resume", "{checkpoint}"], "backoff_s": 0}
# Rank 1 loses its GPU as a real one does: the driver stops answering for it, and CUDA does not say why.
TRAIN = """
import json, os, pathlib, sys, time
rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
begin = json.loads((pathlib.Path(sys.argv[2]) / "state.json").read_text())["step"] if sys.argv[1:] else 0
print(f"rank {rank} of {world} after step {begin}", flush=True)
folder = pathlib.Path(f"out/checkpoint-{begin + 5}")
if rank == 0:
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({"step": begin + 5}))
while rank == 1 and not (folder / "state.json").exists():
    time.sleep(0.05)
if rank == 1:
    os.rename("silicon/lost", "silicon/state")
    raise RuntimeError("CUDA error: unspecified launch failure")
time.sleep(60 if world > 1 else 0)
"""


def torchless(user: User) -> User:
    """Give this machine an interpreter that starts ranks without torch: they need none, in several starts."""
    entry = {"python": write_python(user.home)}
    (user.home / "hosts.yaml").write_text(json.dumps({"hosts": {"localhost": entry}}))
    return user


def test_a_run_goes_on_without_the_gpu_that_was_lost(tmp_path: Path) -> None:
    user = torchless(User(tmp_path / "home", "2xl40s"))
    profile = user.profile
    assert profile is not None
    lost = replace(profile, gpus=(profile.gpus[0], replace(profile.gpus[1], calls={"*": "return 15"})))
    (user.home / "silicon" / "lost").write_text(state_text(lost))
    keys = {"gpus": "all", "output": "out", "guard": "off", "restart": RESTART}
    user.write(TRAIN, {**keys, "engine": "accelerate"})
    done = user.gpulaunch("run", "-c", "./job.yaml", "--ignore", TORCH_BUILD)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "localhost stays with its other GPUs: gpu1: the GPU is lost" in done.stdout
    assert "world size 2 -> 1" in done.stdout
    assert "rank 0 of 1 after step 5" in done.stdout


FORGETFUL = """
import os, pathlib, signal, sys, time
for step in range(1, 13):
    print(f"step {step}/12 loss {1 / step:.3f}", flush=True)
    if step == 8 and not sys.argv[1:]:
        pathlib.Path("out/checkpoint-5").mkdir(parents=True)
        pathlib.Path("out/checkpoint-5/state.json").write_text("{}")
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.6 if sys.argv[1:] else 0)
"""


def test_a_restart_that_trains_from_the_beginning_is_reported_while_it_runs(tmp_path: Path) -> None:
    user = torchless(User(tmp_path / "home"))
    user.write(FORGETFUL, {"gpus": "none", "output": "out", "guard": "off", "restart": {**RESTART, "max": 1}})
    done = user.gpulaunch("run", "-c", "./job.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resuming from checkpoint-5" in done.stdout
    said = "again, though it was to continue from the checkpoint of step 5"
    assert (done.stdout + done.stderr).count(said) == 1


BY_EPOCHS = """
import os, pathlib, signal, sys, time
first = int(sys.argv[-1].rpartition("-")[2]) + 1 if sys.argv[1:] else 8
for epoch in range(first, 12):
    for step in range(1, 13):
        print(f"step {step}/12 loss {1 / step:.3f}", flush=True)
        time.sleep(0.4 if first == 11 else 0)
    pathlib.Path(f"out/checkpoint-{epoch}").mkdir(parents=True)
    pathlib.Path(f"out/checkpoint-{epoch}/state.json").write_text("{}")
    if epoch in (9, 10):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_steps_that_an_earlier_start_counted_within_epochs_prove_nothing_of_a_later_one(
    tmp_path: Path,
) -> None:
    """The second start alone, of one epoch, seems to count on: its checkpoint has the number of an epoch."""
    user = torchless(User(tmp_path / "home"))
    user.write(BY_EPOCHS, {"gpus": "none", "output": "out", "guard": "off", "restart": {**RESTART, "max": 2}})
    done = user.gpulaunch("run", "-c", "./job.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resuming from checkpoint-10" in done.stdout
    assert "again, though it was to continue" not in done.stdout + done.stderr


def test_a_dry_run_says_what_happens_when_it_fails(tmp_path: Path) -> None:
    user = User(tmp_path / "home", "2xl40s")
    user.write("print(1)", {"gpus": "all", "restart": {**RESTART, "retry_on": "oom", "spares": "s[1-2]"}})
    words = ("run", "-c", "./job.yaml", "--dry-run", "--ignore", TORCH_BUILD)
    document = user.gpulaunch(*words, "--wait", "1h").stdout
    assert "in a launch: --wait waits where GPUs are in use\n" in document
    assert (
        "up to 2 restarts after a failure of this kind: host, network, gpu, external, hang, storage, oom"
        in document
    )
    assert "spares: s1, s2" in document
    assert "with --resume {checkpoint} for the last whole one of checkpoint-*" in document
    _, plan = user.ask(*words, "--restarts", "7")
    assert (plan["restart"]["max"], plan["restart"]["spares"]) == (7, ["s1", "s2"])
    assert user.ask(*words, "--no-restart")[1]["restart"] is None


def test_the_last_start_tells_of_all_and_its_exit_code_counts(tmp_path: Path) -> None:
    user = torchless(User(tmp_path / "home"))
    user.write(
        "import os, sys\nsys.exit(7) if os.path.exists('x') else (open('x', 'w'), os.kill(os.getpid(), 9))",
        {"gpus": "none", "restart": {"max": 1, "backoff_s": 0, "retry_on": ["script"]}},
    )
    on_end = 'on_end=[sh, -c, "cat > ended.json; echo $PPID; exit 3"]'
    done = user.gpulaunch("run", "-c", "./job.yaml", "--json", "--set", on_end)
    document = json.loads(done.stdout)
    assert json.loads((user.home / "ended.json").read_text()) == document  # once, at the end of all starts
    assert "exit code 3: " in done.stderr
    assert done.returncode == 7, done.stderr
    assert [start["exit_code"] for start in document["restarts"]["starts"]] == [137, 7]
    assert document["restarts"]["stopped"] == "restarted once already, which is `max`"
    assert "not started again: restarted once already" in done.stderr


@contextmanager
def begun(user: User, *words: str) -> Iterator[Command]:
    """Start a command whose output is read as it comes: a run, where none is named."""
    words = words or ("run", "-c", "./job.yaml")
    with start_module("launcher.cli", words, user.home, user.env) as process:
        try:
            yield process
        finally:
            process.terminate()


def read_until(process: Command, words: str) -> str:
    """Return the line that holds these words, once it is there."""
    return next((line for line in process.stdout if words in line), f"never said: {words}")


@contextmanager
def failing(user: User, *, attached: bool) -> Iterator[Command]:
    """Yield the client of a run that fails now: the one that launched it, or one that attached after that."""
    # Until its client has released it, a run is that client's alone: its host would not start it again.
    wait = "import glob, os, time\nwhile not glob.glob({!r}): time.sleep(0.01)\n".format
    script = wait(f"state/gpulaunch/runs/*/*/{DETACHED}") + "print('released', flush=True)\n" + wait("go")
    user.write(f"{script}os.kill(os.getpid(), 9)", {"gpus": "none", "restart": {"backoff_s": 200}})
    with begun(user) as client:
        read_until(client, "released")
        if not attached:
            (user.home / "go").touch()
            yield client
        client.kill()
    if attached:
        with begun(user, "attach", "last") as client:
            read_until(client, "released")
            (user.home / "go").touch()
            yield client


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")], ids=["ctrl-c", "sigterm"]
)
def test_a_stop_in_the_pause_leaves_it_ended(tmp_path: Path, number: int, name: str) -> None:
    user = torchless(User(tmp_path / "home"))
    with failing(user, attached=False) as process:
        said = read_until(process, "restart 1 of 3 in 200 s")
        process.send_signal(number)
        ended = read_until(process, f"not started again: stopped by {name}")
        assert process.wait(30) == 130, said + ended
    (outcome,) = (user.home / "gpulaunch-runs").glob("*/outcome.json")
    document = json.loads(outcome.read_text())
    assert (document["verdict"], document["restarts"]["starts"][0]["cause"]["category"]) == (
        "interrupted",
        "external",
    )
    (following,) = (user.home / "state").glob("gpulaunch/runs/*/*/decided.json")
    assert json.loads(following.read_text())["state"] == "ended"  # so that its host starts nothing either


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_attach_in_the_pause_leaves_the_next_start_to_others(tmp_path: Path, number: int) -> None:
    user = torchless(User(tmp_path / "home"))
    with failing(user, attached=True) as process:
        said = read_until(process, "restart 1 of 3 in 200 s; Ctrl-C leaves that to others")
        process.send_signal(number)
        said += read_until(process, "left before the next start, which its host or the next")
        said += read_until(process, "detached; the run continues")
        assert process.wait(30) == 0, said
    (following,) = (user.home / "state").glob("gpulaunch/runs/*/*/next.json")
    assert json.loads(following.read_text())["state"] in ("held", "restarting", "waits")
    stopped = user.gpulaunch("stop", "last")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr


AGAIN = """
import glob, os, signal, time
def wait(name):
    while not glob.glob(name): time.sleep(0.01)
if os.path.exists("again"):
    print("second start", flush=True)
    wait("end")
    raise SystemExit
wait("state/gpulaunch/runs/*/*/DETACHED")
print("released", flush=True)
wait("go")
open("again", "w")
os.kill(os.getpid(), 9)
""".replace("DETACHED", DETACHED)
"""Ends by SIGKILL once `go` is there; its second start ends well once `end` is."""


@contextmanager
def released(user: User) -> Iterator[Command]:
    """Yield the client of a run that its host may start again, before it fails."""
    user.write(AGAIN, {"gpus": "none", "restart": {"backoff_s": 0}})
    with begun(user) as client:
        read_until(client, "released")
        try:
            yield client
        finally:
            (user.home / "end").touch()
            client.send_signal(signal.SIGCONT)


def test_sigterm_to_attach_leaves_also_a_start_that_it_has_made(tmp_path: Path) -> None:
    user = torchless(User(tmp_path / "home"))
    with released(user) as first:
        first.kill()
        with begun(user, "attach", "last") as client:
            read_until(client, "released")
            (user.home / "go").touch()
            said = read_until(client, "Ctrl-C leaves the run, which continues")  # this client starts it
            said += read_until(client, "second start")
            client.send_signal(signal.SIGTERM)
            said += read_until(client, "detached; the run continues")
            assert client.wait(30) == 0, said
    done = user.gpulaunch("attach", "last")
    assert done.returncode == 0, done.stdout + done.stderr


def test_sigterm_to_run_stops_also_a_start_that_its_host_has_made(tmp_path: Path) -> None:
    user = torchless(User(tmp_path / "home"))
    with released(user) as client:
        client.send_signal(signal.SIGSTOP)
        (user.home / "go").touch()
        (run_dir,) = (path.parent for path in user.home.glob(f"state/gpulaunch/runs/*/*/{DETACHED}"))

        def is_restarted() -> bool:
            (run_dir / "client").write_text("0")  # as if it had been heard long ago
            return next_start.read_next(str(run_dir)).get("state") == "restarted"

        await_(is_restarted)
        client.send_signal(signal.SIGCONT)
        said = read_until(client, "was started again as") + read_until(client, "second start")
        client.send_signal(signal.SIGTERM)
        said += read_until(client, "stopped by SIGTERM")
        assert client.wait(30) == 130, said


def test_a_run_that_finds_no_host_waits_for_the_next_pause(tmp_path: Path) -> None:
    user = torchless(User(tmp_path / "home"))
    begin = "import os, sys\nif os.path.exists('again'): sys.exit()\n"
    spoil = "open('again', 'w'); open('out', 'w'); os.kill(os.getpid(), 9)"
    user.write(begin + spoil, {"gpus": "none", "output": "out/x", "restart": {"max": 3, "backoff_s": 1}})
    with begun(user) as process:
        said = read_until(process, "no host is left to continue on (localhost: ")
        assert "cannot be a directory: " in said, said
        (user.home / "out").unlink()
        ended = read_until(process, "finished (exit code 0)")
        assert process.wait(30) == 0, ended
    starts = [json.loads(path.read_text()) for path in (user.home / "gpulaunch-runs").glob("*/outcome.json")]
    assert sorted(each["exit_code"] for each in starts) == [0, 137]
