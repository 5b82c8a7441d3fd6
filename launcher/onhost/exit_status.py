"""How a process has ended, in words for people: the same on hosts and clients. Python >= 3.9."""

import signal

# By default they end a process: SIGHUP to SIGTERM, limits, SIGSYS.
_ENDING = frozenset([*range(1, 16), 24, 25, 31])


def signal_of(code: int | None) -> int:
    """Return the signal that ended a process, 0 for none: -N, or 128 + N as shells and containers say it."""
    if code is None:
        return 0
    return max(-code, code - 128 if code - 128 in _ENDING else 0)


def describe_exit_code(code: int | None) -> str:
    """Return how a process ended, in words after its name. Negative: by that signal; None: not seen."""
    if code is None:
        return "ended without an exit code that could be seen"
    if code < 0:
        return "was ended by signal %d (%s)" % (-code, signal_name(-code))
    number = signal_of(code)
    via = ", a shell's word for %s" % signal_name(number) if number else ""
    return "%s with exit code %d%s" % ("failed" if code else "ended", code, via)


def describe_exit(code: object) -> str:
    """Return the same in short, as the end of a sentence about a rank: `ended by SIGTERM`, `exit code 3`."""
    if not isinstance(code, int):
        return "exit code not seen"
    return "ended by %s" % signal_name(-code) if code < 0 else "exit code %d" % code


def signal_name(number: int) -> str:
    """Return the name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number
