"""What every transport keeps, tried on this machine by subprocess, a real sshd, and a prefix over each."""

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.errors import CommandTimedOut, ConnectionLost, OutputTooLarge, ProgramNotStarted
from launcher.remote.program_source import build_bootstrap_argv, compress_program, read_program_source
from launcher.transports.base import Connection, Endpoint, iter_stdout
from launcher.transports.command import run_to_completion
from launcher.transports.local import LocalConnection
from launcher.transports.prefix import Prefix, PrefixConnection
from launcher.transports.step.step import SlurmStep, StepConnection
from tests.launcher.sshd import Sshd

pytestmark = pytest.mark.slow


def relay_here(node: str) -> SlurmStep:
    """Return a step whose one task runs here, without srun: what srun does to it is tried in tests/lab."""
    argv = build_bootstrap_argv(sys.executable, "gpulaunch-step")
    step = SlurmStep(
        argv,
        (node,),
        {**os.environ, "SLURMD_NODENAME": node},
        compress_program(read_program_source("step_relay"), "step_relay.py"),
    )
    step.start()
    step.task(node)
    return step


NUL_ENDED = "import os,sys; [sys.stdout.buffer.write(os.fsencode(a) + b'\\0') for a in sys.argv[1:]]"


PIPE = str(Path(__file__).with_name("pipe_exec.py"))
APPENDED = Prefix((sys.executable, "-IS", PIPE, "--"))  # as kubectl exec POD -- COMMAND...
QUOTED = Prefix((sys.executable, "-IS", PIPE, "--join", "--", "{command}"))  # as tsh ssh

OWN = os.environ.get("CONTRACT_PREFIX", "")
"""Another to try, CONTRACT_PREFIX='docker exec -i NAME': a container that sees this tree, /root and /tmp."""
WAYS = ["local", "ssh", "step", "prefix", "prefix over ssh", *(["own prefix"] if OWN else [])]


@pytest.fixture(scope="module", params=WAYS)
def connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    local = LocalConnection(Endpoint("localhost", "local", ""))
    if request.param in ("local", "prefix"):
        yield local if request.param == "local" else PrefixConnection("pod", local, APPENDED)
        return
    if request.param == "own prefix":
        yield PrefixConnection("own", local, Prefix(tuple(shlex.split(OWN))))
        return
    if request.param == "step":
        step = relay_here("node-1")
        yield StepConnection(step, "node-1", "node-1")
        step.close()
        return
    with Sshd.up(tmp_path_factory.mktemp("sshd")) as sshd, sshd.open() as opened:
        yield opened if request.param == "ssh" else PrefixConnection("pod", opened, QUOTED)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=6))
def test_every_argument_arrives_unchanged(connection: Connection, arguments: list[str]) -> None:
    done = connection.run((sys.executable, "-ISc", NUL_ENDED, *arguments))
    assert done.stdout == b"".join(argument.encode() + b"\0" for argument in arguments)


def test_metacharacters_newlines_and_empty_arguments_arrive_unchanged(connection: Connection) -> None:
    arguments = (
        "",
        "a b",
        "$HOME `id` $(id)",
        "'\"\\",
        "\n\t\r",
        "*?[x]{a,b}~",
        "-n",
        "é☃\U0001f600",
        "!x;&|<>#",
    )
    done = connection.run((sys.executable, "-ISc", NUL_ENDED, *arguments))
    assert done.stdout.decode().split("\0")[:-1] == list(arguments)


def test_a_program_in_the_home_there_is_found_by_its_tilde(connection: Connection) -> None:
    name = ".gpulaunch-test-link"
    home = connection.run(("sh", "-c", 'printf %s "$HOME"')).stdout.decode()  # sshd's is not this shell's
    link = Path(home, name)
    link.unlink(missing_ok=True)
    link.symlink_to("/bin/echo")
    try:
        assert connection.run((f"~/{name}", "~/x")).stdout == b"~/x\n"
    finally:
        link.unlink()


def test_stdout_and_stderr_stay_apart_and_keep_their_bytes(connection: Connection) -> None:
    every_byte = bytes(range(256)) * 9
    done = connection.run(("sh", "-c", "cat; printf '\\377\\000x' >&2"), stdin=every_byte)
    assert (done.exit_status, done.stdout, done.stderr) == (0, every_byte, b"\xff\0x")


def test_input_larger_than_any_buffer_flows_while_output_does(connection: Connection) -> None:
    data = b"0123456789abcdef" * (5 << 16)
    done = connection.run(("cat",), stdin=data, timeout_s=60)
    assert done.stdout == data


def test_a_flood_on_stderr_does_not_stop_stdout(connection: Connection) -> None:
    done = connection.run(("sh", "-c", "head -c 5000000 /dev/zero >&2; echo end"), timeout_s=60)
    assert (len(done.stderr), done.stdout) == (5_000_000, b"end\n")


@pytest.mark.parametrize(
    ("argv", "statuses"),
    [(("true",), {0}), (("sh", "-c", "exit 7"), {7}), (("sh", "-c", "kill -9 $$"), {-9, 137})],
)
def test_exit_statuses_and_signals_are_told(
    connection: Connection, argv: tuple[str, ...], statuses: set[int]
) -> None:
    """137: a login shell that does not become the command says 128 + the signal instead."""
    assert connection.run(argv).exit_status in statuses


def test_a_program_that_is_not_there_ends_with_127_and_one_not_runnable_with_126(
    connection: Connection, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program\n")
    assert connection.run(("no-such-program-here",)).exit_status == 127
    assert connection.run((str(plain),)).exit_status == 126


def test_a_command_that_ignores_its_input_still_ends_well(connection: Connection) -> None:
    assert connection.run(("true",), stdin=b"x" * 3_000_000).exit_status == 0


def test_a_command_that_does_not_end_is_given_up(connection: Connection) -> None:
    started = time.monotonic()
    with pytest.raises(CommandTimedOut, match=r"within 0\.5 s") as late:
        connection.run(("sleep", "20"), timeout_s=0.5)
    assert "a hanging mount" in late.value.fix
    assert time.monotonic() - started < 15


class Held(NamedTuple):
    """Why more output of a command that has ended is not waited for."""

    held_open_s: float
    is_whole: Callable[[bytes], bool] | None


@pytest.mark.parametrize(
    "held",
    [Held(0.1, None), Held(3600.0, lambda stdout: stdout.endswith(b"done\n"))],
    ids=["long-silent", "whole"],
)
@pytest.mark.parametrize("connection", ["local", "ssh"], indirect=True)  # others wait on the host themselves
def test_what_a_command_leaves_running_is_not_waited_for(
    connection: Connection, tmp_path: Path, held: Held
) -> None:
    leave = f"sleep 60 & echo $! >{tmp_path}/pid; echo done; exit 3"
    stream = connection.start(("sh", "-c", leave))
    try:
        done = run_to_completion(stream, connection.name, timeout_s=50, max_output=100, **held._asdict())
    finally:
        stream.close()
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert (done.stdout, done.exit_status) == (b"done\n", 3)


def test_a_command_to_type_shows_no_secret_of_its_prefix() -> None:
    pod = Prefix(("docker", "exec", "-e", "HF_TOKEN=hf_abcdef", "pod"))
    connection = PrefixConnection("pod", LocalConnection(Endpoint("localhost", "local", "")), pod)
    assert connection.command_line(("python", "-V")) == "docker exec -e 'HF_TOKEN=***' pod python -V"


class EndedStream:
    """The stream of a command that has ended, whose last output is still on its way."""

    def __init__(self) -> None:
        self._parts = [None, b"late", b""]

    def write(self, data: bytes) -> None:
        """Take nothing."""

    def can_write(self, data: bytes) -> bool:
        return not data

    def close_stdin(self) -> None:
        """Take nothing."""

    def read(self, timeout_s: float) -> bytes | None:
        return self._parts.pop(0)

    def read_stderr(self) -> bytes:
        return b""

    def wait(self, timeout_s: float) -> int | None:
        return 0

    def close(self) -> None:
        """Hold nothing."""


def test_output_that_comes_after_the_end_of_its_command_is_not_lost() -> None:
    done = run_to_completion(EndedStream(), "a", timeout_s=20, max_output=100, held_open_s=0.0)
    assert done.stdout == b"late"


def test_endless_output_is_bounded(connection: Connection) -> None:
    with pytest.raises(OutputTooLarge, match="more than 100000 bytes"):
        connection.run(("yes",), max_output=100_000)


def test_a_stream_answers_line_by_line_until_its_input_ends(connection: Connection) -> None:
    with closing(
        connection.start(("python3", "-uc", "import sys\nfor l in sys.stdin: print(l.upper(), end='')"))
    ) as stream:
        assert stream.wait(0) is None
        stream.write(b"one\n")
        assert stream.read(20) == b"ONE\n"
        assert stream.read(0.05) is None
        stream.write(b"two\n")
        stream.close_stdin()
        assert b"".join(iter_stdout(stream)) == b"TWO\n"
        assert stream.wait(10) == 0
        assert stream.read(0.1) == b""


def test_a_stream_tells_stderr_without_waiting(connection: Connection) -> None:
    with closing(connection.start(("sh", "-c", "echo oops >&2; echo out; cat"))) as stream:
        assert stream.read(20) == b"out\n"
        stderr = stream.read_stderr()
        deadline = time.monotonic() + 10
        while not stderr and time.monotonic() < deadline:
            stream.read(0.05)
            stderr = stream.read_stderr()
        assert stderr == b"oops\n"
        assert stream.read_stderr() == b""


def test_a_closed_stream_gives_its_command_end_of_file(connection: Connection, tmp_path: Path) -> None:
    sign = tmp_path / "ended"
    stream = connection.start(("sh", "-c", f"echo up; cat >/dev/null; touch {sign}"))
    assert stream.read(20) == b"up\n"
    stream.close()
    stream.close()
    deadline = time.monotonic() + 10
    while not sign.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert sign.exists()


def test_writing_to_a_command_that_has_ended_is_an_error(connection: Connection) -> None:
    with closing(connection.start(("true",))) as stream:
        assert stream.wait(20) == 0
        with pytest.raises(ConnectionLost):
            stream.write(b"x" * (8 << 20))


def test_two_commands_run_side_by_side_on_one_connection(connection: Connection) -> None:
    with closing(connection.start(("cat",))) as one, closing(connection.start(("cat",))) as other:
        other.write(b"b")
        one.write(b"a")
        assert (one.read(20), other.read(20)) == (b"a", b"b")


def test_an_absent_program_cannot_be_streamed(connection: Connection) -> None:
    try:
        stream = connection.start(("no-such-program-here",))
    except ProgramNotStarted as stderr:
        assert stderr.status == 127  # noqa: PT017 - the other transport learns it from the shell's status
        return
    with closing(stream):
        assert stream.wait(20) == 127


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    with Sshd.up(tmp_path / "sshd") as sshd:
        for opened in (sshd.open(), LocalConnection(Endpoint("localhost", "local", ""))):
            opened.close()
            opened.close()
