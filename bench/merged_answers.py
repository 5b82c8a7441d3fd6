"""What the client's own process keeps of 1,000 to 10,000 hosts: memory, CPU, threads and descriptors.

    python -m bench.merged_answers [--hosts N...] [--kind answers|unresolved|garbage] [-- OPTION...]

The command is the real one, up to its exit. Only its shards are stand-ins: processes that take the real
request and write the frames of real shards at full speed, each host as a recorded host of 8 GPUs that reaches
the main host, as a name without an address, or with bytes that are no facts. So no ssh runs, which
`bench.scale_curve` measures; what one client merges, judges and prints does not depend on it. The main host
is asked over a real connection, as always. Prints one row for each number of hosts.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.fleet import Recorded, fleet
from bench.scale_curve import client_environment, compile_client
from launcher.errors import NameNotResolved
from launcher.host_checks import collection
from launcher.remote.shards import client
from launcher.remote.shards.frames import (
    FrameWriter,
    HostAnswer,
    HostFailure,
    ShardFinished,
    ShardRequest,
    read_frame,
)
from preflight.facts.host import Reach

_POLL_S = 0.1
_GARBAGE = b"\xff{" + b"garbage " * 8192


def main() -> int:
    """Measure each number of hosts in turn; `--as client` and `--as shard` are the processes of one run."""
    arguments = _arguments()
    if arguments.role == "shard":
        return _be_shard(arguments.kind)
    if arguments.role == "client":
        return _be_client(arguments.kind, arguments.options)
    print("| hosts | exit code | CPU, s | CPU for each host, ms | memory, MiB | threads | descriptors |")
    with tempfile.TemporaryDirectory() as bytecode:
        compile_client(Path(bytecode))
        for hosts in sorted(arguments.hosts):
            with tempfile.TemporaryDirectory() as folder, fleet(Path(folder), hosts) as loopback:
                env = client_environment(Path(folder), loopback, Path(bytecode))
                command = ["preflight", "-i", str(loopback.inventory), *arguments.options, "all"]
                print(_measure(hosts, arguments.kind, command, env, arguments.keep), flush=True)
    return 0


def _be_client(kind: str, command: list[str]) -> int:
    """Run the command in this process, with stand-ins for its shards."""
    from launcher.cli import main as run_command  # noqa: PLC0415 - only a client imports it, as a command does

    argv = [sys.executable, "-m", "bench.merged_answers", "--as", "shard", "--kind", kind]
    client._start = lambda: subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: SLF001
    collection._MAIN_HOST_S = 60.0  # noqa: SLF001 - on a busy machine, too, hosts are not asked a second time
    sys.argv = ["gpulaunch", *command]
    run_command()
    return 0


def _be_shard(kind: str) -> int:
    """Write a frame for each host of the request on stdin, as fast as the client takes them."""
    writer, recorded = FrameWriter(os.fdopen(os.dup(1), "wb")), Recorded()
    os.dup2(2, 1)
    request = read_frame(sys.stdin.buffer)
    for number, entry, _ in request.hosts:
        if kind == "unresolved":
            writer.write(HostFailure(number, NameNotResolved(entry.name, "its name has no address")))
        elif kind == "garbage":
            writer.write(HostAnswer(number, _GARBAGE, time.time()))
        else:
            document = recorded.of(entry.name, number + 1)
            writer.write(HostAnswer(number, document, time.time(), _reach(request, entry.name)))
    writer.write(ShardFinished())
    return 0


def _reach(request: ShardRequest, host: str) -> tuple[Reach, ...]:
    targets = request.targets
    if targets is None:
        return ()
    to = targets.main, targets.address
    return tuple(Reach(host, *to, port, ok=True, error="", ms=0.3) for port in targets.ports)


def _measure(hosts: int, kind: str, command: list[str], env: dict[str, str], keep: Path | None) -> str:
    argv = [sys.executable, "-m", "bench.merged_answers", "--as", "client", "--kind", kind, "--", *command]
    peak = [0.0, 0.0, 0.0]
    out = subprocess.DEVNULL if keep is None else keep.open("wb")
    with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=out) as process:
        cpu_s = 0.0
        while process.poll() is None:
            cpu_s = _sample(process.pid, peak) or cpu_s
            time.sleep(_POLL_S)
    memory, threads, descriptors = peak
    return (
        f"| {hosts} | {process.returncode} | {cpu_s:.1f} | {1000 * cpu_s / hosts:.1f} "
        f"| {memory:.0f} | {threads:.0f} | {descriptors:.0f} |"
    )


def _sample(pid: int, peak: list[float]) -> float:
    """Raise the peaks to what a process has now; return its CPU time without that of its children."""
    base = Path(f"/proc/{pid}")
    try:
        fields = (base / "stat").read_text().rpartition(")")[2].split()
        lines = (base / "smaps_rollup").read_text().splitlines()
        pss_kib = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        now = (pss_kib / 1024, len(list((base / "task").iterdir())), len(list((base / "fd").iterdir())))
    except (OSError, StopIteration, IndexError):
        return 0.0  # it has just ended
    peak[:] = [max(pair) for pair in zip(peak, now, strict=True)]
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hosts", type=int, nargs="+", default=[1000, 3000, 10_000])
    parser.add_argument("--kind", choices=("answers", "unresolved", "garbage"), default="answers")
    parser.add_argument("--keep", type=Path, help="where the output of the command goes (default: nowhere)")
    parser.add_argument("--as", dest="role", choices=("client", "shard"), help=argparse.SUPPRESS)
    parser.add_argument("options", nargs="*", help="of gpulaunch preflight, after --")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
