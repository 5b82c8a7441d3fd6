"""Tickets of clients that wait for GPUs of this host: one file in /tmp each, which its program keeps locked.

The rules are those of GPU claims (gpu_claims.py): all users may read a ticket, only its owner can write and
so lock it, and the kernel releases the lock when the program is gone. A ticket counts while it is locked.

The order is that of the files' change times (st_ctime), which only the kernel sets: what a ticket says of
itself can move it nowhere. A ticket is therefore never changed once others can read it.
"""

import os
import re
import time
from typing import NamedTuple

from preflight.probes.claim_files import CLAIMS_DIR, is_locked, list_files_by_owner, read_foreign, read_object

from .gpu_claims import FRESH_S, make_locked, read_user_name
from .processes import read_boot_id

TICKET = re.compile(r"gpulaunch-wait-[0-9a-f]{12}")
MAX_BYTES = 16384  # of one ticket
MAX_GPUS = 256
MAX_TICKETS = 64  # read per owner, the oldest: so many clients of one user count
TICK_S = 0.02  # files may have the same change time for so long


class Ticket(NamedTuple):
    """A live ticket. `gpus` is None where it does not say which it wants: then all of them."""

    order: tuple[int, int]  # change time in ns, inode
    path: str
    user: str
    name: str
    gpus: frozenset[str] | None


def make_queue_id(directory: str = CLAIMS_DIR) -> str:
    """Return what is the same for all clients of this queue, by whatever name they know the host."""
    found = os.stat(directory)
    return "%s:%d:%d" % (read_boot_id(), found.st_dev, found.st_ino)


def make_ticket(directory: str, name: str, gpus: list[str]) -> tuple[str, int]:
    """Create and lock a ticket; return its path and the descriptor that holds the lock. Raises OSError."""
    said = {"boot_id": read_boot_id(), "name": name, "gpus": gpus}
    path, fd = make_locked(os.path.join(directory, "gpulaunch-wait-"), said)
    time.sleep(TICK_S)  # one of the same change time is visible then, too
    return path, fd


def is_own(path: str, fd: int) -> bool:
    """Return whether a ticket's file is still the one that the descriptor holds."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(fd))
    except OSError:
        return False


def list_tickets_ahead(directory: str, path: str) -> list[Ticket]:
    """Return the tickets before one of ours that want a GPU which it wants too, first come first."""
    found = live_tickets(directory)
    mine = next((each for each in found if each.path == path), None)
    if mine is None:
        return found
    return [each for each in found if each.order < mine.order and want_the_same(each, mine)]


def want_the_same(one: Ticket, other: Ticket) -> bool:
    """Return whether two tickets may want the same GPU."""
    return one.gpus is None or other.gpus is None or bool(one.gpus & other.gpus)


def live_tickets(directory: str) -> list[Ticket]:
    """Return the tickets that count, in the order of the queue; remove dead ones of this user."""
    tickets: list[Ticket] = []
    try:
        owners = list_files_by_owner(
            directory, TICKET.fullmatch, lambda status: (status.st_ctime_ns, status.st_ino)
        )
    except OSError:
        return []
    for files in owners:
        live = 0
        for path in files:
            ticket = read_ticket(path) if live < MAX_TICKETS else None
            if ticket is not None:
                live += 1
                tickets.append(ticket)
    return sorted(tickets)


def read_ticket(path: str) -> Ticket | None:
    """Return a ticket that counts, None for any other file; a dead one of this user is removed."""

    def judge(fd: int, found: os.stat_result) -> Ticket | None:
        if is_locked(fd):
            name, gpus = parse_ticket(os.read(fd, MAX_BYTES + 1))
            return Ticket((found.st_ctime_ns, found.st_ino), path, read_user_name(found.st_uid), name, gpus)
        if found.st_uid == os.geteuid() and time.time() - found.st_ctime > FRESH_S:
            os.unlink(path)
        return None

    return read_foreign(path, judge)


def parse_ticket(data: bytes) -> tuple[str, frozenset[str] | None]:
    """Return (name of the run, GPUs) as a ticket says; ("", None) where it is malformed."""
    said = read_object(data, MAX_BYTES)
    name, gpus = said.get("name"), said.get("gpus")
    if (
        not isinstance(gpus, list)
        or not isinstance(name, str)
        or not re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", name)
    ):
        return "", None
    if not gpus or len(gpus) > MAX_GPUS or not all(isinstance(gpu, str) for gpu in gpus):
        return name, None
    return name, frozenset(gpus)
