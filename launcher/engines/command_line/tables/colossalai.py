"""The options of `colossalai run` (colossalai/cli/launcher), which starts torchrun over SSH."""

from launcher.engines.command_line.options import FROM_HOSTS, FROM_PLAN, MAIN, Table, owned, refused

VERSION = "0.5"  # the release that the rows were compared with

COLOSSALAI = Table(
    "colossalai",
    (
        owned("--host|-H|-host", FROM_HOSTS, kind="host_names", sets="hosts"),
        owned("--hostfile", FROM_HOSTS, sets="hostfile"),
        owned("--include", FROM_HOSTS, kind="host_names", sets="include"),
        owned("--exclude", "leave the host out of --hosts", kind="host_names", sets="exclude"),
        owned("--num_nodes", FROM_HOSTS, kind="int", sets="nodes"),
        owned("--nproc_per_node", FROM_PLAN, kind="per_node", sets="per_node"),
        *MAIN,
        owned("--ssh-port", "gpulaunch reaches the hosts, as hosts.yaml and your SSH configuration say"),
        owned("-m", "the program is a module", values=0),
        refused(
            "--extra_launch_args",
            "they are options of the torchrun inside",
            "write torchrun with these options in place of colossalai run",
        ),
    ),
    both_dashes=False,
    abbreviations=False,
    interspersed=True,
)
