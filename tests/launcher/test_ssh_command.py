"""The ssh command of a message reaches what gpulaunch reaches, by the word of ssh itself."""

import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from launcher.config.inventory import HostEntry, Inventory
from launcher.transports.base import Connection, Endpoint
from launcher.transports.ssh.endpoint import build_endpoint
from launcher.transports.ssh.ssh_command import format_login, format_ssh_command, format_ssh_copy_id

BASTION = HostEntry("bastion", "192.0.2.1", 2222, "eve")
DEEP = HostEntry("deep", "192.0.2.2", identity_file="/etc/hostname", jump=("bastion",))
CASES = {
    "a name of ssh_config": (HostEntry("titan"), "ssh titan true"),
    "user and port of the command line": (
        HostEntry("ada@titan:7", port=7, user="ada", alias="titan"),
        "ssh -p 7 ada@titan true",
    ),
    "an address of hosts.yaml": (
        HostEntry("l40s", "192.0.2.5", 40022, "root", "/etc/passwd"),
        "ssh -p 40022 -i /etc/passwd root@192.0.2.5 true",
    ),
    "an address, and lines of ssh_config for the name": (
        HostEntry("titan", "192.0.2.5"),
        "ssh -o HostName=192.0.2.5 titan true",
    ),
    "a jump host of hosts.yaml": (
        HostEntry("n1", "192.0.2.9", jump=("bastion",)),
        "ssh -J eve@192.0.2.1:2222 192.0.2.9 true",
    ),
    "no jump host": (HostEntry("titan", jump=("none",)), "ssh -o ProxyJump=none titan true"),
    "a jump host by IPv6": (HostEntry("n1", "::1", jump=("ada@[::2]:5",)), "ssh -J 'ada@[::2]:5' ::1 true"),
}
CONFIG = (
    "Host *\n  HashKnownHosts yes\n  SendEnv LANG\nHost titan\n"
    "  HostName 198.51.100.4\n  User bob\n  IdentityFile /titan\n  ProxyJump gate\n"
)


def endpoint(tmp_path: Path, entry: HostEntry, key: str = "") -> Endpoint:
    (tmp_path / "config").write_text(CONFIG)
    listed = {one.name: one for one in (entry, BASTION, DEEP)}
    return build_endpoint(entry, Inventory(hosts=listed, identity_file=key), tmp_path / "config")


def read_by_ssh(tmp_path: Path, words: list[str]) -> dict[str, str]:
    """Return what `ssh -G` would do, the first value of each keyword."""
    argv = ["ssh", "-G", "-F", str(tmp_path / "config"), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=20)
    return dict(line.split(" ", 1) for line in reversed(done.stdout.splitlines()) if " " in line)


@pytest.mark.parametrize("name", CASES)
def test_the_command_goes_where_gpulaunch_goes(tmp_path: Path, name: str) -> None:
    entry, line = CASES[name]
    got = endpoint(tmp_path, entry)
    assert format_ssh_command(got.ssh_words, ("true",)) == line
    said = read_by_ssh(tmp_path, shlex.split(line)[1:-1])
    assert (said["hostname"], int(said["port"]), said["user"]) == (got.address, got.port, got.user)
    assert bool(said.get("proxyjump")) == bool(got.jumps)
    assert not got.identity_files or said["identityfile"] == got.identity_files[0]


def test_jump_hosts_with_keys_of_their_own_become_commands(tmp_path: Path) -> None:
    entry = HostEntry("n1", "192.0.2.9", jump=("deep",))
    words = list(endpoint(tmp_path, entry).ssh_words)
    said = read_by_ssh(tmp_path, words)
    inner = shlex.split(said["proxycommand"].replace("%%", "%"))
    assert inner == ["ssh", "-i", "/etc/hostname", "-J", "eve@192.0.2.1:2222", "-W", "[%h]:%p", "192.0.2.2"]
    assert read_by_ssh(tmp_path, inner[1:-3] + inner[-1:])["identityfile"] == "/etc/hostname"


def test_the_key_of_the_command_goes_to_the_jump_host_too(tmp_path: Path) -> None:
    entry = HostEntry("n1", "192.0.2.9", jump=("bastion",))
    words = endpoint(tmp_path, entry, "/key").ssh_words
    assert words[:2] == ("-i", "/key")
    assert "-i /key" in words[3]


def test_ssh_copy_id_gets_its_jump_hosts_by_an_option_that_it_has(tmp_path: Path) -> None:
    entry = HostEntry("n1", "192.0.2.9", jump=("bastion",))
    line = format_ssh_copy_id(endpoint(tmp_path, entry))
    assert line == "ssh-copy-id -o ProxyJump=eve@192.0.2.1:2222 192.0.2.9"


@pytest.mark.parametrize(
    "line",
    [
        "ssh a",
        """ssh -p 22 -i '/a b/c'"'"'s' -J x,y root@h""",
        "ssh -o 'ProxyCommand=ssh -W [%h]:%p j' h",
        "",  # this machine
        "ssh -p 22 h docker exec -i x",
        "ssh h 'docker exec x'",
        "ssh -p 22 h sudo",
        "srun --overlap -N1 -n1 -w n",
    ],
)
def test_a_login_has_no_command_of_a_container(line: str) -> None:
    connection = cast("Connection", SimpleNamespace(name="titan", command_line=lambda _: line))
    is_login = line.startswith("ssh") and "docker" not in line and "sudo" not in line
    assert format_login(connection) == (line if is_login else "titan")
