"""How long a preflight of one 8-GPU host takes, beside `ssh host true` and `ssh host nvidia-smi -q -x`.

    python -m bench.preflight_gpu_host [--profile 8xh100] [--rounds N]                      # root
    python -m bench.preflight_gpu_host --host NAME --inventory DIR/hosts.yaml --ssh-config DIR/ssh_config

Without --host it brings up one host of tests/lab with simulated GPUs, whose nvidia-smi is a stand-in: it does
not wait for a driver, so on real hardware that way takes longer and the preflight looks better. Each way is a
process of its own, turn by turn. What the preflight itself calls its time, from the first connect to the
verdict with no interpreter start of ours in it, should stay under a second.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.common import Target, as_installed, cost_of_command, side_by_side, tell

ANSWER_TARGET_S = 1.0


def main() -> int:
    """Measure and tell."""
    arguments = _arguments()
    if arguments.host:
        return _measure(
            arguments.host, arguments.inventory.resolve(), arguments.ssh_config.resolve(), arguments.rounds
        )
    from tests.lab.hosts import Lab  # noqa: PLC0415 - real hosts need no lab

    folder = tempfile.TemporaryDirectory()
    with folder as name, Lab.up("gpuhost", Path(name) / "lab", profiles=[arguments.profile]) as lab:
        return _measure("gpuhost", lab.inventory_path, lab.ssh_config, arguments.rounds)


def _measure(host: str, inventory: Path, ssh_config: Path, rounds: int) -> int:
    with tempfile.TemporaryDirectory() as home:
        ssh = Path(home) / ".ssh"
        ssh.mkdir(mode=0o700)
        (ssh / "config").write_bytes(ssh_config.read_bytes())
        env = {**as_installed(Path(home) / "cache"), "HOME": home}
        preflight = [sys.executable, "-m", "launcher.cli", "preflight", host, "-i", str(inventory), "--json"]
        by_ssh = ["ssh", "-F", str(ssh_config), host]
        _ask(preflight, env)  # fills the cache
        costs = side_by_side(
            {
                "ssh true": lambda: cost_of_command([*by_ssh, "true"]),
                "ssh nvidia-smi": lambda: cost_of_command([*by_ssh, "nvidia-smi", "-q", "-x"]),
                "preflight": lambda: cost_of_command(preflight, env=env, ok=False),
            },
            rounds,
        )
        answers = [_ask(preflight, env) for _ in range(rounds)]
    (found,) = answers[0]["hosts"].values()
    gpus = len(found["summary"]["gpus"])
    print(f"one host, {gpus} GPUs, {len(found['findings'])} findings, median of {rounds} rounds")
    for name, cost in costs.items():
        print(f"  {name:15} {cost.wall_s:6.2f} s   {1000 * cost.cpu_s:7.1f} ms CPU here")
    for name in ("ssh true", "ssh nvidia-smi"):
        print(f"  preflight / {name}: {costs['preflight'].wall_s / costs[name].wall_s:.2f}")
    seconds = statistics.median(each["seconds"] for each in answers)
    return tell([Target("from connect to verdict, s", seconds, ANSWER_TARGET_S)])


def _ask(preflight: list[str], env: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(preflight, env=env, capture_output=True, check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--profile", default="8xh100", help="simulated GPUs of the lab's host")
    parser.add_argument("--host", default="", help="a host of the inventory instead of a simulated one")
    parser.add_argument("--inventory", type=Path, default=Path("hosts.yaml"))
    parser.add_argument("--ssh-config", type=Path, default=Path("ssh_config"))
    parser.add_argument("--rounds", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
