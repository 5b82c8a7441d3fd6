"""The packaged training: the same steps for every world size, and a real run of it."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from launcher.config.config_overrides import Overrides
from launcher.config.config_search import templates_dir
from launcher.config.run_config import load_run_config
from tests.field_notes.ranks import LIGHT, shimmed

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


# In a process of its own, beside the shims; one that runs tests would carry torch along, too. It imports the
# libraries once, answers, and trains in children of it: each runs the script as a program, the ranks of a
# world at once and in the environment that accelerate's launcher gives them.
PROGRAM = """
import json, os, runpy, sys, traceback
script, answers, trainings = sys.argv[1:]
sys.path.insert(0, os.path.dirname(script))
sys.argv = [script, "--epochs", "3"]
import paper_r64 as paper
options = paper.parse_options()
samples = paper.make_samples()
tokenizer = paper.train_tokenizer(samples[:200])
arguments = {world: paper.training_arguments(options, world) for world in (1, 2, 3, 4, 5, 8, 128)}
model = paper.build_model(512)
with open(answers, "w") as file:
    json.dump({
        "shares": {world: paper.share_of_a_step(8, 8, world) for world in range(1, 65)},
        "steps": [[each.max_steps, each.save_steps, each.output_dir] for each in arguments.values()],
        "samples": [len(samples), samples == paper.make_samples()],
        "lengths": [len(paper.encode(tokenizer, samples, n)["input_ids"]) for n in (0, 1, 2499)],
        "parameters": [[name, str(p.dtype), p.requires_grad] for name, p in model.named_parameters()],
    }, file)
failed = 0
for folder, words, ranks in json.loads(trainings):
    children = []
    for env in ranks:
        children.append(os.fork())
        if children[-1]:
            continue
        try:
            os.chdir(folder)
            output = os.open("rank-" + env.get("RANK", "0"), os.O_CREAT | os.O_WRONLY)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.environ.update(env)
            sys.argv = [script, *words]
            runpy.run_path(script, run_name="__main__")
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    failed += sum(os.waitpid(child, 0)[1] != 0 for child in children)
sys.exit(failed)
"""
UNEVEN = ("--batch-size", "7", "--gradient-accumulation", "9")  # 63 samples a step


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the answers and the trainings of the packaged script."""
    place = tmp_path_factory.mktemp("paper")
    for name in ("alone", "uneven"):
        (place / name).mkdir()
    trainings = [
        (str(place / "alone"), [*FIELD_NOTE_FLAGS, "--max-steps", "10"], [{}]),
        (str(place / "uneven"), [*FIELD_NOTE_FLAGS, "--max-steps", "2", *UNEVEN], ranks_of_a_world(2)),
    ]
    words = [sys.executable, "-c", PROGRAM, str(SCRIPT), str(place / "answers"), json.dumps(trainings)]
    done = subprocess.run(words, env=environ(), capture_output=True, text=True, check=False, timeout=240)
    printed = "".join(path.read_text()[-3000:] for path in sorted(place.glob("*/rank-*")))
    assert done.returncode == 0, done.stderr[-3000:] + printed
    return place


@pytest.fixture(scope="module")
def paper(place: Path) -> dict[str, Any]:
    """What the functions of the packaged script return."""
    answers: dict[str, Any] = json.loads((place / "answers").read_text())
    return answers


def ranks_of_a_world(size: int) -> list[dict[str, str]]:
    """Return the environments of the ranks of a world on the CPU."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"}
    world |= {"MASTER_PORT": str(port), "ACCELERATE_MIXED_PRECISION": "no", "ACCELERATE_DYNAMO_BACKEND": "NO"}
    return [{**world, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(size)]


def environ() -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if name not in ("RANK", "LOCAL_RANK", "WORLD_SIZE")
    }
    kept |= shimmed(f"{LIGHT} known_models")
    return {**kept, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": ""}


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
def test_it_trains_by_hand_with_the_flags_of_the_field_notes(place: Path) -> None:
    output = (place / "alone" / "rank-0").read_text()
    assert "rank 0 of 1: cpu" in output
    assert "'grad_norm': '" in output
    found = losses(output)
    assert found == sorted(found, reverse=True)
    assert found[-1] < found[0]
    assert (place / "alone/output/paper_r64/checkpoint-10/adapter_model.safetensors").is_file()
    assert list((place / "alone/output/paper_r64/logs").glob("events.out.tfevents.*"))


@pytest.mark.train
def test_it_trains_in_an_uneven_world(place: Path) -> None:
    for rank in range(2):
        assert f"rank {rank} of 2: cpu" in (place / "uneven" / f"rank-{rank}").read_text()
    assert (place / "uneven/output/paper_r64/checkpoint-2/adapter_config.json").is_file()
