"""What travels to a host to find checkpoints, on real directories."""

import io
import json
import os
import pickle
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.config.restart_options import CHECKPOINTS
from launcher.onhost import find_checkpoints
from launcher.onhost.answer import MARKER
from launcher.remote.program_source import read_program_source

LONG_AGO = 0.0


def safetensors(path: Path, count: int = 64) -> None:
    header = json.dumps(
        {"__metadata__": {}, "w": {"dtype": "U8", "shape": [count], "data_offsets": [0, count]}}
    )
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(count))


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"lr": 1.0}) * 100)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def trainer(base: Path, step: int, *, weights: str = "model.safetensors") -> Path:
    """Write what transformers' Trainer writes, in its order."""
    folder = base / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    safetensors(folder / weights)
    (folder / "config.json").write_text("{}")
    for name in ("training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state_0.pth"):
        zipped(folder / name)
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return folder


def accelerate(base: Path, number: int) -> Path:
    """Write what Accelerator.save_state writes under automatic_checkpoint_naming."""
    folder = base / "checkpoints" / f"checkpoint_{number}"
    folder.mkdir(parents=True)
    safetensors(folder / "model.safetensors")
    for name in ("optimizer.bin", "scheduler.bin"):
        zipped(folder / name)
    (folder / "random_states_0.pkl").write_bytes(pickle.dumps({"random": "state"}))
    return folder


def plain(base: Path, step: int) -> Path:
    """Write a checkpoint of a script's own kind."""
    folder = base / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({"step": step}))
    (folder / "weights-0.npy").write_bytes(b"x")
    return folder


def look(base: Path, *patterns: str, since: float = LONG_AGO) -> list[dict[str, Any]]:
    return list(find_checkpoints.list_checkpoints(str(base), list(patterns or CHECKPOINTS), since))


def whole(base: Path, *patterns: str) -> list[str]:
    return [found["path"] for found in look(base, *patterns) if found["whole"]]


def test_the_last_is_the_one_of_the_highest_step_not_of_the_last_name(tmp_path: Path) -> None:
    for step in (90, 1000, 200):
        trainer(tmp_path, step)
    assert whole(tmp_path) == ["checkpoint-1000", "checkpoint-200", "checkpoint-90"]


def test_accelerates_own_names_are_found_too(tmp_path: Path) -> None:
    accelerate(tmp_path, 9)
    accelerate(tmp_path, 10)
    assert whole(tmp_path) == ["checkpoints/checkpoint_10", "checkpoints/checkpoint_9"]


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def shortened(name: str) -> Callable[[Path], None]:
    return lambda folder: cut(folder / name)


@pytest.mark.parametrize(
    ("make", "harm", "why"),
    [
        (trainer, without("trainer_state.json"), "has no trainer_state.json, which Trainer writes last"),
        (trainer, without("model.safetensors"), "holds no weights"),
        (trainer, shortened("model.safetensors"), "model.safetensors is cut off"),
        (trainer, shortened("optimizer.pt"), "optimizer.pt is cut off"),
        (trainer, shortened("trainer_state.json"), "trainer_state.json is cut off"),
        (trainer, lambda folder: (folder / "optimizer.pt").write_bytes(b""), "optimizer.pt is empty"),
        (
            trainer,
            lambda folder: (folder / "model.safetensors").write_bytes(b"\x10\0"),
            "model.safetensors is cut off",
        ),
        (
            trainer,
            lambda folder: (folder / "model.safetensors.index.json").write_text(
                '{"weight_map": {"w": "model-00002-of-00002.safetensors"}}'
            ),
            "model.safetensors.index.json names model-00002-of-00002.safetensors, which does not exist",
        ),
        (trainer, lambda folder: (folder / "x.tmp").write_text("x"), "holds the temporary file x.tmp"),
        (
            accelerate,
            without("random_states_0.pkl"),
            "has no random_states_*.pkl, which accelerate writes last",
        ),
        (accelerate, shortened("random_states_0.pkl"), "random_states_0.pkl is cut off"),
        (plain, without("weights-0.npy"), "lacks weights-0.npy, which checkpoint-10 has"),
        (plain, shortened("state.json"), "state.json is cut off"),
    ],
)
def test_one_that_is_not_whole_is_passed_over_with_the_reason(
    tmp_path: Path, make: Callable[[Path, int], Path], harm: Callable[[Path], None], why: str
) -> None:
    before = make(tmp_path, 10)
    harm(make(tmp_path, 20))
    last, *rest = look(tmp_path)
    assert (last["step"], last["whole"], last["why"]) == (20, False, why)
    assert [(found["path"], found["whole"]) for found in rest] == [(str(before.relative_to(tmp_path)), True)]


@pytest.mark.parametrize(
    ("last", "others"),
    [
        ("epoch=10-val_loss=0.21.ckpt", ["epoch=2-val_loss=0.95.ckpt", "epoch=9-val_loss=0.3.ckpt"]),
        ("epoch=3-step=400-v1.ckpt", ["epoch=2-step=300.ckpt", "epoch=2-step=300-v7.ckpt"]),
        ("step_900_loss_1.25", ["step_800_loss_3.75"]),
        ("global_step200_of_4000", ["global_step100_of_9000"]),
        ("model-90-0.5b", ["model-80-0.5b", "model-9-7.25b"]),
        ("iter_0000400_tp8", ["iter_0000300_tp16"]),
    ],
)
def test_the_step_is_what_the_name_counts_and_no_loss_or_version(
    tmp_path: Path, last: str, others: list[str]
) -> None:
    for name in (*others, last):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_bytes(b"x")
        os.utime(tmp_path / name / "weights", (1.0, 1.0))
        os.utime(tmp_path / name, (1.0, 1.0))
    assert whole(tmp_path, "*")[0] == last


def test_a_sharded_checkpoint_is_whole_with_the_list_of_its_shards(tmp_path: Path) -> None:
    shards = tmp_path / "checkpoint-5" / "model"
    shards.mkdir(parents=True)
    (shards / "__0_0.distcp").write_bytes(b"x")
    why = "has no .metadata, which torch.distributed.checkpoint writes last"
    assert [(found["whole"], found["why"]) for found in look(tmp_path)] == [(False, why)]
    (shards / ".metadata").write_bytes(b"x")
    assert whole(tmp_path) == ["checkpoint-5"]


@pytest.mark.parametrize(
    "name", ["tmp-checkpoint-30", "checkpoint-30.tmp", "checkpoint-30-incomplete", "checkpoint-30~"]
)
def test_a_temporary_name_is_no_checkpoint(tmp_path: Path, name: str) -> None:
    trainer(tmp_path, 20)
    trainer(tmp_path, 30).rename(tmp_path / name)
    assert whole(tmp_path, "*checkpoint-*") == ["checkpoint-20"]


def test_an_empty_directory_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-5").mkdir()
    assert [(found["whole"], found["why"]) for found in look(tmp_path)] == [(False, "is empty")]


@pytest.mark.parametrize("name", ["rng_state_4.pth", "random_states_4.pkl"])
def test_random_states_alone_are_what_another_node_keeps(tmp_path: Path, name: str) -> None:
    (tmp_path / "checkpoint-5").mkdir()
    zipped(tmp_path / "checkpoint-5" / name)
    assert [(found["whole"], found["why"]) for found in look(tmp_path)] == [(False, "holds no weights")]


def test_a_single_file_may_be_a_checkpoint(tmp_path: Path) -> None:
    zipped(tmp_path / "epoch=1-step=100.ckpt")
    zipped(tmp_path / "epoch=2-step=200.ckpt")
    cut(tmp_path / "epoch=2-step=200.ckpt")
    found = look(tmp_path, "*.ckpt")
    assert [(each["step"], each["why"]) for each in found] == [(200, "is cut off"), (100, "")]


def test_the_precision_may_have_changed_between_two_of_trainers(tmp_path: Path) -> None:
    zipped(trainer(tmp_path, 10) / "scaler.pt")
    trainer(tmp_path, 20)
    assert whole(tmp_path)[0] == "checkpoint-20"


def test_lines_of_json_are_whole_when_the_last_one_is(tmp_path: Path) -> None:
    folder = plain(tmp_path, 1)
    (folder / "log.json").write_text('{"a": 1}\n{"a": 2}\n')
    assert whole(tmp_path) == ["checkpoint-1"]


def test_what_an_earlier_run_left_is_not_this_runs(tmp_path: Path) -> None:
    old = trainer(tmp_path, 3000)
    for path in (old, *old.iterdir()):
        os.utime(path, (time.time() - 500, time.time() - 500))
    trainer(tmp_path, 40)
    assert [found["path"] for found in look(tmp_path, since=time.time() - 100)] == ["checkpoint-40"]


def test_a_run_that_wrote_at_once_is_known_by_its_own_start_however_late_the_host_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.time() - 50
    for step, at in ((30, began - 1), (40, began + 0.2)):
        folder = trainer(tmp_path, step)
        for path in (folder, *folder.iterdir()):
            os.utime(path, (at, at))
    (tmp_path / "state.json").write_text(json.dumps({"started": began}))
    answers: list[Any] = []
    monkeypatch.setattr(find_checkpoints, "print_answer", answers.append)
    request = {"base": str(tmp_path), "patterns": list(CHECKPOINTS)}
    for age_s, run_dir in ((49.5, tmp_path), (50.5, tmp_path / "gone"), (50.5, tmp_path), (49.5, None)):
        line = json.dumps({**request, "age_s": age_s, "run_dir": str(run_dir or "")})
        monkeypatch.setattr("sys.stdin", io.StringIO(line))
        find_checkpoints.main()
    found = [[each["path"] for each in answer["found"]] for answer in answers]
    assert found == [["checkpoint-40"], ["checkpoint-40"], ["checkpoint-40"], []]


def test_it_answers_as_a_program_and_knows_the_home(tmp_path: Path) -> None:
    trainer(tmp_path / "out [1]", 7)
    request = {"base": "~/out [1]", "patterns": list(CHECKPOINTS), "age_s": 1000.0}
    done = subprocess.run(
        [sys.executable, "-I", "-c", read_program_source("find_checkpoints").decode()],
        input=json.dumps(request) + "\n",
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    marker, _, answer = done.stdout.strip().partition(" ")
    assert marker == MARKER
    full = str(tmp_path / "out [1]" / "checkpoint-7")
    row = {"path": "checkpoint-7", "full": full, "step": 7, "whole": True, "why": ""}
    assert json.loads(answer)["found"] == [row]
