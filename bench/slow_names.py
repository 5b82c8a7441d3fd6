"""Names that no host has, asked from a name server that knows none, fails, is slow, or says nothing.

    python -m bench.slow_names [--names 10000] [--kinds unknown fails late silent ...] [--tree OTHER_CHECKOUT]

The whole `gpulaunch preflight`, into a pipe, in network and mount namespaces of its own (root, or a kernel
that lets users have them), where the name server is this script. One row for each way in which it answers;
where it answers fewer than 25 a second to a shard, the preflight ends after two time-outs of 10 s: one until
that is known, and one for the names that were asked about last. Target: 2.5, with what the machine takes.
"""

import argparse
import asyncio
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import cast

from bench.common import ROOT, Target, as_installed, tell

_LATE_S = 5.0
_LIMITED = 300
_UNKNOWN, _FAILED = b"\x81\x83", b"\x81\x82"
KINDS = ("unknown", "fails", "late", "silent", "trickles", "limited")
"""Each name is unknown; the server fails; it says so 5 s late (glibc gives up after 5 s, so nothing comes of
it); it says nothing; it answers one question a second; it answers 300 a second and drops the others."""
_GIVEN_UP = ("late", "silent", "trickles")
_MOST_TIMEOUTS = 2.5


def main() -> int:
    """Measure each kind and print it."""
    arguments = _arguments()
    if arguments.serve:
        return asyncio.run(_serve(arguments.serve))
    if not arguments.inside:
        return _enter_namespaces()
    print("| the name server | wall, s | CPU, s | memory, MiB | lines | said of how many |")
    print("|---|---|---|---|---|---|", flush=True)
    walls = {kind: _measure(kind, arguments.names, arguments.tree) for kind in arguments.kinds}
    base_s = walls.get("unknown", 0.0)
    return tell(
        [
            Target(f"names, the server {kind}: time-outs", (walls[kind] - base_s) / 10, _MOST_TIMEOUTS)
            for kind in arguments.kinds
            if kind in _GIVEN_UP
        ]
    )


def _enter_namespaces() -> int:
    if not shutil.which("unshare") or not shutil.which("ip"):
        sys.exit("this needs unshare and ip")
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    inner = [sys.executable, "-m", "bench.slow_names", "--inside", *sys.argv[1:]]
    script = (
        'ip link set lo up; file=$(mktemp); echo "nameserver 127.0.0.1" >"$file"; '
        'mount --bind "$file" /etc/resolv.conf && rm "$file" && exec "$@"'
    )
    argv = ["unshare", *as_root, "--mount", "--net", "sh", "-c", script, "sh", *inner]
    return subprocess.run(argv, cwd=ROOT, check=False).returncode


def _measure(kind: str, names: int, tree: Path) -> float:
    """Print the row of one kind; return the wall time."""
    serve = [sys.executable, "-m", "bench.slow_names", "--serve", kind]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(serve, cwd=ROOT, stdout=subprocess.PIPE) as server,
    ):
        assert server.stdout is not None
        server.stdout.readline()
        (Path(folder) / ".ssh").mkdir(mode=0o700)
        inventory, said = Path(folder) / "hosts.yaml", Path(folder) / "said"
        # no common beginning: they do not fold
        listed = "".join(f"  n{number * 2654435761 % 2**32:08x}: {{}}\n" for number in range(names))
        inventory.write_text(f"hosts:\n{listed}")
        argv = [sys.executable, "-m", "launcher.cli", "preflight", "-i", str(inventory), "all"]
        env = {**as_installed(), "HOME": folder, "PYTHONPATH": str(tree)}
        began = time.monotonic()
        with said.open("wb") as out:
            client = subprocess.Popen(
                argv, env=env, cwd=tree, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
            _, _, usage = os.wait4(client.pid, 0)
        wall_s = time.monotonic() - began
        server.kill()
        text = said.read_text()
    kinds = re.findall(r"^CRITICAL .*?(?:\((\d+) hosts\))?: (its name .*)", text, re.MULTILINE)
    told = "; ".join(f"{count or 'few'} {reason.removeprefix('its name ')}" for count, reason in kinds)
    cpu_s, memory_mib, lines = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text.count("\n")
    print(f"| {kind} | {wall_s:.1f} | {cpu_s:.1f} | {memory_mib:.0f} | {lines} | {told} |", flush=True)
    return wall_s


class _NameServer(asyncio.DatagramProtocol):
    """Answers questions in one way."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._spare, self._last = 1.0, time.monotonic()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer, or not."""
        if self._kind == "late":
            asyncio.get_running_loop().call_later(_LATE_S, self._answer, data, addr)
        elif self._kind != "silent" and self._bears_one():
            self._answer(data, addr)

    def _bears_one(self) -> bool:
        rate = {"trickles": 1, "limited": _LIMITED}.get(self._kind)
        if rate is None:
            return True
        now = time.monotonic()
        self._spare = min(max(1.0, rate / 10), self._spare + rate * (now - self._last))
        self._last = now
        bears = self._spare >= 1
        self._spare -= bears
        return bears

    def _answer(self, query: bytes, address: tuple[str, int]) -> None:
        end = query.index(b"\0", 12) + 5  # name, type, class
        flags = _FAILED if self._kind == "fails" else _UNKNOWN
        counts = struct.pack(">HHHH", 1, 0, 0, 0)
        self._transport.sendto(query[:2] + flags + counts + query[12:end], address)


async def _serve(kind: str) -> int:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
    sock.bind(("127.0.0.1", 53))
    await asyncio.get_running_loop().create_datagram_endpoint(lambda: _NameServer(kind), sock=sock)
    print("ready", flush=True)
    await asyncio.Event().wait()
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--names", type=int, default=10_000)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument(
        "--tree", type=Path, default=ROOT, metavar="DIR", help="another checkout of gpulaunch"
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
