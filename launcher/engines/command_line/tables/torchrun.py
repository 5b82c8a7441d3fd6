"""The options of torchrun, `python -m torch.distributed.run` and torch.distributed.launch (torch 2.14)."""

from launcher.engines.command_line import options
from launcher.engines.command_line.parsed_command import TUNE_RUN

_LABEL = "left out where its value is not known"

ELASTIC: tuple[options.LauncherOption, ...] = (
    options.owned("--rdzv_backend", options.STATIC_RENDEZVOUS, kind="backend"),
    options.owned(
        "--rdzv_conf", "its timeout is kept; the rest is of other rendezvous", kind="rendezvous_conf"
    ),
    options.owned("--max_restarts", "restart: of the run config does it", kind="int", sets="max_restarts"),
    options.kept("--monitor_interval", kind="float"),
    options.kept("--role", f"only a word in front of each line of output; {_LABEL}", is_label=True),
    options.owned("--module|-m", "the program is a module", values=0),
    options.owned("--no_python", "the program is started without python", values=0),
    options.kept("--log_dir", f"gpulaunch-runs has the logs, too; {_LABEL}", sets="log_dir", is_label=True),
    options.kept("--tee|-t"),
)
"""What `accelerate launch` takes for the torchrun that it starts."""

OPTIONS: tuple[options.LauncherOption, ...] = (
    options.owned("--nnodes", options.FROM_HOSTS, kind="nodes", sets="nodes"),
    options.owned("--nproc_per_node", options.FROM_PLAN, kind="per_node", sets="per_node"),
    *ELASTIC,
    options.owned("--rdzv_endpoint", options.FROM_MAIN, kind="endpoint", sets="main_address"),
    options.owned("--rdzv_id", options.STATIC_RENDEZVOUS),
    options.owned("--standalone", options.STATIC_RENDEZVOUS, values=0),
    options.kept("--start_method", choices="spawn fork forkserver"),
    options.refused(
        "--run_path",
        "the script would run inside torch's launcher, where no rank can be prepared or verified",
        "leave it out: the script then runs in a process of its own",
        values=0,
    ),
    options.kept("--redirects|-r"),
    options.NODE_RANK,
    *options.MAIN,
    options.owned("--local_addr", options.FROM_MAIN),
    options.kept("--numa_binding", choices="node socket exclusive core-complex"),
    options.kept("--shutdown_timeout", kind="int"),
    *options.each(options.kept, "--event_log_handler --local_ranks_filter --duplicate_stdout_filters"),
    *options.each(options.kept, "--duplicate_stderr_filters --logs_specs --signals_to_handle"),
    options.kept("--log_line_prefix_template"),
    options.refused(
        "--print_completion",
        "torchrun prints a completion script and starts nothing",
        "type it without gpulaunch",
        choices="bash zsh tcsh",
    ),
    options.owned("--virtual_local_rank", "the plan decides whether each rank sees one GPU or all", values=0),
)

TORCHRUN = options.Table("torchrun", OPTIONS)

TUNE = options.Table(TUNE_RUN, OPTIONS)  # torchtune takes over the parser of torchrun (torchtune/_cli/run.py)

LAUNCH = options.Table(
    "torch.distributed.launch",
    (*OPTIONS, options.owned("--use_env", "says whether the script gets --local-rank", values=0)),
)
