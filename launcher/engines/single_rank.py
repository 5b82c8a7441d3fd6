"""A world of one rank: started without a launcher, in the environment that its launcher would give it. Pure.

    <python> {run_dir}/rank.py SCRIPT args...          or          {run_dir}/rank.py -m MODULE args...

A launcher imports torch before it starts the rank, which imports torch again: seconds of every start, and
some hundred MiB for as long as the run lasts. One rank has no other to meet, and is watched, signalled and
ended by the supervisor anyway. With more ranks the launcher stays: torch's agent keeps the store by which
ranks find each other, and a store in rank 0 would be gone when that ends before the others.
"""

from launcher.engines.base import RANK_PROGRAM, NodeSetup, World


def needs_no_launcher(world: World, node: NodeSetup) -> bool:
    """Return whether the launcher would do nothing for the one rank that the plan does not know.

    Options of the user's are the launcher's to carry out, and so is a strategy in accelerate's config file.
    An engine that the run config names starts its one rank, too.
    """
    asked = world.engine_requested or node.launcher_args or node.accelerate_config
    return world.size == 1 and not asked


def rank_argv(node: NodeSetup) -> tuple[str, ...]:
    """Return the rank's own command."""
    return (node.python, RANK_PROGRAM, *node.words)


def list_simple_variables(world: World, node: NodeSetup) -> dict[str, str]:
    """Return what accelerate's simple launcher sets (accelerate/utils/launch.py)."""
    variables = {
        "ACCELERATE_USE_CPU": str(node.on_cpu),
        "ACCELERATE_MIXED_PRECISION": world.mixed_precision,
        "ACCELERATE_DYNAMO_BACKEND": "NO",
        "ACCELERATE_DYNAMO_MODE": "default",
        "ACCELERATE_DYNAMO_USE_FULLGRAPH": "False",
        "ACCELERATE_DYNAMO_USE_DYNAMIC": "False",
        "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION": "False",
    }
    if node.on_cpu:
        variables |= {"KMP_AFFINITY": "granularity=fine,compact,1,0", "KMP_BLOCKTIME": "1"}
    return variables


def list_torch_variables(world: World) -> dict[str, str]:
    """Return what torch's agent sets (torch/distributed/elastic/agent/server/local_elastic_agent.py).

    No agent keeps a store, so that the rank makes its own; none reads an error file; and how NCCL handles
    errors of other ranks stays with the host, for there are none.
    """
    alone = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE")
    first = ("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK")
    return {
        **dict.fromkeys(alone, "1"),
        **dict.fromkeys(first, "0"),
        "ROLE_NAME": "default",
        "MASTER_ADDR": world.main_address,
        "MASTER_PORT": str(world.main_port),
        "TORCHELASTIC_RUN_ID": world.run_id,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def describe_start(launcher: str) -> str:
    """Return the note beside the command of such a rank."""
    return f"one rank needs no launcher: gpulaunch starts it itself, in the environment that {launcher} sets"
