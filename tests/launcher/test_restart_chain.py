"""A chain of starts that a host makes: what a reader finds between two of them, whoever is killed then."""

import errno
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from launcher.commands import stop
from launcher.config.inventory import HostEntry
from launcher.onhost.supervisor import client_files, next_start
from launcher.onhost.supervisor.next_start import read_next
from launcher.onhost.supervisor.node import read_node_location
from launcher.onhost.supervisor.requests.list import describe_run
from launcher.onhost.supervisor.run_dir import read_state
from launcher.runs.remote_run import NodeRun
from launcher.runs.stop import stop_run
from tests.command_server import Command, start_module
from tests.launcher.onhost_driver import Driver
from tests.launcher.test_restart_on_host import await_
from tests.users import User

pytestmark = pytest.mark.slow

# Each start but the last writes a newer checkpoint and is killed, which is restarted.
SCRIPT = """#!/bin/sh
starts=$(ls -d starts/* 2>/dev/null | wc -l) && mkdir -p starts/$starts out/checkpoint-$starts
echo "begins $starts $1"
echo '{}' > out/checkpoint-$starts/state.json
[ -e last ] && [ $starts -ge $(cat last) ] && exit 0
[ $starts -gt 0 ] || while [ ! -e go ]; do sleep 0.05; done
while [ -e stay ] && [ $starts -gt 0 ]; do sleep 0.05; done
kill -9 $$
"""


class Chain:
    """The starts of one run on this host, and a reader that looks at them all the time, as `ps` would."""

    def __init__(self, user: User, client: Command, first: Path) -> None:
        self.user, self.client, self.first = user, client, first
        self.seen: list[tuple[int, str]] = []
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def begin(self, *, alone: bool = True) -> None:
        """Let the first start fail, with nobody there."""
        if alone:
            self.client.kill()
            (self.first / "client").write_text("0")  # as if it had been heard long ago
        self._reader.start()
        (self.user.home / "go").touch()

    def starts(self) -> list[Path]:
        """Return the directories of the starts, the first one first."""
        return sorted(self.first.parent.glob("[!.]*/"), key=lambda path: path.stat().st_ctime)

    def look(self) -> tuple[int, str]:
        """Return to how many starts the first one leads, and the status of the last."""
        number, path = 1, self.first
        while True:
            fields = describe_run(str(path), tail=0)
            assert fields is not None
            node = NodeRun(HostEntry("localhost"), fields, {}, 0.0, "")
            if not node.next_start:
                return number, node.status
            number, path = number + 1, path.with_name(node.next_start)

    def _read(self) -> None:
        while not self._over.wait(0.02):
            now = self.look()
            if not self.seen or now != self.seen[-1]:
                self.seen.append(now)

    def end(self) -> list[tuple[int, str]]:
        """Look no more; return all that was seen, in the order in which it came."""
        self._over.set()
        self._reader.join()
        return self.seen

    def notices(self) -> list[dict[str, Any]]:
        """Return what `on_end` was run with, by a command that comes now."""
        self.user.gpulaunch("ps")
        ended = self.user.home / "ended"
        return [json.loads(line) for line in ended.read_text().splitlines()] if ended.exists() else []


@pytest.fixture
def chain(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Chain]:
    user, settings = User(tmp_path / "home"), getattr(request, "param", {})
    script = user.home / "train.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    user.env["XDG_CONFIG_HOME"] = str(user.home)
    (user.home / "gpulaunch").mkdir()
    (user.home / "gpulaunch" / "hosts.yaml").write_text('{"hosts": {}}')
    sets = (f"workdir={user.home}", "output=out", "send_script=false", 'restart.resume_args=["{checkpoint}"]')
    on_end, pause = 'on_end=[sh, -c, "cat >> ended; echo >> ended"]', settings.get("pause", 0)
    options = [word for each in (*sets, f"restart.backoff_s={pause}", on_end) for word in ("--set", each)]
    words = ["run", "--hosts", "localhost", "--gpus", "none", "--restarts", str(settings.get("max", 2))]
    words += [*options, "--", "./train.sh"]
    with start_module("launcher.cli", words, user.home, user.env) as client:
        try:
            assert any("begins" in line for line in client.stdout)
            first = next((user.home / "state").glob("gpulaunch/runs/*/[!.]*/"))
            await_((first / "detached").exists)
            made = Chain(user, client, first)
            yield made
            made.end()  # or it reads on beside every test of the process that comes later
        finally:
            client.kill()
            for path in (user.home / "state").glob("gpulaunch/runs/*/[!.]*/"):
                decided = read_next(str(path)).get("state") in (None, *next_start.OVER)
                if not decided or read_state(str(path)).get("phase") != "ended":
                    user.gpulaunch("stop", "--now", path.name)


def restarter_of(run_dir: Path) -> int:
    """Return the process that the host has sent to make the next start of a run."""
    told = await_(lambda: (read := read_next(str(run_dir))).get("state") == "restarting" and read)
    keeper = told["keeper"][0]

    def find() -> int:
        children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
        return next(
            (int(pid) for pid in children if b"on_host" in Path(f"/proc/{pid}/cmdline").read_bytes()), 0
        )

    return int(await_(find))


def second_start(chain: Chain) -> Path:
    """Return the start that the host has made, at once."""
    give_up = time.monotonic() + 120.0
    while len(chain.starts()) < 2:
        assert time.monotonic() < give_up
        time.sleep(0.001)
    return chain.starts()[1]


def test_a_start_that_fails_while_its_restarter_looks_away_leaves_a_trail(chain: Chain) -> None:
    (chain.user.home / "last").write_text("2")
    chain.begin()
    restarter = restarter_of(chain.first)
    second = second_start(chain)
    os.kill(restarter, signal.SIGSTOP)  # as on a busy host: it comes to nothing before the start has failed
    await_(lambda: read_state(str(second)).get("phase") == "ended")
    time.sleep(0.3)
    assert chain.look() == (2, "waiting")
    assert chain.notices() == []
    os.kill(restarter, signal.SIGCONT)
    await_(lambda: chain.look() == (3, "finished"))
    assert not [each for each in chain.end() if each[1] in ("failed", "lost")]
    (notice,) = chain.notices()
    assert (notice["verdict"], len(notice["restarts"]["starts"])) == ("finished", 3)
    assert [notice] == chain.notices()


@pytest.mark.parametrize("chain", [{"pause": 2}], indirect=True, ids=["pause"])
def test_a_restart_outlives_a_keeper_that_is_killed_while_it_is_made(chain: Chain) -> None:
    (chain.user.home / "last").write_text("1")
    chain.begin()
    restarter_of(chain.first)
    keeper = await_(lambda: (told := read_next(str(chain.first))).get("restarter") and told["keeper"][0])
    os.kill(keeper, signal.SIGKILL)
    await_(lambda: not Path(f"/proc/{keeper}").exists())
    assert chain.look() == (1, "waiting")
    assert chain.notices() == []
    attached = chain.user.gpulaunch("attach", "--json", chain.first.name)
    outcome = json.loads(attached.stdout)
    assert (attached.returncode, outcome["verdict"], len(outcome["restarts"]["starts"])) == (0, "finished", 2)
    assert not [each for each in chain.end() if each[1] in ("failed", "lost")]


@pytest.mark.parametrize("chain", [{"pause": 3}], indirect=True, ids=["pause"])
def test_a_killed_keeper_takes_no_restart_from_the_client_that_makes_it(chain: Chain) -> None:
    (chain.user.home / "last").write_text("1")
    chain.begin(alone=False)
    await_(lambda: read_next(str(chain.first)).get("state") == "restarting")
    os.kill(read_next(str(chain.first))["keeper"][0], signal.SIGKILL)
    await_(lambda: chain.look() == (2, "finished"))
    assert not [each for each in chain.end() if each[1] in ("failed", "lost")]
    assert chain.client.wait(60) == 0
    assert [each["verdict"] for each in chain.notices()] == ["finished"]


@pytest.mark.parametrize("chain", [{"pause": 60}], indirect=True, ids=["pause"])
@pytest.mark.parametrize("kills_keeper", [False, True], ids=["keeper", "no-keeper"])
def test_a_stop_between_two_starts_ends_the_run(chain: Chain, *, kills_keeper: bool) -> None:
    chain.begin()
    restarter = restarter_of(chain.first)
    if kills_keeper:
        await_(lambda: read_next(str(chain.first)).get("restarter"))
        os.kill(read_next(str(chain.first))["keeper"][0], signal.SIGKILL)
    stopped = chain.user.gpulaunch("stop", chain.first.name)
    assert stopped.returncode == 0, stopped.stderr
    await_(lambda: not Path(f"/proc/{restarter}").exists())
    assert chain.look()[0] == 1
    assert len(chain.starts()) == 1
    (notice,) = chain.notices()
    assert (notice["verdict"], notice["restarts"]["starts"][0]["exit_code"]) == ("failed", 137)
    assert [notice] == chain.notices()


def test_a_stop_that_a_new_start_has_overtaken_ends_that_one(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    (chain.user.home / "stay").touch()
    chain.begin()
    restarter_of(chain.first)
    asked: list[str] = []

    def stop_late(run_id: str, *words: Any, **named: Any) -> Any:
        asked.append(run_id)
        await_(lambda: chain.look() == (2, "running"))
        return stop_run(run_id, *words, **named)

    monkeypatch.setattr(stop, "stop_run", stop_late)
    monkeypatch.chdir(chain.user.home)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, chain.user.env[name])
    done = CliRunner().invoke(stop.command, [chain.first.name])
    second = chain.starts()[1]
    assert (done.exit_code, asked) == (0, [chain.first.name, second.name]), done.output
    assert read_state(str(second))["phase"] == "ended"
    assert [each["why"].split()[0] for each in chain.notices()] == ["stopped"]


@pytest.mark.parametrize("chain", [{"max": 1}], indirect=True, ids=["one-restart"])
def test_the_last_failure_is_the_end_once_the_restarts_are_used_up(chain: Chain) -> None:
    chain.begin()
    restarter = restarter_of(chain.first)
    second = second_start(chain)
    os.kill(restarter, signal.SIGSTOP)
    await_(lambda: read_state(str(second)).get("phase") == "ended")
    assert chain.look() == (2, "waiting")  # nobody has judged it yet
    os.kill(restarter, signal.SIGCONT)
    await_(lambda: chain.look() == (2, "failed"))
    assert read_next(str(second))["state"] == "ended"
    (notice,) = chain.notices()
    assert (notice["verdict"], notice["exit_code"], notice["restarts"]["count"]) == ("failed", 137, 1)
    assert [notice] == chain.notices()


def test_a_restarter_that_is_killed_as_it_starts_the_run_again_breaks_no_chain(chain: Chain) -> None:
    (chain.user.home / "last").write_text("2")
    chain.begin()
    restarter = restarter_of(chain.first)
    second = second_start(chain)
    os.kill(restarter, signal.SIGKILL)
    await_(lambda: read_state(str(second)).get("phase") == "ended")
    assert chain.look() == (2, "waiting")
    (second / "client").write_text("0")  # as if the restarter had been heard long ago
    await_(lambda: chain.look() == (3, "finished"))
    assert not [each for each in chain.end() if each[1] in ("failed", "lost")]
    assert [each["verdict"] for each in chain.notices()] == ["finished"]


def test_of_two_decisions_the_first_counts_and_the_start_that_came_second_ends(tmp_path: Path) -> None:
    earlier = tmp_path / "r-20260101-000000-abcdef"
    earlier.mkdir()
    run_dir = str(earlier)
    starts = [tmp_path / f"r-20260101-00000{number}-abcdef" for number in (1, 2)]
    for start_dir in starts:
        start_dir.mkdir()
        (start_dir / "state.json").write_text(json.dumps(read_node_location()))
        next_start.note_successor(run_dir, str(start_dir))
    for state in (next_start.ENDED, next_start.WAITS):  # a stop and a keeper that come late
        next_start.write_next(run_dir, state, why="late")
    told = next_start.read_next(run_dir)
    assert (told["state"], told["run_id"]) == ("restarted", starts[0].name)
    assert [(each / "stop.json").exists() for each in starts] == [False, True]
    assert client_files.read_stop_request(str(starts[1])).why == f"it was started again as {starts[0].name}"
    assert [next_start.rule_out(told, each.name) == "" for each in starts] == [True, False]


def decide(path: Path, why: str) -> None:
    """Let whoever reads what was decided of a start find nothing, and the next one that it was ended."""
    writer = os.open(path / "decided.json", os.O_WRONLY)  # a FIFO: the first reader is there, and waits
    (path / "later").write_text(json.dumps({**read_node_location(), "state": "ended", "why": why}))
    (path / "later").rename(path / "decided.json")
    os.close(writer)


def test_a_start_is_ended_by_a_stop_that_came_while_it_was_made(run: Driver) -> None:
    before = run.run_dir.parent / "r0"
    before.mkdir(parents=True)
    os.mkfifo(before / "decided.json")
    (before / "next.json").write_text(json.dumps({**read_node_location(), "state": "held"}))
    stop_that_comes = threading.Thread(target=decide, args=(before, "stopped by ada@pc"))
    stop_that_comes.start()
    run.start("import time; time.sleep(120)", restart={"after": "r0"}, restart_order="{}")
    stop_that_comes.join()
    end = run.ended()["exit"]
    assert (end["why"], end["requested"]) == ("stopped by ada@pc", True)
    assert not (run.run_dir / "next.json").exists()  # nothing follows it, either
    assert json.loads((before / "decided.json").read_text())["state"] == "ended"


@pytest.mark.parametrize("after", ["r0", "never-made"])
def test_no_start_follows_one_that_was_stopped(run: Driver, after: str) -> None:
    before = run.run_dir.parent / "r0"
    before.mkdir(parents=True)
    (before / "decided.json").write_text(json.dumps({"state": "ended", "why": "stopped by ada@pc"}))
    run.start("print(1)", restart={"after": after, "starts": [{"run_id": "r0"}]})
    assert "r0 is not started again: stopped by ada@pc" in str(run.answer)
    assert not run.run_dir.exists()


@pytest.mark.parametrize("call", ["link", "both"])
def test_a_decision_needs_no_hard_link_and_no_free_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no hard links")

    def fill(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run_dir = str(tmp_path)
    end = {"launcher_code": -9, "ranks": {}, "why": "killed"}
    next_start.announce_keeper(run_dir, {"order_fd": 5}, end, os.getpid())
    monkeypatch.setattr(os, "link", refuse)
    if call == "both":
        monkeypatch.setattr(next_start, "write_file", fill)
    next_start.write_next(run_dir, next_start.ENDED, why="stopped by ada@pc")
    if call == "both":
        monkeypatch.undo()
        monkeypatch.setattr(os, "link", refuse)
    next_start.write_next(run_dir, next_start.RESTARTED, run_id="late")
    told = next_start.read_next(run_dir)
    assert (told["state"], told["why"], told["keeper"][0]) == ("ended", "stopped by ada@pc", os.getpid())
    assert not list(tmp_path.glob("*.restarted.*"))


def test_a_stop_counts_for_a_client_that_goes_on_after_its_keeper_was_killed(tmp_path: Path) -> None:
    end = {"launcher_code": -9, "ranks": {}, "why": "killed"}
    next_start.announce_keeper(str(tmp_path), {"order_fd": 5}, end, 2**22 + 1)  # no process has this pid
    assert not next_start.is_kept(next_start.read_next(str(tmp_path)))
    next_start.stop_keeper(str(tmp_path), "stopped by ada@pc")
    assert next_start.rule_out(next_start.read_next(str(tmp_path)), "any") == "stopped by ada@pc"
