"""Who may write ssh_config: its commands run as the user who reads it."""

import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from launcher.config.inventory import HostEntry, Inventory
from launcher.errors import ConfigError
from launcher.local.user import is_open_to_others
from launcher.transports.ssh import config_parser
from launcher.transports.ssh.endpoint import build_endpoint


@pytest.mark.parametrize(
    ("mode", "refused"), [(0o600, False), (0o644, False), (0o666, True), (0o646, True), (0o604, False)]
)
def test_an_own_config_that_others_may_write_is_refused_as_ssh_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, *, refused: bool
) -> None:
    """Its ProxyCommand and Match exec run as this user. One that is named, as with ssh -F, is taken."""
    monkeypatch.setenv("HOME", str(tmp_path))
    own, part = tmp_path / ".ssh/config", tmp_path / ".ssh/part"
    own.parent.mkdir()
    own.write_text("Include part\nHost titan\n  Port 2222\n")
    part.write_text("Host l40s\n  Port 2223\n")
    for file, other in ((own, part), (part, own)):
        file.chmod(mode)
        other.chmod(0o600)
        config_parser._files.cache_clear()
        config_parser._read.cache_clear()
        if refused:
            with pytest.raises(ConfigError) as caught:
                build_endpoint(HostEntry("titan"), Inventory())
            assert caught.value.message.endswith(f"chown $USER {file}; chmod go-w {file}")
        else:
            assert build_endpoint(HostEntry("titan"), Inventory()).port == 2222
        assert build_endpoint(HostEntry("l40s"), Inventory(), own).port == 2223
    config_parser._files.cache_clear()
    config_parser._read.cache_clear()


def test_a_group_of_the_user_alone_may_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, user = tmp_path / "config", pwd.getpwuid(os.geteuid())
    config.touch()
    config.chmod(0o660)
    for name, members, shared in (
        (user.pw_name, [], False),
        (user.pw_name, ["bob"], True),
        ("lab", [], True),
    ):
        group = SimpleNamespace(gr_name=name, gr_mem=members)
        monkeypatch.setattr("grp.getgrgid", lambda _, group=group: group)
        monkeypatch.setattr(
            "pwd.getpwuid", lambda _: SimpleNamespace(pw_name=user.pw_name, pw_gid=os.getegid())
        )
        assert is_open_to_others(config.stat()) is shared
