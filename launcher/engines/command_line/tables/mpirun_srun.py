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
        owned("-np", FROM_PLAN, also="-n --np --n -c", kind="int", sets="total"),
        owned("-npernode", FROM_PLAN, also="--npernode -N -ppn --ppn -perhost", kind="int", sets="per_node"),
        owned("--host", FROM_HOSTS, also="-H -host -hosts", kind="host_slots", sets="hosts"),
        owned("--hostfile", FROM_HOSTS, also="-hostfile -machinefile --machinefile -f", sets="hostfile"),
        owned("-x", _VARIABLE, kind="variables"),
        owned("-genv", _VARIABLE, kind="variables", values=2, also="-env"),
        owned("-genvlist", _VARIABLE, kind="variables", also="-envlist"),
        owned("--env", _VARIABLE, kind="variables"),
        owned(
            "-genvall",
            "the ranks get the host's own environment",
            values=0,
            also="-envall --envall --envnone",
        ),
        owned("-mca", _MPI, also="--mca -gmca --gmca --prtemca --pmixmca", values=2),
        owned("-bind-to", _BIND, also="--bind-to --cpu-bind --mem-bind --gpu-bind --depth -d"),
        owned("-map-by", FROM_PLAN, also="--map-by -ppr --ppr", kind="mapping", sets="per_node"),
        owned("--bind-to-core", _BIND, also="-bind-to-core --bind-to-none -bind-to-none", values=0),
        owned("--oversubscribe", FROM_PLAN, also="-oversubscribe", values=0),
        owned("--allow-run-as-root", _MPI, also="-allow-run-as-root", values=0),
        owned(
            "--tag-output",
            RANK_LOGS,
            also="-tag-output --timestamp-output -l -prepend-rank --line-buffer --label",
            values=0,
        ),
        owned("--output-filename", RANK_LOGS, also="-output-filename --output"),
        owned(
            "--report-bindings",
            _BIND,
            also="-report-bindings --display-map --nooversubscribe --no-vni",
            values=0,
        ),
        owned("--prefix", _MPI, also="-prefix"),
        owned("-rank-by", _BIND, also="--rank-by"),
        owned("-quiet", RANK_LOGS, also="--quiet -q -v --verbose", values=0),
        owned("-launcher", OWN_SSH, also="-bootstrap -iface"),
        owned("-wdir", _DIRECTORY, also="--wdir -wd --wd", kind="directory"),
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
        owned("--nodes", FROM_HOSTS, also="-N", kind="nodes", sets="nodes"),
        owned("--ntasks", FROM_PLAN, also="-n", kind="int", sets="total"),
        owned("--ntasks-per-node", FROM_PLAN, also="--tasks-per-node", kind="int", sets="per_node"),
        *each(owned, _GPUS, FROM_PLAN),
        *each(owned, _TASKS, FROM_PLAN, kind="int"),
        owned("--nodelist", FROM_HOSTS, also="-w", kind="host_names", sets="hosts"),
        owned("--exclude", "leave the host out of --hosts", also="-x", kind="host_names", sets="exclude"),
        owned("--relative", FROM_HOSTS, also="-r"),
        owned("--export", _VARIABLE, kind="variables"),
        owned("--export-file", "variables of the ranks are env: of a run config"),
        owned("--chdir", _DIRECTORY, also="-D", kind="directory"),
        *each(owned, "--output|-o --error|-e --open-mode --slurmd-debug", RANK_LOGS),
        *each(owned, "--label|-l --verbose|-v --quiet|-Q", RANK_LOGS, values=0),
        owned("--input", "the ranks read no input", also="-i"),
        owned("--unbuffered", "python runs unbuffered in every rank", also="-u", values=0),
        *each(owned, "--wait|-W --signal", _STOP),
        *each(owned, "--kill-on-bad-exit|-K --no-kill|-k", _STOP, values=OPTIONAL),
        owned("--disable-status", _STOP, also="-X", values=0),
        *each(owned, _CORES, _BIND, kind="int"),
        *each(owned, _BINDINGS, _BIND),
        *each(owned, "--exact --overcommit", _BIND, values=0),
        *each(owned, _OF_JOB, _SLURM),
        *each(owned, _SRUN_FLAGS, _SLURM, values=0),
        *each(owned, _SRUN_OPTIONAL, _SLURM, values=OPTIONAL),
        owned("--begin", _SLURM, also="-b"),
        owned("--mincpus", _SLURM, kind="int"),
        owned("--propagate", "limits are those of each host", values=OPTIONAL),
        owned("--bcast", "the script travels with --sync", values=OPTIONAL),
        *each(owned, "--mpi --network", _MPI),
        owned("--resv-ports", _MPI, values=OPTIONAL),
        owned("--distribution", "ranks follow from the order of the hosts", also="-m"),
        owned("--pty", "the ranks have no terminal", values=OPTIONAL),
        *each(owned, "--no-container-mount-home --container-mount-home", _CONTAINER, values=0),
        *each(refused, _CONTAINER_VALUES, _CONTAINER, _CONTAINER_FIX),
        *each(refused, _CONTAINER_OPTIONS, _CONTAINER, _CONTAINER_FIX, values=OPTIONAL),
        *each(refused, "--help --usage --version -V --test-only", _PRINTS, "leave it out", values=0),
        refused("--nodefile", "the hosts would be in a file", _NAME_HOSTS, also="-F"),
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
