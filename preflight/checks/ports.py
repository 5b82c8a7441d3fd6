"""The port where the ranks meet."""

from collections.abc import Iterator

from preflight.checks.finding import Problem, Severity
from preflight.checks.holder_text import advise_on_holder, classify_by_pid, describe_holder
from preflight.checks.registry import host_check
from preflight.facts.host import HostFacts, Ports, Socket
from preflight.facts.missing import Missing
from preflight.job import Expect, Job

_OTHER_PORT = "choose another with --port"
_LISTENS = "LISTEN"
_HOLDS_NOTHING = "TIME_WAIT"  # torch binds with SO_REUSEADDR, which a socket in TIME_WAIT does not hinder


@host_check("PORT001", gate=True)
def the_main_port_can_be_bound(
    facts: HostFacts,
    ports: Ports,
    job: Job,
    expect: Expect,
    is_main: bool,  # noqa: FBT001 - supplied by name
) -> Iterator[Problem]:
    """The main port can be bound on the main host.

    The store of rank 0 listens on it (29500 unless the run config says otherwise). If it is taken, accelerate
    stops on several hosts and moves silently to another port on one. It is tested by a real bind as torch
    does it, since a look at listening sockets misses ports that are bound and not listening, or on one
    address only.

    When another port was proven free, gpulaunch uses that one on every node and this is a warning.
    Fix: `gpulaunch clean-zombies HOST` when a leftover holds it; wait for a holder that lives, or have its
    owner end it; or --port.
    Source: torch/csrc/distributed/c10d/socket.cpp; accelerate issue 3576.
    """
    if not is_main:
        return
    port = job.main_port
    bind = next((test for test in ports.binds if test.port == port), None)
    holders = [s for s in ports.sockets if s.port == port and s.state != _HOLDS_NOTHING]
    if bind is None:
        yield Problem(
            f"port {port} was not tested" + (f", and {_sockets(holders)}" if holders else ""),
            f"run gpulaunch preflight {facts.host} again",
            subject=f"port {port}",
            severity=Severity.UNKNOWN,
        )
        return
    if bind.ok:
        return
    kin = [item for item in classify_by_pid(facts, expect).values() if port in item.held.ports]
    held = "; ".join(describe_holder(item) for item in kin) or _sockets(holders) or bind.error
    other = next((free for free in ports.free if free != port), None)
    fixes = dict.fromkeys(advise_on_holder(facts, item, _OTHER_PORT) for item in kin)
    fix = "; ".join(fixes) or f"sudo ss -tanp 'sport = :{port}' names its owner; {_OTHER_PORT}"
    instead = f", {other} will be used instead" if other else " and no free port was found"
    severity = Severity.WARNING if other else Severity.CRITICAL
    yield Problem(f"port {port} cannot be bound{instead}: {held}", fix, f"port {port}", severity)


def _sockets(sockets: list[Socket]) -> str:
    """Name who listens; else who is connected."""
    shown = [socket for socket in sockets if socket.state == _LISTENS] or sockets
    return "; ".join(f"{s.state} on {s.address} by {s.owner}, {_pids(s)}" for s in shown)


def _pids(socket: Socket) -> str:
    if isinstance(socket.pids, Missing):
        return f"process not visible ({socket.pids.reason})"
    return "pid " + ", ".join(map(str, socket.pids)) if socket.pids else "no process in sight"


@host_check("PORT002", Severity.WARNING)
def the_main_port_is_not_ephemeral(
    ports: Ports,
    job: Job,
    is_main: bool,  # noqa: FBT001 - supplied by name
) -> Iterator[Problem]:
    """The main port lies outside the range from which the kernel takes ports for outgoing connections.

    Inside that range any connection may take it just before the launch, so that it fails now and then.

    Fix: a port below the range, with --port or `main_port:`.
    Source: net.ipv4.ip_local_port_range; NVIDIA/enroot issue 243.
    """
    low, high = ports.ephemeral
    if is_main and low <= job.main_port <= high:
        below = next((port for port in ports.free if not low <= port <= high), None)
        yield Problem(
            f"port {job.main_port} lies in the range {low}-{high} of outgoing connections, which may "
            "take it any time",
            f"--port {below}" if below else "choose one outside that range with --port",
            subject=f"port {job.main_port}",
        )
