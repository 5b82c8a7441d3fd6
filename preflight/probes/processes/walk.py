"""All processes of the host, read once."""

from __future__ import annotations

import os
from typing import Any

from ..fact import because
from .proc_pid import Stat, gpu_devices, open_files, read_stat


class Walk:
    """All processes of the host, read once."""

    def __init__(self, inodes: frozenset[str]) -> None:
        """Read every stat, and the open files of every process that lets us; `inodes` are sockets to find."""
        self.stats: dict[int, Stat] = {}
        self.gpu_files: dict[int, Any] = {}
        self.holders: dict[str, list[int]] = {}
        self.unreadable = False
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    self.stats[int(name)] = read_stat(int(name))
                except (OSError, IndexError, ValueError):
                    continue
        self.kernel = {pid for pid, stat in self.stats.items() if pid == 2 or stat.ppid == 2}
        own = os.getpid()
        for pid in sorted(self.stats.keys() - self.kernel - {own}):
            self._open_files(pid, inodes)

    def _open_files(self, pid: int, inodes: frozenset[str]) -> None:
        try:
            targets = open_files(self.stats[pid])
        except PermissionError as error:
            self.unreadable = True
            self.gpu_files[pid] = because(error)
            return
        except OSError:
            self.gpu_files[pid] = []
            return
        self.gpu_files[pid] = gpu_devices(targets)
        for target in targets & inodes:
            self.holders.setdefault(target, []).append(pid)

    def ancestors(self, pid: int) -> list[int]:
        """Return the pids above `pid`, nearest first."""
        above: list[int] = []
        parent = self.stats[pid].ppid if pid in self.stats else 0
        while parent in self.stats and parent not in above:
            above.append(parent)
            parent = self.stats[parent].ppid
        return above
