"""All processes of the host, read once."""

import os
from typing import Any

from ..fact import explain_exception
from ..namespaces import is_own_proc
from .proc_pid import ProcessStat, open_files, read_stat, select_gpu_devices


class ProcessWalk:
    """All processes of the host, read once."""

    def __init__(self, inodes: frozenset[str]) -> None:
        """Read every stat, and the open files of every process that lets us; `inodes` are sockets to find."""
        self.stats: dict[int, ProcessStat] = {}
        self.gpu_files: dict[int, Any] = {}
        self.holders: dict[str, list[int]] = {}
        self.unreadable = False
        self.unread: dict[int, BaseException] = {}  # exists, and nothing can be said of it
        if not is_own_proc():
            raise OSError("/proc is that of another PID namespace, so what it says is of other processes")
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            try:
                self.stats[pid] = read_stat(pid)
            except OSError:
                continue  # gone, or hidden by the mount option hidepid
            except (IndexError, ValueError) as error:
                self.unread[pid] = error
        # By the kernel's flag: in a container pid 2 is not a kthreadd, but the first that its PID 1 started.
        self.kernel = {pid for pid, stat in self.stats.items() if stat.kernel}
        own = os.getpid()
        for pid in sorted(self.stats.keys() - self.kernel - {own}):
            self._open_files(pid, inodes)

    def _open_files(self, pid: int, inodes: frozenset[str]) -> None:
        try:
            targets = open_files(self.stats[pid])
        except PermissionError as error:
            self.unreadable = True
            self.gpu_files[pid] = explain_exception(error)
            return
        except OSError:
            self.gpu_files[pid] = []
            return
        except Exception as error:  # of this process alone: the others are reported all the same
            self.unread[pid] = error
            self.gpu_files[pid] = explain_exception(error)
            return
        self.gpu_files[pid] = select_gpu_devices(targets)
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
