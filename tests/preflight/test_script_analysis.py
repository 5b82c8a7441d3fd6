"""What the planner learns of a script by reading it."""

from pathlib import Path

import pytest

from preflight.checks.runner import PlannedLaunch
from preflight.checks.script_judge import judge_script
from preflight.decide.decision import Decision
from preflight.decide.precision import PrecisionRefused
from preflight.decide.script_args import align_args
from preflight.facts.script import ScriptAnalysis
from preflight.job import Job, PrecisionRequest
from preflight.script.analyze import analyze_script
from preflight.script.rules.registry import Level
from tests.hardware import cpu_host, l40s, titan
from tests.preflight.readings import decide

ACCELERATE = """\
import torch
from accelerate import Accelerator
accelerator = Accelerator({})
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for batch in range(3):
    accelerator.backward(model(batch).sum())
    optimizer.step()
"""

SWITCHES = """\
import argparse
from transformers import AutoModel, Trainer, TrainingArguments
parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--bf16", action="store_true")
args = parser.parse_args()
model = AutoModel.from_pretrained("m", dtype={})
Trainer(model, TrainingArguments("o", fp16=args.fp16, bf16=args.bf16)).train()
"""

DDP = """\
import os
import torch
local_rank = int(os.environ["LOCAL_RANK"])
{}
torch.cuda.set_device(local_rank)
torch.distributed.init_process_group("nccl")
model = torch.nn.Linear(4, 4).cuda()
"""


LIGHTNING = """\
import lightning as L
import torch

class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def training_step(self, batch, index):
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

L.Trainer({}).fit(Model(), torch.utils.data.DataLoader(torch.ones(8, 4)))
"""


def read(text: str, **options: object) -> ScriptAnalysis:
    return analyze_script(text, "train.py", **options)  # type: ignore[arg-type]


def decided(text: str, requested: PrecisionRequest = "auto") -> Decision:
    return decide({"titan": titan()}, Job(precision=requested), read(text))


def test_a_bare_accelerator_is_no_request_and_places_its_device() -> None:
    reading = read(ACCELERATE.format(""))
    (site,) = reading.precision
    assert (reading.style, site.call, site.value, site.binding) == ("accelerate", "Accelerator", "", False)
    assert reading.places_device == "train.py:3: accelerator = Accelerator()"
    assert reading.trained_dtype == "float32"
    assert decided(ACCELERATE.format("")).mixed_precision == "fp16"


def test_a_literal_binds() -> None:
    (site,) = read(ACCELERATE.format('mixed_precision="bf16"')).precision
    assert (site.value, site.binding, str(site.place)) == ("bf16", True, "train.py:3")
    with pytest.raises(PrecisionRefused, match=r"train\.py:3: Accelerator asks for bf16.*TITAN RTX"):
        decided(ACCELERATE.format('mixed_precision="bf16"'))


def test_an_option_with_a_default_does_not_bind_and_is_overridden() -> None:
    text = (
        "import argparse\nfrom accelerate import Accelerator\n"
        "p = argparse.ArgumentParser()\n"
        "p.add_argument('--mixed_precision', default='bf16', choices=['no', 'fp16', 'bf16'])\n"
        "args = p.parse_args()\naccelerator = Accelerator(mixed_precision=args.mixed_precision)\n"
    )
    reading = read(text)
    (site,) = reading.precision
    assert (site.binding, site.option) == (False, "--mixed_precision")
    assert align_args(Job(), "fp16", reading).args == ("--mixed_precision", "fp16")
    assert align_args(Job(), "bf16", reading).args == ()


def test_the_scripts_own_switch_is_given_when_it_only_means_mixed_precision() -> None:
    reading = read(SWITCHES.format('"float32"'))
    assert [option.flag for option in reading.options] == ["--fp16", "--bf16"]
    assert align_args(Job(), "fp16", reading).args == ("--fp16",)
    assert align_args(Job(args=("--bf16",)), "fp16", reading).args == ("--fp16",)


def test_a_switch_that_also_makes_the_weights_half_is_not_given() -> None:
    reading = read(SWITCHES.format('"float16" if args.fp16 else "float32"'))
    assert align_args(Job(), "fp16", reading).args == ()


def test_an_expression_of_the_hardware_has_no_value_beforehand() -> None:
    text = "import torch\nfrom accelerate import Accelerator\n"
    text += "bf16 = torch.cuda.get_device_capability() >= (8, 0)\n"
    (site,) = read(text + "Accelerator(mixed_precision='bf16' if bf16 else 'fp16')\n").precision
    assert (site.value, site.binding) == ("", True)


def test_trls_default_binds_where_its_version_has_it() -> None:
    text = "from trl import SFTConfig, SFTTrainer\nSFTTrainer('m', args=SFTConfig('o')).train()\n"
    (site,) = read(text, versions={"trl": "1.16.0"}).precision
    assert (site.value, site.binding) == ("bf16", True)
    assert "default" in site.why
    for version, value in (("0.15.2", ""), ("0.19.1", ""), ("0.20", "bf16"), ("0.20.1", "bf16")):
        (site,) = read(text, versions={"trl": version}).precision
        assert (site.value, site.binding) == (value, value != "")
    assert read(text).style == "trl"


def test_set_device_of_local_rank_proves_placement() -> None:
    assert read(DDP.format("")).places_device == "train.py:5: torch.cuda.set_device(local_rank)"


@pytest.mark.parametrize(
    "before",
    [
        "torch.zeros(1).cuda()\ntorch.nn.Linear(1, 1).cuda()",
        "torch.nn.Linear(1, 1).to('cuda')",
        "torch.load('weights.pt')",
        "torch.cuda.set_device(0)",
        "device = torch.device('cuda:0')",
        "torch.cuda.synchronize()",
    ],
)
def test_cuda_before_set_device_or_a_fixed_gpu_is_no_proof(before: str) -> None:
    assert read(DDP.format(before)).places_device == ""


def test_a_module_that_cannot_be_read_is_no_proof() -> None:
    broken = read(
        "import helper\n" + DDP.format(""), find=lambda path: "def (" if path == "helper.py" else None
    )
    assert broken.places_device == ""


@pytest.mark.parametrize(
    ("load", "dtype"),
    [
        ("AutoModel.from_pretrained('m', torch_dtype=torch.bfloat16)", "bfloat16"),
        ("AutoModel.from_pretrained('m', dtype='float32')", "float32"),
        ("AutoModel.from_config(c)", "float32"),
        ("somebody.load()", ""),
    ],
)
def test_the_dtype_of_what_is_trained(load: str, dtype: str) -> None:
    text = f"import torch\nfrom transformers import AutoModel, Trainer\nTrainer({load}).train()\n"
    assert read(text).trained_dtype == dtype


def test_a_checkpoints_own_dtype_is_known_to_be_unknown_from_transformers_5() -> None:
    text = "from transformers import AutoModel, Trainer\nTrainer(AutoModel.from_pretrained('m')).train()\n"
    assert read(text, versions={"transformers": "5.23.0"}).trained_dtype == "checkpoint"
    assert read(text, versions={"transformers": "4.50.0"}).trained_dtype == "float32"


def test_deepspeed_is_noted() -> None:
    text = "from transformers import Trainer, TrainingArguments\nTrainingArguments('o', deepspeed='z.json')\n"
    assert read(text).manages_precision.startswith("train.py:2: ")


def test_a_script_that_does_not_parse_says_where() -> None:
    assert read("def f(:\n").problem.startswith("train.py:1: ")


def test_the_packaged_example_reads_well() -> None:
    path = Path(__file__).parents[2] / "templates" / "paper_r64.py"
    reading = analyze_script(path.read_text(encoding="utf-8"), "paper_r64.py")
    assert (reading.style, reading.trained_dtype) == ("trainer", "float32")
    assert reading.places_device
    for hosts in ({"t": titan()}, {"l": l40s()}, {"c": cpu_host("c")}):
        job = Job(gpus="none" if "c" in hosts else "all")
        result = judge_script(path.read_text(encoding="utf-8"), "paper_r64.py", hosts, job, PlannedLaunch())
        assert [item for item in result.findings if item.level is not Level.INFO] == []


@pytest.mark.parametrize(
    "line",
    ["from my_project.models import build", "from .models import build", "import cudf", "import apex.amp"],
)
def test_a_module_that_was_not_read_leaves_the_placing_unproven(line: str) -> None:
    script = f"from accelerate import Accelerator\n{line}\naccelerator = Accelerator()\n"
    assert read(script).places_device == ""


def test_libraries_and_the_standard_library_leave_the_placing_proven() -> None:
    script = "import os, csv\nimport wandb, yaml\nfrom accelerate import Accelerator\na = Accelerator()\n"
    assert read(script).places_device == "train.py:4: a = Accelerator()"


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("precision='16-mixed'", "fp16"),
        ("precision=16", "fp16"),
        ("precision='bf16-true'", "no"),
        ("max_epochs=1", "no"),
        ("precision=chosen()", ""),
    ],
)
def test_what_lightning_is_given_binds_the_launch_and_so_does_its_default(given: str, value: str) -> None:
    (site,) = read(LIGHTNING.format(given)).precision
    assert (site.call, site.value, site.binding) == ("Lightning's Trainer", value, True)


def test_a_launch_of_lightning_agrees_with_its_precision_or_is_refused() -> None:
    default = decided(LIGHTNING.format("max_epochs=1"))
    assert default.mixed_precision == "no"
    assert "Lightning's default where precision is not given" in default.reasons[0].text
    assert decided(LIGHTNING.format("precision=16")).mixed_precision == "fp16"
    with pytest.raises(PrecisionRefused, match="Lightning's Trainer asks for bf16, which wins"):
        decided(LIGHTNING.format("precision='bf16-mixed'"))  # a TITAN RTX only emulates it
    with pytest.raises(PrecisionRefused, match="wins over the fp16 that the config requests"):
        decided(LIGHTNING.format("max_epochs=1"), "fp16")


OWN = """
import torch
from accelerate import Accelerator
accelerator = Accelerator()
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
"""


@pytest.mark.parametrize(
    ("more", "dtype"),
    [
        ("model = accelerator.prepare(torch.nn.Linear(8, 1))", "float32"),
        ("model = accelerator.prepare(Net())", "float32"),
        ("from helpers import count\nm = Net()\ncount(m)\ntorch.optim.SGD(m.parameters()).step()", "float32"),
        ("from helpers import train\ntrain(Net())", "float32"),
        ("optimizer = getattr(torch.optim, input())(Net().parameters())\noptimizer.step()", "float32"),
        ("model = accelerator.prepare(Net().half())", ""),
        ("model = Net()\nif input():\n    model.half()\nelse:\n    model.float()", ""),
        ("model = Net()\nmodel.layer.bfloat16()", ""),
        ("torch.set_default_dtype(torch.bfloat16)\nmodel = accelerator.prepare(Net())", ""),
        ("torch.set_default_dtype(getattr(torch, input()))\nmodel = accelerator.prepare(Net())", ""),
        ("model = accelerator.prepare(torch.nn.Linear(8, 1, dtype=torch.float16))", ""),
        ("from transformers import AutoModel\nmodel, net = AutoModel.from_pretrained('m'), Net()", ""),
        ("w = torch.load('weights.pt')", ""),
    ],
)  # fmt: skip
def test_what_the_script_builds_without_a_dtype_is_float32_also_where_no_step_is_seen(
    more: str, dtype: str
) -> None:
    assert read(OWN + more + "\n").trained_dtype == dtype


def test_an_unknown_default_dtype_is_no_float32() -> None:
    text = "import torch\ntorch.set_default_dtype(getattr(torch, input()))\nmodel = torch.nn.Linear(8, 1)\n"
    assert read(text + "torch.optim.SGD(model.parameters()).step()\n").trained_dtype == ""


@pytest.mark.parametrize(
    ("args", "value"),
    [
        ((), "no"),
        (("--kind", "bf16"), "bf16"),
        (("--kind=fp16",), "fp16"),
        (("--kind",), "no"),
        (("--other", "bf16"), "no"),
        (("--kind", "fp16", "--kind", "bf16"), "bf16"),
        (("kind", "bf16"), "no"),
    ],
)
def test_a_field_of_a_parsed_dataclass_is_what_the_launch_gives(args: tuple[str, ...], value: str) -> None:
    text = (
        "from dataclasses import dataclass\nfrom accelerate import Accelerator\n"
        "from transformers import HfArgumentParser\n@dataclass\nclass Own:\n    kind: str = 'no'\n"
        "(own,) = HfArgumentParser(Own).parse_args_into_dataclasses()\n"
        "Accelerator(mixed_precision=own.kind)\n"
    )
    (site,) = read(text, args=args).precision
    assert site.value == value


@pytest.mark.parametrize(
    ("text", "files", "without"),
    [
        ("import json, os\nprint(os.environ.get('RANK'))\n", {}, True),
        ("import jax\nimport optax\nfrom flax import linen as nn\njax.devices()\n", {}, True),
        ("import numpy as np\nimport model\n", {"model.py": "import jax\n"}, True),
        ("import numpy as np\nimport model\n", {"model.py": "def f():\n    import torch\n"}, False),
        ("import model\n", {}, False),  # not read
        ("import transformers\n", {}, False),
        ("def f():\n    from torch import nn\n", {}, False),
        ("import importlib\nimportlib.import_module(name)\n", {}, False),
        ("import tensorflow as tf\nlib = 'tor' + 'ch'\n__import__(lib)\n", {}, False),
        ("import tensorflow as tf\nds.set_format('torch')\n", {}, False),
        ("from . import parts\n", {}, False),
        ("import os\nos.system(command)\n", {}, False),
        ("from os import execvp\nexecvp(argv[0], argv)\n", {}, False),
        ("exec(text)\n", {}, False),
        ("import json\nthis is no Python\n", {}, False),
    ],
)
def test_a_script_does_without_torch_only_where_all_that_it_imports_does(
    text: str, files: dict[str, str], *, without: bool
) -> None:
    assert read(text, find=files.get).without_torch is without
