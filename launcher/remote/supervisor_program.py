"""How a supervisor and its request get to a host: over stdin, into an interpreter that knows nothing yet."""

import zlib

from launcher.remote.programs import bootstrap_argv, program_source
from launcher.remote.programs import compress_program as packed_program

_LEVEL_EACH = 1
"""For what differs from host to host: a third of the size at a fifth of the time."""


def compress_supervisor(name: str, body: bytes) -> bytes:
    """Return what the command reads first: a program of launcher/onhost/, and the request to it."""
    request = zlib.compress(body, _LEVEL_EACH)
    return packed_program(program_source(name), name + ".py") + b"%d\n" % len(request) + request


def supervisor_argv(python: str, mode: str, run_id: str) -> tuple[str, ...]:
    """Return the argv that runs the supervisor's source from stdin; the words at the end are for `ps`."""
    return bootstrap_argv(python, "gpulaunch-supervisor", mode, run_id)
