"""The torchrun engine: `torch.distributed.run` on each node, with a static rendezvous. Pure.

    <python> {run_dir}/start_launcher.py -m torch.distributed.run
        --nnodes M --node_rank I --nproc_per_node N --master_addr ADDRESS --master_port PORT
        --rdzv_backend static --rdzv_id RUN --rdzv_conf timeout=N --log_dir {run_dir}/torchelastic
        {run_dir}/rank.py SCRIPT args...          or          {run_dir}/rank.py -m MODULE args...

A world of one rank is started without it (single_rank.py). A static rendezvous takes the node's rank as it
is given and adds up what every node starts, so unequal hosts need nothing more. Without an id of its own
every such rendezvous is called "none", and a stranger's launcher on the same address and port joins the job
silently. The default of --max_restarts is none: whether a run starts again, and where, is decided by
`restart:` for all hosts.

It passes no mixed precision: torch has no such notion. A script that uses accelerate nevertheless finds the
plan's in the variable that accelerate's own launcher would have set (accelerate/state.py), as it does
ACCELERATE_USE_CPU where its ranks are on the CPU; no other program reads either.
"""

from collections.abc import Iterator

from launcher.engines.base import LAUNCHER_PROGRAM, RANK_PROGRAM, Engine, NodeSetup, World, list_torch_args
from launcher.engines.single_rank import describe_start, list_torch_variables, needs_no_launcher, rank_argv

MODULE = "torch.distributed.run"


class Torchrun(Engine):
    """Starts ranks by torch's elastic launcher."""

    def argv(self, world: World, node: NodeSetup) -> tuple[str, ...]:
        """Return the node's launcher command."""
        if needs_no_launcher(world, node):
            return rank_argv(node)
        return (
            *(node.python, LAUNCHER_PROGRAM, "-m", MODULE),
            *("--nnodes", str(world.nodes)),
            *("--node_rank", str(node.node_rank)),
            *("--nproc_per_node", str(len(node.ranks.slots))),
            *("--master_addr", world.main_address),
            *("--master_port", str(world.main_port)),
            *("--rdzv_backend", "static"),
            *("--rdzv_id", world.run_id),
            *list_torch_args(world, node),
            *(RANK_PROGRAM, *node.words),
        )

    def environment(self, world: World, node: NodeSetup) -> dict[str, str]:
        """Return what a script finds that uses accelerate."""
        env: dict[str, str] = {"ACCELERATE_MIXED_PRECISION": world.mixed_precision}
        if node.on_cpu:
            env["ACCELERATE_USE_CPU"] = "true"
        if needs_no_launcher(world, node):
            env |= list_torch_variables(world)
        if node.launched_by == "deepspeed":  # deepspeed/launcher/launch.py sets these three
            env["CROSS_RANK"], env["CROSS_SIZE"] = str(node.node_rank), str(world.nodes)
            env["LOCAL_SIZE"] = str(len(node.ranks.slots))
            if world.nodes > 1:  # deepspeed/launcher/runner.py: modules of the working directory are found
                env["PYTHONPATH"] = "."
        if node.launched_by == "composer":  # composer/utils/dist.py reads it beside torchrun's variables
            env["NODE_RANK"] = str(node.node_rank)
        if node.launched_by == "fabric":
            env |= _fabric(world, node)
        return env

    def notes(self, world: World, node: NodeSetup) -> Iterator[str]:
        """Yield why the command of one rank is not torchrun's."""
        if needs_no_launcher(world, node):
            yield describe_start("torchrun")


_FABRIC_PRECISIONS = {"no": "32-true", "fp16": "16-mixed", "bf16": "bf16-mixed"}


def _fabric(world: World, node: NodeSetup) -> dict[str, str]:
    """Return what `fabric run` sets (lightning/fabric/cli.py); a Fabric without arguments goes by it."""
    variables = {
        "LT_CLI_USED": "1",
        "LT_ACCELERATOR": "cpu" if node.on_cpu else "cuda",
        "LT_DEVICES": str(len(node.ranks.slots)),
        "LT_NUM_NODES": str(world.nodes),
    }
    option = node.precision_option
    mixed = option.endswith("mixed") or option == "16"
    if option:
        variables["LT_PRECISION"] = _FABRIC_PRECISIONS.get(world.mixed_precision, option) if mixed else option
    return variables


ENGINE: Engine = Torchrun()
