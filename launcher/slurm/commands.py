"""Slurm's own commands, run here: only those whose output is the same in all versions."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence

from launcher.errors import BadInput, SlurmError
from launcher.text import clean, one_line

TIMEOUT_S = 60.0
_NO_SLURM = "load the site's Slurm module, or go to a login node (`which srun` must find it)"
_PREFIX = re.compile(r"^\w+: (?:error: )?", re.MULTILINE)


def run_slurm(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str] = os.environ,
    text: str = "",
    timeout_s: float = TIMEOUT_S,
) -> str:
    """Return what a command of Slurm prints. Raises BadInput where there is none, and SlurmError."""
    try:
        done = subprocess.run(
            argv,
            input=text.encode(),
            capture_output=True,
            check=False,
            env={**environ, "LC_ALL": "C"},
            timeout=timeout_s,
        )
    except FileNotFoundError:
        raise missing_command(argv[0]) from None
    except OSError as failure:
        raise SlurmError(f"{argv[0]} cannot be started: {failure.strerror}", "") from None
    except subprocess.TimeoutExpired:
        fix = "is its controller up? `scontrol ping` says so"
        raise SlurmError(f"{argv[0]} has not answered within {timeout_s:g} s", fix) from None
    if done.returncode:
        said = last_words(done.stderr or done.stdout) or f"exit status {done.returncode}"
        raise SlurmError(f"{argv[0]}: {said}", "")
    return done.stdout.decode("utf-8", "replace")


def missing_command(name: str) -> BadInput:
    """Return the error for a command of Slurm that is not on the PATH."""
    return BadInput(f"{name}: there is no such command on the PATH", _NO_SLURM)


def last_words(said: bytes) -> str:
    """Return the last lines of what a command of Slurm said, without its name before each."""
    lines = [line.strip() for line in _PREFIX.sub("", clean(said)).splitlines() if line.strip()]
    return one_line("; ".join(lines[-3:]), 300)
