"""Reaching hosts by SSH: every way it can fail is told apart, and no key is trusted unseen."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.errors import (
    AuthenticationFailed,
    ConnectionLost,
    ConnectionRefused,
    ConnectionTimedOut,
    HostError,
    HostKeyChanged,
    HostKeyUnknown,
    NameNotResolved,
)
from launcher.transports.base import Endpoint, OpenOptions
from launcher.transports.ssh.connection import SshConnection, SshOpener
from tests.launcher.sshd import Sshd

pytestmark = pytest.mark.slow

ACCEPT_NEW = OpenOptions(accept_new_host_keys=True)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    folder = tmp_path_factory.mktemp("sshd")
    keygen(folder / "host_rsa", "rsa")
    keygen(folder / "host_ecdsa", "ecdsa")
    keygen(folder / "ca", "ed25519")
    with Sshd.up(
        folder,
        f"HostKey {folder / 'host_ed25519'}",
        f"HostKey {folder / 'host_rsa'}",
        f"HostKey {folder / 'host_ecdsa'}",
        f"TrustedUserCAKeys {folder / 'ca.pub'}",
    ) as started:
        yield started


def keygen(path: Path, kind: str, passphrase: str = "") -> Path:
    argv = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", path.name, "-f", str(path)]
    subprocess.run(argv, check=True)
    return path


def authorize(sshd: Sshd, key: Path) -> None:
    with (sshd.folder / "authorized_keys").open("a") as stream:
        stream.write(Path(f"{key}.pub").read_text())


def fingerprint(key: Path) -> str:
    done = subprocess.run(["ssh-keygen", "-lf", str(key)], check=True, capture_output=True, text=True)
    return done.stdout.split()[1]


def public(key: Path) -> str:
    return " ".join(Path(f"{key}.pub").read_text().split()[:2])


def write(path: Path, text: str) -> tuple[str, ...]:
    path.write_text(text)
    return (str(path),)


# Getting to the port


def test_a_name_without_an_address_is_not_resolved(sshd: Sshd) -> None:
    with pytest.raises(NameNotResolved, match=r"titan: the name 'no-such-host.invalid' does not resolve"):
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
        assert time.monotonic() - started < 4


def test_a_service_that_is_not_ssh_is_told(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as web:
        threading.Thread(
            target=answer_once, args=(web, b"HTTP/1.1 400 Bad Request\r\n\r\n"), daemon=True
        ).start()
        with pytest.raises(HostError, match=r"does not speak SSH|no SSH banner"):
            sshd.open(port=web.getsockname()[1], connect_timeout_s=2.0)


def test_a_host_that_stops_in_the_handshake_times_out(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as half:
        threading.Thread(target=answer_once, args=(half, b"SSH-2.0-half\r\n", 5.0), daemon=True).start()
        with pytest.raises(ConnectionTimedOut, match="did not finish the SSH handshake within 1 s"):
            sshd.open(port=half.getsockname()[1], connect_timeout_s=1.0)


def answer_once(listener: socket.socket, words: bytes, hold_s: float = 0.0) -> None:
    caller, _ = listener.accept()
    with caller:
        caller.sendall(words)
        time.sleep(hold_s)


# Host keys


def test_an_unknown_key_is_refused_with_its_fingerprint_and_the_command_that_accepts_it(
    sshd: Sshd, tmp_path: Path
) -> None:
    with pytest.raises(HostKeyUnknown) as told:
        sshd.open(known_hosts_files=write(tmp_path / "kh", ""))
    assert fingerprint(sshd.folder / "host_ed25519") in told.value.message
    assert "gpulaunch preflight titan --accept-new-host-keys" in told.value.fix


def test_a_new_key_is_saved_when_asked_and_known_from_then_on(sshd: Sshd, tmp_path: Path) -> None:
    files = write(tmp_path / "kh", "other ssh-ed25519 AAAA")  # no newline at its end
    sshd.open(ACCEPT_NEW, known_hosts_files=files).close()
    sshd.open(known_hosts_files=files).close()
    lines = Path(files[0]).read_text().splitlines()
    assert lines[1] == f"[127.0.0.1]:{sshd.port} {public(sshd.folder / 'host_ed25519')}"


def test_a_new_key_is_saved_without_its_hosts_name_where_ssh_config_says_so(
    sshd: Sshd, tmp_path: Path
) -> None:
    files = write(tmp_path / "kh", "")
    sshd.open(ACCEPT_NEW, known_hosts_files=files, hash_known_hosts=True).close()
    sshd.open(known_hosts_files=files).close()
    assert "127.0.0.1" not in Path(files[0]).read_text()
    found = ["ssh-keygen", "-F", f"[127.0.0.1]:{sshd.port}", "-f", files[0]]
    subprocess.run(found, check=True, capture_output=True)


@pytest.mark.parametrize("options", [OpenOptions(), ACCEPT_NEW])
def test_a_changed_key_is_never_accepted(sshd: Sshd, tmp_path: Path, options: OpenOptions) -> None:
    other = keygen(tmp_path / "other", "ed25519")
    files = write(tmp_path / "kh", f"[127.0.0.1]:{sshd.port} {public(other)}\n")
    with pytest.raises(HostKeyChanged) as told:
        sshd.open(options, known_hosts_files=files)
    assert fingerprint(other) in told.value.message
    assert fingerprint(sshd.folder / "host_ed25519") in told.value.message
    assert "ssh-keygen -R" in told.value.fix
    assert Path(files[0]).read_text().count("\n") == 1


@pytest.mark.parametrize("kind", ["host_rsa", "host_ecdsa", "host_ed25519"])
def test_the_key_type_that_is_known_is_the_one_asked_for(sshd: Sshd, tmp_path: Path, kind: str) -> None:
    files = write(tmp_path / "kh", f"[127.0.0.1]:{sshd.port} {public(sshd.folder / kind)}\n")
    sshd.open(known_hosts_files=files).close()


def test_a_key_may_be_known_to_the_system_alone(sshd: Sshd, tmp_path: Path) -> None:
    entry = f"[127.0.0.1]:{sshd.port} {public(sshd.folder / 'host_ed25519')}\n"
    system, users = write(tmp_path / "system", entry), write(tmp_path / "users", "")
    sshd.open(known_hosts_files=users, system_known_hosts_files=system).close()
    with pytest.raises(HostKeyUnknown):
        sshd.open(known_hosts_files=users, system_known_hosts_files=("/dev/null",))


def test_hashed_entries_are_known(sshd: Sshd, tmp_path: Path) -> None:
    files = write(tmp_path / "kh", f"[127.0.0.1]:{sshd.port} {public(sshd.folder / 'host_ed25519')}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", files[0]], check=True, capture_output=True)
    assert Path(files[0]).read_text().startswith("|1|")
    sshd.open(known_hosts_files=files).close()


def test_a_revoked_key_is_refused_though_it_is_listed(sshd: Sshd, tmp_path: Path) -> None:
    key = public(sshd.folder / "host_ed25519")
    files = write(tmp_path / "kh", f"[127.0.0.1]:{sshd.port} {key}\n@revoked * {key}\n")
    with pytest.raises(HostKeyChanged, match="REVOKED"):
        sshd.open(ACCEPT_NEW, known_hosts_files=files)


def test_an_authority_that_has_signed_nothing_makes_no_key_known(sshd: Sshd, tmp_path: Path) -> None:
    files = write(tmp_path / "kh", f"@cert-authority * {public(sshd.folder / 'host_ed25519')}\n")
    with pytest.raises(HostKeyUnknown, match="it shows no certificate of the @cert-authority"):
        sshd.open(known_hosts_files=files)


def test_new_keys_are_taken_where_ssh_config_says_so(sshd: Sshd, tmp_path: Path) -> None:
    files = write(tmp_path / "kh", "")
    sshd.open(known_hosts_files=files, new_host_keys="accept").close()
    sshd.open(known_hosts_files=files).close()


def test_no_checking_lets_new_keys_in_and_changed_ones_never(sshd: Sshd, tmp_path: Path) -> None:
    sshd.open(known_hosts_files=("/dev/null",), new_host_keys="unchecked").close()
    other = keygen(tmp_path / "other", "ed25519")
    files = write(tmp_path / "kh", f"[127.0.0.1]:{sshd.port} {public(other)}\n")
    with pytest.raises(HostKeyChanged, match="lets new keys in, never changed ones"):
        sshd.open(known_hosts_files=files, new_host_keys="unchecked")


# Authentication


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_every_kind_of_key_lets_in(sshd: Sshd, tmp_path: Path, kind: str) -> None:
    key = keygen(tmp_path / "key", kind)
    authorize(sshd, key)
    with sshd.open(identity_files=(str(key),)) as opened:
        assert opened.run(("echo", "in")).stdout == b"in\n"


def test_a_certificate_beside_the_key_lets_in(sshd: Sshd, tmp_path: Path) -> None:
    key = keygen(tmp_path / "key", "ed25519")
    argv = [
        "ssh-keygen",
        "-q",
        "-s",
        str(sshd.folder / "ca"),
        "-I",
        "t",
        "-n",
        sshd.endpoint.user,
        f"{key}.pub",
    ]
    subprocess.run(argv, check=True, capture_output=True)
    sshd.open(identity_files=(str(key),)).close()


@pytest.mark.parametrize("from_agent", [False, True])
def test_a_certificate_file_goes_with_the_key_that_it_certifies(
    sshd: Sshd, tmp_path: Path, agent: str, *, from_agent: bool
) -> None:
    key, other = keygen(tmp_path / "key", "ed25519"), keygen(tmp_path / "other", "ed25519")
    sign = ["ssh-keygen", "-q", "-s", str(sshd.folder / "ca"), "-I", "t", "-n", sshd.endpoint.user]
    subprocess.run([*sign, f"{key}.pub"], check=True, capture_output=True)
    certificate = tmp_path / "elsewhere.pub"
    (tmp_path / "key-cert.pub").rename(certificate)
    if from_agent:
        subprocess.run(["ssh-add", "-q", str(key)], check=True, env=os.environ | {"SSH_AUTH_SOCK": agent})
        key.unlink()
    files = (str(other), str(key))
    with pytest.raises(AuthenticationFailed):
        sshd.open(identity_files=files, identity_agent=agent)
    sshd.open(identity_files=files, identity_agent=agent, certificate_files=(str(certificate),)).close()


def test_a_certificate_file_that_is_none_is_named(sshd: Sshd, tmp_path: Path) -> None:
    key = keygen(tmp_path / "key", "ed25519")
    with pytest.raises(AuthenticationFailed) as told:
        sshd.open(identity_files=(str(key),), certificate_files=(f"{key}.pub", str(tmp_path / "absent")))
    assert f"certificate {key}.pub: not an SSH certificate" in told.value.message
    assert f"certificate {tmp_path / 'absent'}: no such file" in told.value.message


def test_a_passphrase_is_asked_for_once_for_all_hosts(sshd: Sshd, tmp_path: Path) -> None:
    key = keygen(tmp_path / "key", "ed25519", "open sesame")
    authorize(sshd, key)
    asked: list[str] = []

    def prompt(question: str) -> str:
        asked.append(question)
        return "open sesame"

    opener = SshOpener(OpenOptions(prompt=prompt))
    for _ in range(3):
        opener(replace(sshd.endpoint, identity_files=(str(key),))).close()
    assert asked == [f"Passphrase for {key}: "]


def test_without_a_terminal_nothing_is_asked_and_the_message_says_what_was_tried(
    sshd: Sshd, tmp_path: Path
) -> None:
    locked = keygen(tmp_path / "locked", "ed25519", "secret")
    stranger = keygen(tmp_path / "stranger", "ed25519")
    with pytest.raises(AuthenticationFailed) as told:
        sshd.open(identity_files=(str(locked), str(stranger), str(tmp_path / "absent")))
    assert f"{locked}: encrypted, and there is no terminal" in told.value.message
    assert f"key {stranger}" in told.value.message
    assert f"{tmp_path / 'absent'}: no such file" in told.value.message
    assert "the host takes publickey" in told.value.message
    assert told.value.fix.startswith(
        f"{tmp_path / 'absent'} does not exist: correct identity_file in hosts.yaml"
    )


def test_a_file_that_is_no_key_is_named(sshd: Sshd, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationFailed, match="junk: not a usable private key"):
        sshd.open(identity_files=write(tmp_path / "junk", "\0garbage"))


def test_an_identity_file_that_never_ends_is_not_read(sshd: Sshd, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "key").write_text("a key")
    (tmp_path / "key-cert.pub").symlink_to("/dev/zero")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    for name, why in (
        ("fifo", "not a regular file"),
        ("zero", "not a regular file"),
        ("key", "not a regular file"),
        ("huge", "too large for a key"),
    ):
        with pytest.raises(AuthenticationFailed, match=f"{name}: {why}"):
            sshd.open(identity_files=(str(tmp_path / name),))
        with pytest.raises(AuthenticationFailed, match=why):
            sshd.open(
                certificate_files=(str(tmp_path / name.replace("key", "key-cert.pub")),), identity_files=()
            )


def test_a_host_that_hangs_up_on_too_many_keys_is_an_authentication_failure(
    sshd: Sshd, tmp_path: Path
) -> None:
    keys = tuple(str(keygen(tmp_path / f"key{number}", "ed25519")) for number in range(8))
    with pytest.raises(AuthenticationFailed, match="hung up"):
        sshd.open(identity_files=keys)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 10
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    yield str(path)
    process.terminate()
    process.wait()


def test_keys_of_the_agent_let_in(sshd: Sshd, tmp_path: Path, agent: str) -> None:
    key = keygen(tmp_path / "key", "rsa")
    authorize(sshd, key)
    subprocess.run(["ssh-add", "-q", str(key)], check=True, env=os.environ | {"SSH_AUTH_SOCK": agent})
    sshd.open(identity_files=(str(tmp_path / "absent"),), identity_agent=agent).close()
    with pytest.raises(AuthenticationFailed):
        sshd.open(identity_files=(str(tmp_path / "absent"),), identity_agent=agent, identities_only=True)


def test_an_encrypted_key_that_the_agent_holds_needs_no_passphrase(
    sshd: Sshd, tmp_path: Path, agent: str
) -> None:
    key = keygen(tmp_path / "key", "ed25519")
    authorize(sshd, key)
    subprocess.run(["ssh-add", "-q", str(key)], check=True, env=os.environ | {"SSH_AUTH_SOCK": agent})
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-N", "secret", "-f", str(key)], check=True, capture_output=True
    )
    sshd.open(identity_files=(str(key),), identity_agent=agent, identities_only=True).close()


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
    with pytest.raises(ConnectionRefused, match="from jump host hop"):
        sshd.open(jumps=(hop,), port=port)
    with pytest.raises(ConnectionRefused, match=r"titan: jump host hop: 127\.0\.0\.1 port"):
        sshd.open(jumps=(replace(hop, port=port),))


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


def test_a_connection_that_dies_ends_its_streams(sshd: Sshd) -> None:
    with sshd.open() as opened:
        stream = opened.start(("sh", "-c", "echo up; sleep 30"))
        assert stream.read(20) == b"up\n"
        opened.close()
        assert stream.read(5) == b""
        with pytest.raises(ConnectionLost):
            stream.wait(5)
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
    with pytest.raises(AuthenticationFailed) as told:
        sshd.open(OpenOptions(prompt=lambda _question: "wrong horse"), identity_files=(str(key),))
    assert "horse" not in told.value.message + told.value.fix


def test_an_endpoint_without_a_key_says_so(sshd: Sshd, tmp_path: Path) -> None:
    endpoint: Endpoint = replace(sshd.endpoint, identity_files=(str(tmp_path / "none"),))
    with pytest.raises(AuthenticationFailed, match="not let in as"):
        SshOpener(OpenOptions())(endpoint)
