"""What a script surely calls that needs a login."""

import pytest

from preflight.script.analyze import analyze_script

HEAD = """
import argparse, os, wandb
from accelerate import Accelerator
from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments, HfArgumentParser
parser = argparse.ArgumentParser()
parser.add_argument("--wandb", action="store_true")
parser.add_argument("--mode", default="online")
parser.add_argument("--model", default="gpt2")
"""
ARGS = "args = parser.parse_args()\n"
PARSED = "args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"


@pytest.mark.parametrize(
    ("code", "given", "found"),
    [
        (ARGS + "wandb.init(project='a')", "", "wandb.init"),
        (ARGS + "if int(os.environ['RANK']) == 0:\n    wandb.init(project='a')", "", "wandb.init first"),
        (ARGS + "def main():\n    wandb.init()\nif __name__ == '__main__':\n    main()", "", "wandb.init"),
        (ARGS + "if args.wandb:\n    wandb.init()", "--wandb", "wandb.init"),
        (ARGS + "if args.wandb:\n    wandb.init()", "", ""),
        (ARGS + "wandb.init(mode=args.mode)", "--mode online", "wandb.init"),
        (ARGS + "wandb.init(mode=args.mode)", "--mode disabled", ""),
        (ARGS + "wandb.init(mode='offline')", "", ""),
        (ARGS + "wandb.init(**settings)", "", ""),
        (ARGS + "def log():\n    wandb.init()\ndef main():\n    pass\nmain()", "", ""),
        (ARGS + "if int(os.environ['RANK']) == 0 and cfg.log:\n    wandb.init()", "", ""),
        (ARGS + "if cfg.log:\n    if int(os.environ['RANK']) == 0:\n        wandb.init()", "", ""),
        (ARGS + "try:\n    train()\nexcept Exception:\n    wandb.init()", "", ""),
        (ARGS + "Accelerator(log_with='wandb')", "", "log_with first"),
        (ARGS + "Accelerator(log_with='tensorboard')", "", ""),
        ("TrainingArguments('o', report_to='wandb')", "", "report_to first"),
        ("TrainingArguments('o', report_to=['tensorboard', 'wandb'])", "", "report_to first"),
        ("TrainingArguments('o', report_to='none')", "", ""),
        ("TrainingArguments('o', report_to=[])", "", ""),
        ("TrainingArguments('o')", "", "report_to first"),  # transformers 4 reports to all that is installed
        (PARSED, "--report_to wandb", "report_to first"),
        (PARSED, "--report_to none", ""),
        ("TrainingArguments('o', report_to='none', push_to_hub=True)", "", "push_to_hub first"),
        (
            ARGS + "AutoModelForCausalLM.from_pretrained(args.model)",
            "--model meta-llama/Llama-3.1-8B",
            "meta-llama/Llama-3.1-8B",
        ),
        (ARGS + "AutoModelForCausalLM.from_pretrained(args.model)", "", ""),
        (
            ARGS + "name = 'google/gemma-2-2b'\nAutoModelForCausalLM.from_pretrained(name)",
            "",
            "google/gemma-2-2b",
        ),
        (ARGS + "AutoModelForCausalLM.from_pretrained('google/gemma-2-2b', token=t)", "", ""),
        (ARGS + "load_dataset('ILSVRC/imagenet-1k')", "", "ILSVRC/imagenet-1k"),
        (ARGS + "load_dataset('imdb')", "", ""),
    ],
)
def test_a_script_calls_services(code: str, given: str, found: str) -> None:
    seen = analyze_script(HEAD + code, "a.py", args=tuple(given.split()), versions={"transformers": "4.57.0"})
    assert [f"{use.what}{' first' * use.first_rank}" for use in seen.services] == ([found] if found else [])


def test_transformers_5_reports_to_none() -> None:
    code = HEAD + "TrainingArguments('o')"
    assert analyze_script(code, "a.py", versions={"transformers": "5.0.0"}).services == ()
    assert analyze_script(code, "a.py").services == ()
