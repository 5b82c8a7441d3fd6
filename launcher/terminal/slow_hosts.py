"""Which hosts a command still waits for, at a terminal."""

import sys
from collections.abc import Collection

from launcher.config.inventory import HostEntry
from launcher.config.node_sets import fold_hosts
from launcher.terminal.output import echo, is_asking


def name_slow_hosts(entries: Collection[HostEntry], hint: str = "") -> None:
    """Name hosts that a person waits for, unless they wait for the person's answer to a question."""
    if entries and sys.stderr.isatty() and not is_asking():
        echo(f"waiting for {fold_hosts(entry.name for entry in entries)}{hint}", err=True)
