"""A node of a Slurm job as a host: a channel of the job's step for each command."""

from collections.abc import Iterable

from launcher.errors import HostError
from launcher.transports.command import KillableConnection
from launcher.transports.step.step import SlurmStep
from launcher.transports.step.stream import StepStream

_START_S = 30.0


class StepConnection(KillableConnection):
    """See `base.Connection` for the contract; the step is shared, and outlives it."""

    def __init__(self, step: SlurmStep, node: str, name: str) -> None:
        super().__init__(name)
        self._step = step
        self._node = node

    def command_line(self, argv: Iterable[str]) -> str:
        """Return `srun` on the node, for a shell of the job; see the contract."""
        return f"srun --overlap -N1 -n1 -w {self._node} {super().command_line(argv)}"

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
