"""The packaged training: the same steps for every world size, and a real run of it."""

import importlib.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

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


@pytest.fixture(name="paper", scope="module")
def _paper() -> ModuleType:
    spec = importlib.util.spec_from_file_location("paper_r64", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
def test_a_world_that_divides_the_step_takes_exactly_its_samples(paper: ModuleType, world_size: int) -> None:
    size, accumulation = paper.share_of_a_step(8, 8, world_size)
    assert size * accumulation * world_size == 64
    assert size <= 8


@pytest.mark.parametrize(("world_size", "samples"), [(3, 63), (5, 60), (6, 60), (7, 63), (12, 60)])
def test_another_world_comes_close(paper: ModuleType, world_size: int, samples: int) -> None:
    size, accumulation = paper.share_of_a_step(8, 8, world_size)
    assert size * accumulation * world_size == samples


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 5, 8, 128])
def test_every_world_takes_120_steps_with_three_checkpoints(
    paper: ModuleType, world_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["paper_r64.py", "--epochs", "3"])
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    arguments = paper.training_arguments(paper.parse_options(), world_size)
    assert (arguments.max_steps, arguments.save_steps) == (120, 40)
    assert arguments.output_dir == "output/paper_r64"


def test_every_sample_has_the_same_length_and_is_made_the_same_every_time(paper: ModuleType) -> None:
    samples = paper.make_samples()
    assert len(samples) == 2500
    assert samples == paper.make_samples()
    tokenizer = paper.train_tokenizer(samples[:200])
    assert {len(paper.encode(tokenizer, samples, n)["input_ids"]) for n in (0, 1, 2499)} == {48}


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft's, of transformers
def test_only_the_adapters_train_and_all_is_float32(paper: ModuleType) -> None:
    model = paper.build_model(512)
    parameters = dict(model.named_parameters())
    assert {str(parameter.dtype) for parameter in parameters.values()} == {"torch.float32"}
    assert all(("lora_" in name) == parameter.requires_grad for name, parameter in parameters.items())


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
