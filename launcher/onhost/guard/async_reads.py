"""Numbers on their way from a device to the CPU: read when they have arrived, without waiting."""

from __future__ import annotations

from typing import Any, Callable


class AsyncRead:
    """One number or some per device on their way to the CPU; on a GPU read when they have arrived."""

    def __init__(self, torch: Any, values: list[Any]) -> None:
        self.events: list[Any] = []
        self._arrived: list[Any] = []
        for value in values:
            if value.device.type == "cuda":
                host = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
                with torch.cuda.device(value.device):
                    host.copy_(value, non_blocking=True)
                    event = torch.cuda.Event()
                    event.record()
                self.events.append(event)
                self._arrived.append(host)
            else:
                self._arrived.append(value.cpu())

    def is_ready(self) -> bool:
        """Return whether every copy has arrived; never waits."""
        return all(event.query() for event in self.events)

    def numbers(self) -> list[float]:
        """Return all numbers."""
        return [float(number) for value in self._arrived for number in value.reshape(-1).tolist()]


OnRead = Callable[[AsyncRead], None]


class AsyncReads:
    """What has been sent and not been judged so far."""

    def __init__(self) -> None:
        self._pending: list[tuple[AsyncRead, OnRead]] = []

    def submit(self, reading: AsyncRead, judge: OnRead) -> None:
        """Have a reading judged by the first `settle` that finds it arrived."""
        self._pending.append((reading, judge))

    def poll(self) -> None:
        """Judge what has arrived by now."""
        waiting: list[tuple[AsyncRead, OnRead]] = []
        ready: list[tuple[AsyncRead, OnRead]] = []
        for entry in self._pending:
            (ready if entry[0].is_ready() else waiting).append(entry)
        self._pending = waiting
        for reading, judge in ready:
            judge(reading)
