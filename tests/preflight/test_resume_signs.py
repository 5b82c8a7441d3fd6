"""Whether a script that is started again continues from a checkpoint, by its own text."""

import pytest

from preflight.script.resume_signs import ResumeSigns, gives_checkpoint, read_resume_signs

OPTION = """\
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--resume", default=None)
a = p.parse_args()
"""


@pytest.mark.parametrize(
    "line",
    [
        'state = torch.load(a.resume or "out/latest.pt")',
        "state = torch.load(a.resume or find_checkpoint())",
        'resume = a.resume or max(glob.glob("out/checkpoint-*"), key=step_of)',
        "trainer.train(resume_from_checkpoint=True)",
        'trainer.fit(model, ckpt_path="last")',
        "LightningCLI(Model)",
        'exp_manager(trainer, {"auto_resume": 1})',
        "if a.resume is None and files: a.resume = files[-1]",
        'path = a.resume or os.path.join(a.out, "model.pt")',
        "torch.load(a.resume if a.resume else a.out)",
        'if os.path.isfile(os.path.join(a.out, "ckpt.pt")): torch.load(a.out)',
    ],
)
def test_a_script_may_look_for_its_last_checkpoint_itself(line: str) -> None:
    given = "if os.path.exists(a.checkpoint_dir): pass\nif a.resume or a.test: torch.load(a.resume)\n"
    assert not read_resume_signs(OPTION + given, "t.py").finds
    assert read_resume_signs(OPTION + line, "t.py").finds


@pytest.mark.parametrize(
    "line",
    [
        'model.load_state_dict(torch.load("m.pt"))',
        "engine.load_checkpoint(folder)",
        'accelerator.load_state("out")',
        "if os.path.exists(path): model = Model.from_pretrained(path)",
        "step = dcp.load(state, checkpoint_id=path)",
        "weights = load_file(path)",
    ],
)
def test_a_script_may_load_one(line: str) -> None:
    assert read_resume_signs(f"import os, torch\n{line}\n", "t.py").loads


@pytest.mark.parametrize(
    "line",
    [
        'loader = torch.utils.data.DataLoader(load_dataset("imdb"))',
        "config = yaml.safe_load(text)",
        "torch.save(model.state_dict(), path)  # load it with torch.load(path)",
        'config = json.load(open("c.json"))',
    ],
)
def test_what_reads_no_checkpoint_loads_none(line: str) -> None:
    assert read_resume_signs(f"import json, torch\n{line}\n", "t.py") == ResumeSigns(loads=False)


def test_the_option_of_a_module_of_its_own_counts_and_what_was_not_read_may_load() -> None:
    modules = {"options.py": OPTION.replace("default=None", 'action="store_true"')}
    signs = read_resume_signs("import options\nprint(options.a)\n", "t.py", modules.get)
    assert (signs.option, signs.takes_path, str(signs.place), signs.finds) == (
        "--resume",
        False,
        "options.py:3",
        False,
    )
    assert read_resume_signs("import company.training\n", "t.py").loads


def test_an_option_that_takes_a_number_takes_no_path() -> None:
    assert read_resume_signs(OPTION.replace("default=None", "type=int, default=0"), "t.py").finds


def test_options_for_other_things_are_none() -> None:
    text = (
        'import argparse\np = argparse.ArgumentParser()\np.add_argument("--resume_every", type=int)\nload()\n'
    )
    assert read_resume_signs(text, "t.py").option == ""


@pytest.mark.parametrize(
    ("words", "gives"),
    [
        (("--resume", "x"), True),
        (("--init_from=resume",), True),
        (("--load", "a.pt"), True),
        (("SNAPSHOT_PATH",), True),
        (("--lr", "1e-4", "--data", "d"), False),
        (("--download",), False),
        (
            ("--gradient_checkpointing", "--save_ckpt_every=3", "--load_in_8bit", "--load_best_model_at_end"),
            False,
        ),
        (("--lr_restart", "3", "--last_layer", "x"), False),
        (("--checkpoint_dir", "out"), True),
        (("--out", "out/save_last"), True),
    ],
)
def test_words_of_a_launch_may_give_a_checkpoint(words: tuple[str, ...], *, gives: bool) -> None:
    assert gives_checkpoint(words) is gives


@pytest.mark.parametrize(
    ("decorator", "option", "takes_path", "finds"),
    [
        ('@click.option("--resume", default=None, type=click.Path())', "--resume", True, False),
        ('@click.option("-r", "--resume-from", "resume")', "--resume-from", True, False),
        ('@click.option("--resume", is_flag=True)', "--resume", False, False),
        ('@click.option("--resume", default="auto")', "--resume", True, True),
        ('@click.option("--lr", type=float)', "", True, False),
    ],
)
def test_an_option_of_click_is_one_too(decorator: str, option: str, *, takes_path: bool, finds: bool) -> None:
    text = f"import click, torch\n@click.command()\n{decorator}\ndef main(**given):\n    train(given)\n"
    signs = read_resume_signs(text, "t.py")
    assert (signs.option, signs.takes_path, signs.finds) == (option, takes_path, finds)
