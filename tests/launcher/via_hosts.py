"""Hosts of `via:` on this machine, and an empty configuration directory for their consent."""

import sys
from pathlib import Path
from typing import Any

import yaml

from launcher.config.inventory import Inventory
from launcher.config.inventory_reader import load_inventory
from launcher.config.via_options import Via
from launcher.transports import open_endpoint
from launcher.transports.base import Connection, Endpoint, OpenOptions

PIPE = str(Path(__file__).with_name("pipe_exec.py"))
LOCAL = Endpoint("localhost", "local", "")
NOBODY = OpenOptions()


def inventory_of(folder: Path, **hosts: Any) -> Inventory:
    """Return the inventory of a hosts.yaml in a folder."""
    path = folder / "hosts.yaml"
    path.write_text(yaml.safe_dump({"hosts": hosts}))
    return load_inventory(path)


def opened(via: Via, *, own: bool = True, options: OpenOptions = NOBODY, name: str = "pod-0") -> Connection:
    """Open a host whose `via:` runs locally."""
    endpoint = Endpoint(name, "prefix", name, via=via, base=LOCAL, own_command=own)
    return open_endpoint(endpoint, options)


def piped(*options: str) -> Via:
    """Return the `via:` of the stand-in for kubectl and its kind."""
    return Via("command", words=(sys.executable, "-IS", PIPE, *options))
