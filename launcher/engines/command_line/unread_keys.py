"""Keys of a file around its command that no reader takes: each is named, and none is lost in silence. Pure.

A reader says which keys it has read; what is harmless is listed with the reason, and all others are named.
"""

from collections.abc import Collection, Iterable

from launcher.engines.command_line.side_commands import say_left_out
from launcher.engines.command_line.tables.names import as_names

_NAMES = as_names(
    "name label labels description title version id tags type kind metadata apiVersion $schema"
    " display_name displayName experiment_name annotations help container_name run_name stage category desc"
    " Description Documentation"
)
"""What only names a thing."""

_PLACES = as_names(
    "runs-on compute nodeSelector tolerations affinity schedulerName queue namespace priorityClassName"
    " serviceAccountName serviceAccount imagePullPolicy imagePullSecrets backoffLimit"
    " ttlSecondsAfterFinished on permissions concurrency cloud region zone After Wants Requires WantedBy"
    " universe requirements rank WantGPU completionMode completions topologySpreadConstraints"
    " terminationGracePeriodSeconds"
)
"""Where and when a cluster starts it: the hosts are those of --hosts, and it starts at once."""

_SIZES = as_names(
    "cpu cpus memory disk disk_size request_cpus request_memory request_disk ephemeral-storage slots"
    " machine_type machineType instance_type accelerator_type gpu_type driver capabilities"
)
"""Which machine a cluster chooses; preflight looks at the hosts that there are."""

_SCREEN = as_names(
    "console justMyCode presentation internalConsoleOptions redirectOutput showReturnValue problemMatcher"
    " group isBackground runOptions icon detail request purpose subProcess StandardOutput StandardError"
    " SyslogIdentifier stdout_logfile stderr_logfile redirect_stderr stdout_logfile_maxbytes"
    " stderr_logfile_maxbytes stdout_logfile_backups stderr_logfile_backups stdin_open tty logging output"
    " error log notification notify_user stream_output stream_error"
)
"""What a person sees; every rank has a log of its own."""

_AGAIN = as_names(
    "restart restartPolicy Restart RestartSec Type autostart autorestart startsecs startretries"
    " stopwaitsecs killasgroup stopasgroup TimeoutStopSec KillMode priority"
)
"""When it starts again or ends, which `restart:` and gpulaunch stop do."""

HARMLESS = frozenset((*_NAMES, *_PLACES, *_SIZES, *_SCREEN, *_AGAIN))
"""Keys without an effect on what the ranks compute."""

_WHY = "not read: what the ranks need of it is to be on each host, or in env: of a run config"
_LISTED = 20


def list_unread_keys(keys: Iterable[str], read: Collection[str]) -> tuple[str, ...]:
    """Return a line of a shell that names the keys which a reader has not read, without harmless ones."""
    left = [key for key in dict.fromkeys(keys) if key not in read and key not in HARMLESS]
    if not left:
        return ()
    more = f" and {len(left) - _LISTED} more" if len(left) > _LISTED else ""
    return (say_left_out(f"{', '.join(left[:_LISTED])}{more}: {_WHY}"),)
