"""accelerate's default config file of the hosts, where a launch has no config file of its own. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from launcher.config.accelerate_file import read_settings_text
from launcher.engines.accelerate_config import has_strategy
from launcher.errors import BadInput
from preflight.decide.decision import DecisionReason, NodeRanks
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.job import Job

_SOURCE = "accelerate config"


def take_default_config(job: Job, hosts: Iterable[HostFacts]) -> tuple[Job, tuple[DecisionReason, ...]]:
    """Return the job with the sections of the first default config file that has a strategy, and why.

    `accelerate launch` on that host would read the file too. A launch has one configuration for all hosts, so
    hosts without such a file, or with another one, are named. Only accelerate reads it, and only where the
    job names no config file.
    """
    if job.accelerate_config is not None or job.engine is None or job.engine.name != "accelerate":
        return job, ()
    reasons: list[DecisionReason] = []
    taken, taken_from, lacking = None, "", []
    for facts in hosts:
        config, problem = _config_of(facts)
        if problem:
            reasons.append(DecisionReason(problem, _SOURCE))
        elif taken is None and config and has_strategy(config):
            taken, taken_from = config, facts.host
        elif config != taken:
            lacking.append(facts.host)
    if taken is None:
        return job, tuple(reasons)
    what = f"{taken['distributed_type']} is from accelerate's default_config.yaml of {taken_from}"
    others = f"; {', '.join(lacking)} would not have it alone" if lacking else ""
    reasons.append(DecisionReason(what + others, _SOURCE))
    return replace(job, accelerate_config=taken), tuple(reasons)


def describe_effect_on_cpu(job: Job, ranks: Iterable[NodeRanks]) -> tuple[DecisionReason, ...]:
    """Say that a strategy has no effect where no rank has a GPU.

    Source: accelerate/state.py: `AcceleratorState` reads ACCELERATE_USE_FSDP and its like for types of GPUs
    only; CPU ranks are MULTI_CPU, which is DDP.
    """
    config = job.accelerate_config or {}
    if not has_strategy(config) or any(slot.gpu_uuid for node in ranks for slot in node.slots):
        return ()
    text = f"accelerate has no {config['distributed_type']} on the CPU: the ranks train with DDP"
    return (DecisionReason(text, _SOURCE),)


def _config_of(facts: HostFacts) -> tuple[dict[str, object], str]:
    """Return what a host's default config file asks for, or why it cannot be taken over."""
    if isinstance(facts.python, Missing) or isinstance(facts.python.accelerate_config, Missing):
        return {}, ""
    source = f"default_config.yaml of {facts.host}"
    try:
        text = facts.python.accelerate_config
        return (read_settings_text(text, source).config if text else {}), ""
    except BadInput as error:
        return {}, f"accelerate's {source} is not taken over: {error.message}"
