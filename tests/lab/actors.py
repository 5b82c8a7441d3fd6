"""Processes that misbehave, started on a host; each is a context manager that ends all who took part."""

import contextlib
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

from tests.lab.hosts import LabHost, LabProcess

ACTOR = Path(__file__).with_name("actor.py")
END_TIMEOUT_S = 10.0

Holding = Literal["listen", "bind", "inherit"]


@dataclass(frozen=True, slots=True)
class Actor:
    """A running misbehaviour. `pid` is the one to look at; `cast` names everyone (parent, rank0, ...)."""

    host: LabHost
    process: LabProcess
    cast: dict[str, int]

    @property
    def pid(self) -> int:
        """Return the pid of the process that matters, as its host numbers it."""
        return self.cast["pid"]

    def end(self) -> None:
        """Kill everyone and wait until the host has forgotten them. Raises TimeoutError."""
        pids = {
            self.process.pid,
            *(pid for role, pid in self.cast.items() if role not in ("descriptor", "thread")),
        }
        for pid in pids:
            self.host.kill(pid)
        with contextlib.suppress(TimeoutError):
            self.process.wait(END_TIMEOUT_S)
        self.process.close()
        deadline = time.monotonic() + END_TIMEOUT_S
        while alive := pids & self.host.pids():
            if time.monotonic() > deadline:
                raise TimeoutError(f"processes {sorted(alive)} of {self.host.name} survive SIGKILL")
            time.sleep(0.005)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def act(
    host: LabHost, kind: str, *arguments: str, user: str = "root", env: Mapping[str, str] | None = None
) -> Actor:
    """Start one of actor.py's kinds and wait until it is in place."""
    process = host.popen([sys.executable, "-I", str(ACTOR), kind, *arguments], user=user, env=env)
    try:
        cast: dict[str, int] = json.loads(process.read_line())
    except BaseException:
        process.kill()
        process.close()
        raise
    return Actor(host, process, cast)


def hold_port(
    host: LabHost, port: int, *, address: str = "0.0.0.0", how: Holding = "listen", user: str = "root"
) -> Actor:
    """Hold a TCP port: listening, bound without listening, or by an orphan that inherited the socket."""
    return act(host, how, address, str(port), user=user)


def zombies(host: LabHost, count: int = 1, *, user: str = "root") -> Actor:
    """Make zombies: children of a live parent (`cast["parent"]`) that never reaps them."""
    return act(host, "zombie", str(count), user=user)


def half_dead(host: LabHost, *, user: str = "root") -> Actor:
    """Make a process whose main thread has ended (state Z) while another thread lives."""
    actor = act(host, "half-dead", user=user)
    _await_state(actor, "Z")
    return actor


def stopped(host: LabHost, *, user: str = "root", env: Mapping[str, str] | None = None) -> Actor:
    """Make a process in state T."""
    actor = act(host, "stopped", user=user, env=env)
    _await_state(actor, "T")
    return actor


def uninterruptible(host: LabHost, *, user: str = "root") -> Actor:
    """Make a process in state D, which no signal but SIGKILL reaches, and the child it waits for."""
    actor = act(host, "uninterruptible", user=user)
    child = _await_child(actor)  # a page being read shows D as well; only below a child it is the lasting one
    _await_state(actor, "D")
    return replace(actor, cast={**actor.cast, "child": child})


def stubborn(host: LabHost, *, user: str = "root", env: Mapping[str, str] | None = None) -> Actor:
    """Make a process that ignores SIGTERM, SIGINT and SIGHUP."""
    return act(host, "stubborn", user=user, env=env)


def daemons(
    host: LabHost, count: int = 1, *, user: str = "root", env: Mapping[str, str] | None = None
) -> Actor:
    """Make a process that forked daemons (`cast["daemon0"]`, ...) in sessions of their own."""
    return act(host, "daemons", str(count), user=user, env=env)


def live_ranks(host: LabHost, count: int = 2, *, main_port: int = 29500, user: str = "root") -> Actor:
    """Make ranks (`cast["rank0"]`, ...) below a live launcher (`cast["launcher"]`)."""
    return act(host, "tree", str(count), str(main_port), user=user)


def orphan_ranks(
    host: LabHost,
    count: int = 2,
    *,
    main_port: int = 29500,
    user: str = "root",
    env: Mapping[str, str] | None = None,
) -> Actor:
    """Make ranks whose launcher was killed with -9, so that PID 1 is their parent."""
    actor = act(host, "orphans", str(count), str(main_port), user=user, env=env)
    actor.process.wait()
    return actor


def _await_state(actor: Actor, letter: str) -> None:
    deadline = time.monotonic() + END_TIMEOUT_S
    while actor.host.state(actor.pid) != letter:
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {actor.pid} is {actor.host.state(actor.pid)!r}, not {letter!r}")
        time.sleep(0.005)


def _await_child(actor: Actor) -> int:
    deadline = time.monotonic() + END_TIMEOUT_S
    while True:
        for pid in actor.host.pids():
            if actor.host.parent(pid) == actor.pid:
                return pid
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {actor.pid} has no child")
        time.sleep(0.005)
