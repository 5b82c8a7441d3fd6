"""The command engine: a program of the user's, once on each node, which starts the ranks itself. Pure.

    <python> {run_dir}/rank.py --exec PROGRAM args...

gpulaunch cannot look into `bash train.sh`, `llamafactory-cli train` or `axolotl train`. It sets what such
programs read: NNODES, NODE_RANK, NPROC_PER_NODE, MASTER_ADDR and MASTER_PORT, and each option of torch's
launcher as PET_<NAME>, which a torchrun inside takes wherever its own command line does not say it
(torch/distributed/argparse_util.py). With FORCE_TORCHRUN LLaMA-Factory uses torchrun at all
(llamafactory/launcher.py).

Precision, the check of each rank and the guard are not ours then: the processes that train are its children.
"""

from collections.abc import Iterator

from launcher.engines.base import RANK_PROGRAM, Engine, NodeSetup, World


class Command(Engine):
    """Starts one program on each node."""

    def argv(self, world: World, node: NodeSetup) -> tuple[str, ...]:
        """Return the node's command."""
        if node.options_at is None:
            return (node.python, RANK_PROGRAM, *node.words)
        at = len(("--exec", "PROGRAM")) + node.options_at
        inner = _torchrun_options(world, node)
        return (node.python, RANK_PROGRAM, *node.words[:at], *inner, *node.words[at:])

    def environment(self, world: World, node: NodeSetup) -> dict[str, str]:
        """Return what a launcher inside goes by."""
        local = str(len(node.ranks.slots))
        variables = {
            "NNODES": str(world.nodes),
            "NODE_RANK": str(node.node_rank),
            "NPROC_PER_NODE": local,
            "MASTER_ADDR": world.main_address,
            "MASTER_PORT": str(world.main_port),
        }
        torch = {f"PET_{name}": value for name, value in variables.items()}
        return {
            **variables,
            **torch,
            "PET_RDZV_BACKEND": "static",
            "PET_RDZV_ID": world.run_id,
            "PET_RDZV_CONF": f"timeout={world.rendezvous_timeout_s}",
            "FORCE_TORCHRUN": "1",
        }

    def notes(self, world: World, node: NodeSetup) -> Iterator[str]:
        """Yield what is not ours."""
        local = len(node.ranks.slots)
        yield (
            f"NPROC_PER_NODE and PET_NPROC_PER_NODE ask the command for {local} of {world.size} ranks; its"
            " precision and its ranks are not ours: no guard watches them, and none is verified"
        )


def _torchrun_options(world: World, node: NodeSetup) -> tuple[str, ...]:
    """Return the options of torchrun for a program that takes them, as `tune run` does.

    The endpoint is said for torchtune, which chooses --standalone without one (torchtune/_cli/run.py).
    """
    address = world.main_address
    host = f"[{address}]" if ":" in address else address
    return (
        *("--nnodes", str(world.nodes)),
        *("--node_rank", str(node.node_rank)),
        *("--nproc_per_node", str(len(node.ranks.slots))),
        *("--rdzv_backend", "static"),
        *("--rdzv_endpoint", f"{host}:{world.main_port}"),
        *("--rdzv_id", world.run_id),
        *("--rdzv_conf", f"timeout={world.rendezvous_timeout_s}"),
        *node.launcher_args,
    )


ENGINE: Engine = Command()
