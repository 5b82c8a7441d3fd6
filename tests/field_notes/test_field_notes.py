"""What the field notes claim, against single ranks: how each fails as its author saw, what is true of it and
what is not. From the faulty line to the falling loss: test_end_to_end.py.
"""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from launcher.commands.lint import command as lint_command
from tests.field_notes import scripts
from tests.field_notes.notes import NOTES, Note
from tests.field_notes.ranks import Ended, ForkServer

pytestmark = pytest.mark.train

FP16 = {"ACCELERATE_MIXED_PRECISION": "fp16"}


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    one = ForkServer()
    yield one
    one.end()


def losses(done: Ended) -> list[float]:
    found = re.findall(r"LOSSES (\[.*\])", done.log)
    assert done.code == 0, done.log[-3000:]
    assert len(found) == 1
    return [float(each) for each in json.loads(found[0].replace("'", '"').replace("nan", "NaN"))]


# --- lint: the first line ---


@pytest.mark.parametrize(
    ("note", "code", "words"),
    [
        ("NOTE_0", "P101", "torch_dtype=torch.float16"),
        ("NOTE_0", "D204", "device_map"),
        ("NOTE_1", "P101", ".to(torch.float16)"),
        ("NOTE_2", "P105", "model.half()"),
        ("NOTE_3", "P102", "model.to(getattr"),
        ("NOTE_4", "P111", "model.to(torch.bfloat16)"),
    ],
)
def test_lint_names_every_note_at_its_line(tmp_path: Path, note: str, code: str, words: str) -> None:
    script = getattr(scripts, note)
    lines = [each["line"] for each in lint(tmp_path, script) if each["code"] == code]
    assert 1 + script[: script.index(words)].count("\n") in lines


@pytest.mark.parametrize(
    "note", ["NOTE_0_FIXED", "NOTE_1_FIXED", "NOTE_2_FIXED", "NOTE_3_FIXED", "NOTE_4_FIXED"]
)
def test_lint_is_content_with_every_correction(tmp_path: Path, note: str) -> None:
    assert not [each for each in lint(tmp_path, getattr(scripts, note)) if each["severity"] == "error"]


def lint(root: Path, script: str) -> list[dict[str, Any]]:
    path = root / "train.py"
    path.write_text(script)
    words = ("--json", "--quiet", "--capability", "7.5", "--precision", "fp16", "--processes", "2", str(path))
    done = CliRunner().invoke(lint_command, words)
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


# --- every note: its rehearsal, and the corrected script ---


def run_note(server: ForkServer, root: Path, note: Note, script: str, model: str, **env: str) -> Ended:
    gpus = {"CUDA_VISIBLE_DEVICES": "GPU-a", "SHIM_CAPABILITY": note.capability} if note.gpus else {}
    env |= {"ACCELERATE_MIXED_PRECISION": note.precision, **gpus}
    words = [*note.words(model), *note.passed]
    return server.run_rank(root, script, *words, shim=note.shim, **env)


@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
def test_a_rehearsal_stops_it_and_names_the_cause(
    server: ForkServer, tmp_path: Path, tiny_model: str, note: Note
) -> None:
    stop = run_note(server, tmp_path, note, note.script, tiny_model, GPULAUNCH_REHEARSE="20").stop
    assert (stop["code"], stop["step"]) == (note.guard, note.step)
    said = " ".join([stop["message"], stop["fix"], *stop["parameters"]])
    assert all(words in said for words in note.cause), stop


@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
def test_the_corrected_script_trains_to_a_falling_loss(
    server: ForkServer, tmp_path: Path, tiny_model: str, note: Note
) -> None:
    seen = losses(run_note(server, tmp_path, note, note.corrected, tiny_model))
    assert all(map(math.isfinite, seen))
    assert seen[-1] < 0.9 * seen[0]


# --- note 0: fp16 model, device_map="auto", fp16=True ---


def test_note_0_fails_as_its_author_saw(server: ForkServer, tmp_path: Path, tiny_model: str) -> None:
    done = server.run_rank(tmp_path, scripts.NOTE_0, tiny_model, shim="cpu_scaler", GPULAUNCH_GUARD="warn")
    assert done.code == 1
    # transformers 5 gives Trainer a fused optimizer; clipping unscales first, and that is what raises.
    assert "Attempting to unscale FP16 gradients." in done.log
    warned = done.reported("guard")[0]
    assert (warned["code"], warned["severity"], warned["stops"], warned["step"]) == ("G1", "stop", False, 1)


def test_a_rehearsed_trainer_evaluates_and_saves_once_into_the_scratch(
    server: ForkServer, tmp_path: Path, tiny_model: str
) -> None:
    late = 'eval_strategy="steps", eval_steps=500, save_strategy="steps", save_steps=500'
    script = scripts.NOTE_0_FIXED.replace('save_strategy="no"', late).replace("max_steps=6", "max_steps=600")
    script = script.replace("train_dataset=data)", "train_dataset=data, eval_dataset=data)")
    done = server.run_rank(tmp_path, script, tiny_model, shim="cpu_scaler", GPULAUNCH_REHEARSE="4")
    assert done.code == 0, done.log[-3000:]
    (measured,) = done.reported("rehearsal")
    assert measured["complete"]
    assert measured["steps"] == 4
    assert set(measured["events"]) == {"evaluation", "save"}
    assert (measured["total_steps"], measured["samples_per_step"]) == (600, 4)
    assert measured["without_gradient"] == []
    assert not (tmp_path / "work" / "out").exists()
    assert list(tmp_path.glob("work/.gpulaunch-rehearsal/*/out/checkpoint-4"))


# --- note 1: the flag --fp16 or its absence ---


def test_note_1_fails_without_the_flag_as_with_it(server: ForkServer, tmp_path: Path) -> None:
    stop = server.run_rank(tmp_path, scripts.NOTE_1, shim="cpu_scaler", GPULAUNCH_GUARD="stop", **FP16).stop
    assert (stop["code"], stop["step"]) == ("G1", 1)
    assert stop["parameters"] == ["0.weight", "0.bias", "2.weight", "2.bias"]


# --- note 2: a LoRA in fp16, NaN for three epochs ---


def test_note_2_kills_its_weights_in_the_first_step(
    server: ForkServer, tmp_path: Path, tiny_model: str
) -> None:
    done = server.run_rank(tmp_path, scripts.NOTE_2, tiny_model, GPULAUNCH_GUARD="warn")
    first, second = done.reported("guard")[:2]
    assert (first["code"], first["step"]) == ("G1", 1)
    assert (second["code"], second["step"]) == ("G4", 1)
    assert "gradients were finite" in second["message"]
    assert all("lora_" in name for name in second["parameters"])


# --- note 3: fp16 parameters and a scaler, four modes ---


def test_note_3_with_the_scaler_is_stopped_by_name(server: ForkServer, tmp_path: Path) -> None:
    stop = server.run_rank(tmp_path, scripts.NOTE_3, "--no_check", GPULAUNCH_GUARD="stop").stop
    assert stop["code"] == "G1"
    assert "GradScaler" in stop["message"]


def test_note_3_its_own_remedy_trains_to_nan(server: ForkServer, tmp_path: Path) -> None:
    assert math.isnan(losses(server.run_rank(tmp_path, scripts.NOTE_3))[-1])


def test_note_3_with_float32_parameters_is_proven(server: ForkServer, tmp_path: Path) -> None:
    measured = server.run_rank(tmp_path, scripts.NOTE_3_FIXED, GPULAUNCH_REHEARSE="5").reported("rehearsal")[
        0
    ]
    assert measured["complete"]
    assert measured["scaler"]
    assert measured["scale"] >= 1
    assert measured["finite"] == {"loss": True, "gradients": True, "weights": True}
    assert measured["losses"][0] < 100, "the loss, not the scaled loss"


# --- note 4: a module cast between two steps ---


def test_note_4_crashes_in_adam_as_its_author_saw(server: ForkServer, tmp_path: Path) -> None:
    done = server.run_rank(tmp_path, scripts.NOTE_4)
    assert done.code == 1
    assert "expected dtype float for `end` but got dtype c10::BFloat16" in done.log
    assert "_multi_tensor_adam" in done.log


def test_note_4_is_not_met_by_a_rehearsal_that_is_too_short(server: ForkServer, tmp_path: Path) -> None:
    """test_end_to_end.py rehearses it for as long as `--rehearse` does."""
    short = server.run_rank(tmp_path, scripts.NOTE_4, GPULAUNCH_REHEARSE="5")
    assert short.reported("rehearsal")[0]["complete"]
