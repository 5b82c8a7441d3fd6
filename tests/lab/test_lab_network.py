"""Cables, ports and sshd of the simulated hosts behave and fail as real ones do."""

import socket
import subprocess
import time

import pytest
import yaml

from tests.conftest import FreshLab
from tests.lab import network, sshd
from tests.lab.connections import connect, connect_between, ssh
from tests.lab.hosts import Lab

pytestmark = pytest.mark.lab


def test_nobody_is_at_the_dead_address(lab: Lab) -> None:
    with pytest.raises(OSError, match="No route to host"):
        connect(lab.dead_address(), timeout_s=10)


def test_the_silent_address_swallows_everything(lab: Lab) -> None:
    with pytest.raises(TimeoutError):
        connect(lab.silent_address())


def test_a_cut_host_is_unreachable_until_restored(lab: Lab) -> None:
    first, second, third = lab.hosts
    network.cut(first)
    try:
        with pytest.raises(OSError, match=r"timed out|No route"):
            connect(first.address)
        assert connect_between(second, first, 22)
        assert not connect_between(second, third, 22)
    finally:
        network.restore(first)
    connect(first.address, timeout_s=5)


def test_a_slow_cable_delays_both_ways(lab: Lab) -> None:
    host = lab.hosts[0]

    def connected_in_s() -> float:
        began = time.monotonic()
        connect(host.address, timeout_s=30)
        return time.monotonic() - began

    connected_in_s()
    with network.bad_cable(host, delay_s=0.1):
        assert min(connected_in_s() for _ in range(2)) >= 0.2
    assert any(connected_in_s() < 0.1 for _ in range(50))  # a busy machine delays some


def test_a_lossy_cable_loses_packets_and_tcp_survives_it(lab: Lab) -> None:
    host = lab.hosts[0]
    with network.bad_cable(host, loss=0.1, seed=1):
        done = ssh(lab, host.name, "head -c 300000 /dev/zero | tr '\\0' x", ConnectTimeout="20")
        assert done.stdout == "x" * 300000, done.stderr
        retransmitted = host.run(["nstat", "-asz", "TcpRetransSegs"]).stdout.split()
    assert int(retransmitted[retransmitted.index("TcpRetransSegs") + 1]) > 0


def test_large_transfers_cross_a_slow_cable_intact(lab: Lab) -> None:
    host = lab.hosts[1]
    with network.bad_cable(host, delay_s=0.002):
        done = ssh(lab, host.name, "head -c 4000000 /dev/zero | tr '\\0' y")
    assert done.stdout == "y" * 4000000, done.stderr


@pytest.mark.parametrize(("reject", "outcome"), [(True, "ConnectionRefusedError"), (False, "TimeoutError")])
def test_a_blocked_port_is_closed_to_one_host_only(lab: Lab, *, reject: bool, outcome: str) -> None:
    first, second, third = lab.hosts
    network.block(first, port=22, source=second, reject=reject)
    try:
        assert connect_between(second, first, 22) == outcome
        assert connect_between(third, first, 22) == ""
    finally:
        network.unblock(first)
    assert connect_between(second, first, 22) == ""


def test_a_host_behind_two_others_is_reached_through_both(lab: Lab) -> None:
    first, second, third = lab.hosts
    network.put_behind(second, first)
    network.put_behind(third, second)
    try:
        with pytest.raises(TimeoutError):
            connect(third.address)
        assert connect_between(first, third, 22) == "TimeoutError"
        assert ssh(lab, third.name, "hostname").stdout == f"{third.name}\n"
        assert yaml.safe_load(lab.inventory_path.read_text())["hosts"][third.name]["jump"] == [
            first.name,
            second.name,
        ]
    finally:
        network.take_out(lab)
    connect(third.address)


def test_a_killed_sshd_refuses_and_a_started_one_answers(lab: Lab) -> None:
    host = lab.hosts[0]
    sshd.kill(host)
    with pytest.raises(ConnectionRefusedError):
        connect(host.address)
    sshd.start(host)
    connect(host.address)


def test_a_frozen_sshd_accepts_and_says_nothing(lab: Lab) -> None:
    host = lab.hosts[0]
    sshd.freeze(host)
    try:
        with socket.create_connection((host.address, 22), 1) as connection:
            connection.settimeout(0.2)
            with pytest.raises(TimeoutError):
                connection.recv(1)
    finally:
        sshd.thaw(host)
    with socket.create_connection((host.address, 22), 1) as connection:
        assert connection.recv(4) == b"SSH-"


def test_killing_sessions_ends_open_connections(lab: Lab) -> None:
    host = lab.hosts[0]
    argv = ["ssh", "-F", str(lab.ssh_config), host.name, "echo here; sleep 60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "here\n"
        sshd.kill(host, sessions=True)
        assert client.wait(10) == 255
    sshd.start(host)
    host.run(["pkill", "sleep"], check=False)


def test_a_changed_host_key_is_noticed(lab: Lab) -> None:
    host = lab.hosts[0]
    public = sshd.change_host_key(host)
    try:
        assert public not in lab.known_hosts.read_text()
        done = ssh(lab, host.name, "true")
        assert (done.returncode, "REMOTE HOST IDENTIFICATION HAS CHANGED" in done.stderr) == (255, True)
    finally:
        sshd.restore_host_key(host)
    assert ssh(lab, host.name, "true").returncode == 0


def test_settings_of_sshd_win_over_its_own(lab: Lab) -> None:
    host = lab.hosts[0]
    sshd.configure(host, "DenyUsers alice")
    try:
        assert "Permission denied" in ssh(lab, "-l", "alice", host.name, "true").stderr
    finally:
        sshd.configure(host)
    assert ssh(lab, "-l", "alice", host.name, "true").returncode == 0


def test_an_account_can_have_a_password(fresh_lab: FreshLab) -> None:
    host = fresh_lab(1).hosts[0]
    sshd.set_password(host, "alice", "correct horse")
    host.lab.ssh_config.write_text(host.lab.ssh_config.read_text().replace("BatchMode yes", "BatchMode no"))
    done = ssh(
        host.lab, "-l", "alice", host.name, "true", PubkeyAuthentication="no", NumberOfPasswordPrompts="0"
    )
    assert "(publickey,password)" in done.stderr
