"""What is offered to a host holds no SHA-1 and no MD5, with every version of paramiko that is allowed."""

import re
from pathlib import Path

import pytest

from launcher.errors import HostError
from tests.launcher.sshd import Sshd, keygen

WEAK = {
    "a MAC of SHA-1": ("Ciphers aes128-ctr", "MACs hmac-sha1"),
    "a MAC of MD5": ("Ciphers aes128-ctr", "MACs hmac-md5,hmac-md5-96"),
    "a key exchange of SHA-1": ("KexAlgorithms diffie-hellman-group14-sha1,diffie-hellman-group1-sha1",),
    "a host key of SHA-1": ("HostKeyAlgorithms ssh-rsa", "HostKey {rsa}"),
    "a cipher in CBC mode": ("Ciphers aes128-cbc",),
}


@pytest.mark.parametrize("options", WEAK.values(), ids=WEAK)
def test_a_host_that_has_only_weak_algorithms_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    rsa = tmp_path / "rsa"
    if any("{rsa}" in option for option in options):
        keygen(rsa, "rsa")
    with (
        Sshd.up(tmp_path / "sshd", *(option.format(rsa=rsa) for option in options)) as sshd,
        pytest.raises(HostError, match="no SSH algorithm in common"),
    ):
        sshd.open()


def test_no_weak_algorithm_is_offered(tmp_path: Path) -> None:
    with Sshd.up(tmp_path / "sshd") as sshd, sshd.open() as opened:
        wire = opened._wire  # type: ignore[attr-defined]
        options = wire.get_security_options()
        offered = {*options.kex, *options.digests, *options.key_types, *options.ciphers}
        offered |= {*wire._preferred_pubkeys, *wire.preferred_keys}
        assert len(offered) > 15
        weak = re.compile(r"sha1|md5|cbc|arcfour|3des|ssh-dss|^ssh-rsa|group1-")
        assert not [name for name in offered if weak.search(name)]
