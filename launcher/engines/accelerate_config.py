"""The accelerate config file that a launch writes for each node, and what its keys ask for. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.engines.accelerate_settings import STRATEGIES
from launcher.engines.base import NodeSetup, World


def render_config(world: World, node: NodeSetup) -> str:
    """Return accelerate's config file for one node, with every key that a host could otherwise decide.

    Keys of the user's file are taken over but for those that the plan owns. `num_processes` is local ranks x
    nodes: accelerate floors `num_processes / num_machines` on each host and torch then adds the real local
    sizes, so this is what makes unequal hosts one world.
    """
    theirs = node.accelerate_config
    many = world.size > 1 or has_strategy(theirs)
    rows: dict[str, object] = {
        "debug": False,
        "distributed_type": "MULTI_GPU" if many else "NO",
        "downcast_bf16": False,
        "enable_cpu_affinity": False,
        "dynamo_config": {"dynamo_backend": "no"},
    }
    if world.mixed_precision == "fp8":
        rows["fp8_config"] = {"backend": world.fp8_backend}
    rows |= theirs
    rows |= {
        "compute_environment": "LOCAL_MACHINE",
        "gpu_ids": "all",  # the order is in CUDA_VISIBLE_DEVICES, by UUID
        "machine_rank": node.node_rank,
        "main_training_function": "main",
        "num_machines": world.nodes,
        "num_processes": len(node.ranks.slots) * world.nodes,
        "rdzv_backend": "static",
        "same_network": False,
        "use_cpu": node.on_cpu and not many,  # with distributed_type it would start one process only
    }
    if not find_deepspeed_file(theirs):  # else the precision is in that file, and accelerate refuses both
        rows["mixed_precision"] = world.mixed_precision
    if many:
        rows |= {"main_process_ip": world.main_address, "main_process_port": world.main_port}
    return "\n".join(render_lines(rows)) + "\n"


def has_strategy(config: Mapping[str, Any]) -> bool:
    """Return whether keys of a config file ask for FSDP, DeepSpeed or Megatron-LM.

    Then torch's launcher runs even for one rank: accelerate's launchers of these strategies use no other.
    """
    return config.get("distributed_type") in STRATEGIES.values()


def find_deepspeed_file(config: Mapping[str, Any]) -> str:
    """Return the DeepSpeed file of every host that keys name, "" without one; its precision counts alone."""
    if config.get("distributed_type") != "DEEPSPEED":
        return ""
    return str(config.get("deepspeed_config", {}).get("deepspeed_config_file") or "")


def with_deepspeed_file(config: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the keys with the DeepSpeed config file where a host has it."""
    return {**config, "deepspeed_config": {**config["deepspeed_config"], "deepspeed_config_file": path}}


def render_lines(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a config file, keys by name. Every string is quoted: a bare `no` is a boolean."""
    for name, value in sorted(config.items()):
        yield f"{name}: {json.dumps(value, sort_keys=True)}"
