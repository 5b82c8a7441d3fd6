"""Streamed program: one host listens for a moment, the others connect to it. Standard library, >= 3.9.

stdin: one line of JSON. {"role": "listen", "ports": [P, ...], "nonce": N, "deadline_s": S, "timeout_s": S}
listens on these ports (0: one of the kernel's choice) until stdin ends or S seconds passed, and sends N to
each client; another line {"targets": ...} lets it connect meanwhile, as the other role does. {"role":
"connect", "targets": [[address, port], ...], "nonce": N, "timeout_s": S} connects to all targets at once and
reads N from each: a foreign service, or a router that accepts every connection, does not know it.

Answers (answer.py). Listening: {"listening": [[port, error], ...]}, at once.
Connecting: {"reached": [[address, port, error, ms], ...]}; an empty error is success.
"""

import errno
import json
import os
import selectors
import socket
import sys
import threading
import time
from typing import Any

from .answer import print_answer


def main() -> int:
    """Handle the request on stdin."""
    request = json.loads(sys.stdin.buffer.readline())
    if request["role"] == "listen":
        return serve_ports(request)
    return try_targets(request["targets"], request["nonce"].encode(), float(request["timeout_s"]))


def serve_ports(request: dict[str, Any]) -> int:
    """Hold the ports, send each client the nonce, connect where asked, release the ports when stdin ends."""
    nonce = request["nonce"].encode()
    listeners, ports = [], []
    for wanted in map(int, request["ports"]):
        try:
            listener = open_listener(wanted)
        except OSError as error:
            # strerror alone, without the address that create_server adds.
            ports.append([wanted, os.strerror(error.errno or 0)])
            continue
        listeners.append(listener)
        ports.append([listener.getsockname()[1], ""])
    print_answer({"listening": ports})
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        for listener in listeners:
            selector.register(listener, selectors.EVENT_READ)
        end = time.monotonic() + float(request["deadline_s"])
        while time.monotonic() < end:
            for key, _ in selector.select(max(0.0, end - time.monotonic())):
                if isinstance(key.fileobj, socket.socket):
                    caller, _ = key.fileobj.accept()
                    threading.Thread(target=answer_handshake, args=(caller, nonce), daemon=True).start()
                    continue
                line = sys.stdin.buffer.readline()
                if not line:
                    return 0
                work = (json.loads(line)["targets"], nonce, float(request["timeout_s"]))
                threading.Thread(target=try_targets, args=work, daemon=True).start()
    return 0


def open_listener(port: int) -> socket.socket:
    """Listen on the wildcard of both families where the host has IPv6, as torch's store does."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512)
        except OSError as error:
            if port and error.errno == errno.EADDRINUSE:  # an answer, not a missing IPv6
                raise
    return socket.create_server(("", port), backlog=512)


def answer_handshake(caller: socket.socket, nonce: bytes) -> None:
    """Send the nonce to one client and let it close first, so that TIME_WAIT stays on its side."""
    try:
        with caller:
            caller.settimeout(1.0)
            caller.sendall(nonce)
            caller.recv(1)
    except OSError:
        pass  # a client that disconnects is harmless


def try_targets(targets: list[list[Any]], nonce: bytes, timeout_s: float) -> int:
    """Try all targets in parallel."""
    reached = [
        [address, port, "no answer within %g s" % timeout_s, 1000.0 * timeout_s] for address, port in targets
    ]
    threads = [
        threading.Thread(target=try_connect, args=(row, nonce, timeout_s), daemon=True) for row in reached
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout_s + 1.0)
    print_answer({"reached": reached})
    return 0


def try_connect(row: list[Any], nonce: bytes, timeout_s: float) -> None:
    """Connect, read the nonce, write the result into `row`."""
    address, port = row[0], row[1]
    started = time.monotonic()
    try:
        with socket.create_connection((address, port), timeout_s) as sock:
            got = b""
            while len(got) < len(nonce):
                part = sock.recv(len(nonce) - len(got))
                if not part:
                    break
                got += part
        error = "" if got == nonce else "another program answers on it"
    except socket.timeout:
        error = "no answer within %g s" % timeout_s
    except OSError as failure:
        error = failure.strerror or str(failure)
    row[2:] = [error, 1000.0 * (time.monotonic() - started)]


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.exit(code)
