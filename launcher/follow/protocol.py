"""What goes over the wire to a host's supervisor and what comes back. Pure.

To the host: the two lengths, the source and the request, both compressed, then one line per word: "beat",
"bye", "stop 10". Back: any login noise, the marker line with a JSON document, then frames: a JSON header line
and, for a header with `size`, that many raw bytes.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from launcher import safe_json
from launcher.config.disconnect_options import DisconnectOptions
from launcher.config.inventory import HostEntry
from launcher.planning.plan import NodePlan, Plan, RestartSpec
from launcher.planning.run_record import build_record_head, build_record_nodes
from launcher.remote.program_source import build_bootstrap_argv, compress_program, read_program_source
from preflight.facts.json_codec import encode
from preflight.frozen import dataclass

MARKER = b"GPULAUNCH-RUN-1 "

PREAMBLE_KEPT = 4096
REHEARSED_USAGE_S = 0.5  # a rehearsal takes seconds: at a run's pace no sample would see its steps
MAX_HEADER = 16 << 20
MAX_SIZE = 64 << 20
_LEVEL_EACH = 1  # of compression, of what differs from host to host: a third the size, a fifth the time
_BESIDE = ("gauge", "stacks", "start_launcher")  # programs that lie in every run directory


class ProtocolError(Exception):
    """What came back does not follow the protocol."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame from a host: a JSON header, and the bytes that it announced."""

    header: Mapping[str, Any]
    data: bytes


def build_supervisor_argv(python: str, mode: str, run_id: str) -> tuple[str, ...]:
    """Return the argv that runs the supervisor's source from stdin; the words at the end are for `ps`."""
    return build_bootstrap_argv(python, "gpulaunch-supervisor", mode, run_id)


def encode_request(document: Mapping[str, Any]) -> bytes:
    """Return what is written to the command's stdin first."""
    return SharedStart(b"").frame(json.dumps(document).encode())


class SharedStart:
    """The start that the requests to many hosts have in common, compressed once for all of them."""

    def __init__(self, start: bytes) -> None:
        self._packer = zlib.compressobj(_LEVEL_EACH)
        self._packed = self._packer.compress(start)

    def frame(self, rest: bytes) -> bytes:
        """Return the supervisor's program and a request with this start."""
        packer = self._packer.copy()
        request = b"".join((self._packed, packer.compress(rest), packer.flush()))
        return _supervisor() + b"%d\n" % len(request) + request


def _supervisor() -> bytes:
    return compress_program(read_program_source("supervisor"), "supervisor.py")


def pack_programs() -> None:
    """Pack what a start sends, for a client that waits anyway: the start itself finds it packed."""
    _supervisor()
    for name in ("rank", "guard", *_BESIDE):
        read_program_source(name)


class StartRequests:
    """The requests that start the nodes of a plan. What is the same in all of them is written once.

    That is how every node is reached (`entries`), which each host keeps for clients that look for the run on
    it: 1,000 times 1,000 nodes would take longer to write than all else of a launch together.
    """

    def __init__(
        self,
        plan: Plan,
        disconnect: DisconnectOptions,
        entries: Iterable[HostEntry] = (),
        restart: RestartSpec | None = None,
        *,
        digest: bool = False,
    ) -> None:
        self._plan = plan
        self._disconnect = disconnect
        self._restart = restart
        self._digest = digest
        nodes = json.dumps(build_record_nodes(plan, entries))
        rank = json.dumps(read_program_source("rank").decode())
        start = f'{{"mode": "start", "spec": {{"rank_source": {rank}, "launch": {{"nodes": {nodes}, '
        self._start = SharedStart(start.encode())

    def build_request(self, node: NodePlan) -> bytes:
        """Return the request that starts one node."""
        head = json.dumps(build_record_head(self._plan, node))
        spec = json.dumps(self._spec(node))
        return self._start.frame(f"{head[1:]}, {spec[1:]}}}".encode())

    def _spec(self, node: NodePlan) -> dict[str, Any]:
        """Return what the supervisor is to do, without the launch's record and the rank's program."""
        plan, disconnect, restart = self._plan, self._disconnect, self._restart
        return {
            "run_id": plan.run_id,
            "job": plan.job_name,
            "host": node.host,
            "node_rank": node.node_rank,
            "nodes": len(plan.nodes),
            "first_rank": node.first_rank,
            "ranks": len(node.ranks.slots),
            "world_size": plan.world_size,
            "argv": node.argv,
            "env": node.env,
            "unset": node.unset,
            "cwd": node.cwd,
            "files": [
                *node.files,
                *_beside(*_BESIDE),
                *(_beside("guard") if "GPULAUNCH_GUARD" in node.env else []),
                *_client(plan, restart),
            ],
            "on_disconnect": disconnect.policy,
            "disconnect_timeout_s": disconnect.host_timeout_s,
            "grace_s": disconnect.stop_s,
            "before_stop": encode(disconnect.before_stop),
            "slurm_job": disconnect.slurm_job,
            "hang_timeout_s": plan.hang_timeout_s,
            "usage_every_s": REHEARSED_USAGE_S if "GPULAUNCH_REHEARSE" in node.env else None,
            "gpus": node.gpus,
            "main_port": plan.main_port if node.node_rank == 0 and plan.opens_port else None,
            "digest": self._digest,
            "restart": None if restart is None else restart.known,
            "restart_order": restart.order if restart is not None and node.node_rank == 0 else None,
        }


def _client(plan: Plan, restart: RestartSpec | None) -> list[tuple[str, str]]:
    """Return the client that restarts a run on one host, from that host, while no client follows it."""
    if restart is None or len(plan.nodes) > 1:
        return []
    from launcher.remote.client_pack import PACK_NAME, pack_client  # noqa: PLC0415 - only with `restart:`

    return [(PACK_NAME, pack_client())]


def _beside(*names: str) -> list[tuple[str, str]]:
    """Return programs of launcher/onhost/ that lie in the run directory."""
    return [(f"{name}.py", read_program_source(name).decode()) for name in names]


def follow_request(run_id: str, offsets: Mapping[str, int], **options: object) -> bytes:
    """Return the request that follows a run from these offsets on.

    Options: `digest` (true: of ranks other than 0 digests in place of logs), `viewer` (true: looking keeps no
    attached run alive), `once` (true: what exists now, no more), `only` (names of logs), `since`
    ({"bytes": n}, {"lines": n} or {"seconds": n}), `ends` (by log: the last bytes before its offset).
    """
    return encode_request({"mode": "follow", "run_id": run_id, "offsets": dict(offsets), **options})


def has_answer(stdout: bytes) -> bool:
    """Return whether the marker's document is complete."""
    at = stdout.find(MARKER)
    return at >= 0 and b"\n" in stdout[at:]


class FrameReader:
    """Turns the bytes of a channel into the marker's document and then frames, whatever the chunks are."""

    def __init__(self) -> None:
        self.preamble = b""  # what came before the marker: the login shell's words, or why there is no answer
        self._rest = bytearray()
        self._marked = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield what is complete. The first frame is the marker's document. Raises ProtocolError."""
        self._rest += data
        while True:
            frame = self._next() if self._marked else self._find_marker()
            if frame is None:
                return
            yield frame

    def _find_marker(self) -> Frame | None:
        at = self._rest.find(MARKER)
        end = self._rest.find(b"\n", at) if at >= 0 else -1
        self.preamble = bytes(self._rest[: at if end >= 0 else None][-PREAMBLE_KEPT:])
        if end < 0:
            if len(self._rest) > MAX_HEADER:
                raise ProtocolError("no answer of the supervisor among much other output")
            return None
        line = bytes(self._rest[at + len(MARKER) : end])
        del self._rest[: end + 1]
        self._marked = True
        return Frame(_parse(line), b"")

    def _next(self) -> Frame | None:
        end = self._rest.find(b"\n", 0, MAX_HEADER)
        if end < 0:
            if len(self._rest) > MAX_HEADER:
                raise ProtocolError("a header without end")
            return None
        header = _parse(bytes(self._rest[:end]))
        size = header.get("size", 0)
        if not isinstance(size, int) or not 0 <= size <= MAX_SIZE:
            raise ProtocolError(f"a frame of size {size!r}")
        if len(self._rest) < end + 1 + size:
            return None
        data = bytes(self._rest[end + 1 : end + 1 + size])
        del self._rest[: end + 1 + size]
        return Frame(header, data)


def _parse(line: bytes) -> Mapping[str, Any]:
    try:
        document = safe_json.loads(line)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ProtocolError(f"not a header: {line[:80]!r}")
    return document
