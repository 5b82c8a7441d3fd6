"""Scripts whose ranks do not meet by RANK and MASTER_ADDR, found by what they import first of all."""

from pathlib import Path

from launcher.errors import CommandRefused
from launcher.local.small_files import read_small_text
from preflight import regex as re

_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+(horovod|mpi4py)\b", re.MULTILINE)
_LARGEST = 1_000_000
_RENDEZVOUS = {
    "horovod": "its ranks meet through horovodrun or MPI, and each of ours would train alone",
    "mpi4py": "its ranks meet through MPI, and each of ours would be a world of its own",
}


def refuse_other_rendezvous(script: Path) -> None:
    """Raise CommandRefused for a local script of Horovod or MPI; one that cannot be read is not judged.

    Horovod reads HOROVOD_RANK and the address of a server that horovodrun keeps (horovod/runner/gloo_run.py).
    """
    text = read_small_text(script, _LARGEST) or ""
    found = _IMPORT.search(text)
    if found is None:
        return
    line = text.count("\n", 0, found.start()) + 1
    raise CommandRefused(
        f"{script}:{line} imports {found[1]}: {_RENDEZVOUS[found[1]]}",
        "train with torch.distributed instead; or write the whole command into a script that starts it on all"
        " hosts itself, and run that on one",
    )
