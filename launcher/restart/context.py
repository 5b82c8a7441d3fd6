"""How the restarts of a run are made: what its client can do and may take."""

from collections.abc import Callable

from launcher.config.inventory import HostEntry
from launcher.config.restart_options import RestartOptions
from launcher.follow.outcome import Outcome
from launcher.host_checks.result import PreflightResult
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RestartContext:
    """How restarts are made."""

    options: RestartOptions
    spares: tuple[HostEntry, ...]
    # What a spare gets before it takes part; raises GpulaunchError.
    prepare_spare: Callable[[HostEntry], None]
    on_preflight: Callable[[PreflightResult], None]
    follow_other: Callable[[str], Outcome | None]  # a start that another client or the host has made
    syncs: bool = False  # hosts got the working tree
    on_host: bool = False  # the client that the host runs itself: what hosts lack waits for another one
    verbose: bool = False  # each checkpoint that is not used is named
