"""The exit codes of gpulaunch; docs/exit-codes.md says what each means, by command where it differs."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process returns. A rank's own exit code passes through `run`, `attach` and `rehearse`."""

    OK = 0
    NEGATIVE = 1
    USAGE = 2
    UNREACHABLE = 3
    VERIFICATION_FAILED = 4
    ABORTED = 5
    BUG = 70
    WAIT_TIMED_OUT = 75
    BAD_NODE = 77
    GUARD = 86
    HUNG = 124
    TERMINAL_CLOSED = 129
    INTERRUPTED = 130
    BROKEN_PIPE = 141
