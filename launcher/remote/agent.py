"""Facts from many hosts: stream the agent to each, wait for its marker, decode what follows."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import field, fields, replace
from itertools import chain
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.errors import (
    AgentCrashed,
    AgentProtocolError,
    AgentTimedOut,
    GpulaunchError,
    HostError,
    MalformedFacts,
    ProgramNotStarted,
)
from launcher.local.fanout_places import PROGRAM, release_place
from launcher.remote.agent_sessions import AgentSessions
from launcher.remote.connection_pool import OpenConnection
from launcher.remote.earlier_facts import EarlierFacts, EarlierOf, fill_in
from launcher.remote.fanout import WIDTH, fanout
from launcher.remote.program_source import build_bootstrap_argv, compress_program, read_agent_source
from launcher.remote.pynvml_source import pack_pynvml
from launcher.remote.shell_errors import describe_login_check, explain_no_answer, explain_no_python
from launcher.text import one_line, tail_lines
from launcher.transports.base import Connection, Stream
from launcher.transports.ssh.ssh_command import format_login
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import decode
from preflight.frozen import dataclass

MARKER = b"GPULAUNCH-FACTS-1 "
MAX_ANSWER = 8 << 20  # bytes taken from one host. A crowded host's answer is well under 2 MiB.
MAX_NOISE = 8 << 20
"""Bytes of a login's words before the answer: hosts that talk without end are spoken to side by side."""
GRACE_S = 15.0  # beyond the agent's deadline: an interpreter on a slow disk, and the round trip
IDLE_TIMEOUT_S = 600  # how long an agent that has answered waits for the slowest host of many
ALL_BUT_USE = (
    *("paths", "script", "kernel_log", "infiniband", "pci_gpus", "python", "network", "limits", "environ"),
    "cuda",
)
"""What an agent need not read for a look at who uses the GPUs."""
_LONGEST_HEADER = 64
_NOISE_SHOWN = 400
_EXIT_BAD_PAYLOAD = 87
_STDERR_KEPT = 1 << 14
_STDERR_TURN_S = 0.5  # while stdout is silent, stderr is drained this often; it holds 2 MiB

_packing = threading.Lock()


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """What one host's agent is asked; `preflight/probes/main.py` documents the keys."""

    host: str
    ports: tuple[int, ...] = ()
    pids: tuple[int, ...] = ()  # processes that are reported of whatever they are
    free_ports: int = 0
    seed: str = ""
    paths: dict[str, str] = field(default_factory=dict)
    script: str = ""
    modules: tuple[str, ...] | None = None  # that a script on its way imports and does not bring along
    env: dict[str, str] = field(default_factory=dict)  # of the launch's own, those in ENV_NAMES
    skip: tuple[str, ...] = ()
    known: dict[str, Any] = field(default_factory=dict)  # the key of EarlierFacts
    deadline_s: float = 20.0


@dataclass(frozen=True, slots=True)
class GatherResult:
    """Facts of the hosts that answered and errors of those that did not, in the order they were asked."""

    facts: dict[str, HostFacts]
    errors: dict[str, HostError]
    logins: dict[str, str] = field(default_factory=dict)  # `ssh OPTIONS HOST`, for jobs with input paths


@dataclass(frozen=True, slots=True)
class GatherOptions:
    """How many hosts are asked.

    Where `waiting` is given, agents of the first hosts that have answered stay on their hosts, for one more
    program each. `earlier` gives what the request of a host says is known. `while_waiting` is called once, as
    soon as the first host has its agent: for what this process can do meanwhile.
    """

    width: int = WIDTH
    on_done: "Callable[[HostEntry, HostFacts | GpulaunchError], None] | None" = None
    waiting: AgentSessions | None = None
    earlier: EarlierOf | None = None
    while_waiting: Callable[[], object] | None = None
    on_slow: Callable[[list[HostEntry]], None] | None = None


def gather_facts(
    entries: Iterable[HostEntry],
    request_for: Callable[[HostEntry], AgentRequest],
    opener: OpenConnection,
    how: GatherOptions = GatherOptions(),  # noqa: B008 - it is frozen
) -> GatherResult:
    """Ask all hosts side by side; one connection and one channel for each."""
    todo = tuple(entries)
    idle = [] if how.while_waiting is None else [how.while_waiting]  # pop is atomic: one thread gets it
    logins = dict[str, str]()
    staying = (
        frozenset(entry.name for entry in todo[: how.waiting.most])
        if how.waiting is not None
        else frozenset()
    )

    def ask_one(entry: HostEntry) -> HostFacts:
        with ExitStack() as held:
            connection = held.enter_context(opener(entry))
            stream = held.enter_context(closing(start_agent(connection, entry.python)))
            stay = entry.name in staying
            request = request_for(entry)
            if login := find_login(connection, request):
                logins[entry.name] = login
            deadline = send_agent(stream, request, stay=stay)
            with suppress(IndexError):
                idle.pop()()
            document = read_document(stream, connection, entry.python, deadline)
            known = None if how.earlier is None else how.earlier(entry)
            facts = decode_document(connection.name, document, request.host, known)
            if how.waiting is not None and stay:
                how.waiting.add(entry.name, stream, held.pop_all())
            return facts

    results = fanout(ask_one, todo, width=how.width, reopens=True, on_done=how.on_done, on_slow=how.on_slow)
    return replace(merge_results(todo, results), logins=logins)


def find_login(connection: Connection, request: AgentRequest) -> str:
    """Return the `ssh OPTIONS HOST` of a host where the request is for input paths, else ""."""
    return format_login(connection) if "input:0" in request.paths else ""


def merge_results(
    entries: Sequence[HostEntry], results: "Sequence[HostFacts | GpulaunchError]"
) -> GatherResult:
    """Return what came of each host. Raises a mistake in the user's files, which belongs to none of them."""
    facts: dict[str, HostFacts] = {}
    errors: dict[str, HostError] = {}
    for entry, result in zip(entries, results, strict=True):
        if isinstance(result, HostFacts):
            facts[entry.name] = result
        elif isinstance(result, HostError):
            errors[entry.name] = result
        else:
            raise result
    return GatherResult(facts, errors)


def query_agent(connection: Connection, python: str, request: AgentRequest) -> HostFacts:
    """Stream the agent through an open connection and return its answer.

    Raises PythonNotFound, AgentCrashed, AgentProtocolError, AgentTimedOut, or another HostError.
    """
    with closing(start_agent(connection, python)) as stream:
        document = read_document(stream, connection, python, send_agent(stream, request))
        return decode_document(connection.name, document, request.host)


def start_agent(connection: Connection, python: str) -> Stream:
    """Start the interpreter that reads the agent. Raises PythonNotFound or another HostError."""
    try:
        return connection.start(build_bootstrap_argv(python, site=True))
    except ProgramNotStarted as failure:
        raise explain_no_python(connection.name, python, failure.why) from None


def send_agent(stream: Stream, request: AgentRequest, *, stay: bool = False) -> float:
    """Send the agent to the interpreter; return when, by the monotonic clock, its answer is too late.

    `stay`: once it has answered, the agent waits for one more program on the same stream.
    """
    deadline = time.monotonic() + request.deadline_s + GRACE_S
    parts = pack_payload(request, stay=stay)
    for part in parts:
        if not stream.can_write(part):  # a program that is not the agent may talk without ever reading
            threading.Thread(target=_send, args=(stream, chain((part,), parts)), daemon=True).start()
            break
        _send(stream, (part,))
    return deadline


def read_document(stream: Stream, connection: Connection, python: str, deadline: float) -> bytes:
    """Return the answer of an agent that was sent, undecoded. Raises as `query_agent`."""
    answer, stderr = _Answer(connection.name), bytearray()
    with release_place(PROGRAM) as wait:
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise _too_slow(connection, answer, bytes(stderr))
            data = stream.read(min(left_s, _STDERR_TURN_S))
            said = stream.read_stderr()
            answer.pass_over(len(said))
            stderr = (stderr + said[-_STDERR_KEPT:])[-_STDERR_KEPT:]
            del said  # 2 MiB for each of many hosts, where a login talks without end
            if data == b"":
                status = stream.wait(max(0.1, min(2.0, deadline - time.monotonic())))
                stderr = (stderr + stream.read_stderr())[-_STDERR_KEPT:]
                raise _ended_early(connection, python, answer, status, bytes(stderr))
            document = answer.add(data) if data else None
            if document is not None:
                wait.note_answer()
                return document


def decode_document(
    host: str, document: bytes, known_as: str, earlier: EarlierFacts | None = None
) -> HostFacts:
    """Return the facts in an agent's answer, as those of the host `known_as`. Raises AgentProtocolError.

    The client knows whose facts they are; no answer says it. `earlier` has what the host may have left out.
    """
    try:
        answer = json.loads(document)
        fill_in(answer, earlier, time.time())
        return replace(decode(HostFacts, answer), host=known_as)
    except (ValueError, RecursionError) as failure:
        raise AgentProtocolError(host, f"its answer is not JSON: {one_line(str(failure), 120)}") from None
    except MalformedFacts as failure:
        words = f"its answer does not hold facts: {one_line(failure.message, 160)}"
        raise AgentProtocolError(host, words) from None


def _send(stream: Stream, parts: Iterable[bytes]) -> None:
    with suppress(HostError, OSError, ValueError):  # it ended early: its status and stderr say why
        for part in parts:
            stream.write(part)


def pack_payload(request: AgentRequest, *, stay: bool = False) -> Iterator[bytes]:
    """Yield what a host is sent: the agent, then what it reads once it runs.

    Programs are packed once for all hosts. The first host is connected by then and starts its interpreter
    meanwhile; packed sooner, the agent would take the processor from the imports that the connection waits
    for. That host gets the agent ahead, and compiles it while pynvml is packed.
    """
    encoded = json.dumps({each.name: getattr(request, each.name) for each in fields(request)}).encode()
    with _packing:
        agent = compress_program(read_agent_source(), "agent.py")
    if not pack_pynvml.cache_info().currsize:
        yield agent
        agent = b""
    with _packing:
        pynvml = pack_pynvml()
    header = {"request_len": len(encoded), "pynvml_len": len(pynvml), "stay_s": IDLE_TIMEOUT_S if stay else 0}
    yield b"".join((agent, json.dumps(header).encode(), b"\n", encoded, pynvml))


class _Answer:
    """Finds the marker line after any noise, of which it keeps the ends, and collects what that announces."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._first = b""
        self._data = bytearray()
        self._passed = 0
        self._size: int | None = None  # of the document, once the marker came

    def add(self, data: bytes) -> bytes | None:
        """Take more output; return the whole document once it is complete. Raises AgentProtocolError."""
        self._data += data
        self._first = (self._first + data[:_NOISE_SHOWN])[:_NOISE_SHOWN]
        if self._size is None:
            self._find()
        whole = self._size is not None and len(self._data) >= self._size
        return bytes(self._data[: self._size]) if whole else None

    def pass_over(self, count: int) -> None:
        """Count bytes beside the answer, which are dropped. Raises AgentProtocolError."""
        self._passed += count
        if self._size is None and self._passed > MAX_NOISE:
            said = f"sent more than {MAX_NOISE >> 20} MiB before its answer; it was not read further"
            raise AgentProtocolError(self._host, said)

    @property
    def noise(self) -> str:
        """The first words that came, for a message."""
        return one_line(self._first.strip(), 120)

    @property
    def last(self) -> bytes:
        """The last that came, for a message of who spoke in place of us."""
        return bytes(self._data[-_STDERR_KEPT:])

    @property
    def begun(self) -> bool:
        """Whether the marker came."""
        return self._size is not None

    def _find(self) -> None:
        at = self._data.find(b"\n" + MARKER)
        if at < 0:  # thousands of hosts may talk without end side by side
            spare = max(0, len(self._data) - 2 * _STDERR_KEPT)
            del self._data[:spare]
            self.pass_over(spare)
            return
        start = at + 1 + len(MARKER)
        end = self._data.find(b"\n", start)
        if end < 0 and len(self._data) - at < _LONGEST_HEADER:
            return
        length = bytes(self._data[start:end])
        if end < 0 or not length.isdigit() or int(length) > MAX_ANSWER:
            raise AgentProtocolError(self._host, f"its answer announces no length: {one_line(length, 60)!r}")
        self._size = int(length)
        del self._data[: end + 1]


def _ended_early(
    connection: Connection, python: str, answer: _Answer, status: int | None, stderr: bytes
) -> HostError:
    host = connection.name
    if not answer.begun:
        noise = answer.last
        refusal = explain_no_answer(host, python, status, stderr=stderr, noise=noise, connection=connection)
        if refusal is not None:
            return refusal
    said = tail_lines(stderr)
    fix = "" if answer.begun else describe_login_check(host, python, connection)
    if status == _EXIT_BAD_PAYLOAD:
        return AgentCrashed(host, f"the request did not arrive whole: {said}", fix)
    ended = f"ended by signal {-status}" if status is not None and status < 0 else f"exit status {status}"
    where = "in the middle of its answer" if answer.begun else "before its answer"
    return AgentCrashed(
        host, f"the agent ended {where} ({ended}): {said or answer.noise or 'it said nothing'}", fix
    )


def _too_slow(connection: Connection, answer: _Answer, stderr: bytes) -> AgentTimedOut:
    said = tail_lines(stderr) or answer.noise
    what = "a part of an answer" if answer.begun else (f"only: {said}" if said else "nothing")
    load = "is its load or its disk (NFS) the cause? Log in and look"
    # The shell that is to start the agent may wait for ever, or another one may read the agent as its input.
    shell = (
        f"`{connection.command_line(('true',))}`: if that is as slow, look at the start-up files of its"
        " login shell (conda, pyenv, modules; a line such as `exec zsh`, which belongs below"
        " `[[ $- == *i* ]] || return`) and at the home (NFS); else at load and disks"
    )
    fix = load if answer.begun else shell
    return AgentTimedOut(connection.name, f"the agent did not answer in time; it sent {what}", fix)
