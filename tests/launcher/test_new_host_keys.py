"""An unknown host key is asked about as ssh asks, on a terminal and only there."""

import base64
import os
import pty
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.errors import HostKeyChanged, HostKeyUnknown
from launcher.remote.fanout import fanout
from launcher.transports.base import Endpoint, OpenOptions
from launcher.transports.ssh.connection import SshOpener
from launcher.transports.ssh.known_hosts import fingerprint
from tests.launcher.sshd import Sshd

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", name="sshd")
def _sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with Sshd.up(tmp_path_factory.mktemp("sshd")) as started:
        yield started


class Person:
    """Gives answers, and remembers what was asked; two questions at once would be a mistake."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked_for: list[str] = []
        self.shown: list[str] = []
        self._one = threading.Lock()

    def __call__(self, lines: tuple[str, ...], question: str) -> str:
        assert self._one.acquire(blocking=False), "two questions at once"
        try:
            self.shown += lines
            self.asked_for.append(question)
            if not self.answers:
                raise EOFError
            return self.answers.pop(0) + "\n"
        finally:
            self._one.release()


def asking(sshd: Sshd, files: Path | str, **changes: object) -> Endpoint:
    changed = {"known_hosts_files": (str(files),), "new_host_keys": "ask", **changes}
    return replace(sshd.endpoint, **changed)  # type: ignore[arg-type]


def shown(sshd: Sshd) -> str:
    return fingerprint(base64.b64decode(sshd.known_hosts.read_text().split()[2]))


def test_a_yes_takes_and_saves_the_key(sshd: Sshd, tmp_path: Path) -> None:
    person = Person("yes")
    opener = SshOpener(OpenOptions(confirm=person))
    with opener(asking(sshd, tmp_path / "kh")) as opened:
        assert opened.run(("echo", "in")).stdout == b"in\n"
    opener(asking(sshd, tmp_path / "kh")).close()
    assert person.asked_for == ["Are you sure you want to continue connecting (yes/no/[fingerprint])?"]
    assert person.shown[0] == "The authenticity of host 'titan (127.0.0.1)' cannot be established."
    assert person.shown[1].startswith("ED25519 key fingerprint is SHA256:")
    assert f"[127.0.0.1]:{sshd.port} ssh-ed25519 " in (tmp_path / "kh").read_text()


@pytest.mark.parametrize(
    ("answers", "questions"), [(("no",), 1), ((), 1), (("y", "maybe", ""), 3), (("SHA256:other",), 2)]
)
def test_anything_but_yes_or_the_fingerprint_refuses(
    sshd: Sshd, tmp_path: Path, answers: tuple[str, ...], questions: int
) -> None:
    person = Person(*answers)
    with pytest.raises(HostKeyUnknown, match="its host key is not known"):
        SshOpener(OpenOptions(confirm=person))(asking(sshd, tmp_path / "kh"))
    assert len(person.asked_for) == questions
    assert not (tmp_path / "kh").exists()


def test_the_fingerprint_is_a_yes(sshd: Sshd, tmp_path: Path) -> None:
    person = Person("what?", shown(sshd))
    SshOpener(OpenOptions(confirm=person))(asking(sshd, tmp_path / "kh")).close()
    assert person.asked_for[1] == "Please type 'yes', 'no' or the fingerprint:"


def test_several_hosts_are_asked_about_one_after_the_other(sshd: Sshd, tmp_path: Path) -> None:
    person = Person("yes", "no", "yes")
    opener = SshOpener(OpenOptions(confirm=person))
    names = ["a.example", "b.example", "c.example"]
    results = fanout(
        lambda name: opener(asking(sshd, tmp_path / "kh", name=name, host_key_alias=name)).close(), names
    )
    assert len(person.asked_for) == 3
    assert sum(isinstance(result, HostKeyUnknown) for result in results) == 1
    assert (tmp_path / "kh").read_text().count("\n") == 2


def test_where_nothing_is_saved_one_yes_is_enough(sshd: Sshd) -> None:
    person = Person("yes")
    opener = SshOpener(OpenOptions(confirm=person))
    opener(asking(sshd, os.devnull)).close()
    opener(asking(sshd, os.devnull)).close()
    assert len(person.asked_for) == 1


def test_a_changed_key_and_strict_checking_are_never_asked_about(sshd: Sshd, tmp_path: Path) -> None:
    person = Person("yes", "yes")
    opener = SshOpener(OpenOptions(confirm=person))
    with pytest.raises(HostKeyUnknown):
        opener(asking(sshd, tmp_path / "none", new_host_keys="refuse"))
    other = "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    (tmp_path / "kh").write_text(f"[127.0.0.1]:{sshd.port} ssh-ed25519 {other}\n")
    with pytest.raises(HostKeyChanged):
        opener(asking(sshd, tmp_path / "kh"))
    assert not person.asked_for


def test_a_command_asks_at_its_terminal(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text(f"Host *\n IdentityFile {sshd.identity}\n IdentityAgent none\n")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TERM": "dumb"}
        words = ["preflight", f"127.0.0.1:{sshd.port}"]
        os.execve(sys.executable, [sys.executable, "-m", "launcher.cli", *words], env)
    screen = b""
    while b"(yes/no/[fingerprint])? " not in screen:
        screen += os.read(terminal, 1 << 12)
    assert shown(sshd).encode() in screen.replace(b"\r\n", b"")
    os.write(terminal, b"no\n")
    try:
        while data := os.read(terminal, 1 << 12):
            screen += data
    except OSError:  # the terminal's other end is closed
        pass
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 1, screen
    assert b"HOST005" in screen
    assert not (tmp_path / ".ssh/known_hosts").exists()
