"""A host that has IPv6 alone: as its address in hosts.yaml, on the command line, behind a jump host."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.config.inventory import Inventory
from launcher.config.inventory_reader import load_inventory
from launcher.transports.base import Connection, OpenOptions
from launcher.transports.ssh.endpoint import build_opener
from tests.lab import needs
from tests.launcher.sshd import Sshd


@pytest.fixture(scope="module", name="sshd")
def _sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    needs.require_ipv6()
    # 127.0.0.1 is for who waits for it to start; no test goes there
    with Sshd.up(tmp_path_factory.mktemp("sshd"), "ListenAddress 127.0.0.1", "ListenAddress ::1") as started:
        key = " ".join(started.known_hosts.read_text().split()[1:3])
        started.known_hosts.write_text(f"[::1]:{started.port} {key}\n")
        yield started


def opened(sshd: Sshd, folder: Path, inventory: Inventory, word: str) -> Connection:
    config = folder / "config"
    config.write_text(
        f"Host *\n IdentityFile {sshd.identity}\n IdentityAgent none\n"
        f" UserKnownHostsFile {sshd.known_hosts}\n"
        f"Host by-name\n HostName ::1\n Port {sshd.port}\n"
    )
    return build_opener(inventory, OpenOptions(), config)(inventory.resolve([word])[0])


@pytest.mark.parametrize("word", ["[::1]:{port}", "titan", "behind", "by-name", "in-brackets"])
def test_a_host_with_ipv6_alone_is_reached(sshd: Sshd, tmp_path: Path, word: str) -> None:
    (tmp_path / "hosts.yaml").write_text(
        f"defaults: {{port: {sshd.port}}}\n"
        "hosts:\n  titan: {address: '::1'}\n  in-brackets: {address: '[::1]'}\n"
        f"  behind: {{address: '::1', jump: '[::1]:{sshd.port}'}}\n"
    )
    inventory = load_inventory(tmp_path / "hosts.yaml")
    with opened(sshd, tmp_path, inventory, word.format(port=sshd.port)) as connection:
        variables = connection.run(("sh", "-c", "echo $SSH_CONNECTION")).stdout.decode()
    assert variables.split()[2] == "::1"


def test_a_key_of_an_ipv6_host_is_saved_as_ssh_saves_it(sshd: Sshd, tmp_path: Path) -> None:
    files = (str(tmp_path / "kh"),)
    sshd.open(OpenOptions(accept_new_host_keys=True), address="::1", known_hosts_files=files).close()
    assert (tmp_path / "kh").read_text().split()[0] == f"[::1]:{sshd.port}"
    sshd.open(address="::1", known_hosts_files=files).close()
