"""Directories that a launch and a live process both write to."""

from dataclasses import replace

import pytest

from preflight.decide.output_paths import find_shared_output
from preflight.job import Job

HOME = "/h/p"


@pytest.mark.parametrize(
    ("own", "other", "shared"),
    [
        ("--output_dir out --lr 1", "--output_dir=/h/p/out/ --lr 2", "/h/p/out"),
        ("--output-dir out", "--save_path out", "/h/p/out"),
        ("--out o --save_model_dir m", "--dump_path m", "/h/p/m"),
        ("trainer.output_dir=out", "+trainer.output_dir=./out lr=2", "/h/p/out"),
        ("hydra.run.dir=a/b --x 1", "hydra.run.dir=a/b", "/h/p/a/b"),
        ("--work-dir w cfg.py", "cfg2.py --work-dir w", "/h/p/w"),
        ("-o s3://bucket/a", "-o s3://bucket/a", "s3://bucket/a"),
        ("--lr 1", "--lr 1", ""),
        ("--lr 1", "--lr 1 --bf16", ""),  # a switch that gpulaunch adds itself
        # Other directories, other work, and what both may use.
        ("--output_dir a", "--output_dir b", None),
        ("--lr 1", "--lr 2", None),
        ("--lr 1", "--lr 1 --eval", None),
        ("--output_dir out --run_name a", "--output_dir out --run_name b", None),
        ("--output_dir out exp=a", "--output_dir out exp=b", None),
        (
            "--cache_dir c --log_dir l --data d --ckpt_dir k",
            "--cache_dir c --log_dir l --data e --ckpt_dir k",
            None,
        ),
        ("--save_strategy steps --output_dim 5 --a 1", "--save_strategy steps --output_dim 5 --a 2", None),
        ("-o Global.x=1 --lr 1", "-o Global.x=1 --lr 2", None),
        ("--output_dir --lr 1", "--output_dir --lr 2", None),
    ],
)
def test_both_write_to_a_directory(own: str, other: str, shared: str | None) -> None:
    job = Job(script="train.py", args=tuple(own.split()), precision_args={"bf16": ("--bf16",)})
    assert (
        find_shared_output(job, HOME, ("python", "r/rank.py", "./train.py", *other.split()), HOME) == shared
    )


def test_directories_are_those_of_where_each_starts() -> None:
    job = Job(script="train.py", subdirectory="src", args=("--output_dir", "out"))
    words = ("python", "train.py", "--output_dir", "out")
    assert find_shared_output(job, HOME, words, "/h/p/src") == "/h/p/src/out"
    assert find_shared_output(job, HOME, words, HOME) is None
    module = Job(module="pkg.train", output="out/a")
    assert find_shared_output(module, HOME, ("python", "-m", "pkg.train"), HOME, "/h/p/out/a") == "/h/p/out/a"
    assert find_shared_output(Job(), HOME, ("python", "."), HOME) is None
    sent = ("python", "/s/r/rank.py", "/s/r/script/train.py", "--lr", "1")
    job = Job(script="train.py", send_script=True, args=("--lr", "1"))
    assert find_shared_output(job, HOME, sent, HOME) == ""
    assert find_shared_output(replace(job, send_script=False), HOME, sent, HOME) is None


@pytest.mark.parametrize(
    ("script", "shared"),
    [
        ("d = datetime.now().isoformat()", None),
        ("out / str(uuid4())", None),
        ("@hydra.main(config_path='c')", None),
        ("import lightning as L", None),
        ("took = datetime.timedelta(seconds=3); t = time.time()", "/h/p/out"),
    ],
)
def test_a_script_that_makes_up_a_name_writes_where_no_other_does(script: str, shared: str | None) -> None:
    job, words = Job(script="train.py", args=("--out", "out")), ("python", "train.py", "--out", "out")
    assert find_shared_output(job, HOME, words, HOME, script=script) == shared
