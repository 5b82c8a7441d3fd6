"""gpulaunch lint as people and programs meet it."""

import json
import subprocess
import sys
from pathlib import Path

import click
import click.testing
import pytest

from launcher.commands._usage_errors import describe_usage_error
from launcher.commands.lint import command
from launcher.errors import BadInput
from launcher.lint.formats import lint_lines
from launcher.terminal.cell_width import paint_line
from preflight.script.lint import lint
from tests.pages.lint import render_page

SCRIPT = """\
import torch
from transformers import AutoModel, Trainer, TrainingArguments
model = AutoModel.from_pretrained("m", torch_dtype=torch.float16)
Trainer(model, TrainingArguments("o", fp16=True)).train()
"""


def run(*words: str) -> tuple[int, str]:
    result = click.testing.CliRunner().invoke(command, words, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    code: int = result.return_value
    return code, result.output


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return str(path)


def test_an_error_is_told_with_place_excerpt_reason_and_fix(script: str) -> None:
    code, output = run(script)
    lines = output.splitlines()
    assert code == 1
    assert lines[0].startswith(f"{script}:3:40 P101 error: ")
    assert lines[1].strip() == '| model = AutoModel.from_pretrained("m", torch_dtype=torch.float16)'
    assert lines[2].index("^") == lines[1].index("torch_dtype")
    assert any(line.strip().startswith("fix: load with dtype=torch.float32") for line in lines)
    assert lines[-1].startswith("1 error")


def test_a_clean_script_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "ok.py"
    path.write_text("import torch\n")
    assert run(str(path)) == (0, "no faults found\n")


def test_what_was_not_judged_is_no_pass_in_any_form(tmp_path: Path) -> None:
    path = tmp_path / "grows.py"
    path.write_text("n = 3\n" + "n = n * n\n" * 40)
    code, output = run(str(path))
    assert (code, output.splitlines()) == (
        1,
        [f"not judged: {path}:13: an integer of more than 4096 bits", "no faults found in what was judged"],
    )
    code, output = run(str(path), "--json")
    assert (code, json.loads(output)["problems"]) == (1, [f"{path}:13: an integer of more than 4096 bits"])
    code, output = run(str(path), "--sarif")
    (invocation,) = json.loads(output)["runs"][0]["invocations"]
    assert (code, invocation["executionSuccessful"]) == (1, False)
    assert "not judged" in invocation["toolExecutionNotifications"][0]["message"]["text"]


@pytest.mark.parametrize(
    "content", [b"x = 1\0\n", b"\xff\xfe x = 1\n", b"torch = '\xe9'\n", b"x = " + b"(" * 5000]
)
def test_a_file_that_is_no_text_of_python_is_told_and_not_fixed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.py"
    path.write_bytes(content)
    code, output = run("--fix", "--yes", str(path))
    assert "nothing that can be fixed mechanically" in output
    assert code == 1
    assert path.read_bytes() == content


def test_json_names_code_severity_file_line_message_and_fix(script: str) -> None:
    code, output = run(script, "--json")
    data = json.loads(output)
    finding, half = data["findings"]
    assert (code, data["schema"]) == (1, "gpulaunch.lint/1")
    assert (finding["code"], finding["severity"], finding["file"], finding["line"]) == (
        "P101",
        "error",
        script,
        3,
    )
    assert finding["message"]
    assert finding["fix"]
    assert finding["related"] == [{"file": script, "line": 4, "column": 39}]
    assert (half["code"], half["severity"], half["line"]) == ("P101", "info", 4)
    assert half["part_of"] == f"{script}:3"


def test_the_pages_of_the_rules_are_current() -> None:
    on_disk = (Path(__file__).parents[2] / "docs" / "lint.md").read_text(encoding="utf-8")
    assert on_disk == render_page(), "run: python -m tests.pages"


def test_sarif_is_what_code_hosts_take(script: str) -> None:
    data = json.loads(run(script, "--sarif")[1])
    (result,) = data["runs"][0]["results"]
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 4
    assert (data["version"], result["ruleId"], result["level"]) == ("2.1.0", "P101", "error")
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 3
    assert data["runs"][0]["tool"]["driver"]["rules"][0]["id"] == "P101"


def test_arguments_and_hardware_are_heeded(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    path.write_text(
        "import argparse\nfrom accelerate import Accelerator\np = argparse.ArgumentParser()\n"
        "p.add_argument('--mp')\na = p.parse_args()\nAccelerator(mixed_precision=a.mp)\n"
    )
    assert run(str(path))[0] == 0
    assert run(str(path), "--args", "--mp bf16", "--capability", "7.5")[0] == 1
    assert run(str(path), "--args", "--mp bf16", "--capability", "8.9")[0] == 0
    assert run(str(path), "--args", "--mp bf16", "--cpu")[0] == 0


def test_arguments_of_the_script_are_answered_with_the_option_for_them(script: str) -> None:
    with pytest.raises(BadInput, match="--lr is an argument of the script") as caught:
        run(script, "--", "--lr", "1 e", "--fp16")
    assert caught.value.fix == f"gpulaunch lint {script} --args " + """'--lr '"'"'1 e'"'"' --fp16'"""
    error = click.NoSuchOption("--lr", ctx=click.Context(command, info_name="gpulaunch lint"))
    assert describe_usage_error(error, "gpulaunch lint")[1].endswith("are one word: --args '--lr ...'")


def test_the_script_of_a_run_config_is_found() -> None:
    code, output = run("--config", "paper_r64")
    assert (code, "error" in output) == (0, False)


def test_what_is_not_python_is_not_a_pass(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    path.write_text("print 'two'\n")
    code, output = run(str(path))
    assert code == 1
    assert "not judged" in output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"x = 1\n\n# gr\xfc\xdfe\n", "t.py:3:1 P100 error: not Python: byte 0xfc is not utf-8"),
        (b"# gr\xfc\xdfe\n", "t.py:1:1 P100 error: not Python: invalid or missing encoding"),
        (b"# coding: latin-1\n# gr\xfc\xdfe\n", ""),
        (b'x = "\xef\xbf\xbd"\n', ""),  # what stands for a byte that is no character, as a character
    ],
)
def test_bytes_that_python_refuses_are_not_a_pass(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "t.py"
    path.write_bytes(text)
    code, output = run(str(path))
    assert (code, said in output, "save it as UTF-8" in output) == (bool(said), True, bool(said)), output


@pytest.mark.parametrize("form", [(), ("--json",), ("--sarif",)], ids=str)
def test_quiet_leaves_information_out_of_every_form(form: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    path.write_text(
        SCRIPT.partition("model =")[0] + 'Trainer(m, TrainingArguments("o", bf16=True)).train()\n'
    )
    codes = [("P131" in run(*words, *form, str(path))[1]) for words in ((), ("--quiet",))]
    assert codes == [True, False]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--args", "'a", __file__),
        ("/nowhere/x.py",),
        ("--capability", "new", __file__),
        ("--version", "trl", __file__),
    ],
)
def test_mistakes_on_the_command_line_are_told(words: tuple[str, ...]) -> None:
    with pytest.raises(BadInput):
        run(*words)


def test_escapes_in_a_script_do_not_reach_the_terminal() -> None:
    text = SCRIPT.replace('"m"', '"\x1b[2Jm"')
    result = lint(text, "t.py")
    lines = lint_lines([result], lambda _: text.splitlines())
    assert all("\x1b" not in paint_line(line, colour=True) for line in lines)


def test_what_python_warns_of_in_a_script_is_no_error_and_not_printed(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text('import torch\n\nname = "\\d\x1b[31m"\n')
    words = [sys.executable, "-W", "error", "-m", "launcher", "lint", str(path)]
    answer = subprocess.run(words, check=False, capture_output=True, text=True)
    assert (answer.returncode, answer.stderr) == (0, ""), answer


LOOKED_UP = """
import importlib, sys
importlib.import_module(f"trainers.{sys.argv[1]}_trainer").Trainer().train([])
"""
TRAINER = """
import torch
class Trainer:
    def train(self, batches):
        model = torch.nn.Linear(1, 1).to("cuda:0")
        for batch in batches:
            model(batch).sum().backward()
"""


def test_what_was_read_although_nothing_calls_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(LOOKED_UP)
    (tmp_path / "trainers").mkdir()
    (tmp_path / "trainers" / "own_trainer.py").write_text(TRAINER)
    code, output = run(str(path), "--processes", "2")
    assert code == 0
    assert "D201 warning: every rank uses GPU 0, where Trainer.train is used" in output
    assert "no training was reached; read as if the script used it: Trainer.train" in output
    _, output = run(str(path), "--json")
    assert json.loads(output)["read_alone"] == ["Trainer.train"]
