"""Plans of commands that people type today, on hosts that tests describe."""

import shlex

from launcher.config.command_config import settle_command
from launcher.config.config_overrides import Overrides
from launcher.config.inventory import HostEntry
from launcher.config.run_config import RunConfig, build_command_config
from launcher.planning.plan import Plan
from launcher.planning.planner import build_plan
from preflight.facts.gpu import ComputeProcess
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import decode
from tests.hardware import gpu, host

HELD = decode(ComputeProcess, {"pid": 77, "kind": "compute"})


def busy_titan() -> HostFacts:
    """Return a TITAN host of which GPU 2 is in use."""
    cards = [gpu(i, host="titan", processes=(HELD,) if i == 2 else ()) for i in range(4)]
    return host("titan", cards)


def read(line: str, overrides: Overrides | None = None) -> RunConfig:
    return build_command_config(shlex.split(line), overrides)


def planned(config: RunConfig, *hosts: HostFacts) -> Plan:
    assert config.command is not None
    facts = {each.host: each for each in hosts}
    entries = tuple(HostEntry(name) for name in (config.hosts if config.names_hosts else facts))
    job, left = settle_command(config.command, config.job, entries, names_hosts=True)
    return build_plan([(entry, facts[entry.name]) for entry in left], job, run_id="run-1")


def plan(line: str, *hosts: HostFacts) -> Plan:
    return planned(read(line), *hosts)


def ranks(made: Plan) -> dict[str, list[int | None]]:
    """Return the GPUs of each host by index; None is a CPU rank."""
    return {node.host: [slot.gpu_index for slot in node.ranks.slots] for node in made.nodes}
