"""Fixtures that several modules share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launcher.onhost_driver import Driver
from tests.launcher.sshd import Sshd, keygen


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


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(tmp_path)
    yield driver
    driver.kill_everything()


@pytest.fixture
def config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty configuration directory of the user's."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config" / "gpulaunch"
    folder.mkdir(parents=True)
    return folder
