"""The socket below an SSH connection: what is read is acknowledged at once, where TCP carries it."""

import socket

from launcher.transports.ssh.transport import _ReadAhead


def test_a_packet_is_acknowledged_when_it_is_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as port:
        ours = socket.create_connection(port.getsockname())
        theirs, _ = port.accept()
    with ours, theirs:
        for _ in range(3):  # questions and answers by turns: the kernel delays what it acknowledges
            theirs.send(b"q")
            ours.recv(1)
            ours.send(b"a")
            theirs.recv(1)
        assert not ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
        theirs.send(b"q")
        assert _ReadAhead(ours).recv(1) == b"q"
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)


def test_the_end_of_a_proxy_command_is_read_as_it_is() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"q")
        assert _ReadAhead(ours).recv(1) == b"q"
