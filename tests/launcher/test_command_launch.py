"""Commands that people type today, and the plan that they become on two unlike hosts."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.config.command_config import settle_command
from launcher.config.command_python import choose_pythons
from launcher.config.config_overrides import Overrides
from launcher.config.inventory import HostEntry
from launcher.config.run_config import build_command_config, build_config_from_script
from launcher.errors import BadInput, CommandRefused, ConfigError
from launcher.planning.planner import build_plan
from launcher.report.command import build_correction, render_command, without_edits
from launcher.report.plan import render_plan
from preflight.decide.usable_gpus import select_gpus
from preflight.script.analyze import analyze_script
from tests.hardware import cpu_host, l40s, titan
from tests.launcher.command_plans import busy_titan, plan, planned, ranks, read
from tests.launcher.typed_keys import typed


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DS_ENV_FILE", raising=False)
    (tmp_path / "hostfile").write_text("# two\ntitan slots=3\nl40s-01 slots=1\n")
    (tmp_path / ".deepspeed_env").write_text("NCCL_DEBUG=INFO\n#no\nTOKEN_FILE=a=b\n")
    return tmp_path


RANKS: Mapping[str, Mapping[str, list[int | None]]] = {
    "torchrun --nproc_per_node 4 train.py": {"titan": [0, 1, 3], "l40s-01": [0, 1]},
    "torchrun --nproc_per_node 2 train.py": {"titan": [0, 1], "l40s-01": [0, 1]},
    "torchrun --nnodes 2 --node_rank 0 --master_addr x --nproc_per_node=1 train.py": {
        "titan": [0],
        "l40s-01": [0],
    },
    "CUDA_VISIBLE_DEVICES=1,0 torchrun --nproc_per_node 2 train.py": {"titan": [1, 0], "l40s-01": [1, 0]},
    "accelerate launch --num_machines 2 --num_processes 4 train.py": {"titan": [0, 1], "l40s-01": [0, 1]},
    "accelerate launch --num_processes 1 train.py": {"titan": [0], "l40s-01": [0]},
    "deepspeed --include titan:0,3@l40s-01:1 train.py": {"titan": [0, 3], "l40s-01": [1]},
    "deepspeed --include titan:1,2 train.py": {"titan": [1]},
    "deepspeed --exclude titan:0@l40s-01 train.py": {"titan": [1, 2, 3]},
    "deepspeed --hostfile hostfile train.py": {"titan": [0, 1, 3], "l40s-01": [0]},
    "deepspeed --num_gpus 2 train.py": {"titan": [0, 1], "l40s-01": [0, 1]},
    "mpirun -np 4 -H titan:3,l40s-01:1 python train.py": {"titan": [0, 1, 3], "l40s-01": [0]},
    "mpirun -np 2 -H titan:2,l40s-01:2 python train.py": {"titan": [0, 1]},
    "mpirun -np 4 python train.py": {"titan": [0, 1], "l40s-01": [0, 1]},
    "python train.py": {"titan": [0, 1, 2, 3], "l40s-01": [0, 1]},
}


@pytest.mark.parametrize("line", RANKS)
def test_a_command_gets_the_gpus_that_it_asks_for(line: str) -> None:
    assert ranks(plan(line, busy_titan(), l40s(2))) == RANKS[line]


def test_what_a_host_cannot_give_is_said_with_the_option_and_the_reason() -> None:
    made = plan("torchrun --nproc_per_node 4 train.py", busy_titan(), l40s(2))
    text = render_plan(made)
    assert "--nproc_per_node 4 -> 3 on titan: GPU 2 is held by pid 77" in text
    assert "--nproc_per_node 4 -> 2 on l40s-01: l40s-01 offers 2 GPUs" in text


def test_a_gpu_that_is_not_needed_stops_no_launch() -> None:
    config = read("torchrun --nproc_per_node 3 train.py")
    assert config.command is not None
    job, _ = settle_command(config.command, config.job, (HostEntry("titan"),), names_hosts=True)
    assert select_gpus(busy_titan(), job).needed == 1
    filtered = replace(job, command=replace(job.command, exclude_gpus={"titan": (2,)}))
    assert select_gpus(busy_titan(), filtered).candidates == {0, 1, 3}


def test_the_same_counts_are_of_cpu_ranks_where_there_are_no_gpus() -> None:
    made = plan("torchrun --nproc_per_node 2 train.py", cpu_host("a"), cpu_host("b", "10.77.0.4"))
    assert ranks(made) == {"a": [None, None], "b": [None, None]}
    made = plan("deepspeed --include a:0,1@b:0 train.py", cpu_host("a"), cpu_host("b", "10.77.0.4"))
    assert ranks(made) == {"a": [None, None], "b": [None]}
    assert ranks(plan("accelerate launch --cpu --num_processes 2 train.py", titan(1))) == {
        "titan": [None, None]
    }


@pytest.mark.parametrize(
    ("line", "engine", "words"),
    [
        (
            "torchrun --tee 3 --nproc_per_node 1 train.py --lr 1",
            "torchrun",
            ("{run_dir}/rank.py", "train.py", "--lr", "1"),
        ),
        ("torchrun -m pkg.train --lr 1", "torchrun", ("{run_dir}/rank.py", "-m", "pkg.train", "--lr", "1")),
        (
            "torchrun --no_python ./run --lr 1",
            "torchrun",
            ("{run_dir}/rank.py", "--exec", "./run", "--lr", "1"),
        ),
        ("accelerate launch -m pkg.train a", "accelerate", ("{run_dir}/rank.py", "-m", "pkg.train", "a")),
        (
            "deepspeed train.py --deepspeed ds.json",
            "torchrun",
            ("{run_dir}/rank.py", "train.py", "--deepspeed", "ds.json"),
        ),
        ("python -m torch.distributed.run scripts/a.py", "torchrun", ("{run_dir}/rank.py", "scripts/a.py")),
    ],
)
def test_the_launcher_of_the_command_chooses_the_engine(
    line: str, engine: str, words: tuple[str, ...]
) -> None:
    made = plan(line, titan(1), l40s(1))
    assert made.engine == engine
    assert made.nodes[0].argv[-len(words) :] == words


def test_options_of_the_launcher_that_the_plan_does_not_own_go_along() -> None:
    made = plan("torchrun --tee 3 --log_dir /logs --rdzv_conf timeout=900 train.py", titan(1), l40s(1))
    argv = made.nodes[0].argv
    before = argv[: argv.index("{run_dir}/rank.py")]
    assert before[before.index("--tee") + 1] == "3"
    assert before.count("--log_dir") == 1
    assert before[before.index("--log_dir") + 1] == "/logs"
    assert before[before.index("--rdzv_conf") + 1] == "timeout=900"


def test_variables_of_the_command_reach_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "x")
    made = plan(
        "env -u HF_HUB_OFFLINE A=1 OMP_NUM_THREADS=3 mpirun -x WANDB_PROJECT python train.py", titan(1)
    )
    node = made.nodes[0]
    assert (node.env["A"], node.env["OMP_NUM_THREADS"], node.env["WANDB_PROJECT"]) == ("1", "3", "x")
    assert "HF_HUB_OFFLINE" in node.unset


def test_env_u_takes_back_what_is_in_front_of_it() -> None:
    made = plan("A=1 CUDA_VISIBLE_DEVICES=1 env -u A -u CUDA_VISIBLE_DEVICES B=1 python train.py", titan(2))
    assert made.nodes[0].env["B"] == "1"
    assert "A" not in made.nodes[0].env
    assert "A" in made.nodes[0].unset
    assert ranks(made) == {"titan": [0, 1]}


def test_an_interpreter_by_path_is_that_of_this_machine() -> None:
    config = read("/opt/venv/bin/python -m torch.distributed.run train.py")
    assert config.command is not None
    entries = (
        HostEntry("localhost", python="python3", alias="localhost", in_inventory=False),
        HostEntry("titan", python="/v/python", names_python=True),
    )
    (local, remote), _ = choose_pythons(config.command, entries, "")
    assert (local.python, remote.python) == ("/opt/venv/bin/python", "/v/python")
    (unnamed,), _ = choose_pythons(config.command, [HostEntry("titan")], "")
    assert unnamed.python == "/opt/venv/bin/python"
    made = build_plan([(HostEntry("titan", python="/v/python"), titan(1))], config.job, run_id="run-1")
    found = build_correction(config.command, made).left_out
    assert found == ("/opt/venv/bin/python is local: /v/python on titan (python: of hosts.yaml)",)


def test_deepspeed_scripts_get_what_its_launcher_gives() -> None:
    node = plan("deepspeed train.py", titan(1), l40s(2)).nodes[1]
    found = {
        name: node.env[name]
        for name in ("CROSS_RANK", "CROSS_SIZE", "LOCAL_SIZE", "NCCL_DEBUG", "TOKEN_FILE")
    }
    assert found == {
        "CROSS_RANK": "1",
        "CROSS_SIZE": "2",
        "LOCAL_SIZE": "2",
        "NCCL_DEBUG": "INFO",
        "TOKEN_FILE": "a=b",
    }
    assert node.env["GPULAUNCH_LOCAL_RANK_OPTION"] == "--local_rank"
    assert (
        "GPULAUNCH_LOCAL_RANK_OPTION" not in plan("deepspeed --no_local_rank train.py", titan(1)).nodes[0].env
    )
    assert node.argv[3] == "torch.distributed.run"


ARGPARSE = """\
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--lr")
args = parser.parse_args()
print(os.environ["RANK"])
"""


@pytest.mark.parametrize(
    ("text", "given"),
    [
        (ARGPARSE, []),
        (ARGPARSE.replace("--lr", "--local_rank"), ["--local_rank"]),
        (ARGPARSE.replace("parse_args()", "parse_known_args()"), ["--local_rank"]),
        ("import sys\nprint(sys.argv)\n", ["--local_rank"]),
    ],
)
def test_a_script_that_would_end_at_local_rank_gets_none(text: str, given: list[str]) -> None:
    job = read("deepspeed train.py").job
    reading = analyze_script(text, "train.py")
    made = build_plan([(HostEntry("titan"), titan(1))], job, run_id="run-1", script=reading)
    env = made.nodes[0].env
    assert [env[name] for name in ("GPULAUNCH_LOCAL_RANK_OPTION",) if name in env] == given
    found = any("train.py:4: args = parser.parse_args()" in each.why for each in made.changes)
    assert found is not bool(given)


def test_fabric_finds_what_its_command_would_set() -> None:
    line = "fabric run --accelerator cuda --devices 2 --strategy ddp --precision bf16-mixed train.py"
    first, second = plan(line, titan(2), l40s(1)).nodes
    found = {name: value for name, value in first.env.items() if name.startswith("LT_")}
    assert found == {
        "LT_CLI_USED": "1",
        "LT_ACCELERATOR": "cuda",
        "LT_DEVICES": "2",
        "LT_NUM_NODES": "2",
        "LT_STRATEGY": "ddp",
        "LT_PRECISION": "16-mixed",  # a TITAN RTX has no bf16
    }
    assert second.env["LT_DEVICES"] == "1"


def test_an_opaque_command_is_told_what_a_launcher_inside_goes_by() -> None:
    made = plan("NPROC_PER_NODE=3 bash train.sh --x", busy_titan(), l40s(2))
    first, second = made.nodes
    assert (made.engine, made.world_size, made.precision.mixed_precision) == ("command", 2, "no")
    assert second.argv[1:] == ("{run_dir}/rank.py", "--exec", "bash", "train.sh", "--x")
    found = {
        "NNODES": "2",
        "NODE_RANK": "1",
        "NPROC_PER_NODE": "2",
        "MASTER_ADDR": "10.77.0.1",
        "MASTER_PORT": "29500",
    }
    for name, value in found.items():
        assert second.env[name] == second.env[f"PET_{name}"] == value
    assert (first.env["NPROC_PER_NODE"], second.env["PET_RDZV_ID"]) == ("3", "run-1")
    assert second.env["CUDA_VISIBLE_DEVICES"] == "GPU-l40s-01-0,GPU-l40s-01-1"
    assert (first.gpus, second.first_rank) == (("GPU-titan-0", "GPU-titan-1", "GPU-titan-3"), 1)
    assert "GPULAUNCH_GUARD" not in first.env
    expected = json.loads(dict(second.files)["expected.json"])
    assert (expected["world_size"], expected["local_world_size"], expected["first_rank"]) == (2, 1, 1)
    assert "no guard watches them, and none is verified" in render_plan(made)


def test_a_precision_for_an_opaque_command_is_dropped_with_the_reason() -> None:
    made = planned(read("bash train.sh", Overrides(keys=typed(precision="bf16"))), l40s(1))
    assert [(each.field, each.old, each.new) for each in made.changes] == [("--precision", "bf16", "no")]


def test_port_precision_and_restarts_are_those_of_the_command_unless_said_otherwise() -> None:
    line = "accelerate launch --main_process_port 30000 --mixed_precision fp16 train.py"
    job = read(line).job
    assert (job.main_port, job.precision, job.name) == (30000, "fp16", "train")
    job = read(line, Overrides(keys=typed(port="30001", precision="no"))).job
    assert (job.main_port, job.precision) == (30001, "no")
    restart = read("torchrun --max_restarts 3 train.py").restart
    assert restart is not None
    assert restart.max == 3
    assert read("torchrun --max_restarts 3 train.py", Overrides(keys=typed(restarts="0"))).restart is None


def test_gpus_said_to_gpulaunch_win_over_the_command() -> None:
    config = read("torchrun --nproc_per_node 4 train.py", Overrides(gpus="1"))
    assert ranks(planned(config, titan(4))) == {"titan": [0]}


def test_without_gpus_the_counts_of_the_command_still_hold() -> None:
    config = read("torchrun --nproc_per_node 2 train.py", Overrides(gpus="none"))
    assert ranks(planned(config, titan(4))) == {"titan": [None, None]}
    config = read("deepspeed --include titan:2,3 train.py", Overrides(gpus="none"))
    assert ranks(planned(config, titan(4))) == {"titan": [None, None]}
    config = read("CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc_per_node 2 train.py", Overrides(gpus="auto"))
    assert ranks(planned(config, titan(4))) == {"titan": [0, 1]}


def test_the_command_is_shown_as_it_was_and_as_it_is_launched() -> None:
    line = (
        "torchrun --nnodes=1 --nproc_per_node 4 --rdzv_backend c10d --rdzv_endpoint=localhost:29500"
        " train.py --lr 1e-4"
    )
    config = read(line)
    made = planned(config, busy_titan(), l40s(4))
    assert config.command is not None
    shown = build_correction(config.command, made)
    assert shlex.join(shown.launched) == (
        f"torchrun --nnodes=2 --nproc_per_node 3/4 --rdzv_endpoint=10.77.0.1:{made.main_port}"
        " train.py --lr 1e-4"
    )
    text = "\n".join(render_command(config.command, made))
    assert f"command:  {line}" in text
    assert "--nproc_per_node 4 -> 3 on titan: GPU 2 is held by pid 77" in text
    assert "--nnodes 1 -> 2: the hosts are those of --hosts, in its order; --nodes 1 takes 1 alone" in text
    assert "--rdzv_backend c10d -> (dropped): every host joins a static rendezvous" in text
    counts = "--nproc_per_node 4 -> 3 on titan"
    assert counts in render_plan(made)
    assert counts not in render_plan(without_edits(config.command, made))


def test_one_of_several_launches_is_chosen_by_option_and_by_key() -> None:
    text = "for L in 1 2; do python train.py --lr $L; done"
    for overrides in (Overrides(launch=2), Overrides(key_values=("launch=2",))):
        config = build_command_config([text], overrides)
        assert (config.name, config.job.name, config.job.args) == ("train", "train", ("--lr", "2"))
    with pytest.raises(CommandRefused, match="2 commands"):
        build_command_config([text])
    with pytest.raises(ConfigError, match="only for a command"):
        build_config_from_script("train.py", Overrides(launch=2))


def test_a_command_that_needs_no_correction_is_shown_once() -> None:
    config = read("torchrun --nproc_per_node 2 train.py")
    assert config.command is not None
    lines = list(render_command(config.command, planned(config, titan(2))))
    assert lines == ["command:  torchrun --nproc_per_node 2 train.py", ""]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("deepspeed --include other:0 train.py", "names other, which is not in --hosts (titan, l40s-01)"),
        ("deepspeed --exclude titan@l40s-01 train.py", "leave no host"),
        ("torchrun --nproc_per_node cpu train.py", "write their number instead of cpu"),
        ("deepspeed --hostfile none train.py", "of the command cannot be read: No such file or directory"),
        ("", "the line is empty"),
        ("mpirun -np 9 -H titan:3,l40s-01:1 python train.py", "9 processes, and its hosts have 4 slots"),
    ],
)
def test_what_cannot_be_launched_as_it_is_says_so(line: str, words: str) -> None:
    with pytest.raises(BadInput) as refused:
        planned(build_command_config([line], Overrides(hosts=("titan,l40s-01",))), titan(1), l40s(1))
    assert words in f"{refused.value.message} {refused.value.fix}"


def test_composer_and_torchtune_are_told_their_place_in_the_world() -> None:
    made = plan("composer -n 2 train.py", titan(2), l40s(1))
    assert [node.env["NODE_RANK"] for node in made.nodes] == ["0", "1"]
    made = plan("tune run --nproc_per_node 2 --tee 3 lora --config c", titan(2), l40s(1))
    assert [len(node.gpus) for node in made.nodes] == [2, 1]
    words = shlex.join(made.nodes[1].argv)
    at = f"10.77.0.1:{made.main_port}"
    assert "--exec tune run --nnodes 2 --node_rank 1 --nproc_per_node 1 --rdzv_backend static" in words
    assert f"--rdzv_endpoint {at} --rdzv_id run-1" in words
    assert words.endswith("--tee 3 lora --config c")


def test_several_nodes_need_hosts() -> None:
    config = read("torchrun --nnodes 2 train.py")
    assert config.command is not None
    with pytest.raises(CommandRefused, match="for 2 nodes, and no hosts are named"):
        settle_command(config.command, config.job, (HostEntry("localhost"),), names_hosts=False)


def test_an_exported_port_leaves_the_words_of_the_line_alone() -> None:
    config = build_command_config(("export MASTER_PORT=1234\ntorchrun train.py --nnodes 7",))
    assert config.command is not None
    made = planned(config, titan(2))
    found = build_correction(config.command, replace(made, main_port=4321))
    assert found.launched == ("torchrun", "train.py", "--nnodes", "7")
    assert [(edit.field, edit.old, edit.new) for edit in found.edits] == [("MASTER_PORT", "1234", "4321")]
    assert found.left_out == (
        "--nnodes is after train.py, and so an argument of it, not an option of torchrun",
    )


def test_a_host_that_gives_what_was_asked_for_changes_nothing() -> None:
    made = plan("torchrun --nproc_per_node 2 train.py", busy_titan(), l40s(2))
    assert not any(change.field == "--nproc_per_node" for change in made.changes)


@pytest.mark.parametrize(("option", "seconds"), [("", 300), ("--rdzv_conf timeout=77 ", 77)])
def test_ranks_wait_for_each_other_as_long_as_the_command_says_or_five_minutes(
    option: str, seconds: int
) -> None:
    made = plan(f"torchrun --nproc_per_node 2 {option}train.py", titan(2), l40s(2))
    assert all(f"timeout={seconds}" in node.argv for node in made.nodes)
