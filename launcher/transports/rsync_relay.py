"""What a program starts where it would start ssh: hands its own two pipes to who listens at argv's socket.

    python rsync_relay.py SOCKET HOST COMMAND...

The command goes with them, as one line of JSON; who listens runs it over the connection that is open already,
and reads and writes the pipes itself. The end of the socket is the end of the command.
"""

import json
import os
import socket
import sys


def main(path: str, command: list[str]) -> None:
    """Hand over, then stay until the command has ended: the program waits for this process."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(path)
    socket.send_fds(link, [json.dumps(command).encode() + b"\n"], [0, 1])
    os.close(0)  # each pipe ends when its only holder closes it
    os.close(1)
    link.recv(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[3:])
