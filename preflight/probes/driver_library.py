"""Libraries and device files of the NVIDIA driver, as this user finds them. Imports nothing of ours."""

import contextlib
import ctypes
import os
import re
import stat
from typing import Any, Optional

_FOLDERS = ("/usr/lib/wsl/lib/", "/usr/local/nvidia/lib64/", "/usr/lib64-nvidia/", "/run/opengl-driver/lib/")
"""Where containers, WSL2, Colab and NixOS keep the driver's libraries; the loader may not search these."""

_DEVICE = re.compile(r"nvidia(ctl|-uvm|\d+)")
_SYSTEM_FOLDERS = ("/usr/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/", "/usr/lib64/")
"""Where distributions install them, and the loader of any process looks after LD_LIBRARY_PATH."""


def load_library(name: str, search_path: Optional[str] = None) -> tuple[Optional[Any], str, str]:
    """Return a driver's library, the name that it was found by, and "" or why it could not be loaded.

    The name is the path where the loader does not search. `search_path`: the LD_LIBRARY_PATH of the process
    that is to load it, where that is not ours: a loader reads the variable once, at the start of its process.
    """
    refused = ""
    if search_path is not None and search_path != os.environ.get("LD_LIBRARY_PATH", ""):
        own = [folder.rstrip("/") + "/" for folder in search_path.split(":") if folder]
        for folder in (*own, *_SYSTEM_FOLDERS):
            with contextlib.suppress(OSError):
                return ctypes.CDLL(folder + name), name, ""
    for folder in ("", *_FOLDERS):
        if folder and not os.path.exists(folder + name):
            continue
        try:
            return ctypes.CDLL(folder + name), folder + name, ""
        except OSError as error:
            refused = refused or str(error)
    return None, "", refused


def list_refused_device_files(folder: str = "/dev") -> str:
    """Return which device files of GPUs this user cannot open and why, to follow a message; "" for none."""
    try:
        names = sorted(name for name in os.listdir(folder) if _DEVICE.fullmatch(name))
    except OSError:
        return ""
    refused = []
    for name in names:
        path = folder + "/" + name
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
        except OSError as error:
            refused.append("%s: %s%s" % (path, error.strerror, _mode(path)))
    return "; " + ", ".join(refused) if refused else ""


def _mode(path: str) -> str:
    """Return the mode and the owner as `ls -l` has them."""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    return " (%s, uid %d, gid %d)" % (stat.filemode(found.st_mode), found.st_uid, found.st_gid)
