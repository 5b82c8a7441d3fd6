"""lint --fix: mechanical, shown first, and everything else left as it is."""

from pathlib import Path

import click.testing
import pytest

from launcher.commands.lint import command
from launcher.lint.fix import diff, fix_script
from preflight.script.lint import lint
from preflight.script.rules.registry import Level
from preflight.script.target import RankTarget

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


def fix(text: str, target: RankTarget) -> str:
    return fix_script(text, "t.py", lint(text, "t.py", [target]).findings).text


def test_dtype_device_map_and_keyword_are_fixed_and_comments_stay() -> None:
    target = RankTarget(capability=(8, 0), processes=2, versions={"transformers": "5.23"})
    after = fix(TRAINER, target)
    assert "torch_dtype = torch.float32,   # and this" in after
    assert "device_map" not in after
    assert "processing_class=tok" in after
    assert "# keep this   comment" in after
    assert lint(after, "t.py", [target]).errors == 0


def test_a_dtype_given_as_text_stays_text() -> None:
    text = TRAINER.replace("torch.float16", "'float16'")
    assert "torch_dtype = 'float32'" in fix(text, RankTarget(capability=(8, 0)))


def test_backward_goes_through_the_scripts_accelerator() -> None:
    after = fix(LOOP, RankTarget(capability=(7, 5), launch="fp16"))
    assert "accelerator.backward(loss / 4)" in after
    assert lint(after, "t.py", [RankTarget(capability=(7, 5), launch="fp16")]).errors == 0


def test_a_gpu_named_by_number_becomes_the_accelerators_device() -> None:
    loop = LOOP.replace("model(batch)", "model(batch.to('cuda:0'), y.cuda(0), torch.device('cuda:1'))")
    after = fix(loop, RankTarget(capability=(8, 0), processes=2))
    device = "accelerator.device"
    assert f"model(batch.to({device}), y.to({device}), {device})" in after


def test_a_device_above_the_accelerator_is_left_to_people() -> None:
    loop = LOOP.replace("accelerator = Accel", "x = torch.zeros(1).to('cuda:0')\naccelerator = Accel")
    assert "torch.zeros(1).to('cuda:0')" in fix(loop, RankTarget(capability=(8, 0), processes=2))


def test_a_script_without_faults_is_not_touched() -> None:
    text = "import torch\r\nx  =  1\r\n"
    assert fix(text, RankTarget(capability=(8, 0))) == text
    assert diff(text, text, "t.py") == ""


def test_the_byte_order_mark_of_a_script_stays() -> None:
    target = RankTarget(capability=(7, 5), launch="fp16")
    assert fix("\ufeff" + LOOP, target) == "\ufeff" + fix(LOOP, target) != "\ufeff" + LOOP


def test_nothing_is_written_without_a_yes(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    path.write_text(TRAINER)
    words = [str(path), "--fix", "--processes", "2"]
    result = click.testing.CliRunner().invoke(command, words, input="n\n", standalone_mode=False)
    assert "-    torch_dtype = torch.float16,   # and this" in result.output
    assert path.read_text() == TRAINER
    click.testing.CliRunner().invoke(command, [*words, "--yes"], standalone_mode=False)
    assert "torch.float32" in path.read_text()


SCRIPT = """\
import torch
from accelerate import Accelerator
from transformers import AutoModel, Trainer, TrainingArguments

def main():
    accelerator = Accelerator(mixed_precision="fp16")
    {}
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer = accelerator.prepare(model, optimizer)
    for batch in range(3):
        loss = model(batch).sum()
        {}
        optimizer.step()

main()
"""
LOAD = 'model = AutoModel.from_pretrained("m", dtype=torch.float32)'
TITANS = RankTarget(capability=(7, 5), processes=2, versions={"transformers": "5.23"})

FORMS = [
    ('model = AutoModel.from_pretrained("m", dtype=torch.float16)', LOAD),
    ('model = AutoModel.from_pretrained("m")', LOAD),
    (
        'model = AutoModel.from_pretrained("é", torch_dtype="float16")',
        'AutoModel.from_pretrained("é", torch_dtype="float32")',
    ),
    (f"{LOAD}.half()", f"{LOAD}.float()"),
    (f"{LOAD}; model.to(torch.half)", "model.to(torch.float32)"),
    (f'{LOAD}; model.to("cuda:0", dtype=torch.float16)', "model.to(accelerator.device, dtype=torch.float32)"),
    (
        'kw = {"dtype": torch.float16}; model = AutoModel.from_pretrained("m", **kw)',
        '{"dtype": torch.float32}',
    ),
    (
        'kw = dict(dtype=torch.float16); model = AutoModel.from_pretrained("m", **kw)',
        "dict(dtype=torch.float32)",
    ),
    ('model = AutoModel.from_pretrained("m", dtype=torch.float32, device_map="auto")', LOAD),
    ('model = AutoModel.from_pretrained("m", device_map={"": 0}, dtype=torch.float32)', LOAD),
    (
        'kw = {"device_map": "auto"}; model = AutoModel.from_pretrained("m", dtype=torch.float32, **kw)',
        "kw = {};",
    ),
    (f"{LOAD}; model.cuda(0)", "model.to(accelerator.device)"),
    (f'{LOAD}; device = "cuda:1"; model.to(device)', "device = accelerator.device; model.to(device)"),
    (
        f'{LOAD}; d = torch.device("cuda:0" if torch.cuda.is_available() else "cpu"); model.to(d)',
        "d = accelerator.device; model.to(d)",
    ),
    (f'{LOAD}; x = torch.zeros(2, device="cuda:0")', "torch.zeros(2, device=accelerator.device)"),
]


@pytest.mark.parametrize(("line", "wanted"), FORMS, ids=[line for line, _ in FORMS])
def test_each_usual_form_is_fixed_and_is_then_clean(line: str, wanted: str) -> None:
    script = SCRIPT.format(line, "accelerator.backward(loss)")
    after = fix(script, TITANS)
    assert wanted in after
    remaining = [item for item in lint(after, "t.py", [TITANS]).findings if item.level is not Level.INFO]
    assert remaining == []
    changed = [old for old, new in zip(script.splitlines(), after.splitlines(), strict=True) if old != new]
    assert changed == [f"    {line}"]


BACKWARDS = [
    ("loss.backward()", "accelerator.backward(loss)"),
    ("loss.mean().backward(retain_graph=True)", "accelerator.backward(loss.mean(), retain_graph=True)"),
    ("(loss + 1).backward()", "accelerator.backward(loss + 1)"),
]


@pytest.mark.parametrize(("line", "wanted"), BACKWARDS)
def test_each_backward_goes_through_accelerate(line: str, wanted: str) -> None:
    after = fix(SCRIPT.format(LOAD, line), TITANS)
    assert wanted in after
    assert lint(after, "t.py", [TITANS]).errors == 0


def test_a_class_names_its_accelerator_by_self() -> None:
    text = """\
import torch
from accelerate import Accelerator

class Runner:
    def __init__(self):
        self.accelerator = Accelerator(mixed_precision="fp16")
        model = torch.nn.Linear(2, 2)
        self.model, self.optimizer = self.accelerator.prepare(model, torch.optim.Adam(model.parameters()))

    def fit(self):
        for batch in range(3):
            loss = self.model(batch).sum()
            loss.backward()
            self.optimizer.step()

Runner().fit()
"""
    assert "            self.accelerator.backward(loss)\n" in fix(text, TITANS)


LEFT = [
    ('model = AutoModel.from_pretrained("m", dtype=getattr(torch, "float16"))', "the dtype is computed"),
    (f'{LOAD}; model.to(f"cuda:{{0}}")', "the device is computed"),
    (f"{LOAD}; index = 0; model.cuda(index)", "the number may be used for other things too"),
]


@pytest.mark.parametrize(("line", "reason"), LEFT)
def test_what_is_not_mechanical_is_left_with_its_reason(line: str, reason: str) -> None:
    text = SCRIPT.format(line, "accelerator.backward(loss)")
    fixing = fix_script(text, "t.py", lint(text, "t.py", [TITANS]).findings)
    assert fixing.text == text
    assert [item.reason[: len(reason)] for item in fixing.unfixed] == [reason]


def test_a_function_without_the_accelerator_is_left() -> None:
    text = """\
import torch
from accelerate import Accelerator

def step(model, optimizer, batch):
    loss = model(batch.to("cuda:0")).sum()
    loss.backward()
    optimizer.step()

def main():
    accelerator = Accelerator(mixed_precision="fp16")
    model = torch.nn.Linear(2, 2)
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters()))
    for batch in range(3):
        step(model, optimizer, batch)

main()
"""
    fixing = fix_script(text, "t.py", lint(text, "t.py", [TITANS]).findings)
    assert fixing.text == text
    assert {(item.code, item.reason) for item in fixing.unfixed} == {
        ("D201", "no Accelerator is in scope: pass it to this function"),
        ("P124", "no Accelerator is in scope: pass it to this function"),
    }
    given = text.replace("def step(", "def step(accelerator, ").replace(
        "step(model,", "step(accelerator, model,"
    )
    assert "    accelerator.backward(loss)\n" in fix(given, TITANS)


def test_an_item_of_the_load_arguments_is_dropped() -> None:
    text = """\
import torch
from transformers import AutoModel, Trainer, TrainingArguments
kwargs = {"dtype": torch.float32}
kwargs["device_map"] = "auto"  # as on the laptop
trainer = Trainer(AutoModel.from_pretrained("m", **kwargs), TrainingArguments("o"))
trainer.train()
"""
    after = fix(text, TITANS)
    assert after == text.replace('kwargs["device_map"] = "auto"  # as on the laptop\n', "")


def test_the_scripts_own_modules_are_fixed_with_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "from transformers import Trainer, TrainingArguments\n"
        "from loading import load\n"
        "Trainer(load(), TrainingArguments('o', fp16=True)).train()\n"
    )
    loading = tmp_path / "loading.py"
    loading.write_bytes(
        b"import torch\r\nfrom transformers import AutoModel\r\n"
        b"def load():\r\n    return AutoModel.from_pretrained('m', dtype=torch.float16)\r\n"
    )
    words = [str(tmp_path / "train.py"), "--fix", "--yes", "--capability", "7.5"]
    result = click.testing.CliRunner().invoke(command, words, standalone_mode=False)
    assert "errors: 1 before, 0 after this change" in result.output
    assert b"dtype=torch.float32)\r\n" in loading.read_bytes()
