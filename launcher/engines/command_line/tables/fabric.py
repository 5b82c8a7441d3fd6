"""The options of `fabric run`, once `lightning run model` (Lightning 2.6: lightning/fabric/cli.py)."""

from launcher.engines.command_line import options

OPTIONS: tuple[options.LauncherOption, ...] = (
    options.kept(
        "--accelerator",
        "LT_ACCELERATOR of each rank",
        kind="accelerator",
        choices="cpu gpu cuda mps tpu auto",
    ),
    options.kept("--strategy", "LT_STRATEGY of each rank"),
    options.owned(
        "--devices", "read as GPUs of each host; sets LT_DEVICES of each", kind="devices", sets="per_node"
    ),
    options.owned("--num_nodes", options.FROM_HOSTS, kind="int", sets="nodes"),
    options.owned("--node_rank", options.FROM_RANKS, kind="int", sets="node_rank"),
    options.owned("--main_address", options.FROM_MAIN, sets="main_address"),
    options.owned("--main_port", options.FROM_PORT, kind="int", sets="main_port"),
    options.owned(
        "--precision",
        "mixed ones are decided for the GPUs of all hosts; others are passed on as LT_PRECISION",
        kind="fabric_precision",
        sets="precision",
    ),
)

FABRIC = options.Table("fabric", OPTIONS, style="getopt", abbreviations=False, interspersed=True)
