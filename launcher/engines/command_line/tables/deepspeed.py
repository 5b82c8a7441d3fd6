"""The options of the `deepspeed` launcher (0.19.8: deepspeed/launcher/runner.py)."""

from launcher.engines.command_line import options

VERSION = "0.19.8"  # the release that the rows were compared with

_LAUNCHER = "gpulaunch starts the ranks itself"
_QUIET = "for DeepSpeed's launcher only, which does not run"
_CORES = "gpulaunch binds no cores; OMP_NUM_THREADS is set for each rank"
_ENV = "the interpreter is that of each host"

OPTIONS: tuple[options.LauncherOption, ...] = (
    options.owned("--hostfile|-H", "gpulaunch reads the hosts and their slots from it", sets="hostfile"),
    options.owned("--include|-i", "read as hosts and their GPUs", kind="node_filters", sets="include"),
    options.owned("--exclude|-e", "read as hosts and GPUs to leave out", kind="node_filters", sets="exclude"),
    options.owned("--num_nodes", options.FROM_HOSTS, kind="int", sets="nodes"),
    options.owned("--num_gpus|--num_accelerators", options.FROM_PLAN, kind="int", sets="per_node"),
    *options.MAIN,
    options.NODE_RANK,
    *options.each(options.owned, "--launcher --launcher_args", _LAUNCHER),
    options.owned("--module", "the program is a module", values=0),
    options.owned("--no_python", "the program is started without python", values=0),
    options.owned("--no_local_rank", "the script gets no --local_rank", values=0),
    *options.each(options.owned, "--no_ssh --no_ssh_check", options.OWN_SSH, values=0),
    options.owned("--force_multi", _LAUNCHER, values=0),
    options.owned("--save_pid", "gpulaunch ps knows the processes of a run", values=0),
    options.owned(
        "--enable_each_rank_log", "every rank has a log of its own in gpulaunch-runs", sets="log_dir"
    ),
    options.refused(
        "--autotuning",
        "the autotuner starts many runs of its own, each with a launcher of its own",
        "run the autotuner on one host with deepspeed, then launch with the configuration that it wrote",
        choices="tune run",
    ),
    options.owned("--bind_cores_to_rank", _CORES, values=0),
    options.owned("--bind_core_list", _CORES),
    options.owned("--ssh_port", options.OWN_SSH, kind="int"),
    options.refused(
        "--venv_script",
        f"{_ENV}, and no activation script is run",
        "write python: PATH/bin/python for the host in hosts.yaml",
    ),
    options.owned("--log_level", _QUIET, choices="debug info warning error critical"),
    options.owned("--quiet|-q", _QUIET, values=0),
)

DEEPSPEED = options.Table("deepspeed", OPTIONS, both_dashes=False)
