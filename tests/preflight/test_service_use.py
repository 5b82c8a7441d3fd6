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
OF_CONFIG = "def log(cfg):\n    if {}:\n        return\n    wandb.init()\nlog(load())"
CAUGHT = "def log():\n    try:\n        wandb.init()\n    except Exception:\n        {}\nlog()"
LOGGER = "from lightning.pytorch.loggers import WandbLogger\n"
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
        (ARGS + OF_CONFIG.format("not cfg.log"), "", ""),
        (ARGS + OF_CONFIG.format("not (cfg.log and is_main_process())"), "", ""),
        (ARGS + OF_CONFIG.format("not is_main_process()"), "", "wandb.init first"),
        (ARGS + OF_CONFIG.format("not args.wandb"), "--wandb", "wandb.init"),
        (ARGS + "used = cfg.log and is_main_process()\nif used:\n    wandb.init()", "", ""),
        (ARGS + "if args.wandb and is_main_process():\n    wandb.init()", "--wandb", "wandb.init first"),
        (ARGS + "for epoch in range(9):\n    if len(cfg.log) > 0:\n        wandb.init()", "", ""),
        (
            ARGS + "def log():\n    if cfg.log:\n        start()\ndef start():\n    wandb.init()\nlog()",
            "",
            "",
        ),
        (ARGS + CAUGHT.format("print('goes on without')"), "", ""),
        (ARGS + CAUGHT.format("raise"), "", "wandb.init"),
        (ARGS + "wandb.init(anonymous='must')", "", ""),
        (ARGS + "wandb.init(settings=wandb.Settings(mode='offline'))", "", ""),
        (ARGS + "wandb.login(key=key)\nwandb.init()", "", ""),
        (ARGS + "from dotenv import load_dotenv\nload_dotenv()\nwandb.init()", "", ""),
        (ARGS + "# os.environ['WANDB_MODE'] = 'offline'\nwandb.init()", "", "wandb.init"),
        (LOGGER + "WandbLogger(project='a')", "", "WandbLogger first"),
        (LOGGER + "WandbLogger(project='a', offline=True)", "", ""),
        (LOGGER + "os.environ['WANDB_MODE'] = 'offline'\nWandbLogger(project='a')", "", ""),
        (ARGS + "Accelerator(log_with='wandb').init_trackers('a')", "", "log_with first"),
        (ARGS + "Accelerator(log_with='all').init_trackers('a')", "", "log_with first"),
        (ARGS + "Accelerator(log_with='tensorboard').init_trackers('a')", "", ""),
        (ARGS + "Accelerator(log_with='wandb')", "", ""),  # it starts nothing
        (ARGS + "a = Accelerator(log_with='wandb')\nif args.wandb:\n    a.init_trackers('a')", "", ""),
        ("TrainingArguments('o', report_to='wandb')", "", "report_to first"),
        ("TrainingArguments('o', report_to=['tensorboard', 'wandb'])", "", "report_to first"),
        ("TrainingArguments('o', report_to='none')", "", ""),
        ("TrainingArguments('o', report_to=[])", "", ""),
        ("TrainingArguments('o')", "", "report_to first"),  # transformers 4 reports to all that is installed
        (PARSED, "--report_to wandb", "report_to first"),
        (PARSED, "--report_to none", ""),
        ("TrainingArguments('o', report_to='none', push_to_hub=True)", "", "push_to_hub first"),
        ("TrainingArguments('o', report_to='none', push_to_hub=True, hub_token=t)", "", ""),
        ("TrainingArguments('o', report_to='none')", "--push_to_hub", "push_to_hub first"),
        ("TrainingArguments('o', report_to='none')", "--push_to_hub false", ""),
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
        ("import comet_ml\ncomet_ml.start(project_name='a')", "", "comet_ml.start"),
        ("import comet_ml\ncomet_ml.start('key')", "", ""),
        ("import comet_ml\ncomet_ml.start(online=False)", "", ""),
        ("import comet_ml\ncomet_ml.login()\ncomet_ml.start()", "", ""),
        ("from comet_ml import Experiment\nExperiment(project_name='a')", "", "comet_ml.Experiment"),
        ("from comet_ml import Experiment\nExperiment(api_key=k)", "", ""),
        ("from comet_ml import Experiment\nExperiment(disabled=True)", "", ""),
        ("import neptune\nneptune.init_run(project='a/b')", "", "neptune.init_run"),
        ("import neptune\nneptune.init_run(mode='debug')", "", ""),
        ("import neptune\nneptune.init_run(api_token=neptune.ANONYMOUS_API_TOKEN)", "", ""),
        ("import swanlab\nswanlab.init(project='a')", "", "swanlab.init"),
        ("import swanlab\nswanlab.init(project='a', mode='cloud')", "", "swanlab.init"),
        ("import swanlab\nswanlab.init(project='a', mode='local')", "", ""),
        ("import swanlab\nswanlab.login(api_key=k)\nswanlab.init(project='a')", "", ""),
        ("from clearml import Task\nTask.init(project_name='a', task_name='b')", "", "clearml.Task.init"),
        ("from clearml import Task\nTask.set_offline(True)\nTask.init(project_name='a')", "", ""),
        (
            "from lightning.pytorch.loggers import CometLogger\nCometLogger(project='a')",
            "",
            "CometLogger first",
        ),
        ("from lightning.pytorch.loggers import CometLogger\nCometLogger(save_dir='a')", "", ""),
        (
            "from pytorch_lightning.loggers.neptune import NeptuneLogger\nNeptuneLogger(project='a')",
            *("", "NeptuneLogger first"),
        ),
        ("TrainingArguments('o', report_to='swanlab')", "", "report_to first"),
        ("TrainingArguments('o', report_to=['comet_ml', 'tensorboard'])", "", "report_to first"),
        ("Accelerator(log_with='clearml').init_trackers('a')", "", "log_with first"),
    ],
)
def test_a_script_calls_services(code: str, given: str, found: str) -> None:
    seen = analyze_script(HEAD + code, "a.py", args=tuple(given.split()), versions={"transformers": "4.57.0"})
    whats = {f"{use.what}{' first' * use.first_rank}" for use in seen.services}
    assert whats == ({found} if found else set())


def test_each_service_that_is_named_is_meant() -> None:
    code = HEAD + "TrainingArguments('o', report_to=['swanlab', 'clearml', 'tensorboard'])"
    assert [use.service for use in analyze_script(code, "a.py").services] == ["swanlab", "clearml"]


def test_all_trackers_are_those_with_a_key() -> None:
    code = HEAD + "Accelerator(log_with='all').init_trackers('a')"
    assert [use.service for use in analyze_script(code, "a.py").services] == ["wandb"]


def test_a_module_of_the_script_may_see_to_the_login() -> None:
    keys = {"keys.py": "import os\nos.environ['WANDB_API_KEY'] = open('key').read()"}
    code = HEAD + "import keys\nwandb.init()"
    assert analyze_script(code, "a.py", find=keys.get).services == ()
    assert len(analyze_script(code, "a.py", find={"keys.py": ""}.get).services) == 1


def test_transformers_5_reports_to_none() -> None:
    code = HEAD + "TrainingArguments('o')"
    assert analyze_script(code, "a.py", versions={"transformers": "5.0.0"}).services == ()
    assert analyze_script(code, "a.py").services == ()
