"""Client CPU of a preflight per host, against a bare paramiko exec, pdsh and clush on the same hosts.

    python -m bench.preflight_hosts --inventory DIR/hosts.yaml --ssh-config DIR/ssh_config [HOST...]
    python -m bench.preflight_hosts --loopback 100      # one sshd on this machine under 100 names

Every way reaches the same hosts, 64 at a time, in a process of its own, interpreter start and imports
included; `true` is what the others run, while the preflight also streams the agent and decodes its answer.
Targets: gather <= 1.3x bare paramiko; pdsh and clush >= 5x gather.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.common import Cost, Target, cost_of_command, side_by_side, tell
from bench.loopback import Loopback

GATHER = """
import sys
from pathlib import Path
from launcher.gather import AgentRequest, gather
from launcher.inventory import load_inventory
from launcher.transports.base import OpenOptions
from launcher.transports.sshconfig import opener_for
inventory = load_inventory(Path(sys.argv[1]))
entries = inventory.resolve(sys.argv[3:])
opener = opener_for(inventory, OpenOptions(), Path(sys.argv[2]))
got = gather(entries, lambda entry: AgentRequest(entry.name, ports=(29500,), free_ports=4), opener)
for error in got.errors.values():
    sys.stderr.write(error.message + chr(10))
sys.exit(len(got.errors))
"""

# As one writes it with paramiko alone: key and known_hosts loaded once, one thread per host, 64 at a time.
BARE = """
import sys
from concurrent.futures import ThreadPoolExecutor
import paramiko
config = paramiko.SSHConfig.from_path(sys.argv[1])
known = paramiko.HostKeys()
keys = {}
class Refuse(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client, hostname, key):
        if not known.check(self.alias, key):
            raise paramiko.SSHException("unknown host key of " + self.alias)
def one(name):
    found = config.lookup(name)
    client = paramiko.SSHClient()
    policy = Refuse()
    port = int(found.get("port", 22))
    policy.alias = found.get("hostkeyalias", found["hostname"])
    policy.alias = policy.alias if port == 22 else "[%s]:%d" % (policy.alias, port)
    client.set_missing_host_key_policy(policy)
    client.connect(found["hostname"], port, found.get("user"),
                   pkey=keys[found["identityfile"][0]], allow_agent=False, look_for_keys=False)
    _, out, _ = client.exec_command("true")
    status = out.channel.recv_exit_status()
    client.close()
    return status
for name in sys.argv[2:]:
    found = config.lookup(name)
    if found["identityfile"][0] not in keys:
        keys[found["identityfile"][0]] = paramiko.PKey.from_path(found["identityfile"][0])
        known.load(found["userknownhostsfile"])
with ThreadPoolExecutor(64) as pool:
    sys.exit(max(pool.map(one, sys.argv[2:])))
"""


def main() -> int:
    """Measure and tell."""
    asked = _arguments()
    if asked.loopback:
        with tempfile.TemporaryDirectory() as folder, Loopback.up(Path(folder), asked.loopback) as loopback:
            return _measure(loopback.inventory, loopback.ssh_config, loopback.names, asked.rounds)
    names = asked.hosts or _all_hosts(asked.inventory)
    return _measure(asked.inventory, asked.ssh_config, names, asked.rounds)


def _measure(inventory: Path, ssh_config: Path, names: list[str], rounds: int) -> int:
    ways = _ways(inventory, ssh_config, names)
    costs = side_by_side(ways, rounds)
    print(f"{len(names)} hosts, median of {rounds} rounds, client CPU (user + system, children included)")
    for name, cost in costs.items():
        each_ms = 1000 * cost.cpu_s / len(names)
        print(f"  {name:15} {each_ms:8.2f} ms per host   {cost.wall_s:7.2f} s in all")
    ours = costs["gather"].cpu_s
    targets = [Target("gather / bare paramiko", ours / costs["bare paramiko"].cpu_s, 1.3)]
    targets += [
        Target(f"{other} / gather", costs[other].cpu_s / ours, 5.0, at_least=True)
        for other in ("pdsh", "clush")
        if other in costs
    ]
    return tell(targets)


def _ways(inventory: Path, ssh_config: Path, names: list[str]) -> dict[str, Callable[[], Cost]]:
    python, joined = sys.executable, ",".join(names)
    ways: dict[str, Callable[[], Cost]] = {
        "gather": lambda: cost_of_command([python, "-c", GATHER, str(inventory), str(ssh_config), *names]),
        "bare paramiko": lambda: cost_of_command([python, "-c", BARE, str(ssh_config), *names]),
    }
    if shutil.which("pdsh"):
        env = os.environ | {"PDSH_SSH_ARGS_APPEND": f"-F {ssh_config}"}
        argv = ["pdsh", "-S", "-R", "ssh", "-f", "64", "-w", joined, "true"]
        ways["pdsh"] = lambda: cost_of_command(argv, env=env)
    if shutil.which("clush"):
        ways["clush"] = lambda: cost_of_command(
            ["clush", "-S", "-f", "64", "-o", f"-F {ssh_config}", "-w", joined, "true"]
        )
    return ways


def _all_hosts(inventory: Path) -> list[str]:
    from launcher.inventory import load_inventory  # noqa: PLC0415 - not measured, not imported otherwise

    return list(load_inventory(inventory).hosts)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("hosts", nargs="*", help="host names (default: all of the inventory)")
    parser.add_argument("--inventory", type=Path, default=Path("hosts.yaml"))
    parser.add_argument("--ssh-config", type=Path, default=Path("ssh_config"))
    parser.add_argument("--loopback", type=int, default=0, metavar="N", help="N names of one sshd of our own")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
