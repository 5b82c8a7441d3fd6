"""The curve of many hosts: CPU, wall time and memory of a preflight, of pdsh, clush, ansible and pyinfra.

    python -m bench.scale_curve [--hosts 100 300 1000 3000 10000] [--others-up-to 1000] [--tools DIR]
        [--rows FILE] [--plot docs/scale.svg]

All reach one sshd of this machine under many names, 64 at a time. The others run `true`; gpulaunch sends its
agent, reads the facts of 8 GPUs, lets each host connect to the main host, judges and reports (bench/fleet.py
answers for the hosts). A tool that is in neither PATH nor --tools has a row of its own. CPU is user + system
of the client with its own processes (ssh, shards). Memory is the greatest sum of proportional set sizes over
these processes, threads and descriptors are the most at one time. Prints a table; with --plot it draws the
curve, too. A file of --rows keeps what was measured, a line of JSON each, and the plot is of all of them.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.common import as_installed
from bench.fleet import fleet
from bench.loopback import Loopback
from bench.plot import Series, chart

_POLL_S = 0.2
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measured:
    """What one tool took for so many hosts."""

    tool: str
    hosts: int
    cpu_s: float
    wall_s: float
    memory_mib: float
    threads: int
    descriptors: int


def main() -> int:
    """Measure, draw and print."""
    arguments = _arguments()
    rows: list[Measured] = []
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores before the first row")
    print("| tool | hosts | CPU, s | for each host, ms | wall, s | memory, MiB | threads | descriptors |")
    with tempfile.TemporaryDirectory() as bytecode:
        compile_client(Path(bytecode))
        for hosts in sorted(arguments.hosts):
            rows += _rows(hosts, arguments, Path(bytecode))
    if arguments.rows:
        with arguments.rows.open("a") as kept:
            kept.writelines(f"{json.dumps(asdict(row))}\n" for row in rows)
        rows = [Measured(**json.loads(line)) for line in arguments.rows.read_text().splitlines()]
    if arguments.plot:
        arguments.plot.write_text(draw(rows))
    return 0


def compile_client(bytecode: Path) -> None:
    """Check one host, which leaves in `bytecode` what a client imports, for none to compile it again."""
    with tempfile.TemporaryDirectory() as folder, fleet(Path(folder), 1) as loopback:
        env = client_environment(Path(folder), loopback, bytecode)
        _measure("gpulaunch", 1, _preflight(loopback, ""), env)


def _rows(hosts: int, arguments: argparse.Namespace, bytecode: Path) -> Iterator[Measured]:
    """Measure each tool on so many hosts, and print its row."""
    with tempfile.TemporaryDirectory() as folder, fleet(Path(folder), hosts) as loopback:
        env = client_environment(Path(folder), loopback, bytecode, arguments.tools)
        for tool, argv in _commands(loopback, env, arguments.width).items():
            if argv is None:
                print(f"| {tool} | {hosts} | not installed, not measured |", flush=True)
            elif tool == "gpulaunch" or hosts <= arguments.others_up_to:
                row = _measure(tool, hosts, argv, env)
                print(_row(row), flush=True)
                yield row
            else:
                print(f"| {tool} | {hosts} | not measured (--others-up-to) |", flush=True)


def draw(rows: Sequence[Measured]) -> str:
    """Return the plot: three charts side by side, hosts along both logarithmic axes."""
    panels: dict[str, Callable[[Measured], float]] = {
        "CPU of the client, s": lambda row: row.cpu_s,
        "wall time, s": lambda row: row.wall_s,
        "memory of the client, MiB": lambda row: row.memory_mib,
    }
    tools = list(dict.fromkeys(row.tool for row in rows))
    return chart(
        {
            title: [
                Series(tool, [(row.hosts, value(row)) for row in rows if row.tool == tool]) for tool in tools
            ]
            for title, value in panels.items()
        },
        "hosts",
    )


def _commands(loopback: Loopback, env: Mapping[str, str], at_once: int) -> dict[str, list[str] | None]:
    """Return the command of each tool, None where it is not installed."""
    names, config, width = ",".join(loopback.names), str(loopback.ssh_config), str(at_once)
    inventory = loopback.folder / "ansible.ini"
    inventory.write_text("\n".join(loopback.names) + "\n")
    module = loopback.folder / "fleet_inventory.py"
    module.write_text(f"hosts = {loopback.names!r}\n")
    true = ["-m", "raw", "-a", "true", "--ssh-common-args", f"-F {config}"]
    commands = {
        "gpulaunch": _preflight(loopback, width if at_once else ""),
        "pdsh": ["pdsh", "-S", "-R", "ssh", "-f", width, "-w", names, "true"],
        "clush": ["clush", "-S", "-f", width, "-o", f"-F {config}", "-w", names, "true"],
        "ansible": ["ansible", "all", "-i", str(inventory), "-f", width, *true],
        "pyinfra": ["pyinfra", "-y", "--parallel", width, str(module), "exec", "--", "true"],
    }
    found = {tool: shutil.which(argv[0], path=env["PATH"]) for tool, argv in commands.items()}
    return {tool: [path, *commands[tool][1:]] if path else None for tool, path in found.items()}


def _preflight(loopback: Loopback, width: str) -> list[str]:
    argv = [sys.executable, "-m", "launcher.cli", "preflight", "-i", str(loopback.inventory)]
    return [*argv, *(["--parallel", width] if width else []), "--json", "all"]


def client_environment(
    folder: Path, loopback: Loopback, bytecode: Path, tools: Path | None = None
) -> dict[str, str]:
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    (home / ".ssh" / "config").write_bytes(loopback.ssh_config.read_bytes())
    path = os.environ["PATH"] if tools is None else f"{tools}:{os.environ['PATH']}"
    ours = as_installed(bytecode)
    pdsh = f"-F {loopback.ssh_config}"
    return {
        **ours,
        "HOME": str(home),
        "PATH": path,
        "PDSH_SSH_ARGS_APPEND": pdsh,
        "ANSIBLE_HOST_KEY_CHECKING": "0",
    }


def _measure(tool: str, hosts: int, argv: list[str], env: Mapping[str, str]) -> Measured:
    before, started = os.times(), time.monotonic()
    with subprocess.Popen(
        argv, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as client:
        peak = _Peak()
        watcher = threading.Thread(target=_watch, args=(client, peak), daemon=True)
        watcher.start()
        _, errors = client.communicate()
        watcher.join()
    after = os.times()
    if client.returncode and tool != "gpulaunch":  # which is to find fault with a simulated host
        sys.exit(f"{tool} ended with {client.returncode}: {errors.decode('utf-8', 'replace')[-1000:]}")
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    wall_s = time.monotonic() - started
    return Measured(tool, hosts, cpu_s, wall_s, peak.memory_mib, peak.threads, peak.descriptors)


@dataclass(slots=True)
class _Peak:
    memory_mib: float = 0.0
    threads: int = 0
    descriptors: int = 0


def _watch(client: "subprocess.Popen[bytes]", peak: _Peak) -> None:
    while client.poll() is None:
        family = _family(client.pid)
        peak.memory_mib = max(peak.memory_mib, sum(map(_memory_mib, family)))
        peak.threads = max(peak.threads, sum(len(_listed(f"/proc/{pid}/task")) for pid in family))
        peak.descriptors = max(peak.descriptors, sum(len(_listed(f"/proc/{pid}/fd")) for pid in family))
        time.sleep(_POLL_S)


def _family(pid: int) -> list[int]:
    """Return a process and all below it, those that its other threads have started too."""
    below = []
    for task in _listed(f"/proc/{pid}/task"):
        with suppress(OSError):  # a thread that has just ended
            below += Path(f"/proc/{pid}/task/{task}/children").read_text().split()
    return [pid, *(each for child in below for each in _family(int(child)))]


def _memory_mib(pid: int) -> float:
    """Return a process's proportional set size: what several share counts once in their sum."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0  # it has just ended
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _listed(folder: str) -> list[str]:
    """Return the names in a folder of a process, none once it has ended."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - five times faster than Path.iterdir
    except OSError:
        return []


def _row(row: Measured) -> str:
    return (
        f"| {row.tool} | {row.hosts} | {row.cpu_s:.1f} | {1000 * row.cpu_s / row.hosts:.1f} "
        f"| {row.wall_s:.1f} | {row.memory_mib:.0f} | {row.threads} | {row.descriptors} |"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hosts", type=int, nargs="*", default=[100, 300, 1000, 3000, 10_000])
    parser.add_argument("--others-up-to", type=int, default=1000, help="hosts, for all tools but gpulaunch")
    parser.add_argument("--width", type=int, default=64, help="hosts at once; 0: gpulaunch's own default")
    parser.add_argument("--tools", type=Path, help="a directory with ansible and pyinfra, before PATH")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="rows of earlier calls, to add these to")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="where to draw the curve, as SVG")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
