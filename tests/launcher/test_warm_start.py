"""A node that begins before its plan: as good as one that began with it, and gone without one.

accelerate is a stand-in here that tells what it was given: what is tested is how it is started.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.follow import protocol
from launcher.follow.warm_start import early_request
from launcher.onhost.supervisor.gpu_claims import is_locked
from launcher.remote.programs import program_source
from tests.launcher.onhost_driver import Driver

pytestmark = pytest.mark.slow

LAUNCH = """
import json, os, signal, sys, time
seen = {name: os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "HF_HOME")}
print("imported", flush=True)
def main():
    umask = os.umask(0)
    os.umask(umask)
    told = dict(
        argv=sys.argv, path0=sys.path[0], cwd=os.getcwd(), env=dict(os.environ), umask=umask, seen=seen,
        session=os.getsid(0) == os.getpid(), stdin=os.readlink("/proc/self/fd/0"), executable=sys.executable,
        flags=str(sys.flags), ignored=[n for n in range(1, 20) if signal.getsignal(n) == signal.SIG_IGN],
        descriptors=sorted(os.readlink("/proc/self/fd/%s" % fd) for fd in ("0", "1", "2")), pid=os.getpid(),
        open=len(os.listdir("/proc/self/fd")),
    )
    open("told.json", "w").write(json.dumps(told))
    if "wait" in sys.argv:
        time.sleep(60)
if __name__ == "__main__":
    main()
"""


class Egg(Driver):
    """A run that begins early."""

    def begin(self, **env: str) -> None:
        """Begin; there is no plan yet."""
        argv = ("env", f"XDG_STATE_HOME={self.home}", *protocol.command(sys.executable, "start", self.run_id))
        self.stream = self.connection.start(argv)
        fixed = {"PYTHONUNBUFFERED": "1", **env}
        self.stream.write(
            early_request(
                "accelerate.commands.launch",
                self.run_id,
                python=sys.executable,
                env=fixed,
                unset=["PET_*"],
                cwd=str(self.home),
            )
        )

    def order(self, *args: str, **spec: Any) -> None:
        """Hand the plan over; wait for the supervisor's answer."""
        assert self.stream is not None
        body = json.dumps({"mode": "start", "spec": self.spec(*args, **spec)}).encode()
        self.stream.write(b"%d\n" % len(body) + body)
        self.reader = protocol.FrameReader()
        self.until(lambda: bool(self.answer))

    def spec(self, *args: str, **spec: Any) -> dict[str, Any]:
        """Return what the plan says of this node."""
        return {
            "run_id": self.run_id,
            "argv": [sys.executable, "-m", "accelerate.commands.launch", *args],
            "env": {"PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2", "PET_RDZV_ID": "x"},
            "unset": ["PET_*"],
            "cwd": str(self.home),
            "files": [],
            "disconnect_timeout_s": 30.0,
            "main_port": None,
            "rank_source": program_source("rank").decode(),
            **spec,
        }

    def members(self) -> list[int]:
        """Return every process of this run."""
        found = []
        for name in os.listdir("/proc"):  # noqa: PTH208 - procfs
            if name.isdigit() and int(name) != os.getpid():
                try:
                    words = (
                        Path(f"/proc/{name}/cmdline").read_bytes()
                        + Path(f"/proc/{name}/environ").read_bytes()
                    )
                except OSError:
                    continue
                if self.run_id.encode() in words:
                    found.append(int(name))
        return found

    def report(self) -> dict[str, Any]:
        """Return what the stand-in for accelerate was given."""
        document = json.loads((self.home / "told.json").read_text())
        assert isinstance(document, dict)
        return document


@pytest.fixture
def egg(tmp_path: Path) -> Iterator[Egg]:
    write(tmp_path, LAUNCH)
    egg = Egg(tmp_path, f"egg-{os.getpid()}-{time.monotonic_ns()}")
    yield egg
    egg.hang_up()
    deadline = time.monotonic() + 20
    while left := egg.members():
        for pid in left:
            if time.monotonic() > deadline - 15:
                os.kill(pid, signal.SIGKILL)
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def write(home: Path, launch: str) -> None:
    package = home / "accelerate" / "commands"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    (package / "launch.py").write_text(launch)


def await_members(egg: Egg, count: int) -> list[int]:
    deadline = time.monotonic() + 20
    while len(found := egg.members()) != count:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


def test_what_imported_early_becomes_the_launcher(egg: Egg) -> None:
    egg.begin()
    await_members(egg, 4)
    assert not egg.run_dir.exists()
    egg.order("--flag", "a b", "$HOME", "")
    egg.until(lambda: egg.end is not None)
    report = egg.report()
    assert egg.answer["state"]["early"] is True
    assert report["pid"] == egg.answer["state"]["launcher"][0]
    assert report["argv"][1:] == ["--flag", "a b", "$HOME", ""]
    assert report["seen"]["CUDA_VISIBLE_DEVICES"] == "", "no GPU is visible before the plan says which"
    assert report["env"]["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"
    assert egg.logs["launcher.log"] == b"imported\n"


def test_it_is_given_all_that_a_start_with_the_plan_gives(egg: Egg, tmp_path: Path) -> None:
    egg.begin()
    egg.order("x")
    egg.until(lambda: egg.end is not None)
    early = egg.report()
    late = Egg(tmp_path, egg.run_id + "-late")
    late.open("start", protocol.request({"mode": "start", "spec": late.spec("x")}))
    late.until(lambda: late.end is not None)
    cold = late.report()
    assert "early" not in late.answer["state"]
    late.hang_up()
    for each in (early, cold):
        for changing in ("pid", "seen"):
            del each[changing]
        env = each["env"]
        env["GPULAUNCH_SUPERVISOR"] = ""
        each["env"] = {name: value.replace(egg.run_id + "-late", egg.run_id) for name, value in env.items()}
        each["descriptors"] = [word.replace(egg.run_id + "-late", egg.run_id) for word in each["descriptors"]]
    assert early == cold


@pytest.mark.parametrize("how", ["hang up", "kill"])
def test_without_a_plan_nothing_is_left(egg: Egg, how: str) -> None:
    egg.begin()
    members = await_members(egg, 4)
    if how == "kill":
        os.kill(min(members), signal.SIGKILL)
    egg.hang_up()
    await_members(egg, 0)
    assert not egg.run_dir.exists()


@pytest.mark.parametrize("which", [1, 2])
def test_a_dead_part_refuses_the_plan_and_takes_the_others_along(egg: Egg, which: int) -> None:
    egg.begin()
    os.kill(sorted(await_members(egg, 4))[which], signal.SIGKILL)
    egg.order()
    assert "the supervisor ended at once" in egg.answer["refused"]
    await_members(egg, 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"env": {"PYTHONUNBUFFERED": "1", "HF_HOME": "/elsewhere"}},
        {"cwd": "/"},
        {"argv": [sys.executable, "-c", "print('another')"]},
    ],
)
def test_a_plan_that_an_import_could_notice_starts_anew(egg: Egg, changed: dict[str, Any]) -> None:
    egg.begin(HF_HOME="/here")
    if changed.get("cwd"):
        changed["env"] = {"PYTHONUNBUFFERED": "1", "HF_HOME": "/here", "PYTHONPATH": str(egg.home)}
        changed["argv"] = [sys.executable, "-c", "import os; print(os.getcwd())"]
    egg.order(**changed)
    egg.until(lambda: egg.end is not None)
    assert "early" not in egg.answer["state"]
    if "HF_HOME" in changed.get("env", {}) and "argv" not in changed:
        assert egg.report()["seen"]["HF_HOME"] == "/elsewhere"


def test_an_import_that_fails_is_told_in_the_launchers_log(egg: Egg) -> None:
    (egg.home / "accelerate" / "commands" / "launch.py").write_text("import no_such_module_here\n")
    egg.begin()
    egg.order()
    egg.until(lambda: egg.end is not None)
    assert b"No module named 'no_such_module_here'" in egg.logs["launcher.log"]
    assert egg.end is not None
    assert egg.end["exit"]["launcher_code"] == 1


def test_claims_are_held_by_a_supervisor_that_was_there_before_them(egg: Egg, tmp_path: Path) -> None:
    claims = tmp_path / "claims"
    claims.mkdir()
    egg.begin()
    egg.order("wait", gpus=["GPU-1"], claims_dir=str(claims))
    (claim,) = claims.iterdir()
    os.kill(egg.answer["state"]["guardian"][0], signal.SIGKILL)
    time.sleep(0.2)
    with claim.open() as file:
        assert is_locked(file.fileno())
    egg.say("stop 0")
    egg.until(lambda: egg.end is not None)
    assert list(claims.iterdir()) == []
