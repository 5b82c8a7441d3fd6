"""The options of Composer's launcher, `composer` (composer/cli/launcher.py)."""

from launcher.engines.command_line.options import (
    FROM_HOSTS,
    FROM_PLAN,
    FROM_RANKS,
    MAIN,
    NODE_RANK,
    RANK_LOGS,
    Table,
    owned,
    refused,
)

VERSION = "0.32"  # the release that the rows were compared with


COMPOSER = Table(
    "composer",
    (
        owned("--nproc|-n", FROM_PLAN, kind="per_node", sets="per_node"),
        owned("--world_size", FROM_HOSTS, kind="int", sets="total"),
        owned("--base_rank", FROM_RANKS, kind="int"),
        NODE_RANK,
        *MAIN,
        owned("--stdout", RANK_LOGS),
        owned("--stderr", RANK_LOGS),
        owned("--verbose|-v", RANK_LOGS, values=0),
        owned("--module_mode|-m", "the program is a module", values=0),
        owned("--command_mode|-c", "the program is started without python", values=0),
        refused("--version", "it prints the version, and starts nothing", "leave it out", values=0),
    ),
    both_dashes=False,
)
