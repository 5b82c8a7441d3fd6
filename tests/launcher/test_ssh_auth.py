"""Which keys, certificates and agents let a user in, against a real sshd."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.errors import AuthenticationFailed
from launcher.transports.base import OpenOptions, Prompt
from launcher.transports.ssh import auth
from launcher.transports.ssh.connection import SshOpener, build_ssh_opener
from tests.launcher.sshd import Sshd, authorize, keygen, write

pytestmark = pytest.mark.slow


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
    with pytest.raises(AuthenticationFailed) as raised:
        sshd.open(identity_files=(str(key),), certificate_files=(f"{key}.pub", str(tmp_path / "absent")))
    assert f"certificate {key}.pub: not an SSH certificate" in raised.value.message
    assert f"certificate {tmp_path / 'absent'}: no such file" in raised.value.message


def test_a_passphrase_is_asked_for_once_for_all_hosts(sshd: Sshd, tmp_path: Path) -> None:
    key = keygen(tmp_path / "key", "ed25519", "open sesame")
    authorize(sshd, key)
    prompts: list[str] = []

    def prompt(question: str) -> str:
        prompts.append(question)
        return "open sesame"

    opener = SshOpener(OpenOptions(prompt=prompt))
    for _ in range(3):
        opener(replace(sshd.endpoint, identity_files=(str(key),))).close()
    assert prompts == [f"Passphrase for {key}: "]


def test_hosts_that_are_opened_at_once_share_what_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_slowly(prompt: Prompt | None) -> auth.KeyRing:
        time.sleep(0.02)
        return key_ring(prompt)

    key_ring = auth.KeyRing
    monkeypatch.setattr(auth, "KeyRing", load_slowly)
    options = OpenOptions(prompt=lambda question: question)
    with ThreadPoolExecutor(4) as hosts:
        assert len(set(hosts.map(lambda _: build_ssh_opener(options), range(4)))) == 1


def test_a_passphrase_that_does_not_open_the_key_is_called_wrong(sshd: Sshd, tmp_path: Path) -> None:
    key = keygen(tmp_path / "key", "ed25519", "open sesame")
    prompts: list[str] = []

    def prompt(question: str) -> str:
        prompts.append(question)
        return "open poppy"

    with pytest.raises(AuthenticationFailed, match="what was given is not its passphrase") as raised:
        sshd.open(OpenOptions(prompt=prompt), identity_files=(str(key),))
    assert raised.value.fix == f"ssh-add {key}"
    asked = f"Passphrase for {key}: "
    assert prompts == [asked, *[f"That is not it. {asked}"] * 2]


def test_without_a_terminal_nothing_is_asked_and_the_message_says_what_was_tried(
    sshd: Sshd, tmp_path: Path
) -> None:
    locked = keygen(tmp_path / "locked", "ed25519", "secret")
    stranger = keygen(tmp_path / "stranger", "ed25519")
    with pytest.raises(AuthenticationFailed) as raised:
        sshd.open(identity_files=(str(locked), str(stranger), str(tmp_path / "absent")))
    assert f"{locked}: encrypted, and there is no terminal" in raised.value.message
    with pytest.raises(AuthenticationFailed) as alone:
        sshd.open(identity_files=(str(locked),))
    assert alone.value.fix.startswith(f"ssh-add {locked}; or run gpulaunch at a terminal")
    assert f"key {stranger}" in raised.value.message
    assert f"{tmp_path / 'absent'}: no such file" in raised.value.message
    assert "the host takes publickey" in raised.value.message
    assert raised.value.fix.startswith(
        f"{tmp_path / 'absent'} does not exist: correct identity_file in hosts.yaml"
    )


def ctrl_d(_question: str) -> str:
    raise EOFError


@pytest.mark.parametrize(
    ("prompt", "tried", "fix"),
    [
        (
            None,
            "tried password: not asked for, there is no terminal;",
            "; or run gpulaunch at a terminal, .*",
        ),
        (lambda _question: "wrong", "tried password, 3 times;", ""),
        (ctrl_d, "tried password: not given;", ""),
    ],
)
def test_a_host_that_takes_passwords_alone_is_offered_no_key(
    tmp_path: Path, prompt: Prompt | None, tried: str, fix: str
) -> None:
    passwords = ("PubkeyAuthentication no", "PasswordAuthentication yes", "KbdInteractiveAuthentication no")
    with Sshd.up(tmp_path / "sshd", *passwords) as sshd:
        asked: list[str] = []

        def ask(question: str) -> str:
            asked.append(question)
            return prompt(question) if prompt is not None else ""

        options = OpenOptions(prompt=prompt and ask)
        with pytest.raises(AuthenticationFailed) as raised:
            sshd.open(options, name=f"{sshd.endpoint.user}@titan", identity_files=())
    assert tried in raised.value.message
    assert re.fullmatch(
        f"is {sshd.endpoint.user} the right user\\? The host takes no keys{fix}", raised.value.fix
    )
    assert all(question.startswith(f"{sshd.endpoint.user}@titan: ") for question in asked)


def test_a_file_that_is_no_key_is_named(sshd: Sshd, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationFailed, match="junk: not a usable private key") as raised:
        sshd.open(identity_files=write(tmp_path / "junk", "\0garbage"))
    assert raised.value.fix.startswith(f"{tmp_path}/junk is not a usable private key: copy it anew, ")


def test_a_public_key_is_called_that_with_its_private_one(sshd: Sshd, tmp_path: Path) -> None:
    key = keygen(tmp_path / "key", "ed25519")
    with pytest.raises(AuthenticationFailed, match=f"a public key, .* no agent has: name {key} instead"):
        sshd.open(identity_files=(f"{key}.pub",))
    Path(key).rename(tmp_path / "key.pem")
    with pytest.raises(AuthenticationFailed, match="no agent has: name the private key instead"):
        sshd.open(identity_files=(f"{key}.pub",))


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
