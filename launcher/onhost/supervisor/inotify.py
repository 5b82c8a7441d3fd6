"""Changes of files as the kernel reports them (inotify(7)), by ctypes: Python has no call for it."""

import contextlib
import os
import struct

MODIFY, MOVED_TO, CREATE, DELETE, DELETE_SELF, MOVE_SELF = 0x2, 0x80, 0x100, 0x200, 0x400, 0x800
OVERFLOW = 0x4000
HEADER = struct.Struct("iIII")  # watch, changes, cookie, length of the name


class Inotify:
    """Descriptor that is readable after a change; `fd` is -1 where the kernel or its limits refuse one."""

    def __init__(self) -> None:
        self.fd = -1
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            self._calls = ctypes.CDLL(None)
            self.fd = self._calls.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def watch(self, path: str, changes: int) -> bool:
        """Watch a file or directory for these changes; return whether the kernel does."""
        return self.fd >= 0 and self._calls.inotify_add_watch(self.fd, os.fsencode(path), changes) >= 0

    def read(self) -> list[tuple[int, str]]:
        """Return the changes since the last call, each with the name of its file in a watched directory."""
        found = []
        with contextlib.suppress(OSError):
            while data := os.read(self.fd, 65536):
                at = 0
                while at < len(data):
                    _, changes, _, size = HEADER.unpack_from(data, at)
                    at += HEADER.size + size
                    found.append((changes, os.fsdecode(data[at - size : at].rstrip(b"\0"))))
        return found
