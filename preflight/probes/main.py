r"""The agent: travels to a host, looks, and prints what it saw as one JSON document.

This module is its door and the table of what it looks at; the looking itself is in the modules beside it,
which travel with it as one text (`read_agent_source` in launcher/remote/program_source.py). Standard library
only (plus psutil where the host's Python has it, plus the pynvml source handed to it), Python >= 3.9, imports
nothing else of ours. It never imports torch and creates no CUDA context.

The contract with its sender (`launcher.remote.agent`):

* The text is executed with `__name__ == "__main__"`.
* stdin then holds exactly: one line of JSON `{"request_len": N, "pynvml_len": M}` and a newline, N bytes of
  request as UTF-8 JSON, M bytes of zlib-compressed source of pynvml.py (M = 0: none, nvidia-smi is asked).
  Nothing after that is read; stdin need not be closed. With `"stay_s": S` in the line, the agent waits S
  seconds after its answer for `<length>\n` and as many bytes of a zlib-compressed program, and runs it as a
  script with what then follows on stdin; the end of stdin ends it sooner.
* request: `{"host": str, "ports": [int], "pids": [int], "free_ports": int, "seed": str, "paths":
  {role: path}, "script": str, "modules": [names], "env": {name: value}, "skip": [names of facts],
  "known": {...}, "deadline_s": float}`; every key may be absent. `modules` are what a script on its way
  imports and does not bring along. `env` are variables of the launch's own, which count before those of the
  host. `pids` are reported whatever they are, other processes where they matter. `known` is what an earlier
  answer held: `boot_id`, `nvidia_module`, `driver`, `packages` (packages_stamp) and `gpus` (UUIDs); where
  boot and driver are the same, the answer leaves out the packages under that stamp, and of these GPUs what
  cannot change. An empty path for the roles hf_cache, tmp and run_dir means the one that Hugging Face, Python
  or gpulaunch would use on the host.
* stdout then gets `\nGPULAUNCH-FACTS-1 <nbytes>\n` and exactly nbytes of UTF-8 JSON: the fields of
  `preflight.facts.host.HostFacts`. The leading newline ends whatever login noise came before.
* exit codes: 0 answered; 87 payload cut or malformed. On a Python older than 3.9, which could not even parse
  this, the bootstrap exits 86 before it unpacks anything.

How it survives a sick host: `probe_runner.py`.
"""

import contextlib
import gc
import json
import os
import signal
import sys
import time
import zlib
from collections.abc import Callable
from typing import BinaryIO

from .assembly import assemble_gpus, assemble_paths, list_named_pids, merge_named
from .fact import Emit, Json, missing
from .probe_runner import Probe, run_probes
from .request import ProbeRequest, read_request

AGENT_VERSION = "1"
MARKER = b"GPULAUNCH-FACTS-1"
EXIT_BAD_PAYLOAD = 87


def serve(stdin: BinaryIO, stdout: BinaryIO) -> int:
    """Read one request from `stdin`, answer it on `stdout`; return the exit code."""
    gc.disable()  # probes do not live long enough to leave much, and each would search its imports
    try:
        header = json.loads(stdin.readline())
        request = _read_exactly(stdin, int(header["request_len"]))
        pynvml = _read_exactly(stdin, int(header["pynvml_len"]))
        stay_s = int(header.get("stay_s", 0))
        ask = read_request(json.loads(request), pynvml or None)
    except (ValueError, KeyError, TypeError, AttributeError, EOFError) as error:
        sys.stderr.write("gpulaunch agent: the request is cut or malformed: %r\n" % (error,))
        return EXIT_BAD_PAYLOAD
    body = json.dumps(run_probe(ask), ensure_ascii=True, separators=(",", ":")).encode("ascii")
    stdout.write(b"\n%s %d\n" % (MARKER, len(body)) + body)
    stdout.flush()
    if stay_s > 0:
        _run_next(stdin, stay_s)
    return 0


def run_probe(ask: ProbeRequest) -> Json:
    """Return the fields of HostFacts as JSON types: every probe in its own child, all side by side."""
    start = time.monotonic()
    answer: Json = {}
    took = run_probes([probe for probe in PROBES if not ask.skip.issuperset(probe.facts)], ask, answer)
    answer["gpus"] = assemble_gpus(answer.get("gpus"))
    answer["paths"] = assemble_paths(answer.get("paths"), ask)
    if list_named_pids(answer):
        named = _named(answer)
        took.update(run_probes([named], ask._replace(deadline_s=named.deadline_s), answer))
    merge_named(answer)
    for probe in PROBES:
        for name in probe.facts:
            if name in ask.skip:
                answer[name] = missing("the request did not ask for it", "not-asked")
    took["all"] = round((time.monotonic() - start) * 1000, 1)
    return {"host": ask.host, "agent_version": AGENT_VERSION, **answer, "probe_ms": took}


def _run_next(stdin: BinaryIO, stay_s: int) -> None:
    """Wait for one more program, then run it in this process, with the rest of `stdin`.

    A second question then needs no second interpreter, which costs both sides more than the question itself.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(stay_s)  # who asked may be gone without a word
    size = stdin.readline()
    if not size.strip().isdigit():
        return
    program = zlib.decompress(_read_exactly(stdin, int(size)))
    signal.alarm(0)
    with contextlib.suppress(SystemExit):
        exec(compile(program, "next.py", "exec", dont_inherit=True), {"__name__": "__main__"})  # noqa: S102 - sent by the client


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = stream.read(count - len(data))
        if not part:
            raise EOFError("%d of %d bytes came" % (len(data), count))
        data += part
    return data


def _probe_of(module: str) -> Callable[[ProbeRequest, Emit], None]:
    """Return the function `probe` of a module of this folder, which is imported when it is called.

    That is in the probe's own child: modules are compiled side by side, and those of a probe that is skipped
    not at all.
    """

    def run(ask: ProbeRequest, emit: Emit) -> None:
        __import__(module, globals(), fromlist=["probe"], level=1).probe(ask, emit)

    return run


PROBES = (
    Probe("nvml", _probe_of("gpus"), ("driver", "gpus"), 15.0),
    Probe("cuda", _probe_of("cuda"), ("cuda",), 15.0),
    Probe("survey", _probe_of("processes_and_ports"), ("processes", "ports", "system"), 10.0),
    Probe("network", _probe_of("network"), ("network",), 5.0),
    Probe("kernel_log", _probe_of("kernel_log"), ("kernel_log",), 9.0),
    Probe("paths", _probe_of("paths"), ("paths",), 5.0),
    Probe("script", _probe_of("script"), ("script",), 5.0),
    Probe("python", _probe_of("python_env"), ("python",), 8.0),
    Probe(
        "host", _probe_of("host"), ("identity", "limits", "environ", "infiniband", "pci_gpus", "claims"), 5.0
    ),
)
"""What runs on a host, the slowest first."""


def _named(answer: Json) -> Probe:
    """Return the probe for what only another probe's answer brought up."""

    def run(_: ProbeRequest, emit: Emit) -> None:
        from .processes.driver_pids import probe_named

        probe_named(emit, answer)

    return Probe("named", run, ("named",), 2.0)


if __name__ == "__main__":
    code = serve(sys.stdin.buffer, sys.stdout.buffer)
    os._exit(code)  # a thread or child that hangs must not keep the agent
