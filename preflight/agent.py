"""The agent: the one file that travels to a host, looks, and prints what it saw as one JSON document.

Standard library only (plus psutil where the host's Python has it, plus the pynvml source handed to it), Python
>= 3.9, imports nothing of ours. It never imports torch and creates no CUDA context.

The contract with whoever sends it (`launcher.gather`):

* The source is executed with `__name__ == "__main__"` (or imported and `serve(stdin, stdout)` called).
* stdin then holds exactly: one line of JSON `{"request_len": N, "pynvml_len": M}` and a newline, N bytes of the
  request as UTF-8 JSON, M bytes of the zlib-compressed source of pynvml.py (M = 0: none, nvidia-smi is asked).
  Nothing after that is read; stdin need not be closed.
* request: `{"host": str, "ports": [int], "free_ports": int, "seed": str, "paths": {role: path}, "script": str,
  "skip": [probe names], "deadline_s": float}`; every key may be absent.
* stdout then gets `\\nGPULAUNCH-FACTS-1 <nbytes>\\n` and exactly nbytes of UTF-8 JSON: the fields of
  `preflight.facts.HostFacts`. The leading newline ends whatever login noise came before.
* exit codes: 0 answered; 86 the Python here is older than 3.9 (stderr says so); 87 the payload was cut or malformed.
"""

import sys

EXIT_OLD_PYTHON = 86
EXIT_BAD_PAYLOAD = 87

if sys.version_info < (3, 9):
    sys.stderr.write(
        "gpulaunch needs Python 3.9 or newer here; %s is %s\n" % (sys.executable, sys.version.split()[0])
    )
    sys.exit(EXIT_OLD_PYTHON)

import json  # noqa: E402 - after the version check, which must run on any Python 3
import os  # noqa: E402
from typing import Any, BinaryIO, Dict, Optional  # noqa: E402

AGENT_VERSION = "1"
MARKER = b"GPULAUNCH-FACTS-1"


def serve(stdin: BinaryIO, stdout: BinaryIO) -> int:
    """Read one request from `stdin`, answer it on `stdout`; return the exit code (see the module's docstring)."""
    try:
        header = json.loads(stdin.readline())
        request_bytes = _read_exactly(stdin, int(header["request_len"]))
        packed = _read_exactly(stdin, int(header["pynvml_len"]))
        request = json.loads(request_bytes)
    except (ValueError, KeyError, TypeError, EOFError) as error:
        sys.stderr.write("gpulaunch agent: the request is cut or malformed: %r\n" % (error,))
        return EXIT_BAD_PAYLOAD
    return main(request, packed or None, stdout)


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = stream.read(count - len(data))
        if not part:
            raise EOFError("%d of %d bytes came" % (len(data), count))
        data += part
    return data


def main(request: Dict[str, Any], pynvml_source: Optional[bytes], out: BinaryIO) -> int:
    """Run the probes that `request` does not skip and write the answer to `out`. Return 0."""
    facts: Dict[str, Any] = {
        "host": str(request.get("host", "")),
        "agent_version": AGENT_VERSION,
        "probe_ms": {},
    }
    _ = pynvml_source  # read by the NVML probe
    write_answer(facts, out)
    return 0


def write_answer(facts: Dict[str, Any], out: BinaryIO) -> None:
    """Write marker line and document."""
    body = json.dumps(facts, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    out.write(b"\n%s %d\n" % (MARKER, len(body)) + body)
    out.flush()


if __name__ == "__main__":
    code = serve(sys.stdin.buffer, sys.stdout.buffer)
    sys.stdout.flush()
    os._exit(code)  # a probe that hangs must not keep the agent
