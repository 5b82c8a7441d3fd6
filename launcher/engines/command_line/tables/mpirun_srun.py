"""The options of mpirun, mpiexec and srun, which start a command on each host.

mpirun is Open MPI's and PRRTE's, mpiexec also MPICH's and Intel's Hydra, and PALS of HPE Cray. gpulaunch
takes the prefix off: it starts the processes itself.
"""

from launcher.engines.command_line.options import (
    FROM_HOSTS,
    FROM_PLAN,
    OPTIONAL,
    OWN_SSH,
    RANK_LOGS,
    Table,
    each,
    owned,
    refused,
)
from launcher.engines.command_line.tables.names import as_names

_VARIABLE = "becomes a variable of the ranks"
_MPI = "no MPI starts the processes; NCCL and gloo find their own ways"
_BIND = "processes are bound by the plan's GPUs only"
_SLURM = "the hosts are those of --hosts; nothing is submitted to Slurm"
_DIRECTORY = "becomes the directory of the ranks, below that of each host"
_STOP = "gpulaunch ends the ranks of all hosts when one fails"
_PRINTS = "it prints, and starts nothing"
_NAME_HOSTS = "leave it out, and name the hosts with --hosts"
_CONTAINER = "srun's container plug-in does not run"

MPIRUN = Table(
    "mpirun",
    (
        owned("-np|-n|--np|--n|-c", FROM_PLAN, kind="int", sets="total"),
        owned("-npernode|--npernode|-N|-ppn|--ppn|-perhost", FROM_PLAN, kind="int", sets="per_node"),
        owned("--host|-H|-host|-hosts", FROM_HOSTS, kind="host_slots", sets="hosts"),
        owned("--hostfile|-hostfile|-machinefile|--machinefile|-f", FROM_HOSTS, sets="hostfile"),
        owned("-x", _VARIABLE, kind="variables"),
        owned("-genv|-env", _VARIABLE, kind="variables", values=2),
        owned("-genvlist|-envlist", _VARIABLE, kind="variables"),
        owned("--env", _VARIABLE, kind="variables"),
        owned("-genvall|-envall|--envall|--envnone", "the ranks get the host's own environment", values=0),
        owned("-mca|--mca|-gmca|--gmca|--prtemca|--pmixmca", _MPI, values=2),
        owned("-bind-to|--bind-to|--cpu-bind|--mem-bind|--gpu-bind|--depth|-d", _BIND),
        owned("-map-by|--map-by|-ppr|--ppr", FROM_PLAN, kind="mapping", sets="per_node"),
        owned("--bind-to-core|-bind-to-core|--bind-to-none|-bind-to-none", _BIND, values=0),
        owned("--oversubscribe|-oversubscribe", FROM_PLAN, values=0),
        owned("--allow-run-as-root|-allow-run-as-root", _MPI, values=0),
        owned(
            "--tag-output|-tag-output|--timestamp-output|-l|-prepend-rank|--line-buffer|--label",
            RANK_LOGS,
            values=0,
        ),
        owned("--output-filename|-output-filename|--output", RANK_LOGS),
        owned("--report-bindings|-report-bindings|--display-map|--nooversubscribe|--no-vni", _BIND, values=0),
        owned("--prefix|-prefix", _MPI),
        owned("-rank-by|--rank-by", _BIND),
        owned("-quiet|--quiet|-q|-v|--verbose", RANK_LOGS, values=0),
        owned("-launcher|-bootstrap|-iface", OWN_SSH),
        owned("-wdir|--wdir|-wd|--wd", _DIRECTORY, kind="directory"),
    ),
    style="getopt",
    both_dashes=False,
    abbreviations=False,
)

_SRUN_FLAGS = (
    "--quit-on-interrupt --spread-job --reboot --external --interactive --no-shell --bell --no-bell --stepmgr"
    " --contiguous --use-min-nodes --no-allocate|-Z --overlap|-O --oversubscribe|-s --async|-a"
    " --preserve-env|-E --hold|-H"
)
_OF_JOB = (
    "--gpu-freq --tmp --switches --task-epilog --task-prolog --epilog --prolog --profile --acctg-freq"
    " --deadline --time-min --wckey --cluster-constraint --prefer --uid --gid --mem --mem-per-gpu"
    " --mem-per-cpu --reservation --jobid --bb --bbf --delay-boot --extra --gres-flags --launch-cmd"
    " --launcher-opts --mail-type --mail-user --mcs-label --msg-timeout --segment --wait-for-switch"
    " --dependency|-d --comment|--quotatype --clusters|-M --licenses|-L --partition|-p"
    " --account|-A --qos|-q --time|-t --job-name|-J --constraint|-C"
)
_SRUN_OPTIONAL = (
    "--compress --get-user-env --priority --send-libs --x11 --bcast-exclude --nice --exclusive --immediate|-I"
)
"""Options of srun about the job and its terminal; a third has a value only behind `=`."""

_CORES = (
    "--cpus-per-task|-c --core-spec|-S --threads|-T --thread-spec --cpus-per-gpu --cores-per-socket"
    " --sockets-per-node --threads-per-core"
)
_BINDINGS = (
    "--cpu-bind|--cpu_bind --gpu-bind|--accel-bind --tres-bind --mem-bind --hint --cpu-freq"
    " --extra-node-info|-B"
)
_TASKS = "--ntasks-per-gpu --ntasks-per-core --ntasks-per-socket --ntasks-per-tres"
_GPUS = "--gpus|-G --gpus-per-node --gres --gpus-per-task --gpus-per-socket --tres-per-task"

_CONTAINER_FIX = "leave it out, and write the container in hosts.yaml"
_CONTAINER_VALUES = "--container-image --container-mounts --container-name --container-workdir"
_CONTAINER_OPTIONS = (
    "--environment --container --container-id --container-save --container-env --container-writable"
    " --container-readonly --container-remap-root --no-container-remap-root --container-entrypoint"
    " --no-container-entrypoint --container-entrypoint-log"
)

SRUN = Table(
    "srun",
    (
        owned("--nodes|-N", FROM_HOSTS, kind="nodes", sets="nodes"),
        owned("--ntasks|-n", FROM_PLAN, kind="int", sets="total"),
        owned("--ntasks-per-node|--tasks-per-node", FROM_PLAN, kind="int", sets="per_node"),
        *each(owned, _GPUS, FROM_PLAN),
        *each(owned, _TASKS, FROM_PLAN, kind="int"),
        owned("--nodelist|-w", FROM_HOSTS, kind="host_names", sets="hosts"),
        owned("--exclude|-x", "leave the host out of --hosts", kind="host_names", sets="exclude"),
        owned("--relative|-r", FROM_HOSTS),
        owned("--export", _VARIABLE, kind="variables"),
        owned("--export-file", "variables of the ranks are env: of a run config"),
        owned("--chdir|-D", _DIRECTORY, kind="directory"),
        *each(owned, "--output|-o --error|-e --open-mode --slurmd-debug", RANK_LOGS),
        *each(owned, "--label|-l --verbose|-v --quiet|-Q", RANK_LOGS, values=0),
        owned("--input|-i", "the ranks read no input"),
        owned("--unbuffered|-u", "python runs unbuffered in every rank", values=0),
        *each(owned, "--wait|-W --signal", _STOP),
        *each(owned, "--kill-on-bad-exit|-K --no-kill|-k", _STOP, values=OPTIONAL),
        owned("--disable-status|-X", _STOP, values=0),
        *each(owned, _CORES, _BIND, kind="int"),
        *each(owned, _BINDINGS, _BIND),
        *each(owned, "--exact --overcommit", _BIND, values=0),
        *each(owned, _OF_JOB, _SLURM),
        *each(owned, _SRUN_FLAGS, _SLURM, values=0),
        *each(owned, _SRUN_OPTIONAL, _SLURM, values=OPTIONAL),
        owned("--begin|-b", _SLURM),
        owned("--mincpus", _SLURM, kind="int"),
        owned("--propagate", "limits are those of each host", values=OPTIONAL),
        owned("--bcast", "the script travels with --sync", values=OPTIONAL),
        *each(owned, "--mpi --network", _MPI),
        owned("--resv-ports", _MPI, values=OPTIONAL),
        owned("--distribution|-m", "ranks follow from the order of the hosts"),
        owned("--pty", "the ranks have no terminal", values=OPTIONAL),
        *each(owned, "--no-container-mount-home --container-mount-home", _CONTAINER, values=0),
        *each(refused, _CONTAINER_VALUES, _CONTAINER, _CONTAINER_FIX),
        *each(refused, _CONTAINER_OPTIONS, _CONTAINER, _CONTAINER_FIX, values=OPTIONAL),
        *each(refused, "--help --usage --version -V --test-only", _PRINTS, "leave it out", values=0),
        refused("--nodefile|-F", "the hosts would be in a file", _NAME_HOSTS),
        refused("--multi-prog", "each rank would run a program of its own", "launch one program", values=0),
        refused(
            "--het-group", "the parts of a heterogeneous job are launches of their own", "launch one part"
        ),
    ),
    style="getopt",
    both_dashes=False,
    abbreviations=True,
)

PREFIXES = {**dict.fromkeys(as_names("mpirun mpiexec mpiexec.hydra orterun prterun"), MPIRUN), "srun": SRUN}
"""By the name of the program."""
