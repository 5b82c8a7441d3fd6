"""Every way in which a host cannot be used, through the real command line, sshd and network."""

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import clock, files, network, software, sshd
from tests.lab.client import Client, document, finding, unusable
from tests.lab.hosts import Lab, LabHost

pytestmark = pytest.mark.lab

CONNECT_TIMEOUT_S = 4  # a handshake takes long on a busy machine
ESCAPES = b"\x1b]0;owned\x07\x1b[31mMOTD \xff\xfe \xe2\x80\xae\r\n"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Five hosts that the tests of this module break and mend."""
    with Lab.up(5, tmp_path_factory.mktemp("reaching") / "lab") as lab:
        yield lab


@pytest.fixture(scope="module", autouse=True)
def silent(hosts: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator["subprocess.Popen[bytes]"]:
    """A preflight of an interpreter that never answers: it goes on beside all other tests."""
    last = hosts.hosts[4]
    client = Client(hosts, tmp_path_factory.mktemp("silent") / "home")
    client.write({last.name: {"python": software.slow_python(last, 600)}})
    with client.start("preflight", last.name, "--gpus", "none", "--json") as process:
        yield process
        process.kill()


@pytest.fixture
def client(hosts: Lab, tmp_path: Path) -> Iterator[Client]:
    """A user who reaches the hosts; a test that leaves one of them broken fails."""
    yield Client(hosts, tmp_path / "home", connect_timeout_s=CONNECT_TIMEOUT_S)
    assert all(sshd.is_well(host) for host in hosts.hosts)


def old_python(host: LabHost) -> str:
    """An interpreter that runs what it is given as Python 3.6 would say it is."""
    forged = "import sys; sys.version_info = (3, 6, 8); sys.version = '3.6.8 (lab)'; exec(sys.argv[-1])"
    script = f'#!/bin/sh\nexec {sys.executable} -I -c "{forged}" "$@"\n'
    return host.put("/usr/local/bin/old-python", script, mode=0o755)


def test_every_way_to_fail_has_its_own_code_and_is_only_its_own_hosts_matter(client: Client) -> None:
    well, broken, closed, frozen, _ = client.lab.hosts
    silent = [f"silent{number}" for number in range(8)]
    stranger = client.home / "stranger"
    stranger.write_text(files.new_key()[0])
    client.write(
        {
            well.name: {},
            "unresolved": {"address": "no-such-host.invalid"},
            "refused": {"address": closed.address},
            **{name: client.entry(broken, address=client.lab.silent_address()) for name in silent},
            "frozen": client.entry(frozen),
            "stranger": client.entry(broken, identity_file=str(stranger)),
            "no-python": client.entry(broken, python="/opt/absent/bin/python"),
            "old-python": client.entry(broken, python=old_python(broken)),
            "crashing": client.entry(broken, python=software.crashing_python(broken)),
            "garbage": client.entry(broken, python=software.garbage_python(broken)),
        }
    )
    sshd.kill(closed)
    sshd.freeze(frozen)
    try:
        answer = client.preflight("all")
    finally:
        sshd.thaw(frozen)
        sshd.start(closed)
    assert unusable(answer) == {
        "unresolved": "HOST002",
        "refused": "HOST003",
        **dict.fromkeys(silent, "HOST004"),
        "frozen": "HOST004",
        "stranger": "HOST007",
        "no-python": "HOST008",
        "old-python": "HOST008",
        "crashing": "HOST009",
        "garbage": "HOST010",
    }
    assert answer["hosts"][well.name]["reached"]
    assert answer["seconds"] < len(silent) * CONNECT_TIMEOUT_S / 2, "time-outs run side by side"

    def message(host: str, code: str) -> str:
        return str(finding(answer, host, code)["message"])

    assert "no SSH banner" in message("frozen", "HOST004")
    assert f"key {stranger}" in message("stranger", "HOST007")
    assert "the host takes publickey" in message("stranger", "HOST007")
    assert "/opt/absent/bin/python cannot be started" in message("no-python", "HOST008")
    assert "is Python 3.6.8; gpulaunch needs 3.9" in message("old-python", "HOST008")
    assert "cannot load libpython3.so" in message("crashing", "HOST009")
    assert "Segmentation fault" in message("garbage", "HOST010")
    assert all(
        finding(answer, name, code)["fix"] for name, code in unusable(answer).items() if name != "crashing"
    )
    assert "\x1b" not in str(answer)


def test_a_cut_cable_costs_one_time_out(client: Client) -> None:
    well, cut = client.lab.hosts[:2]
    network.cut(cut)
    try:
        answer = client.preflight(well.name, cut.name)
    finally:
        network.restore(cut)
    assert unusable(answer)[cut.name] in ("HOST001", "HOST004")  # no route, or no answer: what ARP still knew
    assert answer["hosts"][well.name]["reached"]
    assert answer["seconds"] < CONNECT_TIMEOUT_S + 8
    assert unusable(client.preflight(cut.name)) == {}


def test_a_slow_interpreter_is_waited_for(client: Client) -> None:
    host = client.lab.hosts[0]
    client.write({host.name: {"python": software.slow_python(host, 1.5)}})
    answer = client.preflight(host.name)
    assert answer["hosts"][host.name]["reached"]
    assert answer["seconds"] > 1.5


def test_an_interpreter_may_lie_where_a_shell_would_trip(client: Client) -> None:
    host = client.lab.hosts[0]
    place = "/opt/my env;exit 1/$HOME `id` 'x' \"y\"/python"
    host.path(place).parent.mkdir(parents=True)
    host.path(place).symlink_to(sys.executable)
    client.write({host.name: {"python": place}})
    assert unusable(client.preflight(host.name)) == {}


def test_an_unknown_host_key_is_refused_until_it_is_accepted_and_then_known(client: Client) -> None:
    host = client.lab.hosts[0]
    public = client.home / "host.pub"
    public.write_text(files.public_line(host.spec.host_key) + "\n")
    fingerprint = subprocess.run(
        ["ssh-keygen", "-lf", str(public)], check=True, capture_output=True, text=True
    ).stdout.split()[1]
    client.known_hosts.unlink()
    answer = finding(client.preflight(host.name), host.name, "HOST005")
    assert fingerprint in answer["message"]
    assert answer["fix"].endswith("the same command with --accept-new-host-keys")
    assert not client.known_hosts.exists()
    assert unusable(client.preflight(host.name, "--accept-new-host-keys")) == {}
    # Debian's own ssh_config asks for hashed names, so the file is asked as ssh asks it.
    search = ["ssh-keygen", "-F", host.address, "-f", str(client.known_hosts)]
    found = subprocess.run(search, capture_output=True, text=True, check=True).stdout
    assert found.split()[-2:] == public.read_text().split()[:2]
    assert unusable(client.preflight(host.name)) == {}


def test_a_changed_host_key_is_refused_whatever_is_asked(client: Client) -> None:
    host = client.lab.hosts[0]
    before = client.known_hosts.read_bytes()
    sshd.change_host_key(host)
    try:
        answer = [client.preflight(host.name), client.preflight(host.name, "--accept-new-host-keys")]
    finally:
        sshd.restore_host_key(host)
    for each in answer:
        refused = finding(each, host.name, "HOST006")
        assert "ITS HOST KEY HAS CHANGED" in refused["message"]
        assert f"ssh-keygen -R '{host.address}'" in refused["fix"]
    assert client.known_hosts.read_bytes() == before
    assert unusable(client.preflight(host.name)) == {}


def test_noise_of_a_login_shell_does_not_hide_the_answer(client: Client) -> None:
    host = client.lab.hosts[0]
    software.login_noise(host, ESCAPES + b"GPULAUNCH? no newline at the end")
    try:
        answer = client.preflight(host.name)
    finally:
        software.quiet_login(host)
    assert answer["hosts"][host.name]["reached"]


def test_escapes_of_a_host_do_not_reach_the_terminal(client: Client) -> None:
    host = client.lab.hosts[0]
    client.write({host.name: {"python": software.garbage_python(host, ESCAPES)}})
    code, screen = client.at_terminal((), "preflight", host.name, "--gpus", "none")
    assert code == 1
    assert "HOST010" in screen
    assert "MOTD" in screen
    assert "\x1b]0;" not in screen
    assert "\x1b[31mMOTD" not in screen
    assert "\u202e" not in screen


@pytest.mark.parametrize("said_in", ["hosts.yaml", "ssh_config"])
def test_a_host_behind_two_others_is_reached_through_both(client: Client, said_in: str) -> None:
    lab = client.lab
    gate, inner, host = lab.hosts[:3]
    network.put_behind(inner, gate)
    network.put_behind(host, inner)
    try:
        if said_in == "hosts.yaml":
            client.write({gate.name: {}, inner.name: {}, host.name: {"jump": [gate.name, inner.name]}})
        else:
            client.ssh_config(f"Host *\n    ConnectTimeout {CONNECT_TIMEOUT_S}\n{lab.ssh_config.read_text()}")
            client.inventory.write_text(f"defaults: {{python: {sys.executable}}}\nhosts: {{}}\n")
        assert unusable(client.preflight(host.name)) == {}
        sshd.kill(inner)
        try:
            answer = client.preflight(host.name)
        finally:
            sshd.start(inner)
    finally:
        network.take_out(lab)
    assert unusable(answer) == {host.name: "HOST003"}
    assert f"jump host {inner.name}" in finding(answer, host.name, "HOST003")["message"]


def test_a_proxy_command_that_fails_is_told_in_its_own_words(client: Client) -> None:
    name = client.lab.hosts[0].name
    client.ssh_config(f"Host {name}\n    ProxyCommand sh -c 'echo no tunnel today >&2; exit 3'\n")
    answer = client.preflight(name)
    assert "no tunnel today" in finding(answer, name, unusable(answer)[name])["message"]


def test_ctrl_c_ends_a_fan_out_at_once(hosts: Lab, tmp_path: Path) -> None:
    client = Client(hosts, tmp_path / "home", connect_timeout_s=50)
    silent = hosts.silent_address()
    client.write({f"silent{number}": {"address": silent} for number in range(8)})
    with client.start("preflight", "all", "--gpus", "none") as process:
        try:
            wait_for_attempts(silent, 8)
            started = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=90)
        finally:
            process.kill()
    assert process.returncode == 130
    assert time.monotonic() - started < 30  # no connect is waited for to its end
    assert b"Traceback" not in stderr


def wait_for_attempts(address: str, count: int) -> None:
    """Until this machine has sent so many connects (state 2, SYN_SENT) that nobody has answered."""
    remote = socket.inet_aton(address)[::-1].hex().upper() + ":0016 02"
    deadline = time.monotonic() + 20
    while Path("/proc/net/tcp").read_text().count(remote) < count:
        assert time.monotonic() < deadline, "no connection was tried"
        time.sleep(0.02)


@pytest.fixture
def password(client: Client) -> Iterator[str]:
    """The password of alice on the first host, which takes no key from this user."""
    host = client.lab.hosts[0]
    sshd.set_password(host, "alice", "open sesame")
    client.write({host.name: {"user": "alice"}})
    text = client.inventory.read_text()
    client.inventory.write_text(re.sub(r" *identity_file: .*\n", "", text))
    yield "open sesame"
    sshd.configure(host)


def test_a_password_is_asked_for_at_a_terminal_and_never_shown(client: Client, password: str) -> None:
    name = client.lab.hosts[0].name
    code, screen = client.at_terminal(("wrong", password), "preflight", name, "--gpus", "none")
    assert f"alice@{name}: password (ssh-copy-id " in screen
    assert screen.count(" spares it): ") == 2
    assert f"alice@{name}: not accepted; password (ssh-copy-id " in screen
    assert "HOST0" not in screen, screen
    assert password not in screen
    assert code in (0, 1)


def test_a_host_that_asks_through_pam_is_answered(client: Client, password: str) -> None:
    host = client.lab.hosts[0]
    host.put("/etc/pam.d/sshd", "".join(f"{what} required pam_unix.so\n" for what in ("auth", "account")))
    sshd.configure(host, "UsePAM yes", "KbdInteractiveAuthentication yes", "PasswordAuthentication no")
    code, screen = client.at_terminal((password,), "preflight", host.name, "--gpus", "none")
    assert "HOST0" not in screen, screen
    assert password not in screen
    assert code in (0, 1)


def test_without_a_terminal_no_password_is_asked_for(client: Client, password: str) -> None:
    name = client.lab.hosts[0].name
    answer = finding(client.preflight(name), name, "HOST007")
    assert "password: not asked for, there is no terminal" in answer["message"]
    assert password not in str(answer)


def test_the_key_that_the_command_names_opens_hosts_and_is_written_by_init(client: Client) -> None:
    host, key = client.lab.hosts[0], str(client.lab.identity_file)
    client.inventory.write_text("hosts: {}\n")
    word = f"root@{host.address}"
    assert unusable(client.preflight(word))[word].startswith("HOST")
    assert unusable(client.preflight(word, "--identity-file", key)) == {}
    done = client.run("init", "--hosts", word, "--identity-file", key, "--json")
    lines = document(done)["files"][0]["missing_lines"]
    client.inventory.write_text("hosts:\n" + "\n".join(lines) + "\n")
    assert unusable(client.preflight(host.address)) == {}


def test_a_passphrase_is_asked_for_once_for_all_hosts(client: Client) -> None:
    key = client.home / "locked"
    key.write_text(client.lab.identity_file.read_text())
    key.chmod(0o600)
    lock = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", str(key)]
    subprocess.run(lock, check=True, capture_output=True)
    names = [host.name for host in client.lab.hosts[:3]]
    client.write({name: {"identity_file": str(key)} for name in names})
    code, screen = client.at_terminal(("open sesame",), "preflight", *names, "--gpus", "none")
    assert screen.count(f"Passphrase for {key}:") == 1
    assert "HOST0" not in screen, screen
    assert "open sesame" not in screen
    assert code in (0, 1)


def test_a_name_of_its_own_that_is_loopback_is_found(client: Client) -> None:
    host, other = client.lab.hosts[:2]
    software.resolve_own_name_to(host)
    try:
        answer = client.preflight(host.name, other.name)
    finally:
        software.restore_own_name(host)
    assert "127.0.1.1" in finding(answer, host.name, "NET003")["message"]
    assert all(each["ok"] for each in answer["reach"]), "the launch uses an address, so it works all the same"


def test_a_firewall_between_two_nodes_stops_the_launch_and_names_both(client: Client) -> None:
    main, behind, free = client.lab.hosts[:3]
    network.block(main, source=behind)
    try:
        answer = client.preflight(main.name, behind.name, free.name)
    finally:
        network.unblock(main)
    stopped = finding(answer, behind.name, "NET004")
    assert stopped["blocks_launch"]
    assert main.address in stopped["message"]
    assert free.name not in stopped["hosts"]
    ok = {(each["from_host"], each["to_host"]): each["ok"] for each in answer["reach"]}
    assert ok == {
        (behind.name, main.name): False,
        (free.name, main.name): True,
        (main.name, behind.name): False,
        (main.name, free.name): True,
        (behind.name, free.name): True,
        (free.name, behind.name): True,
    }
    back = finding(answer, main.name, "NET005")
    assert (back["severity"], back["hosts"], behind.address in back["message"]) == (
        "warning",
        [main.name],
        True,
    )


def test_a_clock_that_is_off_is_found(client: Client) -> None:
    host, other = client.lab.hosts[:2]
    clock.prepare(host)
    clock.jump(host, 3600)
    try:
        answer = client.preflight(host.name, other.name)
        alone = client.preflight(host.name)
    finally:
        clock.jump(host, 0)
        host.path("/etc/ld.so.preload").unlink()
    off = finding(answer, host.name, "SYS003")
    assert "ahead of the others'" in off["message"]
    assert off["hosts"] == [host.name]
    assert (
        "60 min ahead of this machine's: one of the two is wrong"
        in finding(alone, host.name, "SYS003")["message"]
    )


def test_an_interpreter_that_never_answers_is_given_up(hosts: Lab, silent: "subprocess.Popen[bytes]") -> None:
    stdout, stderr = silent.communicate(timeout=50)
    answer = document(subprocess.CompletedProcess((), silent.returncode, stdout, stderr))
    name = hosts.hosts[4].name
    assert unusable(answer) == {name: "HOST011"}
    assert "did not answer in time; it sent nothing" in finding(answer, name, "HOST011")["message"]
