"""The accelerate engine: each of accelerate's traps is closed in argv, YAML or environment."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.config.inventory import HostEntry
from launcher.engines.base import NodeSetup, World, load_engine
from launcher.planning.plan import NodePlan, Plan
from launcher.planning.planner import build_plan
from preflight.facts.host import HostFacts
from preflight.job import CommandRequest, Job
from tests.hardware import cpu_host, gpu, host, l40s, titan
from tests.torchless import PACKAGES, write_python


def plan(job: Job, *hosts: HostFacts) -> Plan:
    return build_plan([(HostEntry(facts.host), facts) for facts in hosts], job, run_id="run-1")


def config(node: NodePlan) -> dict[str, Any]:
    text = dict(node.files)["accelerate.yaml"]
    data: dict[str, Any] = yaml.safe_load(text)
    return data


def test_one_gpu_on_each_of_two_hosts_is_one_world_of_two() -> None:
    made = plan(Job(script="t.py"), titan(1), l40s(1))
    for rank, node in enumerate(made.nodes):
        data = config(node)
        assert data["distributed_type"] == "MULTI_GPU"
        assert (data["num_machines"], data["num_processes"], data["machine_rank"]) == (2, 2, rank)


@pytest.mark.parametrize("sizes", [(2, 1), (1, 3), (4, 2, 1), (8,)])
def test_no_rank_is_floored_away_on_unequal_hosts(sizes: tuple[int, ...]) -> None:
    hosts = [titan(size, f"h{i}", f"10.77.0.{i + 1}") for i, size in enumerate(sizes)]
    made = plan(Job(script="t.py"), *hosts)
    started = [config(node)["num_processes"] // config(node)["num_machines"] for node in made.nodes]
    assert started == list(sizes)
    assert made.world_size == sum(sizes)


def test_precision_is_in_the_yaml_as_text_and_never_a_flag() -> None:
    node = plan(Job(script="t.py", gpus="none", processes_per_host=2), cpu_host()).nodes[0]
    assert config(node)["mixed_precision"] == "no"
    assert config(node)["dynamo_config"] == {"dynamo_backend": "no"}
    for made in (plan(Job(script="t.py"), titan()), plan(Job(script="t.py", precision="bf16"), l40s())):
        words = made.nodes[0].argv
        assert not any("precision" in word for word in words)
        assert config(made.nodes[0])["mixed_precision"] == made.precision.mixed_precision


def test_no_flag_makes_the_launcher_look_at_a_gpu_or_read_the_hosts_own_config() -> None:
    node = plan(Job(script="t.py"), titan()).nodes[0]
    options = [word for word in node.argv[3 : node.argv.index("{run_dir}/rank.py")] if word.startswith("--")]
    assert options == ["--config_file", "--rdzv_conf", "--log_dir"]
    assert node.argv[node.argv.index("--config_file") + 1] == "{run_dir}/accelerate.yaml"


def test_the_launcher_is_called_as_a_module_of_the_hosts_own_python() -> None:
    node = build_plan(
        [(HostEntry("a", python="/v/bin/python"), titan())], Job(script="t.py"), run_id="r"
    ).nodes[0]
    assert node.argv[:4] == (
        *("/v/bin/python", "{run_dir}/start_launcher.py"),
        *("-m", "accelerate.commands.launch"),
    )


def test_the_stand_in_for_the_launcher_is_what_tests_without_torch_start(tmp_path: Path) -> None:
    there = [(HostEntry("a", python=write_python(tmp_path)), titan())]
    node = build_plan(there, Job(script="t.py"), run_id="r").nodes[0]
    (tmp_path / "start_launcher.py").write_text("import accelerate\nprint(accelerate.__file__)")
    words = [word.replace("{run_dir}", str(tmp_path)) for word in node.argv]
    assert Path(subprocess.check_output(words, text=True)).is_relative_to(PACKAGES)


def test_a_world_of_one_whose_launcher_has_an_option_uses_the_simple_launcher() -> None:
    command = CommandRequest(launcher_args=("--quiet",))
    on_gpu = plan(Job(script="t.py", command=command), titan(1)).nodes[0]
    on_cpu = plan(Job(script="t.py", gpus="none", command=command), cpu_host()).nodes[0]
    assert (config(on_gpu)["distributed_type"], config(on_gpu)["use_cpu"]) == ("NO", False)
    assert (config(on_cpu)["distributed_type"], config(on_cpu)["use_cpu"]) == ("NO", True)
    assert config(on_gpu)["num_processes"] == 1
    assert "PET_RDZV_ID" not in on_gpu.env
    assert not {"--rdzv_conf", "--log_dir"} & set(on_gpu.argv)


def test_cpu_ranks_go_the_multi_gpu_way_with_the_cpu_variable() -> None:
    node = plan(Job(script="t.py", gpus="none", processes_per_host=2), cpu_host()).nodes[0]
    assert (config(node)["distributed_type"], config(node)["use_cpu"]) == ("MULTI_GPU", False)
    assert node.env["ACCELERATE_USE_CPU"] == "true"


def test_the_rendezvous_is_static_with_an_id_of_its_own() -> None:
    for node in plan(Job(script="t.py"), titan(), l40s()).nodes:
        assert (config(node)["rdzv_backend"], config(node)["same_network"]) == ("static", False)
        assert (config(node)["main_process_ip"], config(node)["main_process_port"]) == ("10.77.0.1", 29500)
        assert node.env["PET_RDZV_ID"] == "run-1"


def test_one_visible_gpu_never_meets_the_less_than_two_gpu_ids_error() -> None:
    for node in plan(Job(script="t.py"), titan(1), l40s(1)).nodes:
        assert config(node)["gpu_ids"] == "all"


def test_what_a_former_launcher_left_in_the_environment_is_removed() -> None:
    node = plan(Job(script="t.py"), titan()).nodes[0]
    stale = (
        *("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "PET_NNODES", "GROUP_RANK"),
        *("ACCELERATE_MIXED_PRECISION", "ACCELERATE_TORCH_DEVICE", "TORCHELASTIC_RUN_ID", "ROLE_RANK"),
        *("FSDP_VERSION", "CUDA_VISIBLE_DEVICES", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "GPULAUNCH_MASK"),
    )
    for name in stale:
        assert any(
            name == item or (item.endswith("*") and name.startswith(item[:-1])) for item in node.unset
        ), name
    assert not {"PATH", "HOME", "HF_HOME", "CUDA_HOME", "NCCL_DEBUG"} & set(node.unset)


def test_a_module_is_given_as_python_itself_takes_it() -> None:
    node = plan(Job(module="pkg.train", args=("--lr", "1e-4")), titan(1)).nodes[0]
    assert node.argv[-5:] == ("{run_dir}/rank.py", "-m", "pkg.train", "--lr", "1e-4")


def test_fp8_names_the_implementation_that_every_host_has() -> None:
    world = World("r", 1, 1, "127.0.0.1", 29500, "fp8", "TE")
    ranks = plan(Job(script="t.py"), l40s(1)).nodes[0].ranks
    ((_, text),) = load_engine("accelerate").files(world, NodeSetup(0, 0, ranks, "python3", ("t.py",), 1))
    data = yaml.safe_load(text)
    assert (data["mixed_precision"], data["fp8_config"]) == ("fp8", {"backend": "TE"})


def test_the_ranks_are_told_what_they_must_find() -> None:
    made = plan(
        Job(script="t.py"), titan(2), host("x", [gpu(0, "NVIDIA L40S", host="x")], address="10.77.0.8")
    )
    second = json.loads(dict(made.nodes[1].files)["expected.json"])
    assert second == {
        "schema": "gpulaunch.expected/1",
        "run_id": "run-1",
        "world_size": 3,
        "local_world_size": 1,
        "first_rank": 2,
        "gpus": ["GPU-x-0"],
        "masked": False,
        "mixed_precision": "fp16",
    }
