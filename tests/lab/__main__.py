"""`python -m tests.lab up|down|profile`: a lab by hand, or for a bench."""

import argparse
import sys
from pathlib import Path

from tests.lab.bringup import LabError, down
from tests.lab.gpus import silicon
from tests.lab.hosts import Lab


def parser() -> argparse.ArgumentParser:
    """Return the command line of the lab."""
    top = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="bring simulated hosts up (root)")
    up.add_argument("--hosts", type=int, default=3, help="how many (default 3)")
    up.add_argument(
        "--names", default="", help="their names as a node set, such as l40s-[01-03]; wins over --hosts"
    )
    up.add_argument(
        "--out", type=Path, required=True, help="directory for hosts.yaml, ssh_config, known_hosts and keys"
    )
    up.add_argument(
        "--profile",
        default="",
        help="simulated GPUs: a profile name or file, or one per host with commas,"
        " in the order of their names",
    )
    gone = commands.add_parser("down", help="remove everything that up made")
    gone.add_argument("--out", type=Path, required=True)
    profile = commands.add_parser(
        "profile", help="turn a saved `nvidia-smi -q -x` into a simulated-GPU profile"
    )
    profile.add_argument("arguments", nargs=argparse.REMAINDER)
    return top


def main(arguments: list[str]) -> int:
    """Run one command and return its exit status."""
    options = parser().parse_args(arguments)
    if options.command == "down":
        down(options.out)
        return 0
    if options.command == "profile":
        return silicon().main(options.arguments)
    try:
        profiles = [name for name in options.profile.split(",") if name]
        lab = Lab.up(options.names or options.hosts, options.out, profiles=profiles, keep=True)
    except (LabError, ValueError) as error:  # an unknown profile, too
        sys.stderr.write(f"{error}\n")
        return 1
    for host in lab.hosts:
        sys.stdout.write(f"{host.name} {host.address}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
