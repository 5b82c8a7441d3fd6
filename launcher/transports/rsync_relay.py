"""What a program starts where it would start ssh: joins its own two pipes to the socket that argv names.

    python rsync_relay.py SOCKET HOST COMMAND...

The command goes first, as one line of JSON; who listens runs it over the connection that is open already.
"""

import json
import os
import shutil
import socket
import sys
import threading


def main(path: str, command: list[str]) -> None:
    """Carry bytes both ways until the far side ends."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(path)
    link.sendall(json.dumps(command).encode() + b"\n")
    threading.Thread(target=_send, args=(link,), daemon=True).start()
    with link.makefile("rb", buffering=0) as far, open(1, "wb", buffering=0, closefd=False) as out:
        shutil.copyfileobj(far, out, 1 << 16)


def _send(link: socket.socket) -> None:
    while data := os.read(0, 1 << 16):
        link.sendall(data)
    link.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[3:])
