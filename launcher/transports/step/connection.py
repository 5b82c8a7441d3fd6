"""A node of a Slurm job as a host: a channel of the job's step for each command."""

from collections.abc import Iterable

from launcher.errors import HostError
from launcher.transports.base import Closing, CommandResult
from launcher.transports.command import run_killable
from launcher.transports.step.step import SlurmStep
from launcher.transports.step.stream import StepStream

_START_S = 30.0


class StepConnection(Closing):
    """See `base.Connection` for the contract; the step is shared, and outlives it."""

    def __init__(self, step: SlurmStep, node: str, name: str) -> None:
        self._step = step
        self._node = node
        self._name = name

    @property
    def name(self) -> str:
        """The host's name as the user typed it."""
        return self._name

    def run(
        self, argv: Iterable[str], *, stdin: bytes = b"", timeout_s: float = 60.0, max_output: int = 64 << 20
    ) -> CommandResult:
        """Run to the end; see the contract. What still runs at the deadline is killed, group and all."""
        return run_killable(
            self.start, tuple(argv), self.name, stdin, timeout_s=timeout_s, max_output=max_output
        )

    def start(self, argv: Iterable[str]) -> StepStream:
        """Start in a session of its own and stream."""
        words = tuple(argv)
        if any("\0" in word for word in words):
            raise HostError(self.name, "an argument holds a NUL byte, which no program can receive")
        stream = self._step.open_stream(self._node, words)
        try:
            stream.await_start(words[0], _START_S)
        except HostError:
            stream.close()
            raise
        return stream

    def close(self) -> None:
        """Nothing of its own is held open."""
