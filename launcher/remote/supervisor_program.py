"""How a supervisor and its request get to a host: over stdin, into an interpreter that knows nothing yet."""

import zlib

from launcher.remote.programs import bootstrap_argv, program_source
from launcher.remote.programs import compress_program as packed_program

_LEVEL_EACH = 1
"""For what differs from host to host: a third of the size at a fifth of the time."""


def compress_supervisor(name: str, body: bytes) -> bytes:
    """Return what the command reads first: a program of launcher/onhost/, and the request to it."""
    return SharedStart(b"").frame(name, body)


class SharedStart:
    """The start that the requests to many hosts have in common, compressed once for all of them."""

    def __init__(self, start: bytes) -> None:
        self._packer = zlib.compressobj(_LEVEL_EACH)
        self._packed = self._packer.compress(start)

    def frame(self, name: str, rest: bytes) -> bytes:
        """Return what the command reads first: a program, and the request with this start."""
        packer = self._packer.copy()
        request = b"".join((self._packed, packer.compress(rest), packer.flush()))
        return packed_program(program_source(name), name + ".py") + b"%d\n" % len(request) + request


def supervisor_argv(python: str, mode: str, run_id: str) -> tuple[str, ...]:
    """Return the argv that runs the supervisor's source from stdin; the words at the end are for `ps`."""
    return bootstrap_argv(python, "gpulaunch-supervisor", mode, run_id)
