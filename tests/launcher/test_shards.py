"""Shards: real processes that ask hosts over real pipes; only how a host is opened is the test's own."""

import gc
import io
import json
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from launcher.config.inventory import HostEntry, Inventory
from launcher.errors import (
    ConfigError,
    ConnectionRefused,
    GpulaunchError,
    HostError,
    PythonNotFound,
    ShardEnded,
)
from launcher.host_checks.collection import Collection
from launcher.remote.agent import MARKER, AgentRequest
from launcher.remote.reachability import ProbeTargets
from launcher.remote.shards import client, worker
from launcher.remote.shards.count import choose_shard_count
from launcher.remote.shards.frames import FrameWriter, ShardRequest
from launcher.remote.shards.terminal_questions import CLIENT, ShardAccess, SharedAnswers
from launcher.transports.base import Connection, Endpoint
from launcher.transports.local import LocalConnection
from preflight.facts.host import HostFacts, Reach
from tests.environment import first_lines

ROOT = Path(__file__).parents[2]
RECORDED = json.loads((ROOT / "tests/preflight/recordings/t4.json").read_text())["facts"]

# Names say what becomes of a host: see `opener`.
SHARD = """
import os, signal, sys
sys.path.insert(0, {root!r})
from launcher.errors import ConfigError, ConnectionRefused
from launcher.remote.shards import worker
from launcher.transports.base import Endpoint
from launcher.transports.local import LocalConnection
class Remote(LocalConnection):
    def command_line(self, argv):
        return " ".join(("ssh -p 2222", self.name, *argv))
def opener_for(inventory, options):
    def opener(entry):
        if entry.name.startswith("refuses"):
            raise ConnectionRefused(entry.name, "nothing listens", "start it")
        if entry.name.startswith("misconfigured"):
            raise ConfigError("hosts.yaml: line 3")
        if entry.name.startswith("kills"):
            os.kill(os.getpid(), signal.SIGKILL)
        if entry.name.startswith("locked") and options.prompt("Passphrase: ") != "right":
            options.prompt("Passphrase: ")
        return Remote(Endpoint(entry.name, "local", ""))
    return opener
worker.build_opener = opener_for
sys.exit(worker.main())
"""

# Gives a recorded answer, then says of the program after it which targets it was asked to reach.
INTERPRETER = """\
{head}import json, sys
read, line = sys.stdin.buffer.read, sys.stdin.buffer.readline
line(), read(int(line()))
header = json.loads(line())
read(header["request_len"]), read(header["pynvml_len"])
body = open({answer!r}, "rb").read()
sys.stdout.buffer.write(b"\\n" + {marker!r} + b"%d\\n" % len(body) + body)
sys.stdout.buffer.flush()
if header["stay_s"]:
    read(int(line()))
    asked = json.loads(line())
    said = {{"listening": [[asked["ports"][0], ""], [1, "held"]]}} if asked["role"] == "listen" else {{
        "reached": [[*target, "", 0.1] for target in asked["targets"]]}}
    sys.stdout.buffer.write(b"\\nGPULAUNCH-ANSWER-1 %s\\n" % json.dumps(said).encode())
    sys.stdout.buffer.flush()
    line()
"""


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the interpreter of hosts that answer; shards open hosts as `SHARD` does."""
    answer, program = tmp_path / "answer.json", tmp_path / "python"
    answer.write_text(json.dumps(RECORDED))
    program.write_text(INTERPRETER.format(head=first_lines("-IS"), answer=str(answer), marker=MARKER))
    program.chmod(0o755)

    def start() -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-c", SHARD.format(root=str(ROOT))]
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    monkeypatch.setattr(client, "_start", start)
    return str(program)


def _access(prompt: Callable[[str], str] | None = None) -> ShardAccess:
    return ShardAccess(Inventory(), SharedAnswers(prompt, lambda _lines, _question: "no"))


def _request(entry: HostEntry) -> AgentRequest:
    return AgentRequest(entry.name)


def test_shards_merge_answers_and_errors_in_the_order_of_hosts(python: str) -> None:
    names = ["a", "refuses-1", "b", "no-python", "c"]
    entries = [HostEntry(name, python="/nowhere/python" if name == "no-python" else python) for name in names]
    targets = ProbeTargets("main", "192.0.2.1", "nonce", (29500,), ())
    came: list[str] = []
    with client.Shards(_access(), 2) as shards:
        gathered, reach = shards.gather(
            entries, _request, targets=targets, on_answer=lambda entry, *_: came.append(entry.name)
        )
        processes = shards._processes
    assert list(gathered.facts) == ["a", "b", "c"]
    assert [facts.host for facts in gathered.facts.values()] == ["a", "b", "c"]
    assert {name: type(error) for name, error in gathered.errors.items()} == {
        "refuses-1": ConnectionRefused,
        "no-python": PythonNotFound,
    }
    refused = gathered.errors["refuses-1"]
    assert (refused.detail, refused.fix, refused.hosts) == ("nothing listens", "start it", ("refuses-1",))
    assert [(each.from_host, each.port, each.ok) for each in reach] == [(name, 29500, True) for name in "abc"]
    assert sorted(came) == sorted(names)
    assert all(process.returncode is not None for process in processes)


def test_a_fix_has_the_login_of_a_host_that_a_shard_has_reached(python: str) -> None:
    entries = [HostEntry(name, python=python) for name in ("main", "a", "b")]

    def request(entry: HostEntry) -> AgentRequest:
        return AgentRequest(entry.name, paths={"input:0": "data"} if entry.name != "b" else {})

    def opener(entry: HostEntry) -> Connection:
        return LocalConnection(Endpoint(entry.name, "local", ""))

    round_of_questions = Collection(entries, request, opener, 2, None)
    gathered, _ = round_of_questions.collect_sharded(_access(), 2, None, lambda _: 0)
    assert gathered.logins == {"main": "main", "a": "ssh -p 2222 a"}


def test_hosts_of_a_shard_that_dies_are_named_as_not_known(python: str) -> None:
    entries = [HostEntry(name, python=python) for name in ("a", "kills", "c", "also-unknown")]
    with client.Shards(_access(), 2) as shards:
        gathered, _ = shards.gather(entries, _request, targets=None, on_answer=lambda *_: None)
    assert {"a", "c"} <= set(gathered.facts)
    lost = gathered.errors["kills"]
    assert isinstance(lost, ShardEnded)
    assert lost.detail == "not known: the local process that was to ask it was killed by signal 9"


def test_a_mistake_in_the_files_ends_the_command(python: str) -> None:
    entries = [HostEntry(name, python=python) for name in ("a", "misconfigured")]
    with client.Shards(_access(), 1) as shards, pytest.raises(ConfigError, match="line 3"):
        shards.gather(entries, _request, targets=None, on_answer=lambda *_: None)


def test_a_passphrase_is_asked_once_for_all_shards(python: str) -> None:
    questions: list[str] = []

    def prompt(question: str) -> str:
        questions.append(question)
        return "right"

    entries = [HostEntry(f"locked-{number}", python=python) for number in range(2)]
    with client.Shards(_access(prompt), 2) as shards:
        gathered, _ = shards.gather(entries, _request, targets=None, on_answer=lambda *_: None)
    assert set(gathered.facts) == {"locked-0", "locked-1"}
    assert questions == ["Passphrase: "]


def test_a_wrong_answer_is_asked_again() -> None:
    given = iter(["wrong", "right"])
    person = SharedAnswers(lambda _question: next(given), None)
    assert [person.ask(0, (), "q", secret=True) for _ in range(2)] == ["wrong", "right"]
    assert [person.ask(CLIENT, (), "q", secret=True) for _ in range(2)] == ["wrong", "right"]


def test_the_main_host_listens_while_shards_ask(python: str) -> None:
    entries = [HostEntry(name, python=python) for name in ("main", "a", "refuses")]
    answered: list[str] = []

    def opener(entry: HostEntry) -> Connection:
        return LocalConnection(Endpoint(entry.name, "local", ""))

    def probe(*_: object) -> tuple[()]:
        raise AssertionError("hosts that have connected are not connected to again")

    def on_done(entry: HostEntry, _result: HostFacts | GpulaunchError) -> None:
        answered.append(entry.name)

    collection = Collection(entries, _request, opener, 64, on_done)
    gathered, reach = collection.collect_sharded(_access(), 2, probe, lambda _facts: 29501)
    assert list(gathered.facts) == ["main", "a"]
    assert list(gathered.errors) == ["refuses"]
    assert [(each.from_host, each.to_host, each.port, each.ok) for each in reach] == [
        ("a", "main", 29501, True),
        ("a", "main", 1, False),
    ]
    assert sorted(answered) == ["a", "main", "refuses"]
    assert set(collection.clocks) == {"main", "a"}


def test_where_the_main_host_does_not_answer_the_others_connect_to_the_first_that_does(python: str) -> None:
    entries = [HostEntry(name, python=python) for name in ("refuses", "a", "b")]

    def opener(entry: HostEntry) -> Connection:
        if entry.name == "refuses":
            raise ConnectionRefused(entry.name, "no")
        return LocalConnection(Endpoint(entry.name, "local", ""))

    def probe(order: Sequence[HostEntry], *_: object) -> tuple[Reach, ...]:
        main, other = (entry.name for entry in order)
        return (Reach(other, main, "", 29501, ok=True, error="", ms=0.0),)

    collection = Collection(entries, _request, opener, 64, lambda *_: None)
    gathered, reach = collection.collect(probe, lambda _facts: 29501)
    assert list(gathered.errors) == ["refuses"]
    assert [(each.from_host, each.to_host) for each in reach] == [("b", "a")]


def test_a_shard_ends_with_its_client() -> None:
    argv = [sys.executable, "-c", SHARD.format(root=str(ROOT))]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shard:
        shard.communicate(b"", timeout=20)
        assert shard.returncode == 1


def test_a_shard_imports_nothing_of_its_working_directory_or_pythonpath(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "pickle", "struct", "sitecustomize", "launcher"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f":{tmp_path}:.")
    with client._start() as shard:
        shard.communicate(b"", timeout=20)
        assert (shard.returncode, (tmp_path / "ran").exists()) == (1, False)


@pytest.mark.parametrize(
    ("hosts", "cores", "expected"),
    [(511, 8, 0), (512, 8, 4), (512, 2, 2), (10_000, 1, 1), (10_000, 3, 3), (10_000, 64, 4)],
)
def test_shard_count(hosts: int, cores: int, expected: int) -> None:
    assert choose_shard_count(hosts, cores) == expected


def test_what_closed_connections_leave_is_freed_as_hosts_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Circle:
        def __init__(self) -> None:
            self.me = self

    left: weakref.WeakSet[Circle] = weakref.WeakSet()
    most = [0]

    def opener(entry: HostEntry) -> Connection:
        left.add(Circle())
        most[0] = max(most[0], len(left))
        raise ConnectionRefused(entry.name, "nothing listens")

    monkeypatch.setattr(worker, "build_opener", lambda *_: opener)
    hosts = tuple((n, HostEntry(f"h{n}"), AgentRequest(f"h{n}")) for n in range(200))
    writer = FrameWriter(io.BytesIO())
    gc.collect()  # what other tests have left takes long to free, and no second collection begins meanwhile
    gc.disable()  # nothing but the shard looks for circles
    try:
        worker.ask_hosts(ShardRequest(hosts, Inventory(), width=1), writer, worker._Person(writer))
    finally:
        gc.enable()
    assert most[0] < 64


def test_errors_travel_whole() -> None:
    import copy  # noqa: PLC0415 - copy goes the way of pickle

    error = HostError("a", "no", "do").with_document({"x": 1})
    again = copy.copy(error)
    assert (again.message, again.fix, again.host, again.detail, again.document) == (
        "a: no",
        "do",
        "a",
        "no",
        {"x": 1},
    )
    assert str(again) == "a: no"
