"""What the plan makes of public commands on two unlike hosts: two TITAN RTX on one, an L40S on the other."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.config.command_config import settle_command
from launcher.config.config_overrides import Overrides
from launcher.config.inventory import HostEntry
from launcher.config.run_config import build_command_config
from launcher.errors import BadInput
from launcher.planning.planner import build_plan
from preflight.errors import GpulaunchError
from tests.hardware import l40s, titan
from tests.launcher.test_public_commands import COMMANDS

HOSTS = {facts.host: facts for facts in (titan(2), l40s(1))}
FILES = {
    "myhostfile": "titan slots=2\nl40s-01 slots=1\n",
    "hostfile": "titan slots=2\nl40s-01 slots=1\n",
    "multi_node.yaml": (
        "{distributed_type: MULTI_GPU, num_machines: 2, num_processes: 16, mixed_precision: bf16}"
    ),
    "examples/accelerate_configs/multi_gpu.yaml": "{distributed_type: MULTI_GPU, num_processes: 8}",
    "examples/accelerate_configs/deepspeed_zero2.yaml": (
        "{distributed_type: DEEPSPEED, deepspeed_config: {zero_stage: 2,"
        " deepspeed_multinode_launcher: standard}, num_processes: 8}"
    ),
    "examples/accelerate_configs/deepspeed_zero3.yaml": (
        "{distributed_type: DEEPSPEED, deepspeed_config: {zero_stage: 3, zero3_init_flag: true},"
        " num_processes: 8}"
    ),
    "examples/ktransformers/accelerate/fsdp2_kt_bf16.yaml": (
        "{distributed_type: FSDP, fsdp_config: {fsdp_version: 2}, mixed_precision: bf16, num_processes: 2}"
    ),
}
"""Files that the lines name, as their projects have them in substance."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HF_HOME", "XDG_CACHE_HOME", "DS_ENV_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")


def planned(line: str) -> dict[str, Any]:
    """Return the plan of a line in the words of the file."""
    config = build_command_config((line,), Overrides(hosts=("titan,l40s-01",)))
    assert config.command is not None
    entries = tuple(HostEntry(name) for name in HOSTS)
    job, left = settle_command(config.command, config.job, entries, names_hosts=True)
    plan = build_plan([(entry, HOSTS[entry.name]) for entry in left], job, run_id="run-1")
    ranks = {node.host: [slot.gpu_index for slot in node.ranks.slots] for node in plan.nodes}
    argv = plan.nodes[0].argv
    rank_program = next((place for place, word in enumerate(argv) if word.endswith("/rank.py")), -1)
    said: dict[str, Any] = {
        "engine": plan.engine,
        "ranks": ranks,
        "precision": plan.precision.mixed_precision,
        "changes": [f"{one.field} {one.old} -> {one.new}" for one in plan.changes],
        "program": " ".join(argv[rank_program + 1 :]),
    }
    if plan.engine == "command":
        said["processes"] = [int(node.env["NPROC_PER_NODE"]) for node in plan.nodes]
    if plan.main_port != 29500:
        said["port"] = plan.main_port
    written = dict(plan.nodes[0].files).get("accelerate.yaml")
    if written is not None:
        said["type"] = yaml.safe_load(written)["distributed_type"]
    return {name: value for name, value in said.items() if value}


@pytest.mark.parametrize(
    "command",
    [command for command in COMMANDS if "refused" not in command],
    ids=lambda command: command["line"].splitlines()[-1][:70],
)
def test_the_plan_of_a_public_command(command: dict[str, Any]) -> None:
    expected = command["plan"]
    if isinstance(expected, str):
        with pytest.raises((BadInput, GpulaunchError)) as caught:
            planned(command["line"])
        assert caught.value.message == expected
    else:
        assert planned(command["line"]) == expected
