"""Faults of a run, for real over SSH: whatever is killed, cut or filled, nothing is lost and nothing left.

After each of them `Laptop.accounted` looks for processes, ports and claims that are left, and for every byte
of every rank. The first tests mostly wait, so they run side by side, each on two hosts of its own.
"""

import json
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from launcher.config.node_sets import format_host_range
from tests.lab import clock, network, sshd
from tests.lab.fault_runs import Laptop, claims, until
from tests.lab.fault_scripts import COUNT, EXPECTED, STUBBORN, STUCK, some
from tests.lab.reliability import Row
from tests.lab.side_by_side import SideBySide

pytestmark = [pytest.mark.lab]

GRACE_S = 6.0  # more than a busy machine holds a living client up
side_by_side = SideBySide()


@pytest.fixture(scope="module")
def begun(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Row]]]:
    chosen = [item.name for item in request.session.items]
    with side_by_side.begun(chosen, tmp_path_factory.mktemp("side")) as futures:
        yield futures


@side_by_side
def test_a_link_cut_for_30_s_costs_nothing(laptop: Laptop) -> Row:
    running = laptop.launch(some(0.45))
    laptop.under_way(running)
    network.cut(laptop.hosts[1])
    began = time.monotonic()
    try:
        running.until(lambda text: "reconnecting; the run continues on the host" in text, 30)
        time.sleep(30.0 - (time.monotonic() - began))
        assert "connected again" not in running.output.decode()
    finally:
        network.restore(laptop.hosts[1])
    code, output = running.end()
    assert code == 0, output
    assert "connected again, nothing was lost" in output
    count = laptop.accounted()
    assert [laptop.kept(host, rank) for rank, host in enumerate(laptop.hosts)] == [EXPECTED] * 2
    return Row("link cut for 30 s", "exit 0: connected again, nothing was lost", count)


@side_by_side
def test_a_link_cut_for_good_ends_the_run_on_both_sides(laptop: Laptop) -> Row:
    running = laptop.launch(COUNT, stops_after_s=GRACE_S)
    laptop.under_way(running)
    host = laptop.hosts[0]  # the main one
    network.cut(host)
    began = time.monotonic()
    try:
        code, output = running.end()
        seconds = time.monotonic() - began
        assert code == 5, output
        assert f"{host.name} was lost" in output
        until(lambda: laptop.state(host)["phase"] == "ended", 20)
        # While it is cut off; only its sshd still waits for us.
        until(lambda: all("sshd" in left for left in host.strays().values()), 10, lambda: str(host.strays()))
        assert claims(host) == []
    finally:
        network.restore(host)
    # Its sshd learns of our end when TCP tries again, which it does the later the longer the cut was.
    count = laptop.accounted(followed=False, within_s=60)
    result = "exit 5: main host was lost; its own supervisor ended its part"
    fault = f"link to the main host cut for good, on_disconnect: stop after {GRACE_S:g} s"
    return Row(fault, result, count, seconds)


@side_by_side
def test_a_main_host_without_power_ends_the_run_elsewhere(laptop: Laptop) -> Row:
    running = laptop.launch(COUNT, stops_after_s=GRACE_S)
    laptop.under_way(running)
    main, other = laptop.hosts
    main.halt()
    began = time.monotonic()
    code, output = running.end()
    seconds = time.monotonic() - began
    assert code == 5, output
    assert f"{main.name} was lost" in output
    assert f"{main.name}: lost: not reached again for" in output
    until(lambda: not other.strays() and not claims(other), 20, lambda: str(other.strays()))
    code, output = laptop.run("fetch", laptop.run_id, "--logs-only", "--hosts", ",".join(laptop.names()))
    assert code == 3, output
    assert f"{main.name}: " in output
    assert laptop.kept(other, 1) == laptop.written(other, 1)
    main.boot()
    laptop.nothing_left()
    fault = f"main host loses power, on_disconnect: stop after {GRACE_S:g} s"
    return Row(fault, "exit 5: main host was lost", len(laptop.kept(other, 1)), seconds)


@side_by_side
def test_a_run_hangs_when_nothing_lives_on_any_of_its_hosts(laptop: Laptop) -> Row:
    running = laptop.launch(STUCK, hang_timeout_s=8.0)
    laptop.under_way(running)
    began = time.monotonic()
    code, output = laptop.run("stacks", laptop.run_id, "--hosts", ",".join(laptop.names()))
    assert code == 0, output
    # Ranks that execute the same are one line: rank 1 may still be in its loop.
    apart = "rank 0 on " in output and f"rank 1 on {laptop.hosts[1].name} executes " in output
    assert apart or "each of ranks 0-1 on " in output, output
    code, output = running.end()
    seconds = time.monotonic() - began
    assert code == 124, output
    assert "hung: no output, no optimizer step, no use of GPU or CPU on any host" in output
    assert "root cause: hung: " in output
    assert "each of ranks 0, 1 executes wait_for_nobody (x.py:" in output
    assert seconds > 20.0  # rank 1 was quiet long before, but rank 0 was not
    return Row(
        "every rank of two hosts stuck",
        "exit 124: hung; the stacks of each rank are in the local logs",
        laptop.accounted(),
    )


@side_by_side
def test_a_detached_run_that_hangs_is_ended_on_every_host(laptop: Laptop) -> Row:
    code, output = laptop.launch(STUCK, hang_timeout_s=8.0, detach=True).end()
    assert code == 0, output
    until(lambda: all(laptop.state(host)["phase"] == "ended" for host in laptop.hosts), 120)
    for rank, host in enumerate(laptop.hosts):
        assert laptop.state(host)["exit"]["why"].startswith("hung: ")
        assert "wait_for_nobody" in (laptop.run_dir(host) / f"stacks-rank-{rank}.log").read_text()
    laptop.nothing_left()
    count = sum(len(laptop.written(host, rank)) for rank, host in enumerate(laptop.hosts))
    return Row("detached, every rank stuck", "each host ends its ranks and keeps their stacks", count)


@side_by_side
def test_a_detached_run_outlives_its_client_and_another_laptop_finds_it(laptop: Laptop) -> Row:
    go = laptop.lab.shared / f"go-{laptop.home.parent.name}-{laptop.home.name}"
    code, output = laptop.launch(some(until=go), detach=True).end()
    assert code == 0, output
    assert "detached after" in output
    other = Laptop(laptop.lab, laptop.home / "other", laptop.hosts)
    other.run_id = laptop.run_id
    try:
        code, listed = other.run("ps", *laptop.names())
        assert code == 0, listed
        assert re.search(
            rf"{laptop.run_id} +running .*  {re.escape(format_host_range(laptop.names()))}  ", listed
        ), listed
        go.touch()
        # --hosts: the other laptop has not launched it, so it asks a host of the run, which names the rest.
        code, output = other.start("attach", laptop.run_id[:-2], "--hosts", laptop.hosts[0].name).end()
        assert code == 0, output
        assert "no process of the run is left on any host" in output
        count = other.accounted()
        assert [other.kept(host, rank) for rank, host in enumerate(laptop.hosts)] == [EXPECTED] * 2
        outcome = json.loads((other.home / "gpulaunch-runs" / laptop.run_id / "outcome.json").read_text())
        assert (outcome["verdict"], [end["code"] for end in outcome["ranks"]]) == ("finished", [0, 0])
        assert {phase["name"] for phase in outcome["phases"]} >= {"start", "end"}
        assert outcome["seconds"] > sum(phase["seconds"] for phase in outcome["phases"]) / 2
    finally:
        other.close()
    return Row("client gone, detached; another laptop attaches", "exit 0: the run finishes", count)


@side_by_side
def test_leaving_an_attached_run_detaches_it_and_two_may_stop_it_at_once(laptop: Laptop) -> Row:
    first = laptop.launch(STUBBORN, stops_after_s=GRACE_S)
    laptop.under_way(first, "] up\n")
    attached = laptop.start("attach", "last", "--hosts", laptop.hosts[0].name)
    attached.until(lambda text: "] up\n" in text)
    attached.interrupt()
    code, output = attached.end()
    assert (code, "the run continues" in output) == (0, True), output
    first.kill()
    time.sleep(GRACE_S + 1.0)
    assert laptop.state(laptop.hosts[0])["phase"] == "running"
    began = time.monotonic()
    stops = [
        laptop.start("stop", laptop.run_id, "--grace", "1", "--hosts", laptop.hosts[n].name) for n in range(2)
    ]
    for stop in stops:
        code, output = stop.end()
        assert code == 0, output
        assert "no process of it is left" in output
    seconds = time.monotonic() - began
    count = laptop.accounted(followed=False)
    for rank, host in enumerate(laptop.hosts):
        assert laptop.state(host)["exit"]["ranks"] == {str(rank): -9}
    code, listed = laptop.run("ps", "--all", laptop.hosts[0].name)
    assert re.search(rf"{laptop.run_id} +stopped by ", listed), listed
    code, output = laptop.run("rm", laptop.run_id, "--yes", "--hosts", ",".join(laptop.names()))
    assert code == 0, output
    assert not laptop.run_dir(laptop.hosts[1]).exists()
    words = "both exit 0: SIGKILL after the grace; daemons and the stopped rank gone"
    fault = "two clients at once stop a run that ignores SIGTERM, forks daemons, stops itself (SIGSTOP)"
    return Row(fault, words, count, seconds)


@side_by_side
def test_a_client_killed_with_9_ends_its_run_where_that_is_wished(laptop: Laptop) -> Row:
    running = laptop.launch(COUNT, stops_after_s=GRACE_S)
    laptop.under_way(running)
    running.kill()
    began = time.monotonic()
    laptop.nothing_left(within_s=40)
    seconds = time.monotonic() - began
    why = laptop.state(laptop.hosts[0])["exit"]["why"]
    assert why == f"no client has followed this attached run for {GRACE_S:g} s"
    count = laptop.accounted(followed=False)
    fault = f"client killed with -9, on_disconnect: stop after {GRACE_S:g} s"
    return Row(fault, f"ended on every host: {why}", count, seconds)


@side_by_side
def test_a_client_killed_with_9_leaves_a_run_that_goes_on_and_is_found(laptop: Laptop) -> Row:
    running = laptop.launch(COUNT)
    laptop.under_way(running)
    promised = [laptop.run_dir(host) / "detached" for host in laptop.hosts]
    until(lambda: all(path.exists() for path in promised), 30)  # its lines may be quicker than its client
    running.kill()
    running.end()
    time.sleep(2 * GRACE_S)
    code, listed = laptop.run("ps", *laptop.names())
    assert code == 0, listed
    assert re.search(
        rf"{laptop.run_id} +running .*  {re.escape(format_host_range(laptop.names()))}  ", listed
    ), listed
    code, output = laptop.run("stop", laptop.run_id, "--grace", "2s", "--hosts", ",".join(laptop.names()))
    assert code == 0, output
    count = laptop.accounted(followed=False)
    return Row("client killed with -9", "continues on every host; ps finds it, stop ends it", count)


@side_by_side
def test_a_client_that_was_stopped_for_20_s_follows_on(laptop: Laptop) -> Row:
    running = laptop.launch(some(0.3), stops_after_s=60.0)
    laptop.under_way(running)
    running.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(20.0)
    finally:
        running.process.send_signal(signal.SIGCONT)
    code, output = running.end()
    assert code == 0, output
    assert "this client was asleep or stopped for 2" in output
    count = laptop.accounted()
    assert [laptop.kept(host, rank) for rank, host in enumerate(laptop.hosts)] == [EXPECTED] * 2
    return Row("client stopped for 20 s (SIGSTOP), as a laptop asleep", "exit 0: nothing was lost", count)


@side_by_side
def test_a_client_that_wakes_too_late_says_why_its_run_has_ended(laptop: Laptop) -> Row:
    running = laptop.launch(COUNT, stops_after_s=GRACE_S)
    laptop.under_way(running)
    running.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(20.0)
    finally:
        running.process.send_signal(signal.SIGCONT)
    code, output = running.end()
    assert code == 5, output
    said = f"no client has followed this attached run for {GRACE_S:g} s"
    assert f"aborted: {said}" in output or said in output.splitlines()[-1], output
    assert "not reached again" not in output
    fault = f"client stopped for 20 s, on_disconnect: stop after {GRACE_S:g} s"
    return Row(fault, f"exit 5: {said}", laptop.accounted())


@side_by_side
def test_20_percent_packet_loss_costs_nothing(laptop: Laptop) -> Row:
    return _bad_cable(laptop, "20% packet loss", loss=0.2)


@side_by_side
def test_a_delay_of_300_ms_costs_nothing(laptop: Laptop) -> Row:
    return _bad_cable(laptop, "300 ms delay each way", delay_s=0.3)


def _bad_cable(laptop: Laptop, fault: str, *, delay_s: float = 0.0, loss: float = 0.0) -> Row:
    running = laptop.launch(some(0.1))
    laptop.under_way(running)
    with network.bad_cable(laptop.hosts[1], delay_s=delay_s, loss=loss, seed=7):
        code, output = running.end()
        assert code == 0, output
    # The end of a connection that is lost five times is sent again after 13 s; until then its sshd waits.
    count = laptop.accounted(within_s=30)
    assert [laptop.kept(host, rank) for rank, host in enumerate(laptop.hosts)] == [EXPECTED] * 2
    return Row(fault, "exit 0", count)


@side_by_side
def test_a_killed_ssh_connection_costs_nothing(laptop: Laptop) -> Row:
    running = laptop.launch(some(0.1))
    laptop.under_way(running)
    host = laptop.hosts[1]
    sessions = {pid for pid in host.pids() if host.command(pid).startswith("sshd:")} - {host.sshd_pid()}
    assert sessions
    for pid in sessions:
        host.kill(pid)
    code, output = running.end()
    assert code == 0, output
    assert f"{host.name}: connected again, nothing was lost" in output
    count = laptop.accounted()
    return Row("ssh connection killed with -9", "exit 0: connected again, nothing was lost", count)


@side_by_side
def test_a_killed_sshd_costs_nothing(laptop: Laptop) -> Row:
    running = laptop.launch(some(0.1))
    laptop.under_way(running)
    sshd.kill(laptop.hosts[0], sessions=True)
    time.sleep(2.0)  # its port is refused meanwhile
    sshd.start(laptop.hosts[0])
    code, output = running.end()
    assert code == 0, output
    assert "connected again, nothing was lost" in output
    count = laptop.accounted()
    return Row("sshd killed with -9, back after 2 s", "exit 0: connected again, nothing was lost", count)


@side_by_side
def test_a_jump_of_a_hosts_clock_ends_nothing(laptop: Laptop) -> Row:
    host = laptop.hosts[1]
    clock.prepare(host)
    running = laptop.launch(some(), stops_after_s=GRACE_S)
    laptop.under_way(running)
    clock.jump(host, 86400)
    time.sleep(1.0)
    clock.jump(host, -86400)
    code, output = running.end()
    assert code == 0, output
    return Row(
        "the clock of a host jumps a day ahead, then two days back",
        "exit 0: nothing stopped",
        laptop.accounted(),
    )


@side_by_side
def test_a_stop_from_elsewhere_is_told_to_the_client_that_follows(laptop: Laptop) -> Row:
    running = laptop.launch(COUNT)
    laptop.under_way(running)
    began = time.monotonic()
    code, output = laptop.run("stop", laptop.run_id, "--grace", "5", "--hosts", ",".join(laptop.names()))
    assert code == 0, output
    code, output = running.end()
    seconds = time.monotonic() - began
    assert code == 130, output
    assert re.search(r"interrupted: stopped by \w+@", output), output
    count = laptop.accounted()
    return Row(
        "stopped by another client while followed", "exit 130: stopped by USER@MACHINE", count, seconds
    )
