"""What scripts ask for, on which GPUs, and what comes of it: a text is read, then decided and judged.

Rows are the cases of a launch: who wins, which dtype is trained, what it comes to.
"""

from dataclasses import dataclass

import pytest

from preflight.checks.runner import PlannedLaunch
from preflight.checks.script_judge import judge_script
from preflight.decide.precision import PrecisionRefused
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.job import Job, PrecisionRequest
from preflight.script.analyze import analyze_script
from preflight.script.rules.registry import Level
from tests.hardware import cpu_host, gpu, host
from tests.preflight.readings import decide

TITAN, L40S, A100, P100 = "NVIDIA TITAN RTX", "NVIDIA L40S", "NVIDIA A100-SXM4-40GB", "Tesla P100-PCIE-16GB"
GTX16, V100, GTX10 = "NVIDIA GeForce GTX 1660 Ti", "Tesla V100-SXM2-16GB", "NVIDIA GeForce GTX 1080 Ti"
MIXED = (TITAN, L40S)
PACKAGES = {
    "torch": "2.13.0",
    "transformers": "5.23.0",
    "peft": "0.21.2",
    "trl": "1.16.0",
    "accelerate": "1.15.0",
}

FLOAT32 = "model = torch.nn.Linear(4, 4)\n"
HALF = "model = torch.nn.Linear(4, 4).half()\n"
BF16 = "model = torch.nn.Linear(4, 4).to(torch.bfloat16)\n"
CHECKPOINT = "model = AutoModelForCausalLM.from_pretrained('x/y')\n"
UNREAD = "from mine import build\nmodel = build()\n"
HEAD = "import argparse\nimport torch\nfrom accelerate import Accelerator\n"
HEAD += "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"


def loop(accelerator: str = "Accelerator()", model: str = FLOAT32) -> str:
    return (
        f"{HEAD}accelerator = {accelerator}\n{model}"
        "optimizer = torch.optim.AdamW(model.parameters())\n"
        "model, optimizer = accelerator.prepare(model, optimizer)\n"
        "for batch in batches():\n    accelerator.backward(model(batch).sum())\n    optimizer.step()\n"
    )


def trainer(arguments: str = "", model: str = FLOAT32) -> str:
    return (
        f"{HEAD}{model}arguments = TrainingArguments('out', {arguments})\n"
        "Trainer(model=model, args=arguments, train_dataset=data).train()\n"
    )


def trl(arguments: str = "") -> str:
    return (
        "from trl import SFTConfig, SFTTrainer\n"
        f"SFTTrainer(model='x/y', args=SFTConfig('out', {arguments}), train_dataset=data).train()\n"
    )


OPTION = (
    "parser = argparse.ArgumentParser()\nparser.add_argument('--mixed_precision')\n"
    "args = parser.parse_args()\n"
)
OWN_SCALER = (
    "import torch\nmodel = torch.nn.Linear(4, 4).cuda()\noptimizer = torch.optim.AdamW(model.parameters())\n"
    "scaler = torch.amp.GradScaler('cuda')\n"
    "for batch in batches():\n"
    "    with torch.autocast('cuda', dtype=torch.float16):\n        loss = model(batch).sum()\n"
    "    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()\n"
)
OWN_AUTOCAST = (
    "import torch\nmodel = torch.nn.Linear(4, 4).cuda()\noptimizer = torch.optim.SGD(model.parameters())\n"
    "for batch in batches():\n"
    "    with torch.autocast('cuda', dtype=torch.bfloat16):\n        loss = model(batch).sum()\n"
    "    loss.backward()\n    optimizer.step()\n"
)
PER_RANK = "fp16=torch.cuda.get_device_capability()[0] < 8, bf16=torch.cuda.get_device_capability()[0] >= 8"
LITERAL = "Accelerator(mixed_precision={!r})"


def hosts_with(cards: tuple[str, ...]) -> dict[str, HostFacts]:
    if not cards:
        return {"cpu": cpu_host("cpu")}
    found = {f"h{n}": host(f"h{n}", [gpu(0, card, host=f"h{n}")]) for n, card in enumerate(cards)}
    for facts in found.values():
        assert not isinstance(facts.python, Missing)
        facts.python.packages.update(PACKAGES)
    return found


@dataclass(frozen=True)
class Row:
    """A script on some GPUs: the precision it gets, or words of the refusal; words among the reasons."""

    script: str
    cards: tuple[str, ...]
    gets: str
    words: str = ""
    requested: PrecisionRequest = "auto"


ROWS = {
    # a bare Accelerator takes what the launch says, and the launch says what the GPUs can do
    "bare, Turing": Row(loop(), (TITAN,), "fp16", "parameters are float32"),
    "bare, Volta": Row(loop(), (V100,), "fp16"),
    "bare, Ada": Row(loop(), (L40S,), "bf16", "detects nothing itself"),
    "bare, mixed cluster": Row(loop(), MIXED, "fp16", "h0 has TITAN RTX"),
    "bare, P100": Row(loop(), (P100,), "no"),
    "bare, P100, fp16 asked": Row(loop(), (P100,), "fp16", requested="fp16"),
    "bare, Pascal, fp16 asked": Row(loop(), (GTX10,), "no", "1/64", requested="fp16"),
    "bare, GTX 16xx": Row(loop(), (GTX16,), "no", "no tensor cores"),
    "bare, GTX 16xx beside an A100": Row(loop(), (A100, GTX16), "no", "GTX 1660 Ti"),
    "bare, CPU": Row(loop(), (), "no", "on the CPU"),
    "bare, CPU, bf16 asked": Row(loop(), (), "bf16", requested="bf16"),
    "bare, CPU, fp16 asked": Row(loop(), (), "no", "silently does nothing", requested="fp16"),
    "mixed_precision=None": Row(loop("Accelerator(mixed_precision=None)"), (TITAN,), "fp16"),
    "argparse default of None": Row(
        loop("Accelerator(mixed_precision=args.mixed_precision)", OPTION + FLOAT32), (TITAN,), "fp16"
    ),
    "the user wins over the ceiling": Row(loop(), (L40S,), "no", "asked for", requested="no"),
    "the user wants what Turing has not": Row(loop(), (TITAN,), "fp16", "TITAN RTX", requested="bf16"),
    # parameters that fp16's scaler may refuse
    "bf16 parameters, Turing": Row(loop(model=BF16), (TITAN,), "no", "parameters are bfloat16"),
    "bf16 parameters, Ada": Row(loop(model=BF16), (L40S,), "bf16"),
    "checkpoint's dtype, Turing": Row(loop(model=CHECKPOINT), (TITAN,), "no", "checkpoint was saved in"),
    "checkpoint's dtype, Ada": Row(loop(model=CHECKPOINT), (L40S,), "bf16"),
    "unknown parameters, Turing": Row(loop(model=UNREAD), (TITAN,), "no", "does not show the dtype"),
    "unknown parameters, mixed": Row(loop(model=UNREAD), MIXED, "no", "--precision fp16"),
    "unknown parameters, Ada": Row(loop(model=UNREAD), (L40S,), "bf16"),
    "unknown parameters, asked": Row(loop(model=UNREAD), (TITAN,), "fp16", requested="fp16"),
    # a literal wins over flag, environment and config file
    "bf16 literal, Ada": Row(loop(LITERAL.format("bf16")), (L40S,), "bf16", "the script wins over any flag"),
    "bf16 literal, Turing": Row(loop(LITERAL.format("bf16")), (TITAN,), "train.py:5: .*TITAN RTX"),
    "bf16 literal, mixed": Row(loop(LITERAL.format("bf16")), MIXED, "train.py:5: .*h0 has TITAN RTX"),
    "fp16 literal, Ada": Row(loop(LITERAL.format("fp16")), (L40S,), "fp16", "native bf16"),
    "fp16 literal, GTX 16xx": Row(loop(LITERAL.format("fp16")), (GTX16,), "train.py:5: .*GTX 1660 Ti"),
    "no literal, Ada": Row(loop(LITERAL.format("no")), (L40S,), "no"),
    "literal against the user": Row(
        loop(LITERAL.format("no")), (L40S,), "wins over the bf16 that the config requests", requested="bf16"
    ),
    "literal as the user": Row(loop(LITERAL.format("bf16")), (L40S,), "bf16", requested="bf16"),
    "fp16 literal, CPU": Row(loop(LITERAL.format("fp16")), (), "fp16", "does nothing"),
    # TrainingArguments: fp16 before bf16 before the launch; two False are not "off"
    "Trainer, neither": Row(trainer(), (TITAN,), "fp16"),
    "Trainer, neither, no asked": Row(trainer(), (TITAN,), "no", requested="no"),
    "Trainer, both False": Row(trainer("fp16=False, bf16=False"), (L40S,), "bf16"),
    "Trainer, fp16=True": Row(trainer("fp16=True"), (L40S,), "fp16", "native bf16"),
    "Trainer, bf16=True, Turing": Row(trainer("bf16=True"), (TITAN,), "TrainingArguments asks for bf16"),
    "Trainer, by capability, alike": Row(trainer(PER_RANK), (TITAN,), "fp16"),
    # TRL turns bf16 on where it is not given
    "TRL, Ada": Row(trl(), (L40S,), "bf16", "SFTConfig asks for bf16"),
    "TRL, Turing": Row(trl(), (TITAN,), "trl's default where bf16 is not given"),
    "TRL, Turing, fp16": Row(trl("bf16=False, fp16=True"), (TITAN,), "fp16"),
    # DeepSpeed has a precision of its own, and float32 masters
    "DeepSpeed": Row(trainer("deepspeed='z.json'"), (TITAN,), "fp16", "DeepSpeed takes its precision"),
    "DeepSpeed, half weights": Row(trainer("deepspeed='z.json'", BF16), (TITAN,), "fp16", "DeepSpeed"),
    # a script that does it all itself
    "own scaler": Row(OWN_SCALER, (TITAN,), "no", "scales its gradients itself"),
    "own scaler and Accelerator": Row(
        OWN_SCALER.replace("import torch\n", HEAD + "accelerator = Accelerator()\n"), (TITAN,), "no", "itself"
    ),
    "own autocast": Row(OWN_AUTOCAST, (L40S,), "no", "casts its forward itself"),
    # fp8 is only for those who ask, and what refuses it leaves the best that is left
    "fp8, Ada without an implementation": Row(loop(), (L40S,), "bf16", "transformer-engine", requested="fp8"),
    "fp8, Ampere": Row(loop(), (A100,), "bf16", "A100", requested="fp8"),
    "fp8, Ada and Ampere": Row(loop(), (L40S, A100), "bf16", "A100", requested="fp8"),
    "fp8, mixed cluster": Row(loop(), MIXED, "fp16", "TITAN RTX", requested="fp8"),
    "fp8, Pascal": Row(loop(), (GTX10,), "no", requested="fp8"),
    "fp8, CPU": Row(loop(), (), "no", "silently does nothing", requested="fp8"),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_script_on_its_gpus_gets_this_precision(row: Row) -> None:
    hosts = hosts_with(row.cards)
    job = Job(gpus="all" if row.cards else "none", precision=row.requested)
    script = analyze_script(row.script, "train.py", versions=PACKAGES)
    if row.gets not in ("no", "fp16", "bf16", "fp8"):
        with pytest.raises(PrecisionRefused, match=row.gets) as refusal:
            decide(hosts, job, script)
        assert "edit line" in refusal.value.fix
        return
    decision = decide(hosts, job, script)
    assert decision.mixed_precision == row.gets, decision.reasons
    assert row.words in " | ".join(f"{why.text} [{why.source}]" for why in decision.reasons)


LORA = "from peft import LoraConfig, get_peft_model\n"
BASE = "AutoModelForCausalLM.from_pretrained('x/y', dtype=torch.float16)"
CONFIG = "LoraConfig(target_modules=['q'])"


@pytest.mark.parametrize(
    ("model", "packages", "dtype"),
    [
        ("model = AutoModelForCausalLM.from_pretrained('x', dtype=torch.bfloat16)\n", {}, "bfloat16"),
        ("model = AutoModelForCausalLM.from_pretrained('x', torch_dtype='float16')\n", {}, "float16"),
        (CHECKPOINT, {}, "checkpoint"),
        (CHECKPOINT, {"transformers": "4.57.0"}, "float32"),
        ("model = AutoModelForCausalLM.from_config(config())\n", {"transformers": "4.57.0"}, "float32"),
        (f"{LORA}model = get_peft_model({BASE}, {CONFIG})\n", {}, "float32"),
        (f"{LORA}model = get_peft_model({BASE}, {CONFIG}, autocast_adapter_dtype=False)\n", {}, "float16"),
        (f"{LORA}model = get_peft_model({BASE}, {CONFIG})\n", {"peft": "0.12.0"}, "float32"),
        (f"{LORA}model = get_peft_model({BASE}, {CONFIG})\n", {"peft": "0.11.1"}, "float16"),
        (f"{LORA}model = get_peft_model({BASE}, {CONFIG})\nmodel.half()\n", {}, "float16"),
        ("model = torch.nn.Linear(4, 4, dtype=torch.bfloat16)\n", {}, "bfloat16"),
        (FLOAT32, {}, "float32"),
        (UNREAD, {}, ""),
    ],
)
def test_the_dtype_that_is_trained(model: str, packages: dict[str, str], dtype: str) -> None:
    read = analyze_script(loop(model=model), "train.py", versions={**PACKAGES, **packages})
    assert read.trained_dtype == dtype


def test_trl_given_a_name_trains_float32() -> None:
    assert analyze_script(trl("bf16=False"), "train.py", versions=PACKAGES).trained_dtype == "float32"


QUANTIZED = (
    "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\nfrom peft import LoraConfig\n"
    "from trl import SFTConfig, SFTTrainer\n"
    "bits = BitsAndBytesConfig(load_in_4bit=True)\n"
    "model = AutoModelForCausalLM.from_pretrained('x', quantization_config=bits)\n"
    "SFTTrainer(model=model, args=SFTConfig('out', fp16=True, bf16=False), peft_config=LoraConfig(),"
    " train_dataset=data).train()\n"
)
MIXED_LAYERS = (
    "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.embed = torch.nn.Embedding(8, 8, dtype=torch.bfloat16)\n"
    "        self.out = torch.nn.Linear(8, 8)\nmodel = Net()\n"
)
EXTRA = (
    f"{LORA}model = get_peft_model({BASE}, LoraConfig(target_modules=['q'], modules_to_save=['lm_head']))\n"
)
FUSED = loop(LITERAL.format("no"), HALF).replace("parameters())", "parameters(), fused=True)")

OUTCOMES = {
    "fp16, float32": (loop(LITERAL.format("fp16")), (TITAN,), {}),
    "fp16, fp16": (loop(LITERAL.format("fp16"), HALF), (TITAN,), {"P101": Level.ERROR}),
    "fp16, bf16": (loop(LITERAL.format("fp16"), BF16), (TITAN,), {"P106": Level.ERROR}),
    "fp16, some layers bf16": (
        loop(LITERAL.format("fp16"), MIXED_LAYERS),
        (TITAN,),
        {"P106": Level.ERROR, "P110": Level.WARNING},
    ),
    "fp16, LoRA on a half base": (
        loop(LITERAL.format("fp16"), f"{LORA}model = get_peft_model({BASE}, {CONFIG})\n"),
        (TITAN,),
        {},
    ),
    "fp16, modules_to_save": (loop(LITERAL.format("fp16"), EXTRA), (TITAN,), {"P104": Level.ERROR}),
    "fp16, TRL on a quantized base": (QUANTIZED, (TITAN,), {"P107": Level.ERROR}),
    "bf16, float32": (loop(LITERAL.format("bf16")), (L40S,), {}),
    "bf16, fp16": (loop(LITERAL.format("bf16"), HALF), (L40S,), {"P102": Level.ERROR}),
    "bf16, bf16": (loop(LITERAL.format("bf16"), BF16), (L40S,), {}),
    "no, float32": (loop(LITERAL.format("no")), (L40S,), {}),
    "no, fp16": (loop(LITERAL.format("no"), HALF), (L40S,), {"P102": Level.ERROR}),
    "no, fp16, fused": (FUSED, (L40S,), {"P102": Level.WARNING}),
    "no, bf16": (loop(LITERAL.format("no"), BF16), (L40S,), {}),
    "own scaler and fp16 of accelerate": (
        OWN_SCALER.replace("import torch\n", HEAD + "accelerator = Accelerator(mixed_precision='fp16')\n", 1),
        (TITAN,),
        {"P115": Level.ERROR},
    ),
    "precision per rank, unlike ranks": (trainer(PER_RANK), MIXED, {"P120": Level.ERROR}),
}


@pytest.mark.parametrize(("script", "cards", "message"), OUTCOMES.values(), ids=OUTCOMES)
def test_precision_and_parameters_come_to_this(
    script: str, cards: tuple[str, ...], message: dict[str, Level]
) -> None:
    result = judge_script(script, "train.py", hosts_with(cards), Job(), PlannedLaunch())
    assert not result.problems
    assert {each.code: each.level for each in result.findings if each.level is not Level.INFO} == message
