"""The memory that this process may map: with too little of it, threads end before they have said why."""

import resource

from launcher.errors import RunAborted

_LEAST_KIB = 384 << 10  # a run on two hosts takes 350 MiB, most of it libraries and stacks of threads


def demand_address_space() -> None:
    """Raise RunAborted where `ulimit -v` leaves less than the libraries of a command take.

    Source: getrlimit(2), RLIMIT_AS.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY or limit >= _LEAST_KIB << 10:
        return
    raise RunAborted(
        f"this shell gives a process {limit >> 10} KiB of memory (ulimit -v): gpulaunch needs {_LEAST_KIB}",
        "ulimit -v unlimited, or a shell without that limit",
    )
