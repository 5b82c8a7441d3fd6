"""The options of the `deepspeed` launcher (0.19.8: deepspeed/launcher/runner.py)."""

from launcher.engines.command_line.options import (
    FROM_HOSTS,
    FROM_PLAN,
    MAIN,
    NODE_RANK,
    OWN_SSH,
    LauncherOption,
    Table,
    each,
    owned,
    refused,
)

VERSION = "0.19.8"  # the release that the rows were compared with

_LAUNCHER = "gpulaunch starts the ranks itself"
_QUIET = "for DeepSpeed's launcher only, which does not run"
_CORES = "gpulaunch binds no cores; OMP_NUM_THREADS is set for each rank"
_ENV = "the interpreter is that of each host"

OPTIONS: tuple[LauncherOption, ...] = (
    owned("--hostfile|-H", "gpulaunch reads the hosts and their slots from it", sets="hostfile"),
    owned("--include|-i", "read as hosts and their GPUs", kind="node_filters", sets="include"),
    owned("--exclude|-e", "read as hosts and GPUs to leave out", kind="node_filters", sets="exclude"),
    owned("--num_nodes", FROM_HOSTS, kind="int", sets="nodes"),
    owned("--num_gpus|--num_accelerators", FROM_PLAN, kind="int", sets="per_node"),
    *MAIN,
    NODE_RANK,
    *each(owned, "--launcher --launcher_args", _LAUNCHER),
    owned("--module", "the program is a module", values=0),
    owned("--no_python", "the program is started without python", values=0),
    owned("--no_local_rank", "the script gets no --local_rank", values=0),
    *each(owned, "--no_ssh --no_ssh_check", OWN_SSH, values=0),
    owned("--force_multi", _LAUNCHER, values=0),
    owned("--save_pid", "gpulaunch ps knows the processes of a run", values=0),
    owned("--enable_each_rank_log", "every rank has a log of its own in gpulaunch-runs", sets="log_dir"),
    refused(
        "--autotuning",
        "the autotuner starts many runs of its own, each with a launcher of its own",
        "run the autotuner on one host with deepspeed, then launch with the configuration that it wrote",
        choices="tune run",
    ),
    owned("--bind_cores_to_rank", _CORES, values=0),
    owned("--bind_core_list", _CORES),
    owned("--ssh_port", OWN_SSH, kind="int"),
    refused(
        "--venv_script",
        f"{_ENV}, and no activation script is run",
        "write python: PATH/bin/python for the host in hosts.yaml",
    ),
    owned("--log_level", _QUIET, choices="debug info warning error critical"),
    owned("--quiet|-q", _QUIET, values=0),
)

DEEPSPEED = Table("deepspeed", OPTIONS, both_dashes=False)
