"""Reaching hosts by SSH: every way it can fail is told apart, and no key is trusted unseen."""

import os
import signal
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.errors import (
    AuthenticationFailed,
    ConnectionLost,
    ConnectionRefused,
    ConnectionTimedOut,
    HostError,
    HostKeyUnknown,
    NameNotResolved,
)
from launcher.transports.base import Endpoint, OpenOptions
from launcher.transports.ssh.connection import SshConnection, SshOpener
from tests.launcher.sshd import Sshd, keygen, public, write

pytestmark = pytest.mark.slow


# Getting to the port


def test_a_name_without_an_address_is_not_resolved(sshd: Sshd) -> None:
    with pytest.raises(NameNotResolved, match=r"titan: its address 'no-such-host.invalid' does not resolve"):
        sshd.open(address="no-such-host.invalid")


def test_a_name_that_no_resolver_can_encode_is_not_resolved(sshd: Sshd) -> None:
    with pytest.raises(NameNotResolved):
        sshd.open(address="a" * 70 + ".invalid")


def test_a_port_where_nothing_listens_is_refused(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ConnectionRefused, match=f"127.0.0.1 port {port} refused"):
        sshd.open(port=port)


def test_a_port_that_says_nothing_times_out(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        started = time.monotonic()
        with pytest.raises(ConnectionTimedOut, match=r"sent no SSH banner within 0\.5 s"):
            sshd.open(port=mute.getsockname()[1], connect_timeout_s=0.5)
        assert time.monotonic() - started < 7.5  # without a timeout of its own: 8 s


def test_a_service_that_is_not_ssh_is_told(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as web:
        threading.Thread(
            target=answer_once, args=(web, b"HTTP/1.1 400 Bad Request\r\n\r\n"), daemon=True
        ).start()
        with pytest.raises(HostError, match=r"does not speak SSH|no SSH banner"):
            sshd.open(port=web.getsockname()[1], connect_timeout_s=2.0)


def test_a_host_that_stops_in_the_handshake_times_out(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as half:
        done = threading.Event()
        args = (half, b"SSH-2.0-half\r\n", done)
        threading.Thread(target=answer_once, args=args, daemon=True).start()
        with pytest.raises(ConnectionTimedOut, match="did not finish the SSH handshake within 1 s"):
            sshd.open(port=half.getsockname()[1], connect_timeout_s=1.0)
        done.set()


def answer_once(listener: socket.socket, words: bytes, hold: threading.Event | None = None) -> None:
    caller, _ = listener.accept()
    with caller:
        caller.sendall(words)
        if hold is not None:
            hold.wait(60)


# Through other hosts


def test_several_jump_hosts_are_passed_and_each_is_verified(sshd: Sshd, tmp_path: Path) -> None:
    hops = tuple(
        replace(sshd.endpoint, name=f"hop{number}", address=address)
        for number, address in enumerate(("127.0.0.1", "localhost"))
    )
    known = sshd.known_hosts.read_text() + f"[localhost]:{sshd.port} {public(sshd.folder / 'host_ed25519')}\n"
    files = write(tmp_path / "kh", known)
    hops = tuple(replace(hop, known_hosts_files=files) for hop in hops)
    with sshd.open(jumps=hops, known_hosts_files=files) as opened:
        assert opened.run(("echo", "through")).stdout == b"through\n"
    unknown = (hops[0], replace(hops[1], known_hosts_files=write(tmp_path / "none", "")))
    with pytest.raises(HostKeyUnknown, match="titan: jump host hop1: its host key is not known"):
        sshd.open(jumps=unknown)


def test_what_lies_behind_a_jump_host_fails_in_its_own_words(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    hop = replace(sshd.endpoint, name="hop")
    with pytest.raises(ConnectionRefused, match="from jump host hop") as refused:
        sshd.open(jumps=(hop,), port=port)
    assert refused.value.fix.startswith("is its port right (a rented machine may change it)?")
    with pytest.raises(NameNotResolved) as unresolved:
        sshd.open(jumps=(hop,), address="titn.invalid", host_key_alias="titan")
    assert unresolved.value.fix.startswith("hop looks it up: check the spelling, or set `address:`")
    with pytest.raises(ConnectionRefused, match=r"titan: jump host hop: 127\.0\.0\.1 port"):
        sshd.open(jumps=(replace(hop, port=port),))


def test_a_jump_host_that_forwards_nothing_is_named(tmp_path: Path) -> None:
    with Sshd.up(tmp_path / "hop", "AllowTcpForwarding no") as forbids:
        hop = replace(forbids.endpoint, name="hop")
        with pytest.raises(HostError, match="from jump host hop: its sshd forwards nothing to it") as refused:
            forbids.open(jumps=(hop,))
    assert refused.value.fix == "ask the administrator of hop (AllowTcpForwarding, PermitOpen of its sshd)"


def test_hosts_behind_one_jump_host_share_its_connection(sshd: Sshd) -> None:
    hop = replace(sshd.endpoint, name="hop")
    opener = SshOpener(OpenOptions())
    script = ("sh", "-c", "echo $PPID; ps -o ppid= -p $PPID >/dev/null; echo ${SSH_CONNECTION}")
    opened = [opener(replace(sshd.endpoint, jumps=(hop,))) for _ in range(3)]
    assert len({connection.run(script).stdout for connection in opened}) == 3
    assert len(opener._jumps._open) == 1
    for connection in opened:
        connection.close()
    assert not opener._jumps._open


@pytest.mark.parametrize("hangup", [signal.SIG_DFL, signal.SIG_IGN], ids=["plain", "nohup"])
def test_a_proxy_command_is_the_way_to_the_host(sshd: Sshd, tmp_path: Path, hangup: signal.Handlers) -> None:
    before = signal.signal(signal.SIGHUP, hangup)
    try:
        through_a_proxy(sshd, tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)


def through_a_proxy(sshd: Sshd, tmp_path: Path) -> None:
    relay = tmp_path / "relay.py"
    relay.write_text(
        "import os, socket, sys, threading\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "far = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def up():\n"
        "    while data := os.read(0, 9999): far.sendall(data)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while data := far.recv(9999): os.write(1, data)\n"
    )
    with sshd.open(proxy_command=f"python3 {relay} 127.0.0.1 {sshd.port}") as opened:
        assert opened.run(("echo", "by proxy")).stdout == b"by proxy\n"
    command = Path("/proc") / (tmp_path / "pid").read_text()
    deadline = time.monotonic() + 60
    while command.exists():
        assert time.monotonic() < deadline, "the ProxyCommand outlives its connection"
        time.sleep(0.02)


def test_a_proxy_command_that_fails_is_told(sshd: Sshd) -> None:
    with pytest.raises(ConnectionLost, match=r"ProxyCommand ended with exit status 3: no tunnel today$"):
        sshd.open(proxy_command="sh -c 'echo no tunnel today >&2; exit 3'")
    with pytest.raises(
        ConnectionTimedOut, match=r"ProxyCommand sent no SSH banner within 1 s: no tunnel today$"
    ):
        sshd.open(proxy_command="sh -c 'echo no tunnel today >&2; sleep 9'", connect_timeout_s=1.0)


def test_a_connection_that_dies_ends_its_streams(sshd: Sshd) -> None:
    with sshd.open() as opened:
        stream = opened.start(("sh", "-c", "echo up; sleep 30"))
        assert stream.read(20) == b"up\n"
        opened.close()
        assert stream.read(5) == b""
        with pytest.raises(ConnectionLost):
            stream.wait(30)
        with pytest.raises(ConnectionLost):
            opened.run(("true",))


def test_a_connection_that_breaks_under_a_write_or_a_read_is_lost_and_nothing_else(sshd: Sshd) -> None:
    with sshd.open() as opened:
        taking, giving = opened.start(("cat",)), opened.start(("head", "-c", "8000000", "/dev/zero"))
        time.sleep(0.5)  # what fits is here; reading it tells the host that there is room again
        assert isinstance(opened, SshConnection)
        opened._wire.sock.shutdown(socket.SHUT_WR)  # as a reset does it, between two packets
        with pytest.raises(ConnectionLost):
            taking.write(bytes(64 << 20))
        while giving.read(5):
            pass
        giving.read_stderr()
        giving.close_stdin()
        giving.close()


def test_a_secret_never_shows_in_an_error(sshd: Sshd, tmp_path: Path) -> None:
    key = keygen(tmp_path / "key", "ed25519", "right horse")
    with pytest.raises(AuthenticationFailed) as raised:
        sshd.open(OpenOptions(prompt=lambda _question: "wrong horse"), identity_files=(str(key),))
    assert "horse" not in raised.value.message + raised.value.fix


def test_an_endpoint_without_a_key_says_so(sshd: Sshd, tmp_path: Path) -> None:
    endpoint: Endpoint = replace(sshd.endpoint, identity_files=(str(tmp_path / "none"),))
    with pytest.raises(AuthenticationFailed, match="not let in as") as raised:
        SshOpener(OpenOptions())(endpoint)
    assert "does not exist: correct identity_file" in raised.value.fix
    with pytest.raises(AuthenticationFailed, match="tried nothing: no agent, no key file") as raised:
        SshOpener(OpenOptions())(replace(endpoint, identity_files=()))
    assert raised.value.fix.startswith(f"is {endpoint.user} the right user? ")
    assert "ssh-copy-id" not in raised.value.fix  # which would be refused as well: no password counts
    assert "`ssh-keygen -t ed25519` makes added" in raised.value.fix
    assert raised.value.fix.endswith(f"added to ~{endpoint.user}/.ssh/authorized_keys on the host")


# Between a command and its sshd is a login shell, where that does not replace itself.
OWN_SSHD = "p=$PPID; until grep -q ^sshd /proc/$p/comm; do p=$(cut -d ' ' -f 4 /proc/$p/stat); done; echo $p"


def test_a_command_is_given_up_in_its_own_time_where_the_host_opens_no_session(sshd: Sshd) -> None:
    with sshd.open(connect_timeout_s=60.0) as connection:
        session = int(connection.run(["sh", "-c", OWN_SSHD]).stdout)
        os.kill(session, signal.SIGSTOP)
        try:
            with pytest.raises(ConnectionTimedOut, match=r"it opened no session within 0\S* s"):
                connection.run(["true"], timeout_s=0.5)
        finally:
            os.kill(session, signal.SIGCONT)
