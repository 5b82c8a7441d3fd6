"""SSH and TCP connections to hosts of the lab, as a user makes them."""

import socket
import subprocess
import sys

from tests.lab.hosts import Lab, LabHost

CONNECT_TIMEOUT_S = 0.5


def ssh(lab: Lab, *words: str, **options: str) -> subprocess.CompletedProcess[str]:
    extra = [f"-o{key}={value}" for key, value in {"ConnectTimeout": "5", **options}.items()]
    argv = ["ssh", "-F", str(lab.ssh_config), *extra, *words]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=30, check=False, stdin=subprocess.DEVNULL
    )


def connect(address: str, port: int = 22, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
    socket.create_connection((address, port), timeout_s).close()


def connect_between(source: LabHost, target: LabHost, port: int, timeout_s: float = CONNECT_TIMEOUT_S) -> str:
    """Return "" or the exception name that a TCP connect from one host to another ends with."""
    script = (
        "import socket, sys\n"
        "try: socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3]))\n"
        "except OSError as error: print(type(error).__name__)"
    )
    argv = [sys.executable, "-c", script, target.address, str(port), str(timeout_s)]
    return source.run(argv).stdout.strip()
