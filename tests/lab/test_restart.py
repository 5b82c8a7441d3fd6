"""Runs that fail and are started again, over real SSH on simulated hosts."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import network
from tests.lab.fault_runs import until
from tests.lab.hosts import Lab, LabHost
from tests.lab.run_cli import Cli, Running

pytestmark = [pytest.mark.lab]

RUNS = "/root/.local/state/gpulaunch/runs"
# Saves a checkpoint every fifth step; a start from one goes on for ten steps.
TRAIN = """
import json, os, pathlib, sys, time
out, rank = pathlib.Path({out!r}), int(os.environ.get("RANK", 0))
def save(step, text):
    folder = out / f"checkpoint-{{step}}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.json").write_text(text)
begin = json.loads((pathlib.Path(sys.argv[2]) / "state.json").read_text())["step"] if sys.argv[1:] else 0
print("pid", os.getpid(), "begins after step", begin, "of world", os.environ.get("WORLD_SIZE", 1), flush=True)
for step in range(begin + 1, begin + 11 if begin else 10**6):
    time.sleep(0.1)
    if rank == 0 and step % 5 == 0 and step < begin + 11:
        save(step, json.dumps({{"step": step}}))
    if rank == 0 and step == 12 and not begin:
        save(99, '{{"step": 9')  # as of a rank that was killed while it wrote
    print("step", step, flush=True)
    {extra}
"""


@pytest.fixture
def cli(lab: Lab, tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(lab, tmp_path / "home")
    cli.without_torch()
    (cli.home / ".ssh" / "config").write_text("Host *\n    ConnectTimeout 2\n")
    yield cli
    cli.close()
    for host in lab.hosts:
        shutil.rmtree(host.path(RUNS), ignore_errors=True)


def write(cli: Cli, extra: str = "", **restart: object) -> None:
    out = str(cli.lab.out / "shared" / cli.home.parent.name)
    words = {"resume_args": ["--resume", "{checkpoint}"], "backoff_s": 0, **restart}
    cli.write(TRAIN.format(out=out, extra=extra), processes_per_host=1, output=out, restart=words)


def pid_of(cli: Cli, running: Running, host: LabHost, rank: int, start: int) -> int:
    """Return the pid that a rank has told in the nth start."""
    running.until(lambda text: text.count(f"[{host.name} r{rank}] pid ") == start)
    said = [line for line in running.output.decode().splitlines() if f"[{host.name} r{rank}] pid " in line]
    return int(said[-1].split()[3])


def test_a_spare_takes_the_place_of_a_host_that_is_cut_off(lab: Lab, cli: Cli) -> None:
    first, second, spare = lab.hosts
    write(cli, spares=[first.name, spare.name])
    running = cli.start(f"{first.name},{second.name}", "--on-disconnect", "stop", "--disconnect-timeout", "3")
    running.until(lambda text: f"[{first.name} r0] step 13" in text)
    network.cut(second)
    try:
        code, output = running.end(90)
    finally:
        network.restore(second)
    assert code == 0, output
    assert f"{second.name} was lost" in output
    assert "checkpoint-99 on " + first.name + " state.json is cut off: not used" in output
    assert f"{spare.name} takes the place of {second.name}" in output
    for host, rank in ((first, 0), (spare, 1)):
        assert f"[{host.name} r{rank}] step 20\n" in output
    outcome = cli.outcome()
    starts = outcome["restarts"]["starts"]
    assert [start["hosts"] for start in starts] == [[first.name, second.name], [first.name, spare.name]]
    assert starts[0]["cause"] == {"category": "host", "code": "", "host": second.name}
    assert Path(starts[1]["resumed_from"]).name == "checkpoint-10"
    kept = [cli.home / start["logs"] / first.name / "rank-0.log" for start in starts]
    assert [path.read_text().split(" of ")[0].split()[-1] for path in kept] == ["0", "10"]
    record = json.loads((cli.home / starts[1]["logs"] / "restart.json").read_text())
    assert (record["schema"], record["number"]) == ("gpulaunch.restart/1", 1)
    assert record["after"] == starts[0]["run_id"]
    # Its sshd learns of our end when TCP tries again, which it does the later the longer the cut was.
    until(lambda: not second.strays(), 60, lambda: str(second.strays()))


def test_a_killed_rank_is_started_again_and_a_bug_is_not(lab: Lab, cli: Cli) -> None:
    host = lab.hosts[0]
    # oom: the kernel's counter is the machine's, and another test may have it kill at this moment.
    write(cli, extra="begin and step == 8 and 1 / 0", retry_on=["oom"])
    running = cli.start(host.name)
    pid = pid_of(cli, running, host, 0, 1)
    running.until(lambda text: "step 6\n" in text)
    host.kill(pid)
    code, output = running.end()
    assert code == 1, output
    assert "begins after step 5 of world 1" in output
    assert "not started again: the script itself failed, and would fail again" in output
    outcome = cli.outcome()
    assert (outcome["restarts"]["count"], outcome["attempts"]) == (1, 2)
    assert [start["exit_code"] for start in outcome["restarts"]["starts"]] == [137, 1]
