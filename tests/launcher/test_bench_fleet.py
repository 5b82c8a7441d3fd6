"""The simulated fleet of the benchmarks answers what real hosts are asked, and a missing tool has a row."""

import socket
import threading
from pathlib import Path

from bench import scale_curve
from bench.fleet import _Server
from bench.loopback import Loopback
from launcher.remote import rpc
from launcher.remote.program_source import build_stdin_command, read_program_source


def test_a_program_over_a_connection_of_its_own_is_answered() -> None:
    server = _Server({"a": 1})
    threading.Thread(target=server.run, daemon=True).start()
    server.ready.wait()
    request = rpc.encode_line({"role": "connect", "targets": [["192.0.2.1", 5]]})
    _, stdin = build_stdin_command("python3", read_program_source("probe_connections"), request)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(stdin)
        answer = connection.makefile("rb")
        assert answer.readline() == b"\n"
        assert answer.readline() == b'GPULAUNCH-ANSWER-1 {"reached": [["192.0.2.1", 5, "", 0.3]]}\n'


def test_a_tool_that_is_not_installed_is_named(tmp_path: Path) -> None:
    commands = scale_curve._commands(Loopback(tmp_path, 1, ["a"]), {"PATH": str(tmp_path)}, 64)
    assert {tool: argv is None for tool, argv in commands.items() if tool != "gpulaunch"} == dict.fromkeys(
        ("pdsh", "clush", "ansible", "pyinfra"), True
    )
