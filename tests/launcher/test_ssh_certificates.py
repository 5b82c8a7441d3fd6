"""Host certificates: an authority of known_hosts vouches for a host, and for what it has signed only."""

import base64
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.errors import HostKeyChanged, HostKeyUnknown
from launcher.transports.base import OpenOptions
from launcher.transports.ssh.certificates import check_host_certificate
from tests.launcher.sshd import Sshd, keygen, public

pytestmark = pytest.mark.slow

KINDS = ("ed25519", "rsa", "ecdsa")


def sign(authority: Path, key: Path, *options: str) -> Path:
    argv = ["ssh-keygen", "-q", "-s", str(authority), "-I", key.name, *options, f"{key}.pub"]
    subprocess.run(argv, check=True, capture_output=True)
    return key.with_name(f"{key.name}-cert.pub")


def known(folder: Path, *lines: str) -> tuple[str, ...]:
    file = folder / "kh"
    file.write_text("".join(f"{line}\n" for line in lines))
    return (str(file),)


@pytest.fixture(scope="module", params=KINDS)
def sshd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """Show a host key of one kind with its certificate."""
    folder = tmp_path_factory.mktemp("sshd")
    authority = keygen(folder / "ca", "ed25519" if request.param != "ed25519" else "rsa")
    key = keygen(folder / "host", request.param)
    certificate = sign(authority, key, "-h", "-n", "127.0.0.1,gpu.cluster")
    with Sshd.up(folder, f"HostKey {key}", f"HostCertificate {certificate}") as started:
        yield started


def test_a_host_whose_certificate_an_authority_signed_is_known(sshd: Sshd, tmp_path: Path) -> None:
    files = known(tmp_path, f"@cert-authority [127.0.0.1]:* {public(sshd.folder / 'ca')}")
    sshd.open(known_hosts_files=files).close()
    sshd.open(known_hosts_files=known(tmp_path, f"@cert-authority * {public(sshd.folder / 'ca')}")).close()


def test_a_certificate_wins_over_an_older_key_in_known_hosts(sshd: Sshd, tmp_path: Path) -> None:
    older = keygen(tmp_path / "older", "ed25519")
    name = f"[127.0.0.1]:{sshd.port}"
    files = known(tmp_path, f"{name} {public(older)}", f"@cert-authority * {public(sshd.folder / 'ca')}")
    sshd.open(known_hosts_files=files).close()


def test_another_authority_vouches_for_nothing(sshd: Sshd, tmp_path: Path) -> None:
    files = known(tmp_path, f"@cert-authority * {public(keygen(tmp_path / 'other', 'ed25519'))}")
    with pytest.raises(HostKeyUnknown, match="not a @cert-authority for it"):
        sshd.open(known_hosts_files=files)


def test_a_known_key_needs_no_authority_that_signed_it(sshd: Sshd, tmp_path: Path) -> None:
    name = f"[127.0.0.1]:{sshd.port}"
    other = f"@cert-authority * {public(keygen(tmp_path / 'other', 'ed25519'))}"
    sshd.open(known_hosts_files=known(tmp_path, other, f"{name} {public(sshd.folder / 'host')}")).close()


def test_a_certificate_for_other_names_is_refused_though_new_keys_are_accepted(
    sshd: Sshd, tmp_path: Path
) -> None:
    files = known(tmp_path, f"@cert-authority * {public(sshd.folder / 'ca')}")
    sshd.open(known_hosts_files=files, host_key_alias="gpu.cluster").close()
    with pytest.raises(HostKeyUnknown, match=r"it is for 127.0.0.1, gpu.cluster, not for titan"):
        sshd.open(OpenOptions(accept_new_host_keys=True), known_hosts_files=files, host_key_alias="titan")


@pytest.mark.parametrize("revoked", ["ca", "host"])
def test_a_revoked_authority_or_key_is_refused(sshd: Sshd, tmp_path: Path, revoked: str) -> None:
    authority = f"@cert-authority * {public(sshd.folder / 'ca')}"
    files = known(tmp_path, authority, f"@revoked * {public(sshd.folder / revoked)}")
    with pytest.raises(HostKeyChanged, match="REVOKED"):
        sshd.open(known_hosts_files=files)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-h", "-n", "titan"), ""),
        (("-h",), ""),
        (("-n", "titan"), "it is a user's, not a host's"),
        (("-h", "-n", "titan", "-V", "20200101:20200201"), "it has expired"),
        (("-h", "-n", "titan", "-V", "20990101:20990201"), "it is not valid yet"),
        (("-h", "-n", "l40s-01"), "it is for l40s-01, not for titan"),
        (("-h", "-n", "*"), "it is for *, not for titan"),
        (("-h", "-n", "ti*,t?tan,!x"), "it is for ti*, t?tan, !x, not for titan"),
    ],
)
def test_what_a_certificate_must_say(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    file = sign(keygen(tmp_path / "ca", "ed25519"), keygen(tmp_path / "host", "ed25519"), *options)
    kind, text, *_ = file.read_text().split()
    found = check_host_certificate(base64.b64decode(text), kind, "titan", time.time())
    assert found is not None
    assert found.problem.startswith(words)
    assert bool(found.problem) == bool(words)


def test_an_altered_certificate_vouches_for_nothing(tmp_path: Path) -> None:
    file = sign(keygen(tmp_path / "ca", "ed25519"), keygen(tmp_path / "host", "ed25519"), "-h", "-n", "other")
    kind, text, *_ = file.read_text().split()
    altered = base64.b64decode(text).replace(b"other", b"titan")
    found = check_host_certificate(altered, kind, "titan", time.time())
    assert found is not None
    assert found.problem == "its signature is wrong"
    assert check_host_certificate(altered[:-9], kind, "titan", time.time()) is None


def test_a_signature_by_sha1_vouches_for_nothing(tmp_path: Path) -> None:
    authority, key = keygen(tmp_path / "ca", "rsa"), keygen(tmp_path / "host", "ed25519")
    file = sign(authority, key, "-h", "-n", "titan", "-t", "ssh-rsa")
    kind, text, *_ = file.read_text().split()
    found = check_host_certificate(base64.b64decode(text), kind, "titan", time.time())
    assert found is not None
    assert found.problem == "it is signed with SHA-1"
