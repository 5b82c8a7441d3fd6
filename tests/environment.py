"""The environment that every test starts from, whatever the shell, job or container around it has set.

What a variable changes in gpulaunch has a test that sets it.
"""

import atexit
import os
import pwd
import re
import resource
import shutil
import signal
import sys
import tempfile
from pathlib import Path

KEPT = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "EXAMPLES", "CONTRACT_PREFIX", "MUT_LOG")
KEPT_STARTS = ("PYTEST_", "FUZZ_", "LAB_", "GPULAUNCH_RELIABILITY", "COV_", "COVERAGE_", "HYPOTHESIS_")
PLAIN_FOLDER = re.compile(r"/[\w/.-]{0,23}", re.ASCII)
"""A TMPDIR for tests: a socket's path has at most 107 bytes, of which pytest takes 80, and tests write paths
into shell scripts and ssh's settings. Tests make the odd paths that they try."""
SETTINGS = {"LANG": "C.UTF-8", "TERM": "dumb"}
DESCRIPTORS = 1024
"""How many a process may hold after a login on most machines."""


def account_home() -> Path:
    """Return the home of the user's account, which HOME is not in a test; "/" where there is no account."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path("/")


def settle() -> None:
    """Give this process and those that it starts what a login on a bare machine has.

    That is an empty home, few variables, and the signals, umask and limit of descriptors that no shell or
    container has changed.
    """
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_STARTS)}
    if not PLAIN_FOLDER.fullmatch(kept.get("TMPDIR", "")):
        kept.pop("TMPDIR", None)
        os.environ.pop("TMPDIR", None)
        tempfile.tempdir = None  # may have been found from it
    home = os.environ["HOME"] if "PYTEST_XDIST_WORKER" in os.environ else _new_home()
    path = kept.get("PATH", os.defpath) + ":/usr/sbin:/sbin"  # nft and ip, whoever runs this
    os.environ.clear()
    os.environ.update({**kept, **SETTINGS, **_name(), "HOME": home, "PATH": path})
    os.umask(0o022)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if resource.RLIM_INFINITY != soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    # A shell that starts a command in the background has it ignore Ctrl-C, nohup has it ignore SIGHUP; so do
    # all processes that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _name() -> dict[str, str]:
    """Return a name for the user of a container who has no account."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return {"LOGNAME": "ada"}
    return {}


def first_lines(*options: str) -> str:
    """Return how a Python program starts whose interpreter has any path: `#!` allows none with spaces."""
    words = ("exec", sys.executable, *options, "$0", "$@")
    return "#!/bin/sh\n" + " ".join(f'"{word}"' for word in words) + "\n"  # a string to Python


def _new_home() -> str:
    home = tempfile.mkdtemp(prefix="gpulaunch-home-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home
