"""Which host keys are accepted, refused and kept, against a real sshd."""

import subprocess
from pathlib import Path

import pytest

from launcher.errors import HostKeyChanged, HostKeyUnknown
from launcher.transports.base import OpenOptions
from launcher.transports.ssh.host_keys import NewHostKey
from tests.launcher.sshd import ACCEPT_NEW, Sshd, fingerprint, keygen, public, write

pytestmark = pytest.mark.slow


def test_an_unknown_key_is_refused_with_its_fingerprint_and_the_option_that_accepts_it(
    sshd: Sshd, tmp_path: Path
) -> None:
    with pytest.raises(HostKeyUnknown) as raised:
        sshd.open(known_hosts_files=write(tmp_path / "kh", ""))
    assert fingerprint(sshd.folder / "host_ed25519") in raised.value.message
    assert raised.value.fix.endswith("if equal: the same command with --accept-new-host-keys")
    (tmp_path / "directory").mkdir()  # as of root's file, which others may not read
    with pytest.raises(HostKeyUnknown, match=r"/directory cannot be read: Is a directory\)"):
        sshd.open(known_hosts_files=(str(tmp_path / "directory"),))


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
    with pytest.raises(HostKeyChanged) as raised:
        sshd.open(options, known_hosts_files=files)
    assert fingerprint(other) in raised.value.message
    assert fingerprint(sshd.folder / "host_ed25519") in raised.value.message
    assert "ssh-keygen -R" in raised.value.fix
    assert Path(files[0]).read_text().count("\n") == 1


def test_a_key_of_the_bare_address_is_good_on_a_port_and_another_one_is_of_another_sshd(
    sshd: Sshd, tmp_path: Path
) -> None:
    other = f"127.0.0.1 {public(keygen(tmp_path / 'other', 'ed25519'))}\n"
    files = write(tmp_path / "kh", other)
    with pytest.raises(NewHostKey):
        sshd.open(known_hosts_files=files)
    sshd.open(ACCEPT_NEW, known_hosts_files=files).close()
    added = f"[127.0.0.1]:{sshd.port} {public(sshd.folder / 'host_ed25519')}\n"
    assert Path(files[0]).read_text() == other + added
    bare = write(tmp_path / "bare", f"127.0.0.1 {public(sshd.folder / 'host_ed25519')}\n")
    sshd.open(known_hosts_files=bare).close()


def test_an_alias_has_no_port_in_known_hosts(sshd: Sshd, tmp_path: Path) -> None:
    files = write(tmp_path / "kh", "")
    sshd.open(ACCEPT_NEW, known_hosts_files=files, host_key_alias="pod").close()
    assert Path(files[0]).read_text() == f"pod {public(sshd.folder / 'host_ed25519')}\n"
    ported = write(tmp_path / "ported", f"[pod]:{sshd.port} {public(sshd.folder / 'host_ed25519')}\n")
    with pytest.raises(NewHostKey):
        sshd.open(known_hosts_files=ported, host_key_alias="pod")


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
