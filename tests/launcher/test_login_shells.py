"""Every program gets through every login shell, whatever that prints first."""

import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from launcher.cleanup.clean import CleanOptions, _reap
from launcher.config.inventory import HostEntry
from launcher.errors import AgentProtocolError, AgentTimedOut, HostError, LoginShellDisabled
from launcher.launch.request import LaunchRequest
from launcher.remote import agent
from launcher.remote.agent import AgentRequest, query_agent
from launcher.remote.connection_pool import ConnectionPool
from launcher.remote.reachability import probe_targets
from launcher.restart import checkpoints
from launcher.runs import request
from launcher.scaffold import interpreters
from launcher.sync.host import SyncClient
from launcher.transports.base import Connection
from preflight.job import Job
from tests.launcher.sshd import Sshd

pytestmark = pytest.mark.slow

NOISE = 3 << 20
SHELLS = ("sh", "dash", "bash", "zsh", "fish", "tcsh")
START_FILES = {"bash": ".bashrc", "zsh": ".zshenv", "fish": ".config/fish/config.fish", "tcsh": ".cshrc"}
"""What each reads before a command that sshd gives it; sh and dash read nothing."""
HOST = "titan"
ENTRY = HostEntry(HOST, python=sys.executable)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    folder = tmp_path_factory.mktemp("sshd")
    # What sshd itself does with the login shell of an account, for accounts that this machine does not have.
    wrapper = folder / "login"
    wrapper.write_text(
        f"#!/bin/sh\nread -r SHELL <{folder}/shell\n"
        f"export SHELL HOME={folder}/account XDG_STATE_HOME={folder}/state\n"
        'unset SHLVL XDG_CONFIG_HOME ZDOTDIR\ncd "$HOME"\nexec "$SHELL" -c "$SSH_ORIGINAL_COMMAND"\n'
    )
    wrapper.chmod(0o755)
    (folder / "account").mkdir()  # not the home of the shell that runs the wrapper
    with Sshd.up(folder, f"ForceCommand {wrapper}") as running:
        yield running


@pytest.fixture
def as_user_of(sshd: Sshd) -> Iterator[Callable[[str], Connection]]:
    """Return what opens a connection to an account with this login shell."""
    opened: list[Connection] = []

    def log_in(shell: str) -> Connection:
        program = shutil.which(shell, path="/usr/bin:/bin:/usr/local/bin:/usr/sbin:/sbin")
        if program is None:
            pytest.skip(f"{shell} is not installed here")
        (sshd.folder / "shell").write_text(program + "\n")
        opened.append(sshd.open())
        return opened[-1]

    yield log_in
    for connection in opened:
        connection.close()


@pytest.fixture
def noisy(sshd: Sshd) -> Path:
    """A home whose start-up files print much on both outputs."""
    home = sshd.folder / "account"
    print_it = f"head -c {NOISE} /dev/zero | tr '\\000' n"
    for name in START_FILES.values():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        to_stderr = f"sh -c '{print_it.replace(chr(39), '')} >&2'" if name == ".cshrc" else f"{print_it} >&2"
        path.write_text(f"{print_it}\n{to_stderr}\n")
    return home


@pytest.mark.parametrize("shell", SHELLS)
def test_every_program_answers_through_every_login_shell(
    shell: str, sshd: Sshd, noisy: Path, as_user_of: Callable[[str], Connection]
) -> None:
    connection = as_user_of(shell)
    done = connection.run(("true",))
    loud = NOISE if shell in START_FILES else 0
    assert (len(done.stdout) >= loud, len(done.stderr) >= loud) == (True, True), "the test tests nothing"

    def opener(_: HostEntry) -> Connection:
        return sshd.open()

    assert query_agent(connection, sys.executable, AgentRequest(HOST, skip=("processes",))).host == HOST
    assert request.send_request(connection, sys.executable, {"mode": "list"})["runs"] == []
    assert _reap(connection, sys.executable, (), CleanOptions())[0] == ()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert probe_targets(connection, sys.executable, [("127.0.0.1", port)]) == (True,)
    (found,) = interpreters.list_interpreters((ENTRY,), opener, width=1)
    assert not isinstance(found, Exception)
    launch = LaunchRequest(entries=(ENTRY,), job=Job(), connections=ConnectionPool(opener))
    assert checkpoints.list_checkpoints(launch, ("checkpoint-*",), age_s=1.0) == {HOST: ()}
    launch.connections.close()
    with SyncClient(sshd.open(), sys.executable) as receiver:
        assert receiver.begin(str(noisy / "project"), "a1") == str(noisy / "project")
        assert receiver.list_seen(["a1", "b2"]) == {"a1"}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_argument_arrives_unchanged_through_every_login_shell(
    shell: str, as_user_of: Callable[[str], Connection]
) -> None:
    words = [
        "".join(map(chr, range(32, 127))),
        "",
        "!!",
        "a!b",
        "\\",
        "\\\\'",
        "$HOME `id` %s ~ {a,b} *",
        "ä",
    ]
    raised = ("-c", "import sys; print(sys.argv[1:])", *words)
    done = as_user_of(shell).run((sys.executable, *raised))
    assert done.stdout.decode().endswith(f"{words}\n"), done.stderr[-300:]


def test_a_start_up_file_that_hangs_is_suspected(
    sshd: Sshd, as_user_of: Callable[[str], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = as_user_of("bash")
    start_file = sshd.folder / "account" / START_FILES["bash"]
    monkeypatch.setattr(agent, "GRACE_S", 0.0)
    lock = sshd.folder / "lock"
    os.mkfifo(lock)
    start_file.write_text(f"read -r _ <{lock}\n")
    try:
        with pytest.raises(AgentTimedOut, match="it sent nothing") as caught:
            query_agent(connection, sys.executable, AgentRequest(HOST, deadline_s=2.0))
    finally:
        start_file.unlink()
        with suppress(OSError):  # ended with its connection
            os.close(os.open(lock, os.O_WRONLY | os.O_NONBLOCK))
    assert f"`ssh {HOST} true`" in caught.value.fix
    assert "start-up files of its login shell" in caught.value.fix


def test_another_shell_that_a_start_up_file_starts_is_suspected(
    sshd: Sshd, as_user_of: Callable[[str], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = as_user_of("bash")
    start_file = sshd.folder / "account" / START_FILES["bash"]
    monkeypatch.setattr(agent, "GRACE_S", 0.0)
    start_file.write_text("exec sh -c 'echo what is this >&2; cat >/dev/null'\n")  # as `exec zsh -i` does
    try:
        with pytest.raises(AgentTimedOut, match="it sent only: what is this") as caught:
            query_agent(connection, sys.executable, AgentRequest(HOST, deadline_s=2.0))
    finally:
        start_file.unlink()
    assert "such as `exec zsh`, which belongs below `[[ $- == *i* ]] || return`" in caught.value.fix


@pytest.mark.parametrize(
    ("shell", "start_file", "kind", "fix"),
    [
        ("nologin", "", LoginShellDisabled, "login shell is nologin"),
        ("false", "", LoginShellDisabled, "login shell is nologin"),
        ("bash", "exit", AgentProtocolError, "must print a version and ask nothing: a start-up file"),
        ("bash", "read -r _; exit", AgentProtocolError, "must print a version and ask nothing"),
    ],
)
def test_an_account_that_runs_no_programs_is_told_as_such(
    shell: str,
    start_file: str,
    kind: type[HostError],
    fix: str,
    sshd: Sshd,
    as_user_of: Callable[[str], Connection],
) -> None:
    connection = as_user_of(shell)
    (sshd.folder / "account" / START_FILES["bash"]).write_text(f"{start_file}\n")

    def opener(_: HostEntry) -> Connection:
        return sshd.open()

    def environments_there() -> None:
        (found,) = interpreters.list_interpreters((ENTRY,), opener, width=1)
        assert isinstance(found, Exception)
        raise found

    launch = LaunchRequest(entries=(ENTRY,), job=Job(), connections=ConnectionPool(opener))
    ways: list[Callable[[], object]] = [
        lambda: query_agent(connection, sys.executable, AgentRequest(HOST)),
        lambda: request.send_request(connection, sys.executable, {"mode": "list"}),
        lambda: _reap(connection, sys.executable, (), CleanOptions()),
        lambda: probe_targets(connection, sys.executable, [("127.0.0.1", 1)]),
        environments_there,
        lambda: checkpoints.list_checkpoints(launch, ("c",), age_s=1.0),
        lambda: SyncClient(sshd.open(), sys.executable).begin("~/project", "a1"),
    ]
    for way in ways:
        with pytest.raises(HostError) as raised:
            way()
        assert isinstance(raised.value, kind), raised.value
        assert fix in raised.value.fix
        said = "This account is currently not available" if shell == "nologin" else "it said nothing"
        assert said in raised.value.message
        assert "login shell" in raised.value.fix
