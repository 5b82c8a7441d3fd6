"""The options of torchrun, `python -m torch.distributed.run` and torch.distributed.launch (torch 2.14)."""

from launcher.engines.command_line.options import (
    FROM_HOSTS,
    FROM_MAIN,
    FROM_PLAN,
    MAIN,
    NODE_RANK,
    STATIC_RENDEZVOUS,
    LauncherOption,
    Table,
    each,
    kept,
    owned,
    refused,
)
from launcher.engines.command_line.parsed_command import TUNE_RUN

_LABEL = "left out where its value is not known"

ELASTIC: tuple[LauncherOption, ...] = (
    owned("--rdzv_backend", STATIC_RENDEZVOUS, kind="backend"),
    owned("--rdzv_conf", "its timeout is kept; the rest is of other rendezvous", kind="rendezvous_conf"),
    owned("--max_restarts", "restart: of the run config does it", kind="int", sets="max_restarts"),
    kept("--monitor_interval", kind="float"),
    kept("--role", f"only a word in front of each line of output; {_LABEL}", is_label=True),
    owned("--module|-m", "the program is a module", values=0),
    owned("--no_python", "the program is started without python", values=0),
    kept("--log_dir", f"gpulaunch-runs has the logs, too; {_LABEL}", sets="log_dir", is_label=True),
    kept("--tee|-t"),
)
"""What `accelerate launch` takes for the torchrun that it starts."""

OPTIONS: tuple[LauncherOption, ...] = (
    owned("--nnodes", FROM_HOSTS, kind="nodes", sets="nodes"),
    owned("--nproc_per_node", FROM_PLAN, kind="per_node", sets="per_node"),
    *ELASTIC,
    owned("--rdzv_endpoint", FROM_MAIN, kind="endpoint", sets="main_address"),
    owned("--rdzv_id", STATIC_RENDEZVOUS),
    owned("--standalone", STATIC_RENDEZVOUS, values=0),
    kept("--start_method", choices="spawn fork forkserver"),
    refused(
        "--run_path",
        "the script would run inside torch's launcher, where no rank can be prepared or verified",
        "leave it out: the script then runs in a process of its own",
        values=0,
    ),
    kept("--redirects|-r"),
    NODE_RANK,
    *MAIN,
    owned("--local_addr", FROM_MAIN),
    kept("--numa_binding", choices="node socket exclusive core-complex"),
    kept("--shutdown_timeout", kind="int"),
    *each(kept, "--event_log_handler --local_ranks_filter --duplicate_stdout_filters"),
    *each(kept, "--duplicate_stderr_filters --logs_specs --signals_to_handle"),
    kept("--log_line_prefix_template"),
    refused(
        "--print_completion",
        "torchrun prints a completion script and starts nothing",
        "type it without gpulaunch",
        choices="bash zsh tcsh",
    ),
    owned("--virtual_local_rank", "the plan decides whether each rank sees one GPU or all", values=0),
)

TORCHRUN = Table("torchrun", OPTIONS)

TUNE = Table(TUNE_RUN, OPTIONS)  # torchtune takes over the parser of torchrun (torchtune/_cli/run.py)

LAUNCH = Table(
    "torch.distributed.launch",
    (*OPTIONS, owned("--use_env", "says whether the script gets --local-rank", values=0)),
)
