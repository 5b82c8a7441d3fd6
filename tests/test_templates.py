"""The packaged training: the same steps for every world size, and a real run of it."""

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from launcher.config.config_overrides import Overrides
from launcher.config.config_search import templates_dir
from launcher.config.run_config import load_run_config
from tests.field_notes.ranks import shimmed

SCRIPT = templates_dir() / "paper_r64.py"
FIELD_NOTE_FLAGS = (
    *("--config", "paper_r64", "--gpus", "0", "--fp16", "--batch-size", "8", "--gradient-accumulation", "8"),
    *("--learning-rate", "2e-5", "--epochs", "3"),
)

# Looked for, not imported: every process that collects tests would carry torch along.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("torch", "peft")),
        reason="no torch or peft here",
    ),
]


# In a process of its own, beside the shims; one that runs tests would carry torch along, too.
QUESTIONS = """
import json, os, sys
sys.path.insert(0, sys.argv.pop(1))
import paper_r64 as paper
options = paper.parse_options()
samples = paper.make_samples()
tokenizer = paper.train_tokenizer(samples[:200])
arguments = {world: paper.training_arguments(options, world) for world in (1, 2, 3, 4, 5, 8, 128)}
model = paper.build_model(512)
print(json.dumps({
    "shares": {world: paper.share_of_a_step(8, 8, world) for world in range(1, 65)},
    "steps": [[each.max_steps, each.save_steps, each.output_dir] for each in arguments.values()],
    "samples": [len(samples), samples == paper.make_samples()],
    "lengths": [len(paper.encode(tokenizer, samples, n)["input_ids"]) for n in (0, 1, 2499)],
    "parameters": [[name, str(each.dtype), each.requires_grad] for name, each in model.named_parameters()],
}))
"""


@pytest.fixture(scope="module")
def paper() -> dict[str, Any]:
    """What the functions of the packaged script return."""
    words = [sys.executable, "-c", QUESTIONS, str(SCRIPT.parent), "--epochs", "3"]
    answers: dict[str, Any] = json.loads(subprocess.check_output(words, env=environ(), timeout=240))
    return answers


def environ() -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if name not in ("RANK", "LOCAL_RANK", "WORLD_SIZE")
    }
    kept |= shimmed("no_compiler no_dtensor known_models")
    return {**kept, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": ""}


def train(folder: Path, command: list[str], *flags: str) -> str:
    done = subprocess.run(
        [*command, str(SCRIPT), *FIELD_NOTE_FLAGS, *flags],
        cwd=folder,
        env=environ(),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def losses(output: str) -> list[float]:
    return [
        float(line.split("'loss': '")[1].split("'")[0]) for line in output.splitlines() if "'loss': '" in line
    ]


def test_the_wheel_holds_what_a_checkout_has() -> None:
    root = Path(__file__).parents[1]
    build = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert build["packages"] == ["gpulaunch", "launcher", "preflight"]
    assert build["force-include"] == {"templates": "launcher/templates"}  # where templates_dir() looks first
    assert templates_dir() == root / "templates"


def test_the_packaged_config_runs_here_and_on_gpus() -> None:
    config = load_run_config("paper_r64", Overrides())
    assert config.local_script == SCRIPT
    assert config.hosts == ("localhost",)
    assert (config.job.gpus, config.job.precision) == ("auto", "auto")
    assert config.job.precision_args == {"fp16": ("--fp16",), "bf16": ("--bf16",)}


@pytest.mark.parametrize("world_size", [1, 2, 4, 8, 16, 32, 64])
def test_a_world_that_divides_the_step_takes_exactly_its_samples(
    paper: dict[str, Any], world_size: int
) -> None:
    size, accumulation = paper["shares"][str(world_size)]
    assert size * accumulation * world_size == 64
    assert size <= 8


@pytest.mark.parametrize(("world_size", "samples"), [(3, 63), (5, 60), (6, 60), (7, 63), (12, 60)])
def test_another_world_comes_close(paper: dict[str, Any], world_size: int, samples: int) -> None:
    size, accumulation = paper["shares"][str(world_size)]
    assert size * accumulation * world_size == samples


def test_every_world_takes_120_steps_with_three_checkpoints(paper: dict[str, Any]) -> None:
    assert paper["steps"] == [[120, 40, "output/paper_r64"]] * 7


def test_every_sample_has_the_same_length_and_is_made_the_same_every_time(paper: dict[str, Any]) -> None:
    assert paper["samples"] == [2500, True]
    assert set(paper["lengths"]) == {48}


def test_only_the_adapters_train_and_all_is_float32(paper: dict[str, Any]) -> None:
    assert {dtype for _, dtype, _ in paper["parameters"]} == {"torch.float32"}
    assert all(("lora_" in name) == trains for name, _, trains in paper["parameters"])
    assert any(trains for _, _, trains in paper["parameters"])


@pytest.mark.train
def test_it_trains_by_hand_with_the_flags_of_the_field_notes(tmp_path: Path) -> None:
    output = train(tmp_path, [sys.executable], "--max-steps", "10")
    assert "rank 0 of 1: cpu" in output
    assert "'grad_norm': '" in output
    found = losses(output)
    assert found == sorted(found, reverse=True)
    assert found[-1] < found[0]
    assert (tmp_path / "output/paper_r64/checkpoint-10/adapter_model.safetensors").is_file()
    assert list((tmp_path / "output/paper_r64/logs").glob("events.out.tfevents.*"))


@pytest.mark.train
def test_it_trains_under_accelerate_with_an_uneven_world(tmp_path: Path) -> None:
    # --cpu starts one process whatever is asked; ACCELERATE_USE_CPU and the multi-GPU path give gloo
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", "1"]
    launch += ["--num_processes=2", "--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0"]
    uneven = ("--batch-size", "7", "--gradient-accumulation", "9")  # 63 samples a step
    output = train(tmp_path, launch, "--max-steps", "2", *uneven)
    assert all(f"rank {rank} of 2: cpu" in output for rank in range(2))
    assert (tmp_path / "output/paper_r64/checkpoint-2/adapter_config.json").is_file()
