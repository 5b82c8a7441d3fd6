"""Plans carried out by the real launchers on the CPU, with a pass-through in place of the guard."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from launcher.config.inventory import HostEntry
from launcher.engines.base import ENGINES, RUN_DIR, NodeSetup, World, load_engine, render_expected
from launcher.planning.plan import NodePlan, Plan
from launcher.planning.planner import build_plan
from launcher.remote.program_source import read_program_source
from preflight.facts.host import BindTest, Ports
from preflight.facts.missing import Missing
from preflight.job import CommandRequest, Job
from tests.field_notes.ranks import LIGHT, SHIMS
from tests.hardware import cpu_host

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(find_spec("accelerate") is None, reason="accelerate is not installed here"),
]

TIMEOUT_S = 120

PASS_THROUGH = """
import runpy, sys
sys.argv = sys.argv[1:]
if sys.argv[0] == "-m":
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    runpy.run_path(sys.argv[0], run_name="__main__")
"""

SCRIPT = """
import json, os, sys
import torch
from accelerate import Accelerator
accelerator = Accelerator()
total = accelerator.reduce(torch.ones(1), reduction="sum").item()
out = {
    "rank": accelerator.process_index, "world": accelerator.num_processes, "sum": total,
    "precision": accelerator.mixed_precision, "argv": sys.argv[1:], "device": str(accelerator.device),
    "type": str(accelerator.distributed_type), "local": accelerator.local_process_index,
    "id": os.environ.get("TORCHELASTIC_RUN_ID", ""), "dynamo": str(accelerator.state.dynamo_plugin.backend),
}
with open(os.path.join(os.environ["OUT"], f"rank{accelerator.process_index}.json"), "w") as file:
    json.dump(out, file)
accelerator.end_training()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def loopback_plan(job: Job, sizes: Sequence[int]) -> Plan:
    """Return a plan of several nodes that are all this machine, meeting on its loopback."""
    port = free_port()
    ports = Ports("proc", (), (BindTest(port, ok=True, error=""),), (), (32768, 60999))
    nodes = []
    for i, size in enumerate(sizes):
        facts = cpu_host(f"node{i}")
        assert not isinstance(facts.network, Missing)
        network = replace(
            facts.network, interfaces=facts.network.interfaces[:1], ssh_server_address="127.0.0.1"
        )
        assert not isinstance(facts.identity, Missing)
        identity = replace(facts.identity, boot_id="one")
        facts = replace(facts, network=network, identity=identity, ports=ports)
        nodes.append((HostEntry(facts.host, python=sys.executable), facts, size))
    made = build_plan(
        [(entry, facts) for entry, facts, _ in nodes], replace(job, main_port=port), run_id="run-7"
    )
    if len(set(sizes)) == 1:
        return made
    return _resized(made, job, nodes)


def _resized(made: Plan, job: Job, nodes: Sequence[tuple[HostEntry, object, int]]) -> Plan:
    """A config gives every host as many CPU ranks; give each node its own count, as GPUs would."""
    from preflight.decide.gpu_assignment import map_ranks  # noqa: PLC0415 - only this helper goes below the planner

    size = sum(count for _, _, count in nodes)
    world = World("run-7", len(nodes), size, made.main_address, made.main_port, "no")
    resized: list[NodePlan] = []
    first = 0
    for node, (_, _, count) in zip(made.nodes, nodes, strict=True):
        ranks = map_ranks(cpu_host(node.host), replace(job, processes_per_host=count))
        engine = load_engine(made.engine)
        setup = NodeSetup(node.node_rank, first, ranks, sys.executable, ("t.py", *job.args), 1)
        files = (*engine.files(world, setup), ("expected.json", render_expected(world, setup)))
        resized.append(
            replace(node, ranks=ranks, first_rank=first, files=files, argv=engine.argv(world, setup))
        )
        first += count
    return replace(made, nodes=tuple(resized), world_size=size)


def run_all(
    plan: Plan, tmp_path: Path, extra_env: Mapping[str, str] | None = None, script: str = SCRIPT
) -> list[dict[str, object]]:
    """Start every node at once, as hosts would, and return what the ranks wrote, by rank."""
    (tmp_path / "t.py").write_text(script)
    started = [_start(node, tmp_path, dict(extra_env or {})) for node in plan.nodes]
    for process in started:
        output, _ = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, output
    return [json.loads(path.read_text()) for path in sorted(tmp_path.glob("rank*.json"))]


def _start(node: NodePlan, tmp_path: Path, extra_env: dict[str, str]) -> "subprocess.Popen[str]":
    run_dir = tmp_path / node.host
    run_dir.mkdir()
    for name, text in node.files:
        (run_dir / name).write_text(text)
    (run_dir / "rank.py").write_text(PASS_THROUGH)
    (run_dir / "start_launcher.py").write_bytes(read_program_source("start_launcher"))
    env = _scrubbed({**os.environ, **extra_env}, node.unset)
    env |= {name: value.replace(RUN_DIR, str(run_dir)) for name, value in node.env.items()}
    env["OUT"] = str(tmp_path)
    env |= {"SHIMS": LIGHT, "PYTHONPATH": f"{SHIMS}:{env.get('PYTHONPATH', '')}"}
    argv = [word.replace(RUN_DIR, str(run_dir)) for word in node.argv]
    return subprocess.Popen(
        argv, env=env, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def _scrubbed(env: Mapping[str, str], unset: Sequence[str]) -> dict[str, str]:
    exact = {name for name in unset if not name.endswith("*")}
    starts = tuple(name[:-1] for name in unset if name.endswith("*"))
    return {name: value for name, value in env.items() if name not in exact and not name.startswith(starts)}


STALE = {
    "RANK": "5",
    "WORLD_SIZE": "9",
    "LOCAL_RANK": "5",
    "MASTER_ADDR": "10.0.0.1",
    "PET_NNODES": "2",
    "PET_RDZV_ID": "stranger",
    "ACCELERATE_MIXED_PRECISION": "bf16",
    "ACCELERATE_TORCH_DEVICE": "meta",
}


def hostile_home(tmp_path: Path) -> dict[str, str]:
    """A default_config.yaml that would change precision, port and size of any launch that let it."""
    folder = tmp_path / "hf" / "accelerate"
    folder.mkdir(parents=True)
    (folder / "default_config.yaml").write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: bf16\n"
        "num_machines: 1\nnum_processes: 7\nmachine_rank: 0\nmain_process_port: 1\nuse_cpu: false\n"
        "gpu_ids: 3,4\ndynamo_config: {dynamo_backend: INDUCTOR}\n"
    )
    return {"HF_HOME": str(tmp_path / "hf")}


def test_two_ranks_and_one_rank_are_one_gloo_world_of_three(tmp_path: Path) -> None:
    args = ("--lr=1e-4", "a b", "--help", "--multi_gpu", "--", "-m", "$(id)", "")
    plan = loopback_plan(Job(script="t.py", gpus="none", args=args), (2, 1))
    (tmp_path / "tmp").mkdir()
    ranks = run_all(plan, tmp_path, {**STALE, **hostile_home(tmp_path), "TMPDIR": str(tmp_path / "tmp")})
    assert list((tmp_path / "tmp").glob("torchelastic_*")) == [], "what torch keeps is kept with the run"
    assert [rank["rank"] for rank in ranks] == [0, 1, 2]
    assert [rank["local"] for rank in ranks] == [0, 1, 0]
    for rank in ranks:
        assert (rank["world"], rank["sum"], rank["precision"]) == (3, 3.0, "no")
        assert (rank["device"], rank["type"]) == ("cpu:0", "DistributedType.MULTI_CPU")
        assert rank["argv"] == list(args)
        assert rank["id"] == "run-7"
        assert "INDUCTOR" not in str(rank["dynamo"])


def test_a_world_of_one_ignores_stale_environment_and_default_config(tmp_path: Path) -> None:
    plan = loopback_plan(Job(module="t", gpus="none", args=("--x", "--config_file", "y")), (1,))
    (rank,) = run_all(plan, tmp_path, {**STALE, **hostile_home(tmp_path), "PYTHONPATH": str(tmp_path)})
    assert (rank["world"], rank["precision"], rank["device"]) == (1, "no", "cpu")
    assert rank["argv"] == ["--x", "--config_file", "y"]


# Without torch, whose import costs each rank two seconds: in tests/lab such worlds meet on gloo.
PLAIN = """
import json, os, sys
out = {name: int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
out |= {"argv": sys.argv[1:], "id": os.environ.get("TORCHELASTIC_RUN_ID"), "at": os.environ["MASTER_ADDR"]}
with open(os.path.join(os.environ["OUT"], f"rank{out['RANK']}.json"), "w") as file:
    json.dump(out, file)
"""


@pytest.mark.parametrize("sizes", [(2, 1), (1,)])
def test_torchrun_makes_one_world_of_unequal_nodes(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    args = ("--lr=1e-4", "a b", "--help", "--nnodes", "--", "-m", "$(id)", "")
    job = Job(script="t.py", gpus="none", args=args, engine=ENGINES["torchrun"].traits)
    (tmp_path / "tmp").mkdir()
    ranks = run_all(
        loopback_plan(job, sizes), tmp_path, {**STALE, "TMPDIR": str(tmp_path / "tmp")}, script=PLAIN
    )
    assert list((tmp_path / "tmp").glob("torchelastic_*")) == [], "what torch keeps is kept with the run"
    assert [rank["RANK"] for rank in ranks] == list(range(sum(sizes)))
    places = [(local, size) for size in sizes for local in range(size)]
    assert [(rank["LOCAL_RANK"], rank["LOCAL_WORLD_SIZE"]) for rank in ranks] == places
    for rank in ranks:
        assert (rank["WORLD_SIZE"], rank["at"]) == (sum(sizes), "127.0.0.1")
        assert (rank["argv"], rank["id"]) == (list(args), "run-7")


ENVIRONMENT = """
import json, os
with open(os.path.join(os.environ["OUT"], "rank0.json"), "w") as file:
    json.dump(dict(os.environ), file)
"""
OF_THE_AGENT = {  # what is about an agent, which keeps a store, reads an error file and forwards signals
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE",
    "TORCHELASTIC_SIGNALS_TO_HANDLE",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
}


@pytest.mark.parametrize(("name", "harmless"), [("accelerate", "--quiet"), ("torchrun", "--role=default")])
def test_one_rank_alone_has_the_environment_that_its_launcher_would_give(
    name: str, harmless: str, tmp_path: Path
) -> None:
    found = []
    for args in ((), (harmless,)):
        folder = tmp_path / f"with{len(args)}"
        folder.mkdir()
        command = CommandRequest(launched_by=name, launcher_args=args)
        made = loopback_plan(
            Job(script="t.py", gpus="none", engine=ENGINES[name].traits, command=command), (1,)
        )
        assert ("-m" in made.nodes[0].argv) == bool(args), "an option is for the launcher to carry out"
        (environment,) = run_all(made, folder, STALE, ENVIRONMENT)
        port = f":{environment.get('MASTER_PORT')}"
        texts = {key: f":{value}".replace(port, ":PORT") for key, value in environment.items()}
        found.append({key: text.replace(str(folder), "") for key, text in texts.items()})
    alone, launched = found
    differs = {key for key in alone | launched if alone.get(key) != launched.get(key)}
    assert differs == (set() if name == "accelerate" else OF_THE_AGENT)
