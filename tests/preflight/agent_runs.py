"""Runs the agent the way gather does: streamed to a fresh process, with the payload behind it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.remote.program_source import build_bootstrap_argv, compress_program, read_agent_source
from launcher.remote.pynvml_source import pack_pynvml
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import decode
from preflight.facts.missing import Missing


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    facts: HostFacts
    seconds: float
    stderr: str


def ask_until(ask: Callable[[float], Answer], is_told: Callable[[HostFacts], bool]) -> HostFacts:
    """Ask with more and more time, until what does not hang has answered in it, on a slow machine too."""
    for deadline_s in (1.5, 10.0, 40.0):
        facts = ask(deadline_s).facts
        if is_told(facts):
            break
    return facts


def is_given_up(fact: object) -> bool:
    """Return whether a fact is one that did not come in time; some have less of it than the whole agent."""
    return (
        isinstance(fact, Missing) and fact.code == "timeout" and fact.reason.startswith("no answer within ")
    )


def payload(request: Mapping[str, Any], pynvml: bytes) -> bytes:
    body = json.dumps(request).encode()
    return json.dumps({"request_len": len(body), "pynvml_len": len(pynvml)}).encode() + b"\n" + body + pynvml


def streamed(
    data: bytes, python: str = sys.executable, *, within: Sequence[str] = (), **options: Any
) -> "subprocess.CompletedProcess[bytes]":
    """Return how the agent ended with `data` behind it; pipes are read to their end."""
    return subprocess.run(
        [*within, *build_bootstrap_argv(python, site=True)],
        input=compress_program(read_agent_source(), "agent.py") + data,
        capture_output=True,
        check=False,
        **{"timeout": 60.0, **options},
    )


def run_agent(
    request: Mapping[str, Any] | None = None,
    *,
    python: str = sys.executable,
    environ: Mapping[str, str] | None = None,
    pynvml: bytes | None = None,
    limit_s: float = 60.0,
    within: Sequence[str] = (),
) -> Answer:
    """Return the decoded answer; a child that holds the pipes open costs time.

    `within`: a command that runs the one behind it somewhere else, such as nsenter.
    """
    start = time.monotonic()
    sent = payload(request or {}, pack_pynvml() if pynvml is None else pynvml)
    env = {**os.environ, **(environ or {})}
    done = streamed(sent, python, within=within, timeout=limit_s, env=env)
    seconds = time.monotonic() - start
    assert done.returncode == 0, done.stderr.decode()
    noise, _, rest = done.stdout.partition(b"\nGPULAUNCH-FACTS-1 ")
    assert noise == b""
    count, _, body = rest.partition(b"\n")
    assert len(body) == int(count)
    return Answer(decode(HostFacts, json.loads(body)), seconds, done.stderr.decode())
