"""Runs that fail and are started again, over real SSH on simulated hosts."""

import json
import shutil
import signal
import time
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


CHAINED = """
import json, os, pathlib, signal, time
out, rank = pathlib.Path({out!r}), int(os.environ.get("RANK", 0))
number = len(list(out.glob("checkpoint-*"))) if rank == 0 else 0
print("begins", number, flush=True)
if rank == 0 and number < 2:
    (out / f"checkpoint-{{number}}").mkdir(parents=True)
    (out / f"checkpoint-{{number}}" / "state.json").write_text("{{}}")
while not number and not (out / "go").exists():
    time.sleep(0.05)
if rank == 0 and number < 2:
    os.kill(os.getpid(), signal.SIGKILL)
(out / "go").write_text("on")
"""


class Chain:
    """A run of a client that is gone, whose second start fails before whoever made it has released it."""

    def __init__(self, cli: Cli, hosts: tuple[LabHost, ...], pause_s: float) -> None:
        self.cli, self.main = cli, hosts[0]
        self.hosts = ",".join(host.name for host in hosts)
        self.words = ("--hosts", self.hosts, "-i", str(cli.inventory))
        self.out = cli.lab.out / "shared" / cli.home.parent.name
        self.out.mkdir(parents=True)
        restart = {"resume_args": ["--resume", "{checkpoint}"], "backoff_s": pause_s, "max": 2}
        text, out = CHAINED.format(out=str(self.out)), str(self.out)
        cli.write(text, processes_per_host=1, output=out, restart=restart)
        running = cli.start(self.hosts, "--set", 'on_end=[sh, -c, "cat >> ended; echo >> ended"]')
        running.until(lambda text: "begins 0" in text)
        self.places = [host.path(RUNS) for host in hosts]
        until(lambda: all(list(place.glob("*/*/detached")) for place in self.places), 30)
        running.kill()
        running.end(5)
        for place in self.places:
            for client in place.glob("*/*/client"):
                client.write_text("0")  # as if it had been heard long ago
        (self.out / "go").touch()

    def starts(self) -> list[str]:
        """Return the run ids of its starts on the main host, the first one first."""
        return sorted(path.name for path in self.places[0].glob("*/[!.]*"))

    def file(self, start: int, name: str) -> dict[str, object]:
        """Return a file of the nth start on the main host, {} where there is none."""
        try:
            found = json.loads(next(self.places[0].glob(f"*/{self.starts()[start]}/{name}")).read_text())
        except (StopIteration, IndexError, ValueError):
            return {}
        assert isinstance(found, dict)
        return found

    def status(self) -> dict[str, tuple[str, bool]]:
        """Return by run id what `gpulaunch ps` says: the state, and whether a start may follow."""
        code, text = self.cli.invoke(self.cli.home, "ps", "--json", *self.words)
        assert code == 0, text
        runs = json.loads(text[text.index("{") :])["runs"]
        return {run["run_id"]: (run["state"], bool(run["next"] and run["next"]["pending"])) for run in runs}

    def ended(self) -> list[dict[str, object]]:
        """Return what `on_end` was run with so far."""
        path = self.cli.home / "ended"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_start_of_its_host_that_fails_at_once_is_not_taken_for_the_end(lab: Lab, cli: Cli) -> None:
    host = lab.hosts[0]
    chain = Chain(cli, (host,), 0)
    until(lambda: bool(chain.file(0, "next.json").get("restarter")), 60)
    restarter = chain.file(0, "next.json")["restarter"]
    assert isinstance(restarter, list)
    until(lambda: len(chain.starts()) == 2, 60)
    host.kill(restarter[0], signal.SIGSTOP)
    until(lambda: chain.file(1, "state.json").get("phase") == "ended", 60)
    first, second = chain.starts()
    assert chain.status() == {second: ("waiting", True)}
    assert chain.ended() == []
    attached = cli.start_words("attach", "--json", first, *chain.words)
    attached.until(lambda text: f"was started again as {second}" in text)
    host.kill(restarter[0], signal.SIGCONT)
    code, text = attached.end(60)
    assert (code, len(chain.starts())) == (0, 3), text
    assert chain.status() == {}
    assert [(each["verdict"], each["run_id"]) for each in chain.ended()] == [("finished", chain.starts()[2])]


def test_a_start_of_two_hosts_that_fails_before_it_is_released_is_held_for_its_client(
    lab: Lab, cli: Cli
) -> None:
    chain = Chain(cli, (lab.hosts[0], lab.hosts[1]), 8)
    until(lambda: chain.file(0, "next.json").get("state") == "waits", 60)
    first = chain.starts()[0]
    attached = cli.start_words("attach", "--json", first, *chain.words)
    until(lambda: len(chain.starts()) == 2, 90)
    attached.process.send_signal(signal.SIGSTOP)  # a client on a busy machine
    second = chain.starts()[1]

    def has_ended() -> bool:
        for client in chain.places[0].glob(f"*/{second}/client"):
            client.write_text(
                f"{time.monotonic():012.3f}"
            )  # stopped for a moment, however long a start takes
        return chain.file(1, "state.json").get("phase") == "ended"

    until(has_ended, 60)
    attached.process.send_signal(signal.SIGCONT)
    attached.until(lambda text: "restart 2 of 2 in" in text)
    assert chain.status() == {second: ("waiting", True)}  # in the pause of its client
    assert chain.ended() == []
    code, text = attached.end(60)
    assert (code, len(chain.starts())) == (0, 3), text
    assert chain.file(1, "decided.json")["run_id"] == chain.starts()[2]
    assert [each["verdict"] for each in chain.ended()] == ["finished"]


def test_a_stop_in_the_pause_of_the_host_is_the_end_and_on_end_runs_once(lab: Lab, cli: Cli) -> None:
    host = lab.hosts[0]
    chain = Chain(cli, (host,), 300)
    until(lambda: bool(chain.file(0, "next.json").get("restarter")), 60)
    waiting = cli.start_words("attach", "--json", chain.starts()[0], *chain.words)
    other = cli.start_words("attach", "--json", chain.starts()[0], *chain.words)
    for each in (waiting, other):
        each.until(lambda text: "is being restarted by its host" in text)
    code, text = cli.invoke(cli.home, "stop", chain.starts()[0], *chain.words)
    assert code == 0, text
    for each in (waiting, other):
        code, text = each.end(60)
        assert (code, "stopped by" in text) == (137, True), text
    assert chain.status() == {}
    assert [(each["verdict"], each["exit_code"]) for each in chain.ended()] == [("failed", 137)]
    until(lambda: not host.strays(), 60, lambda: str(host.strays()))
