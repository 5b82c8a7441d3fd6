"""Hosts that go silent at each stage of a connection, among as many that answer: what they cost a preflight.

    python -m bench.silent_hosts [--hosts 400] [--stages keys login] [--tree OTHER_CHECKOUT]

Half of the hosts, every second one, are stand-ins in a process of their own (bench/mute_hosts.py); the others
are those of bench/fleet.py. The preflight prints each host as it answers (`--jsonl`). All silent hosts cost
one time-out where they wait side by side: 10 s, or 35 s for a program that says nothing. Target: at most 1.5
on top of a preflight of the others alone. `--tree` measures another checkout of gpulaunch on the same hosts.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paramiko
import yaml

from bench.common import ROOT, Target, as_installed, tell
from bench.fleet import fleet
from bench.loopback import Loopback
from bench.mute_hosts import STAGES, MuteHosts

_MOST_TIMEOUTS = 1.5
_TIMEOUT_S = {"answer": 35.0}
_POLL_S = 0.2


def main() -> int:
    """Measure each stage and print it."""
    arguments = _arguments()
    if arguments.serve:
        return _serve(*arguments.serve)
    targets = []
    print("| silent after | wall, s | last host that answers, s | its delay, s | threads |")
    print("|---|---|---|---|---|")
    alone_s = alone_last_s = 0.0
    for stage in ("", *arguments.stages):
        with (
            tempfile.TemporaryDirectory() as folder,
            fleet(Path(folder), arguments.hosts) as loopback,
            _silent_ones(loopback, stage),
        ):
            wall_s, last_s, threads = _measure(Path(folder), loopback, arguments.tree)
        if not stage:
            alone_s, alone_last_s = wall_s, last_s
        delay_s = last_s - alone_last_s
        print(
            f"| {stage or 'none is'} | {wall_s:.1f} | {last_s:.1f} | {delay_s:.1f} | {threads} |", flush=True
        )
        if stage:
            limit_s = _TIMEOUT_S.get(stage, 10.0)
            more_s = wall_s - alone_s
            targets.append(Target(f"silent after {stage}: time-outs", more_s / limit_s, _MOST_TIMEOUTS))
    return tell(targets)


@contextmanager
def _silent_ones(loopback: Loopback, stage: str) -> Iterator[None]:
    """Let every second host be one that goes silent; without a stage they are left out."""
    hosts = yaml.safe_load(loopback.inventory.read_text())["hosts"]
    silent = loopback.names[::2]
    if not stage:
        hosts = {name: values for name, values in hosts.items() if name not in silent}
        loopback.inventory.write_text(yaml.safe_dump({"hosts": hosts}))
        yield
        return
    argv = [
        sys.executable,
        "-m",
        "bench.silent_hosts",
        "--serve",
        stage,
        str(loopback.folder / "host_ed25519"),
    ]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            known = loopback.known_hosts.read_text()
            loopback.known_hosts.write_text(known + known.replace(f":{loopback.port} ", f":{port} "))
            for name in silent:
                hosts[name] = {**hosts[name], "port": port}
            loopback.inventory.write_text(yaml.safe_dump({"hosts": hosts}))
            yield
        finally:
            server.kill()


def _measure(folder: Path, loopback: Loopback, tree: Path) -> tuple[float, float, int]:
    """Return the wall time, when the last host that has facts was printed, and the most threads."""
    home = folder / "client"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    (home / ".ssh" / "config").write_bytes(loopback.ssh_config.read_bytes())
    env = {**as_installed(folder / "bytecode"), "HOME": str(home), "PYTHONPATH": str(tree)}
    argv = [
        sys.executable,
        "-m",
        "launcher.cli",
        "preflight",
        "-i",
        str(loopback.inventory),
        "--jsonl",
        "all",
    ]
    started, last_s, most = time.monotonic(), 0.0, [0]
    with subprocess.Popen(
        argv, env=env, cwd=tree, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as client:
        threading.Thread(target=_watch, args=(client, most), daemon=True).start()
        assert client.stdout is not None
        for line in client.stdout:
            document = json.loads(line)
            if document.get("reached"):
                last_s = time.monotonic() - started
    return time.monotonic() - started, last_s, most[0]


def _watch(client: subprocess.Popen[bytes], most: list[int]) -> None:
    while client.poll() is None:
        try:
            threads = len(list(Path(f"/proc/{client.pid}/task").iterdir()))
        except OSError:
            return
        most[0] = max(most[0], threads)
        time.sleep(_POLL_S)


def _serve(stage: str, host_key: str) -> int:
    with MuteHosts.up(stage, paramiko.Ed25519Key(filename=host_key)) as hosts:
        print(hosts.port, flush=True)
        threading.Event().wait()
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hosts", type=int, default=400)
    parser.add_argument("--stages", nargs="+", default=STAGES, choices=STAGES)
    parser.add_argument(
        "--tree", type=Path, default=ROOT, metavar="DIR", help="another checkout of gpulaunch"
    )
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
