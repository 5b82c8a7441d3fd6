"""Client CPU of a preflight per host, against a bare paramiko exec, pdsh and clush on the same hosts.

    python -m bench.preflight_hosts --inventory DIR/hosts.yaml --ssh-config DIR/ssh_config [HOST...]
    python -m bench.preflight_hosts --loopback 100      # one sshd on this machine under 100 names
    ... --replay                                        # hosts on this machine: no agents run on its cores

Every way reaches the same hosts, 64 at a time, in a process of its own, interpreter start and imports of
byte-compiled modules included; `true` is what the others run. `gather` also streams the agent and decodes its
answer; `whole preflight` is the command itself, with its judging, with every node's connect to the main host
and with its JSON. Targets: both <= 1.3x bare paramiko; pdsh and clush >= 5x the whole preflight.

Where the hosts are simulated on this machine, a hundred agents at work on the same cores make every
instruction of the client slower, which `true` does not. So bare paramiko is also measured while it runs the
very same agent, sent and read by hand: that ratio is what our own code adds. With --replay hosts answer what
one agent has answered before, and the machine is the client's (see bench/replay.py).
"""

import argparse
import base64
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.common import Cost, Target, as_installed, cost_of_command, side_by_side, tell
from bench.loopback import Loopback
from bench.replay import replaying

GATHER = """
import sys
from pathlib import Path
from launcher.remote.agent import AgentRequest, gather_facts
from launcher.config.inventory_reader import load_inventory
from launcher.transports.base import OpenOptions
from launcher.transports.ssh.endpoint import build_opener
inventory = load_inventory(Path(sys.argv[1]))
entries = inventory.resolve(sys.argv[3:])
opener = build_opener(inventory, OpenOptions(), Path(sys.argv[2]))
got = gather_facts(entries, lambda entry: AgentRequest(entry.name, ports=(29500,), free_ports=4), opener)
for error in got.errors.values():
    sys.stderr.write(error.message + chr(10))
sys.exit(len(got.errors))
"""

# paramiko and nothing else: it is told addresses, key and known_hosts, so it reads no ssh_config; one thread
# per host, 64 at a time.
BARE = """
import base64, json, sys
from concurrent.futures import ThreadPoolExecutor
import paramiko
task = json.load(sys.stdin)
asked, command, payload = task["hosts"], task["command"], base64.b64decode(task["payload"])
keys = {path: paramiko.PKey.from_path(path) for path in {host["key"] for host in asked}}
known = paramiko.HostKeys()
for path in {host["known_hosts"] for host in asked}:
    known.load(path)
class Verify(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client, hostname, key):
        if not known.check(hostname, key):
            raise paramiko.SSHException("unknown host key of " + hostname)
def one(host):
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(Verify())
    client.connect(host["address"], host["port"], host["user"], pkey=keys[host["key"]],
                   allow_agent=False, look_for_keys=False)
    into, out, _ = client.exec_command(command)
    if payload:
        into.write(payload)
        into.channel.shutdown_write()
        out.read()
    status = out.channel.recv_exit_status()
    client.close()
    return status
with ThreadPoolExecutor(64) as pool:
    sys.exit(max(pool.map(one, asked)))
"""


def main() -> int:
    """Measure and tell."""
    arguments = _arguments()
    if arguments.loopback:
        with (
            tempfile.TemporaryDirectory() as folder,
            Loopback.up(Path(folder), arguments.loopback) as loopback,
        ):
            arguments.inventory, arguments.ssh_config = loopback.inventory, loopback.ssh_config
            return _measure(arguments, loopback.names)
    return _measure(arguments, arguments.hosts or _all_hosts(arguments.inventory))


def _measure(arguments: argparse.Namespace, names: list[str]) -> int:
    inventory, rounds = arguments.inventory.resolve(), arguments.rounds
    with tempfile.TemporaryDirectory() as home:
        file = replaying(inventory, names) if arguments.replay else inventory
        ways = _ways(file, arguments.ssh_config.resolve(), names, Path(home))
        for way in ways.values():
            way()  # bytecode and the machine's caches
        costs = side_by_side(ways, rounds)
    print(f"{len(names)} hosts, median of {rounds} rounds, client CPU (user + system, children included)")
    for name, cost in costs.items():
        each_ms = 1000 * cost.cpu_s / len(names)
        print(f"  {name:15} {each_ms:8.2f} ms per host   {cost.wall_s:7.2f} s in all")
    targets = [
        Target(f"{ours} / {bare}", costs[ours].cpu_s / costs[bare].cpu_s, 1.3)
        for ours in ("gather", "whole preflight")
        for bare in ("bare paramiko", "bare with agent")
    ]
    whole = costs["whole preflight"].cpu_s
    targets += [
        Target(f"{other} / whole preflight", costs[other].cpu_s / whole, 5.0, at_least=True)
        for other in ("pdsh", "clush")
        if other in costs
    ]
    return tell(targets)


def _ways(inventory: Path, ssh_config: Path, names: list[str], home: Path) -> dict[str, Callable[[], Cost]]:
    python, joined = sys.executable, ",".join(names)
    (home / ".ssh").mkdir(mode=0o700)
    (home / ".ssh" / "config").write_bytes(ssh_config.read_bytes())
    compiled = as_installed(home / "bytecode")
    env = {**compiled, "HOME": str(home)}
    hosts = _addresses(inventory, ssh_config, names)
    plain = json.dumps({"hosts": hosts, "command": "true", "payload": ""}).encode()
    agent = json.dumps({"hosts": hosts, **_agent(inventory, names)}).encode()
    whole = [python, "-m", "launcher.cli", "preflight", "-i", str(inventory), "--gpus", "none", "--json"]
    ways: dict[str, Callable[[], Cost]] = {
        "gather": lambda: cost_of_command(
            [python, "-c", GATHER, str(inventory), str(ssh_config), *names], env=compiled
        ),
        "whole preflight": lambda: cost_of_command([*whole, *names], env=env, ok=False),
        "bare paramiko": lambda: cost_of_command([python, "-c", BARE], env=compiled, stdin=plain),
        "bare with agent": lambda: cost_of_command([python, "-c", BARE], env=compiled, stdin=agent),
    }
    if shutil.which("pdsh"):
        for_pdsh = os.environ | {"PDSH_SSH_ARGS_APPEND": f"-F {ssh_config}"}
        argv = ["pdsh", "-S", "-R", "ssh", "-f", "64", "-w", joined, "true"]
        ways["pdsh"] = lambda: cost_of_command(argv, env=for_pdsh)
    if shutil.which("clush"):
        ways["clush"] = lambda: cost_of_command(
            ["clush", "-S", "-f", "64", "-o", f"-F {ssh_config}", "-w", joined, "true"]
        )
    return ways


def _addresses(inventory: Path, ssh_config: Path, names: list[str]) -> list[dict[str, object]]:
    """Return what bare paramiko is told: where the hosts are, and which files prove both sides."""
    from launcher.config.inventory_reader import load_inventory  # noqa: PLC0415 - not measured, not imported otherwise
    from launcher.transports.ssh.endpoint import build_endpoint  # noqa: PLC0415

    loaded = load_inventory(inventory)
    found = [build_endpoint(entry, loaded, ssh_config) for entry in loaded.resolve(names)]
    return [
        {
            "address": each.address,
            "port": each.port,
            "user": each.user,
            "key": each.identity_files[0],
            "known_hosts": each.known_hosts_files[0],
        }
        for each in found
    ]


def _agent(inventory: Path, names: list[str]) -> dict[str, str]:
    """Return the command and the input that run the agent as gather does."""
    from launcher.config.inventory_reader import load_inventory  # noqa: PLC0415
    from launcher.remote import agent as gather  # noqa: PLC0415 - not measured, not imported otherwise
    from launcher.remote import program_source  # noqa: PLC0415

    python = load_inventory(inventory).resolve(names[:1])[0].python
    payload = b"".join(gather.pack_payload(gather.AgentRequest("bench", ports=(29500,), free_ports=4)))
    command = shlex.join(program_source.build_bootstrap_argv(python, site=True))
    return {"command": command, "payload": base64.b64encode(payload).decode()}


def _all_hosts(inventory: Path) -> list[str]:
    from launcher.config.inventory_reader import load_inventory  # noqa: PLC0415 - not measured, not imported otherwise

    return list(load_inventory(inventory).hosts)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("hosts", nargs="*", help="host names (default: all of the inventory)")
    parser.add_argument("--inventory", type=Path, default=Path("hosts.yaml"))
    parser.add_argument("--ssh-config", type=Path, default=Path("ssh_config"))
    parser.add_argument("--loopback", type=int, default=0, metavar="N", help="N names of one sshd of our own")
    parser.add_argument("--replay", action="store_true", help="for hosts on this machine: no agents run")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
