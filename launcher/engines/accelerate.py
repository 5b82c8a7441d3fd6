"""The accelerate engine: `accelerate launch` on each node, configured by one YAML file. Pure.

    <python> {run_dir}/start_launcher.py -m accelerate.commands.launch --config_file {run_dir}/accelerate.yaml
        [--rdzv_conf timeout=N --log_dir {run_dir}/torchelastic]
        {run_dir}/rank.py SCRIPT args...          or          {run_dir}/rank.py -m MODULE args...

A world of one rank is started without it (single_rank.py), but for fp8, whose settings the launcher reads
from the file. accelerate's parser takes all that follows the training script verbatim (argparse.REMAINDER).

Everything else is in one YAML (accelerate_config.py), precision too. No `--mixed_precision` flag: with a
config file *and* the flag the launcher itself builds a CUDA tensor on GPUs older than Ampere
(`is_bf16_available`, commands/launch.py), and so holds GPU 0 against rank 0 in Exclusive Process mode. No
`--multi_gpu` flag: the YAML's distributed_type sets it. `--config_file` is always given, which keeps the
host's own default_config.yaml out; accelerate applies nested sections (fp8_config) only if some option stood
on the command line, and this does.
"""

from collections.abc import Iterator

from launcher.engines import base
from launcher.engines.accelerate_config import has_strategy, render_config
from launcher.engines.single_rank import describe_start, list_simple_variables, needs_no_launcher, rank_argv

MODULE = "accelerate.commands.launch"
CONFIG = "accelerate.yaml"
_UNSET = (
    ": false",
    ': "no"',
    ': "no"}',
    ': "main"',
    ': "all"',
    ': "LOCAL_MACHINE"',
)  # the same in most files


class Accelerate(base.Engine):
    """Starts ranks by `accelerate launch`, which starts them by torch's elastic launcher."""

    def argv(self, world: base.World, node: base.NodeSetup) -> tuple[str, ...]:
        """Return the node's launcher command."""
        if _is_alone(world, node):
            return rank_argv(node)
        # What accelerate's config file does not take.
        settings = base.list_torch_args(world, node)
        return (
            *(node.python, base.LAUNCHER_PROGRAM, "-m", MODULE, "--config_file", f"{base.RUN_DIR}/{CONFIG}"),
            *(settings if world.size > 1 or node.accelerate_config else node.launcher_args),
            *(base.RANK_PROGRAM, *node.words),
        )

    def environment(self, world: base.World, node: base.NodeSetup) -> dict[str, str]:
        """Return the id of the rendezvous, and what makes CPU ranks of its multi-GPU path."""
        if _is_alone(world, node):
            return list_simple_variables(world, node)
        env: dict[str, str] = {}
        if world.size > 1 or has_strategy(node.accelerate_config):
            # Without an id of its own every static rendezvous is called "none", and a stranger's launcher on
            # the same address and port joins the job silently.
            env["PET_RDZV_ID"] = world.run_id
        if node.on_cpu:
            # `--cpu` starts one process whatever is asked; this variable and the multi-GPU path give gloo
            # ranks.
            env["ACCELERATE_USE_CPU"] = "true"
        return env

    def files(self, world: base.World, node: base.NodeSetup) -> tuple[tuple[str, str], ...]:
        """Return accelerate's config file."""
        return () if _is_alone(world, node) else ((CONFIG, render_config(world, node)),)

    def notes(self, world: base.World, node: base.NodeSetup) -> Iterator[str]:
        """Yield what the config file sets, and the number in it that is not that of the ranks."""
        if _is_alone(world, node):
            yield describe_start("accelerate launch")
            return
        lines = [line for line in render_config(world, node).splitlines() if not line.endswith(_UNSET)]
        yield f"$RUN_DIR/{CONFIG}: {', '.join(line.strip() for line in lines)} (--json shows all of it)"
        local = len(node.ranks.slots)
        if local * world.nodes != world.size:
            yield (
                f"  num_processes: {local * world.nodes} starts {_ranks(local)} on it, as accelerate divides"
                f" the number by the {world.nodes} hosts; the world is {_ranks(world.size)}"
            )


def _is_alone(world: base.World, node: base.NodeSetup) -> bool:
    return needs_no_launcher(world, node) and world.mixed_precision != "fp8"


def _ranks(number: int) -> str:
    return "1 rank" if number == 1 else f"{number} ranks"


ENGINE: base.Engine = Accelerate()
