"""Facts from hosts: the real agent through a real sshd, and every way in which an answer can fail to come."""

import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from launcher.config.inventory import HostEntry
from launcher.errors import (
    AgentCrashed,
    AgentProtocolError,
    AgentTimedOut,
    ConnectionRefused,
    HostError,
    LoginShellDisabled,
    PythonNotFound,
)
from launcher.remote.agent import (
    GRACE_S,
    AgentRequest,
    GatherOptions,
    gather_facts,
    query_agent,
    read_document,
)
from launcher.transports.base import Connection, Endpoint, Stream
from launcher.transports.local import LocalConnection
from tests.launcher.sshd import Sshd

REQUEST = AgentRequest("titan", ports=(29500,), free_ports=2)
MARKED = "printf '\\nGPULAUNCH-FACTS-1 %s'"


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with Sshd.up(tmp_path_factory.mktemp("sshd")) as started:
        yield started


def stand_in(folder: Path, script: str) -> str:
    """Write a program that is called as the interpreter."""
    path = folder / "python-stand-in"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def ask_here(python: str, deadline_s: float = 20.0) -> object:
    connection = LocalConnection(Endpoint("titan", "local", ""))
    return query_agent(connection, python, replace(REQUEST, deadline_s=deadline_s))


def test_good_answers_are_kept_beside_bad_neighbours(sshd: Sshd) -> None:
    def opener(entry: HostEntry) -> Connection:
        return sshd.open(name=entry.name, port=1 if entry.name == "dead" else sshd.port)

    entries = (HostEntry("dead"), HostEntry("good"), HostEntry("bare", python="no-python-here"))
    meanwhile: list[str] = []
    how = GatherOptions(while_waiting=lambda: meanwhile.append("called"))
    got = gather_facts(entries, lambda entry: replace(REQUEST, host=entry.name), opener, how)
    assert list(got.facts) == ["good"]
    assert meanwhile == ["called"]
    assert got.facts["good"].host == "good"
    assert {name: type(error) for name, error in got.errors.items()} == {
        "dead": ConnectionRefused,
        "bare": PythonNotFound,
    }


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        ("printf 3.6.9 >&2; exit 86", PythonNotFound, "is Python 3.6.9; gpulaunch needs 3.9"),
        (
            "echo 'Unknown option: -I' >&2; echo 'usage: python' >&2; exit 2",
            PythonNotFound,
            "is Python 2; gpulaunch",
        ),
        (
            "echo This account is currently not available.; exit 1",
            LoginShellDisabled,
            "ran nothing of gpulaunch",
        ),
        (
            "echo '/root/.bashrc: line 1: zsh: No such file' >&2; exit 127",
            LoginShellDisabled,
            "ran nothing of gpulaunch (exit status 127): /root/.bashrc: line 1",
        ),
        ("exit 127", PythonNotFound, "cannot be started on the host: exit status 127"),
        ("echo Traceback >&2; echo 'ValueError: \033[31mboom' >&2; exit 1", AgentCrashed, "ValueError: boom"),
        ("kill -11 $$", AgentCrashed, "ended by signal 11"),
        ("echo welcome", AgentProtocolError, "ran nothing of gpulaunch, but: welcome"),
        (MARKED % "x\\n", AgentProtocolError, "announces no length"),
        (MARKED % "99999999999\\n", AgentProtocolError, "announces no length"),
        (MARKED % "9\\n{\\377bad}; \\n", AgentProtocolError, "is not JSON"),
        (MARKED % "2\\n{}", AgentProtocolError, "does not hold facts"),
        (MARKED % "90\\n{", AgentCrashed, "in the middle of its answer"),
        ("yes", AgentProtocolError, "more than 8 MiB before its answer"),
        ("yes >&2", AgentProtocolError, "more than 8 MiB before its answer"),
    ],
)
def test_every_bad_answer_is_told_apart(
    tmp_path: Path, script: str, kind: type[HostError], words: str
) -> None:
    with pytest.raises(kind) as raised:
        ask_here(stand_in(tmp_path, script))
    assert words in raised.value.message
    assert "\033" not in raised.value.message


def test_an_environments_directory_as_interpreter_is_told_with_the_path_inside(tmp_path: Path) -> None:
    with pytest.raises(PythonNotFound) as caught:
        ask_here(str(tmp_path))
    assert caught.value.fix.endswith(f"is an environment's directory, to {tmp_path}/bin/python")


def test_a_library_that_only_interactive_shells_find_is_told_with_their_start_up_file(tmp_path: Path) -> None:
    lacks = "error while loading shared libraries: libpython3.11.so.1.0: cannot open shared object file"
    with pytest.raises(PythonNotFound) as caught:
        ask_here(stand_in(tmp_path, f'echo "$0: {lacks}" >&2; exit 127'))
    assert "LD_LIBRARY_PATH" in caught.value.fix
    assert "~/.bashrc" in caught.value.fix


def test_an_absent_interpreter_is_no_python() -> None:
    with pytest.raises(PythonNotFound, match="cannot be started on the host"):
        ask_here("no-python-here")


@pytest.mark.slow
def test_an_agent_that_says_nothing_is_too_slow(tmp_path: Path) -> None:
    with pytest.raises(AgentTimedOut, match="did not answer in time"):
        ask_here(stand_in(tmp_path, "exec sleep 30"), deadline_s=1.0 - GRACE_S)


def test_megabytes_of_noise_before_the_answer_are_not_kept() -> None:
    class Noisy:
        def __init__(self) -> None:
            self.parts = [b"\0" * 65536] * 100 + [b"m\nGPULAUNCH", b"-FACTS-1 5\n{..", b".}"]

        def read(self, _timeout_s: float) -> bytes | None:
            return self.parts.pop(0)

        def read_stderr(self) -> bytes:
            return b""

    tracemalloc.start()
    document = read_document(
        cast("Stream", Noisy()),
        LocalConnection(Endpoint("titan", "local", "")),
        "python3",
        time.monotonic() + 60,
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert document == b"{...}"
    assert peak < 1 << 20


def test_noise_of_a_login_shell_before_the_answer_does_not_matter(tmp_path: Path) -> None:
    noisy = stand_in(tmp_path, "printf 'GPULAUNCH-FACTS-1 7 \\377 motd'; exec python3 \"$@\"")
    facts = ask_here(noisy)
    assert getattr(facts, "host", "") == "titan"
