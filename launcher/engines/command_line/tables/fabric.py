"""The options of `fabric run`, once `lightning run model` (Lightning 2.6: lightning/fabric/cli.py)."""

from launcher.engines.command_line.options import (
    FROM_HOSTS,
    FROM_MAIN,
    FROM_PORT,
    FROM_RANKS,
    LauncherOption,
    Table,
    kept,
    owned,
)

OPTIONS: tuple[LauncherOption, ...] = (
    kept(
        "--accelerator",
        "LT_ACCELERATOR of each rank",
        kind="accelerator",
        choices="cpu gpu cuda mps tpu auto",
    ),
    kept("--strategy", "LT_STRATEGY of each rank"),
    owned("--devices", "read as GPUs of each host; sets LT_DEVICES of each", kind="devices", sets="per_node"),
    owned("--num_nodes", FROM_HOSTS, kind="int", sets="nodes"),
    owned("--node_rank", FROM_RANKS, kind="int", sets="node_rank"),
    owned("--main_address", FROM_MAIN, sets="main_address"),
    owned("--main_port", FROM_PORT, kind="int", sets="main_port"),
    owned(
        "--precision",
        "mixed ones are decided for the GPUs of all hosts; others are passed on as LT_PRECISION",
        kind="fabric_precision",
        sets="precision",
    ),
)

FABRIC = Table("fabric", OPTIONS, style="getopt", abbreviations=False, interspersed=True)
