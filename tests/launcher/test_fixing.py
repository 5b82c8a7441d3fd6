"""lint --fix: mechanical, shown first, and everything else left as it is."""

from pathlib import Path

import click.testing

from launcher.commands.lint import command
from launcher.fixing import diff, fixed
from preflight.script.lint import lint
from preflight.script.target import Target

TRAINER = """\
import torch  # keep this   comment
from transformers import AutoModel, Trainer, TrainingArguments

model = AutoModel.from_pretrained(
    "m",
    torch_dtype = torch.float16,   # and this
    device_map="auto",
)
trainer = Trainer(model=model, args=TrainingArguments("o", fp16=True), tokenizer=tok)
trainer.train()
"""

LOOP = """\
import torch
from accelerate import Accelerator
accelerator = Accelerator()
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for batch in range(3):
    loss = model(batch).sum()
    (loss / 4).backward()
    optimizer.step()
"""


def fix(text: str, target: Target) -> str:
    return fixed(text, "t.py", lint(text, "t.py", [target]).findings)


def test_dtype_device_map_and_keyword_are_fixed_and_comments_stay() -> None:
    target = Target(capability=(8, 0), processes=2, versions={"transformers": "5.23"})
    after = fix(TRAINER, target)
    assert "torch_dtype = torch.float32,   # and this" in after
    assert "device_map" not in after
    assert "processing_class=tok" in after
    assert "# keep this   comment" in after
    assert lint(after, "t.py", [target]).errors == 0


def test_a_dtype_given_as_text_stays_text() -> None:
    text = TRAINER.replace("torch.float16", "'float16'")
    assert "torch_dtype = 'float32'" in fix(text, Target(capability=(8, 0)))


def test_backward_goes_through_the_scripts_accelerator() -> None:
    after = fix(LOOP, Target(capability=(7, 5), launch="fp16"))
    assert "accelerator.backward((loss / 4))" in after
    assert lint(after, "t.py", [Target(capability=(7, 5), launch="fp16")]).errors == 0


def test_a_gpu_named_by_number_becomes_the_accelerators_device() -> None:
    loop = LOOP.replace("model(batch)", "model(batch.to('cuda:0'), y.cuda(0), torch.device('cuda:1'))")
    after = fix(loop, Target(capability=(8, 0), processes=2))
    device = "accelerator.device"
    assert f"model(batch.to({device}), y.to({device}), {device})" in after


def test_a_device_above_the_accelerator_is_left_to_people() -> None:
    loop = LOOP.replace("accelerator = Accel", "x = torch.zeros(1).to('cuda:0')\naccelerator = Accel")
    assert "torch.zeros(1).to('cuda:0')" in fix(loop, Target(capability=(8, 0), processes=2))


def test_a_script_without_faults_is_not_touched() -> None:
    text = "import torch\r\nx  =  1\r\n"
    assert fix(text, Target(capability=(8, 0))) == text
    assert diff(text, text, "t.py") == ""


def test_nothing_is_written_without_a_yes(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    path.write_text(TRAINER)
    words = [str(path), "--fix", "--processes", "2"]
    result = click.testing.CliRunner().invoke(command, words, input="n\n", standalone_mode=False)
    assert "-    torch_dtype = torch.float16,   # and this" in result.output
    assert path.read_text() == TRAINER
    click.testing.CliRunner().invoke(command, [*words, "--yes"], standalone_mode=False)
    assert "torch.float32" in path.read_text()
