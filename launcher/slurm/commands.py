"""Slurm's own commands, locally or on a login node: only those that print the same in all versions."""

import os
import re
from collections.abc import Mapping, Sequence

from launcher.config.inventory import LOCALHOST
from launcher.errors import BadInput, CommandTimedOut, SlurmError
from launcher.text import one_line, sanitize
from launcher.transports.base import Connection, Endpoint
from launcher.transports.local import LocalConnection

TIMEOUT_S = 60.0
_ABSENT = 127
_NO_SLURM = "load the site's Slurm module, or go to a login node (`which srun` must find it)"
_PREFIX = re.compile(r"^\w+: (?:error: )?", re.MULTILINE)


def local_commands(environ: Mapping[str, str] = os.environ) -> Connection:
    """Return where Slurm's commands run by default: this machine, with this environment."""
    return LocalConnection(Endpoint(LOCALHOST, "local", ""), {**environ, "LC_ALL": "C"})


def run_slurm(
    connection: Connection, argv: Sequence[str], *, text: str = "", timeout_s: float = TIMEOUT_S
) -> str:
    """Return what a command of Slurm prints. Raises BadInput where there is none, and SlurmError."""
    try:
        done = connection.run(argv, stdin=text.encode(), timeout_s=timeout_s)
    except CommandTimedOut:
        fix = "is its controller up? `scontrol ping` says so"
        raise SlurmError(f"{argv[0]} has not answered within {timeout_s:g} s", fix) from None
    if done.exit_status == _ABSENT:
        raise missing_command(argv[0])
    if done.exit_status:
        said = last_words(done.stderr or done.stdout) or f"exit status {done.exit_status}"
        raise SlurmError(f"{argv[0]}: {said}", "")
    return done.stdout.decode("utf-8", "replace")


def missing_command(name: str) -> BadInput:
    """Return the error for a command of Slurm that is not on the PATH."""
    return BadInput(f"the PATH has no command {name}", _NO_SLURM)


def last_words(said: bytes) -> str:
    """Return the last lines of what a command of Slurm said, without its name before each."""
    lines = [line.strip() for line in _PREFIX.sub("", sanitize(said)).splitlines() if line.strip()]
    return one_line("; ".join(lines[-3:]), 300)
