"""The kernel log, from the first source that may be read."""

import errno
import os

from .commands import run_command
from .fact import Emit, Json, missing
from .kernel_log_parser import parse_kernel_log
from .request import ProbeRequest


def probe(_: ProbeRequest, emit: Emit) -> None:
    """Emit facts.KernelLog from the first source that may be read."""
    emit("kernel_log", _read_log())


def _read_log() -> Json:
    try:
        return {"source": "kmsg", **parse_kernel_log(_read_kmsg())}
    except OSError as error:
        refused = str(error)
    for source, argv in (
        ("journal", ["journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-monotonic"]),
        ("dmesg", ["dmesg"]),
    ):
        try:
            ran = run_command(argv, 4.0)
        except OSError:
            continue
        if ran.status == 0 and ran.text:
            return {"source": source, **parse_kernel_log(ran.text)}
    return missing("neither /dev/kmsg, journalctl nor dmesg may be read: %s" % refused, "no-permission")


def _read_kmsg() -> str:
    """Return the kernel's ring buffer; raises OSError (EPERM where dmesg is restricted)."""
    fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    records = []
    try:
        while True:
            try:
                records.append(os.read(fd, 8192))
            except BlockingIOError:
                return b"".join(records).decode("utf-8", "replace")
            except OSError as error:
                if error.errno != errno.EPIPE:  # the record was overwritten meanwhile; the next follows
                    raise
    finally:
        os.close(fd)
