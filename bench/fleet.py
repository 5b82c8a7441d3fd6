"""A fleet of simulated hosts: one sshd under many names, one thread that answers for all of their agents.

An interpreter for each host would take this machine's cores from the client. So each host's interpreter is a
shell that passes its bytes to and from one process, which answers as a recorded host of 8 GPUs did, with
names, addresses, boot ids and UUIDs of the host's own; connects to the main host succeed without being tried.
What the client sends, receives and judges is what it would with so many machines.
"""

import asyncio
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from bench.common import ROOT
from bench.loopback import Loopback
from launcher.remote.agent import MARKER
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import decode, encode

RECORDING = ROOT / "tests/preflight/recordings/8xh100.json"
_ANSWER = b"\nGPULAUNCH-ANSWER-1 %s\n"
_INTERPRETER = """\
#!{bash}
exec 3<>/dev/tcp/127.0.0.1/{port}
cat <&3 &
cat >&3
kill %1
"""


class Recorded:
    """A recorded host's answer as that of any other host."""

    def __init__(self, file: Path = RECORDING) -> None:
        facts = encode(decode(HostFacts, json.loads(file.read_text())["facts"]))
        facts["host"], facts["identity"]["boot_id"] = "@HOST", "@BOOT"
        facts["identity"]["now_unix"] = "@NOW"
        facts["network"]["ssh_server_address"] = "@ADDRESS"
        self._text = json.dumps(facts).replace("GPU-0000", "GPU-@NUMBER")

    def of(self, host: str, number: int) -> bytes:
        """Return the document of one host."""
        address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        text = self._text.replace("@HOST", host).replace("@BOOT", f"boot-{number}")
        text = text.replace("@ADDRESS", address).replace('"@NOW"', str(time.time()))
        return text.replace("@NUMBER", f"{number:04x}").encode()


@contextmanager
def fleet(folder: Path, hosts: int) -> Iterator[Loopback]:
    """Start sshd and the process' thread that answers; yield hosts.yaml and ssh_config of the fleet.

    The home of their logins is empty: this user's ~/.bashrc would be run once for each host, side by side.
    """
    home = folder / "home-of-hosts"
    home.mkdir()
    with Loopback.up(folder, hosts, options=(f"SetEnv HOME={home}",)) as loopback:
        server = _Server({name: number for number, name in enumerate(loopback.names)})
        threading.Thread(target=server.run, daemon=True).start()
        server.ready.wait()
        interpreter = folder / "python-of-the-fleet"
        interpreter.write_text(_INTERPRETER.format(bash=shutil.which("bash"), port=server.port))
        interpreter.chmod(0o755)
        # An interpreter as a default: it is the same for hosts that are listed and for others.
        named = {name: {"python": str(interpreter)} for name in loopback.names}
        loopback.inventory.write_text(
            yaml.dump({"hosts": named}, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))
        )
        yield loopback


class _Server:
    """Answers what agents and the programs after them are asked."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers
        self._recorded = Recorded()
        self.ready = threading.Event()
        self.port = 0

    def run(self) -> None:
        """Serve for as long as this process lives."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=2048)
        self.port = int(server.sockets[0].getsockname()[1])
        self.ready.set()
        await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readline()  # the loader
            await reader.readexactly(int(await reader.readline()))
            line = await reader.readline()
            first = json.loads(line)
            if "request_len" in first:  # the agent; what connects to a host again sends the next program only
                host = json.loads(await reader.readexactly(first["request_len"]))["host"]
                await reader.readexactly(first["pynvml_len"])
                body = self._recorded.of(host, self._numbers[host])
                writer.write(b"\n" + MARKER + b"%d\n" % len(body) + body)
                if size := await reader.readline():
                    await reader.readexactly(int(size))
                line = await reader.readline()
            while line:
                writer.write(_ANSWER % json.dumps(_probe_answer(json.loads(line))).encode())
                line = await reader.readline()
        except (OSError, ValueError, asyncio.IncompleteReadError):
            pass  # that client has gone
        finally:
            writer.close()


def _probe_answer(request: dict[str, Any]) -> dict[str, Any]:
    if request.get("role") == "listen":
        return {"listening": [[port or 40000, ""] for port in request["ports"]]}
    return {"reached": [[address, port, "", 0.3] for address, port in request["targets"]]}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where, fleet(Path(where), 10) as started:
        print(started.inventory.read_text())
