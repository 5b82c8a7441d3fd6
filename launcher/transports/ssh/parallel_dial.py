"""Many hosts dialled by one thread, until each has said something: a silent one takes only a socket."""

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

from launcher.local.descriptors import raise_if_exhausted
from launcher.transports.base import Endpoint
from launcher.transports.ssh import dial
from launcher.transports.ssh.dns_lookups import Address, Answer

Dialled: TypeAlias = "socket.socket | BaseException"

_starting = threading.Lock()

# At the end of this process it says which hosts are still waited for.
logging.getLogger("asyncio").setLevel(logging.CRITICAL + 1)

_PEEK = 4096  # bytes without the end of a line after which a greeting is left to who reads it


class Dialler:
    """Connects, and waits for the first line of each host; what that line holds is not judged."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds them weakly
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def dial(self, endpoint: Endpoint, deliver: Callable[[Dialled], None]) -> None:
        """Deliver a socket that has something to read, or the error: of `dial.dial`, or that it is silent."""
        self._loop.call_soon_threadsafe(self._begin, endpoint, deliver)

    def _begin(self, endpoint: Endpoint, deliver: Callable[[Dialled], None]) -> None:
        task = self._loop.create_task(self._dial(endpoint, deliver))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _dial(self, endpoint: Endpoint, deliver: Callable[[Dialled], None]) -> None:
        try:
            deliver(await self._reach(endpoint))
        except BaseException as failure:  # noqa: BLE001 - it is raised where the host is waited for
            deliver(failure)

    async def _reach(self, endpoint: Endpoint) -> socket.socket:
        sock = await self._connect(endpoint, await self._resolve(endpoint))
        try:
            async with asyncio.timeout(endpoint.connect_timeout_s):
                await self._hear(sock)
        except TimeoutError:
            sock.close()
            raise dial.explain_handshake_timeout(endpoint, "sent no SSH banner") from None
        except BaseException:
            sock.close()
            raise
        return sock

    async def _resolve(self, endpoint: Endpoint) -> list[Address]:
        if (numeric := dial.parse_numeric_address(endpoint)) is not None:
            return [numeric]
        answered: asyncio.Future[Answer] = self._loop.create_future()

        def deliver(answer: Answer) -> None:
            self._loop.call_soon_threadsafe(answered.set_result, answer)

        dial.lookups.ask(endpoint.address, endpoint.port, endpoint.connect_timeout_s, deliver)
        return dial.require_addresses(endpoint, await answered)

    async def _connect(self, endpoint: Endpoint, addresses: list[Address]) -> socket.socket:
        deadline = time.monotonic() + endpoint.reach_timeout_s
        failures: list[OSError] = []
        for left, (family, address) in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                async with asyncio.timeout(max(0.05, (deadline - time.monotonic()) / left)):
                    return await self._connect_one(family, address)
            except OSError as failure:
                raise_if_exhausted(failure)
                failures.append(failure)
        raise dial.connect_failure(endpoint, failures)

    async def _connect_one(self, family: socket.AddressFamily, address: Any) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await self._loop.sock_connect(sock, address)
        except BaseException:
            sock.close()
            raise
        dial.notice_death(sock)
        return sock

    async def _hear(self, sock: socket.socket) -> None:
        """Wait for a line, for more than a line holds, or for the end; nothing is taken from the socket."""
        heard = 0
        while True:
            await self._readable(sock)
            try:
                data = sock.recv(_PEEK, socket.MSG_PEEK)
            except OSError:
                return
            if b"\n" in data or len(data) in (heard, _PEEK):
                break
            heard = len(data)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, heard + 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    async def _readable(self, sock: socket.socket) -> None:
        readable = asyncio.Event()
        self._loop.add_reader(sock, readable.set)
        try:
            await readable.wait()
        finally:
            self._loop.remove_reader(sock)


def get_dialler() -> Dialler:
    """Return the one of this process."""
    with _starting:
        return _start()


@lru_cache
def _start() -> Dialler:
    return Dialler()
