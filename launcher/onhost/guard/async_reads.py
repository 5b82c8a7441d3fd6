"""Asynchronous reads of numbers from a device, processed once their copies are complete."""

from typing import Any, Callable


class AsyncRead:
    """Copy of numbers to the CPU, one tensor per device; on a GPU it is read when complete."""

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
        """Return whether every copy is complete; never waits."""
        return all(event.query() for event in self.events)

    def numbers(self) -> list[float]:
        """Return all numbers."""
        return [float(number) for value in self._arrived for number in value.reshape(-1).tolist()]


OnRead = Callable[[AsyncRead], None]


class AsyncReads:
    """Reads in flight, each with its handler."""

    def __init__(self) -> None:
        self._pending: list[tuple[AsyncRead, OnRead]] = []

    def submit(self, reading: AsyncRead, judge: OnRead) -> None:
        """Pass a read to its handler in the first `poll` that finds it complete."""
        self._pending.append((reading, judge))

    def poll(self) -> None:
        """Handle the reads that are complete by now."""
        pending, self._pending = self._pending, []
        ready: list[tuple[AsyncRead, OnRead]] = []
        for entry in pending:
            (ready if entry[0].is_ready() else self._pending).append(entry)
        for reading, judge in ready:
            judge(reading)
