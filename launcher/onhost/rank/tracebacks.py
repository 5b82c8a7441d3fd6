"""Tracebacks of the script, without frames of gpulaunch."""

import os
import sys
from types import TracebackType

OUR_MODULES = "gpulaunch_"  # prefix of gpulaunch's own modules in tracebacks; users' files are absolute


def find_innermost(error: BaseException) -> BaseException:
    """Return the first exception of a chain, the cause of the others."""
    seen = set()
    while id(error) not in seen:
        seen.add(id(error))
        before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if before is None:
            break
        error = before
    return error


def strip_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Drop frames of gpulaunch and of runpy from the start of a traceback."""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith((OUR_MODULES, "<frozen runpy>")) and os.path.basename(name) != "runpy.py":
            break
        trace = trace.tb_next
    return trace


def find_location(trace: TracebackType | None, raised_again: TracebackType | None = None) -> str:
    """Return file:line of the innermost frame in the user's own code, else of the innermost frame.

    What a library raised while it handled its own exception shows the user's code in the second one alone.
    """
    found, own = _places(trace)
    return own or _places(raised_again)[1] or found


def _places(trace: TracebackType | None) -> tuple[str, str]:
    """Return file:line of the innermost frame, and of the innermost one in the user's own code."""
    found = own = ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        found = "%s:%d" % (name, trace.tb_lineno)
        library = (
            "site-packages" in name
            or "dist-packages" in name
            or name.startswith(("<", sys.base_prefix + "/lib", OUR_MODULES))
        )
        if not library:
            own = found
        trace = trace.tb_next
    return found, own
