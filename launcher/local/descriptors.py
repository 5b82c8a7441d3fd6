"""Descriptors of this process: how many it may hold, and errors that say that there are no more."""

import errno
import resource
from contextlib import suppress

_RESERVE = 256  # for what is not a host: modules, logs, pipes
_SHORT_OF = frozenset({errno.EMFILE, errno.ENFILE})


def read_descriptor_limit() -> int:
    """Return the soft limit of descriptors."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def count_spare_descriptors() -> int:
    """Return how many descriptors hosts may take together, which may be none."""
    return read_descriptor_limit() - _RESERVE


def raise_descriptor_limit(needed: int) -> None:
    """Raise the soft limit as far as `needed` descriptors take it, at most to the hard one.

    No further, because children inherit it: programs exist that close every descriptor up to the limit.
    Source: getrlimit(2).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = needed + _RESERVE
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def limit_width(width: int) -> int:
    """Return how many hosts may be connected at once for one question: `width`, or a quarter of the limit."""
    return min(width, max(1, read_descriptor_limit() // 4))


def is_exhausted(error: BaseException) -> bool:
    """Whether an error says that this machine has no descriptor, or no thread, for one more host."""
    if isinstance(error, RuntimeError):
        return "start new thread" in str(error)
    return isinstance(error, OSError) and error.errno in _SHORT_OF


def raise_if_exhausted(error: BaseException) -> None:
    """Raise the error again where the cause is this machine, not the host or the file that was asked."""
    if is_exhausted(error):
        raise error
