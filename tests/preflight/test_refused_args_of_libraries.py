"""What tyro, fire and Hydra refuse of a script's arguments; each verdict is one that they gave themselves.

tyro 1.0.17, fire 0.7.1 and hydra-core 1.3.8 ran beside this, with scripts of others too.
"""

import pytest

from preflight.checks.script_args import describe_refused_args
from preflight.decide.refused_args import find_refused_args
from preflight.facts.script import ScriptParser
from preflight.job import Job
from preflight.script.parser_reader import read_parser
from preflight.script.syntax_trees import Parser

TYRO = """
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Optional
import torch, tyro

@dataclass
class Optim:
    learning_rate: float = 1e-4
    name: Literal["adam", "sgd"] = "adam"

@dataclass(frozen=True)
class Args:
    data_dir: Path
    optim: Optim
    batch_size: int = 8
    resume: Optional[str] = None
    compile: bool = False
    seed: int | None = None

def main() -> None:
    args = tyro.cli(Args)
    print(args)

if __name__ == "__main__":
    main()
"""
FIRE = """
import fire

def train(data_dir, batch_size: int = 8, use_amp=False):
    print(data_dir)

if __name__ == "__main__":
    fire.Fire(train)
"""
HYDRA = """
import hydra
from omegaconf import DictConfig

@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig) -> None:
    print(cfg)

if __name__ == "__main__":
    main()
"""


def _read(text: str) -> ScriptParser | None:
    return read_parser(Parser(), "train.py", text)


@pytest.mark.parametrize(
    ("text", "line", "refused"),
    [
        (TYRO, "--data-dir d", ""),
        (TYRO, "--data_dir d --batch_size 4 --compile", ""),
        (TYRO, "--data-dir=d --optim.learning-rate 1e-3 --no-compile", ""),
        (TYRO, "--data-dir d --optim.learning_rate=1 --optim.name sgd --resume None", ""),
        (TYRO, "--data-dir d --seed None", ""),
        (TYRO, "--help", ""),
        (TYRO, "", "missing --data-dir"),
        (TYRO, "--data-dir d --batch-siz 4", "unknown --batch-siz"),  # no abbreviations
        (TYRO, "--data-dir d --learning-rate 1", "unknown --learning-rate"),
        (TYRO, "--data-dir d --batch-size 1e5", "value --batch-size"),
        (TYRO, "--data-dir d --optim.name adamw", "value --optim.name"),
        (TYRO, "--data-dir d --compile True", "unknown True"),
        (TYRO, "--data-dir d --local_rank=0", "unknown --local_rank=0"),
        (FIRE, "d --batch-size 4 --use_amp", ""),
        (FIRE, "--data_dir=d --nouse_amp", ""),
        (FIRE, "-d d -b 4", ""),
        (FIRE, "d --batchsize 4 -- --trace", ""),  # what fire itself is given
        (FIRE, "--help", ""),
        (FIRE, "d --batchsize 4", "unknown --batchsize"),
        (FIRE, "d --lr=1", "unknown --lr=1"),
        (HYDRA, "lr=0.1 +x=1 ~y model@m=big model.layers=[1,2]", ""),
        (HYDRA, "--multirun lr=1,2 hydra.run.dir=/a", ""),
        (HYDRA, "--config-nam big lr=1", ""),  # an abbreviation
        (HYDRA, "-cn=big =1", ""),
        (HYDRA, "--lr 0.1", "unknown --lr"),
        (HYDRA, "lr=1 --local_rank=0", "unknown --local_rank=0"),
        (HYDRA, "lr 0.1", "value overrides"),
        (HYDRA, "--info", ""),
    ],
)
def test_the_library_has_the_verdict(text: str, line: str, refused: str) -> None:
    parser = _read(text)
    assert parser is not None
    found = find_refused_args(parser, line.split())
    assert " ".join(f"{item.kind} {item.word}" for item in found[:1]) == refused


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (TYRO, "class Args:", "class Args(Base):"),
        (TYRO, "seed: int | None = None", "seed: torch.Tensor = None"),
        (TYRO, "seed: int | None = None", "seed: 'Annotated[int, 1]' = 0"),
        (TYRO, "optim: Optim", "optim: Optim | None = None"),
        (TYRO, "tyro.cli(Args)", "tyro.cli(Args, config=(tyro.conf.OmitArgPrefixes,))"),
        (TYRO, "tyro.cli(Args)", "tyro.cli(Args, args=['a'])"),
        (TYRO, "    args =", "    if load():\n        return\n    args ="),
        (FIRE, "use_amp=False", "use_amp=False, **kwargs"),
        (FIRE, "use_amp=False", "*rest"),
        (FIRE, "    print(data_dir)", "    return data_dir"),
        (FIRE, "def train", "@wrap\ndef train"),
        (FIRE, "fire.Fire(train)", "fire.Fire({'train': train})"),
        (FIRE, "fire.Fire(train)", "fire.Fire()"),
        (HYDRA, "def main", "@wrap\ndef main"),
        (HYDRA, "    main()", "    sys.argv.append('lr=1')\n    main()"),
        (HYDRA, "    main()", "    main(load())"),
    ],
)
def test_what_is_not_proven_has_no_parser(text: str, old: str, new: str) -> None:
    assert _read(text) is not None
    assert old in text
    assert _read(text.replace(old, new)) is None


@pytest.mark.parametrize(
    ("text", "line", "message", "fix"),
    [
        (FIRE, "d --batchsize 4", "once that is done", "--batch_size"),
        (HYDRA, "lr 0.1", "'lr' is not of the form", "NAME=VALUE"),
        (HYDRA, "--lr 0.1", "its parser ends every rank", "lr=VALUE"),
        (TYRO, "--data-dir d --batch-siz 4", "its parser ends every rank", "--batch-size"),
    ],
)
def test_a_mistake_is_repaired_as_the_library_takes_it(text: str, line: str, message: str, fix: str) -> None:
    parser, words = _read(text), tuple(line.split())
    assert parser is not None
    job = Job(script="train.py", args=words, typed=("gpulaunch", "run", "train.py", "--", *words))
    problems = list(describe_refused_args(parser, "train.py", job))
    assert message in problems[0].message
    assert fix in problems[0].fix
