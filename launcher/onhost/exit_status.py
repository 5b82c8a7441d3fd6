"""How a process has ended, in words for people: the same on hosts and clients. Python >= 3.9."""

import signal


def describe_exit_code(code: int | None) -> str:
    """Return how a process ended, in words after its name. Negative: by that signal; None: not seen."""
    if code is None:
        return "ended without an exit code that could be seen"
    if code < 0:
        return "was ended by signal %d (%s)" % (-code, signal_name(-code))
    return "%s with exit code %d" % ("failed" if code else "ended", code)


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
