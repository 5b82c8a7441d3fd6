"""The options of Composer's launcher, `composer` (composer/cli/launcher.py)."""

from launcher.engines.command_line import options

VERSION = "0.32"  # the release that the rows were compared with


COMPOSER = options.Table(
    "composer",
    (
        options.owned("--nproc|-n", options.FROM_PLAN, kind="per_node", sets="per_node"),
        options.owned("--world_size", options.FROM_HOSTS, kind="int", sets="total"),
        options.owned("--base_rank", options.FROM_RANKS, kind="int"),
        options.NODE_RANK,
        *options.MAIN,
        options.owned("--stdout", options.RANK_LOGS),
        options.owned("--stderr", options.RANK_LOGS),
        options.owned("--verbose|-v", options.RANK_LOGS, values=0),
        options.owned("--module_mode|-m", "the program is a module", values=0),
        options.owned("--command_mode|-c", "the program is started without python", values=0),
        options.refused("--version", "it prints the version, and starts nothing", "leave it out", values=0),
    ),
    both_dashes=False,
)
