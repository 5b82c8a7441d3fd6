"""GPU claims for real: taken with a run, believed while it lives, over with it, forged by nobody."""

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.onhost.supervisor import gpu_claims as claims
from preflight.facts.gpu import GpuClaim
from preflight.facts.json_codec import decode
from preflight.probes import claim_files
from preflight.probes import host as probe
from preflight.probes.host import list_gpu_claims
from tests.launcher.onhost_driver import Driver, pids_of

pytestmark = pytest.mark.slow

WAIT = "import time; print('up', flush=True); time.sleep(60)\n"
GPU = "GPU-11111111-2222-3333-4444-555555555555"
OTHER = "GPU-99999999-2222-3333-4444-555555555555"


@pytest.fixture
def place(tmp_path: Path) -> str:
    (tmp_path / "claims").mkdir()
    return str(tmp_path / "claims")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(tmp_path / "one")
    driver.home.mkdir()
    yield driver
    driver.kill_everything()


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(tmp_path / "two", "r2")
    driver.home.mkdir()
    yield driver
    driver.kill_everything()


def start(driver: Driver, place: str, *gpus: str) -> None:
    driver.start(WAIT, gpus=list(gpus), claims_dir=place)


def live(place: str) -> dict[str, str]:
    """Return {GPU: run} of the claims that are believed."""
    found = [claims.read_claim(str(path)) for path in sorted(Path(place).iterdir())]
    return {said["gpu"]: said["run_id"] for said, _, alive in filter(None, found) if alive}


def test_a_run_claims_its_gpus_and_gives_them_back(run: Driver, place: str) -> None:
    start(run, place, GPU, OTHER)
    assert live(place) == {GPU: "r1", OTHER: "r1"}
    run.say("stop 5 enough")
    run.ended()
    assert list(Path(place).iterdir()) == []


def test_a_second_run_on_a_claimed_gpu_is_refused_with_the_first_ones_name(
    run: Driver, second: Driver, place: str
) -> None:
    start(run, place, GPU)
    start(second, place, OTHER, GPU)
    assert second.answer["refused"].startswith(f"GPU {GPU} is claimed by run r1 of ")
    assert second.answer["fix"].startswith("gpulaunch run --wait 2h")
    assert second.gone() == {}
    assert live(place) == {GPU: "r1"}
    state = json.loads((second.run_dir / "state.json").read_text())
    assert (state["phase"], state["exit"]["ranks"]) == ("ended", {})


def test_runs_on_different_gpus_are_no_rivals(run: Driver, second: Driver, place: str) -> None:
    start(run, place, GPU)
    start(second, place, OTHER)
    assert live(place) == {GPU: "r1", OTHER: "r2"}


def test_the_claim_outlives_the_supervisor_until_the_guardian_has_ended_everything(
    run: Driver, place: str
) -> None:
    start(run, place, GPU)
    os.kill(pids_of(run.answer)[0], signal.SIGKILL)
    run.ended()
    assert run.gone() == {}
    assert live(place) == {}


def test_a_claim_whose_run_was_killed_whole_counts_for_nothing(
    run: Driver, second: Driver, place: str
) -> None:
    start(run, place, GPU)
    supervisor_pid, guardian, _ = pids_of(run.answer)
    os.kill(guardian, signal.SIGKILL)
    os.kill(supervisor_pid, signal.SIGKILL)
    assert run.gone() == {}
    assert live(place) == {}
    assert len(list(Path(place).iterdir())) == 1  # nobody was left to remove it
    start(second, place, GPU)
    assert live(place) == {GPU: "r2"}


def test_the_claim_of_a_run_without_its_guardian_still_counts(run: Driver, place: str) -> None:
    start(run, place, GPU)
    os.kill(pids_of(run.answer)[1], signal.SIGKILL)
    time.sleep(0.2)
    assert live(place) == {GPU: "r1"}


def test_what_is_no_claim_hinders_nobody(run: Driver, place: str, tmp_path: Path) -> None:
    def named(end: str) -> Path:
        return Path(place, f"{claim_files.CLAIM_PREFIX}{GPU}.{end}")

    os.mkfifo(named("fifo"))
    named("link").symlink_to("/etc/passwd")
    named("directory").mkdir()
    named("text").write_text("no JSON")
    named("other").write_text("[1, 2]")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    named("victim").symlink_to(victim)
    start(run, place, GPU)
    assert "refused" not in run.answer
    assert victim.read_text() == "precious"


def test_a_claim_of_an_earlier_boot_counts_for_nothing_even_if_somebody_locks_it(place: str) -> None:
    path, fd = claims.make_claim(place, GPU, "old")
    data = json.loads(Path(path).read_text())
    os.pwrite(fd, json.dumps({**data, "boot_id": "x" * 36}).encode().ljust(400), 0)
    assert claims.find_gpu_conflict(place, GPU, {}) == ""
    os.close(fd)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_the_owner_is_the_files_owner_not_what_it_says(place: str) -> None:
    path, fd = claims.make_claim(place, GPU, "r9")
    os.chown(path, 12345, -1)
    assert "of 12345" in claims.find_gpu_conflict(place, GPU, {})
    os.close(fd)


def test_of_many_at_once_at_most_one_has_the_gpu(place: str) -> None:
    release, hold = os.pipe()
    children = []
    for number in range(6):
        ready, report = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(hold)
                claims.acquire_claims({"gpus": [GPU], "run_id": f"r{number}", "claims_dir": place})
                os.write(report, b"won")
                os.read(release, 1)  # keeps the claim until everybody has tried
            finally:
                os._exit(0)
        os.close(report)
        children.append((pid, ready))
    won = [os.read(ready, 3) for _, ready in children]
    os.close(hold)
    for pid, ready in children:
        os.waitpid(pid, 0)
        os.close(ready)
    os.close(release)
    assert won.count(b"won") <= 1


def test_a_directory_that_takes_no_claims_stops_no_run_and_is_told(run: Driver) -> None:
    start(run, "/proc", GPU)
    assert run.event("internal_error")["what"] == "claim the GPUs"
    run.until(lambda: b"up" in run.log())


def test_the_agent_tells_live_claims_with_their_owner() -> None:
    before = {claim["gpu_uuid"] for claim in list_gpu_claims()}
    taken, problem = claims.acquire_claims({"gpus": [GPU], "run_id": "r-agent"})
    try:
        (claim,) = [claim for claim in list_gpu_claims() if claim["gpu_uuid"] == GPU]
        expected: dict[str, Any] = {"run_id": "r-agent", "uid": os.geteuid(), "pid": os.getpid()}
        assert expected.items() <= claim.items()
        assert problem == ""
    finally:
        claims.release_claims(taken)
    assert {claim["gpu_uuid"] for claim in list_gpu_claims()} == before


def claim_result(place: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[dict[str, Any]]]:
    """Return what both readers say of the GPU: the supervisor's before a start, and the agent's."""
    monkeypatch.setattr(probe, "_CLAIMS_DIR", place)
    return claims.find_gpu_conflict(place, GPU, {}), [
        claim for claim in list_gpu_claims() if claim["gpu_uuid"] == GPU
    ]


HONEST = {"gpu": GPU, "run_id": "r1", "boot_id": "", "pid_namespace": "1", "pid": 7, "ticks": 1, "since": 1.0}
NO_CLAIMS = {
    "nested": "[" * 4000,
    "nested objects": '{"a":' * 800,
    "no JSON": "\0\xff",
    "a list": "[1, 2]",
    "NaN": json.dumps({**HONEST, "since": float("nan")}),
    "endless": json.dumps({**HONEST, "since": float("inf")}),
    "late": json.dumps({**HONEST, "since": 1e300}),
    "huge pid": json.dumps({**HONEST, "pid": 10**3000}),
    "true pid": json.dumps({**HONEST, "pid": True}),
    "a word for a pid": json.dumps({**HONEST, "pid": "²"}),
    "escapes": json.dumps({**HONEST, "run_id": "\x1b[2Jr1"}),
    "lists": json.dumps({**HONEST, "boot_id": [], "run_id": {}}),
    "too long": json.dumps({**HONEST, "more": "x" * 5000}),
    "large": "x" * (1 << 22),
}


@pytest.mark.parametrize("content", NO_CLAIMS.values(), ids=NO_CLAIMS.keys())
def test_what_is_no_claim_counts_only_while_its_owner_holds_it_and_in_that_ones_name(
    content: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(place, claim_files.claim_name(GPU) + "00ff")
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    os.chown(path, 12345, -1) if os.geteuid() == 0 else None
    owner = str(path.stat().st_uid) if os.geteuid() == 0 else claims.read_user_name(os.geteuid())
    assert claim_result(place, monkeypatch) == ("", [])
    with path.open("r+b") as held:
        claims.lock_claim(held.fileno())
        said, seen = claim_result(place, monkeypatch)
    assert said == f"a run that does not say its name of {owner}"
    (claim,) = seen
    assert (claim["run_id"], claim["user"], claim["pid"]) == ("", owner, 0)
    decode(GpuClaim, json.loads(json.dumps(claim, allow_nan=False)))


def test_a_lock_that_anybody_can_take_keeps_no_dead_claim_alive(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fd = claims.make_claim(place, GPU, "r1")
    assert claim_result(place, monkeypatch)[0].startswith("run r1 of ")
    os.close(fd)  # as the kernel does when supervisor and guardian are gone
    with Path(path).open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_EX)
        fcntl.lockf(reader, fcntl.LOCK_SH)
        assert claim_result(place, monkeypatch) == ("", [])
        with pytest.raises(OSError, match="Bad file descriptor"):
            claims.lock_claim(reader.fileno())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_user_cannot_hold_the_claim_of_a_dead_run(place: str) -> None:
    path, fd = claims.make_claim(place, GPU, "r1")
    os.close(fd)
    Path(place).chmod(0o1777)
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(65534)
            os.open(path, os.O_RDWR)
        except PermissionError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_readers_hinder_no_claim_and_a_claim_is_never_seen_half_made(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fd = claims.make_claim(place, GPU, "r1")
    with Path(path).open("rb") as reader:
        assert claim_files.is_locked(reader.fileno())
        assert claim_files.is_locked(reader.fileno())
    assert Path(path).stat().st_mode & 0o777 == 0o644
    os.close(fd)
    assert claim_result(place, monkeypatch) == ("", [])


def test_a_hard_link_to_the_claim_of_another_gpu_claims_nothing(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fd = claims.make_claim(place, OTHER, "r1")
    Path(place, claim_files.claim_name(GPU) + "00ff").hardlink_to(path)
    assert claim_result(place, monkeypatch) == ("", [])
    os.close(fd)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_many_files_of_one_user_hide_no_claim_of_another(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, fd = claims.make_claim(place, GPU, "r1")
    os.utime(path, (1, 1))
    for number in range(claim_files.MAX_FILES + 50):
        other = Path(place, f"{claim_files.claim_name(GPU)}{number:x}")
        other.touch()
        os.chown(other, 12345, -1)
    assert len(claims.claim_paths(place, GPU)) == claim_files.MAX_FILES + 1
    said, seen = claim_result(place, monkeypatch)
    assert said.startswith("run r1 of ")
    assert [claim["run_id"] for claim in seen] == ["r1"]
    os.close(fd)


def test_a_pid_of_another_namespace_is_not_told(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, fd = claims.make_claim(place, GPU, "r1")
    said = json.loads(Path(path).read_text())
    os.ftruncate(fd, 0)
    os.pwrite(fd, json.dumps({**said, "pid_namespace": "1"}).encode(), 0)
    rival, seen = claim_result(place, monkeypatch)
    assert "pid" not in rival
    assert [claim["pid"] for claim in seen] == [0]
    os.close(fd)
