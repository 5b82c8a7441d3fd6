"""Every field note from its faulty line to a falling loss, through the commands that a user types.

Lint names the line; preflight refuses; with that ignored the rehearsal does not let it start; without a
rehearsal the guard stops it; the corrected script trains. torch, transformers, accelerate and peft are real.
"""

import json
import math
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from launcher.commands.lint import command as lint_command
from tests.field_notes import scripts
from tests.field_notes.notes import NOTES, Note
from tests.field_notes.ranks import LIGHT, STOPPED, shimmed
from tests.torchless import write_python
from tests.users import TORCH_BUILD, User

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(shutil.which("cc") is None, reason="the simulated NVML needs a C compiler"),
]


def notes(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "note", [NOTES[each] for each in names], ids=[f"note_{each}" for each in names]
    )


def without_torch(home: Path) -> None:
    """Have ranks started by the stand-in of tests/torchless; they themselves import the real torch."""
    entry = {"python": write_python(home)}
    (home / "hosts.yaml").write_text(json.dumps({"hosts": {"localhost": entry}}))


def user_of(note: Note, home: Path, tiny_model: str, *, corrected: bool = False) -> User:
    user = User(home, note.gpus)
    gpus = "all" if corrected else 1  # one rank is enough to see a fault
    if not corrected or note.ranks == 1:  # accelerate's own launcher, two seconds of torch, starts several
        without_torch(home)
    config: dict[str, object] = {
        "gpus": gpus if note.gpus else "none",
        "args": note.words(tiny_model),
        "env": shimmed(f"{note.shim} {LIGHT}", SHIM_CAPABILITY=note.capability),
        "output": "out",
        "engine": "accelerate",
    }
    if note.precision_args:
        config["precision_args"] = note.precision_args
    user.write(note.corrected if corrected else note.script, config)
    return user


def lint(user: User, *words: str) -> list[tuple[str, int]]:
    """Return code and line of each error that lint finds in the job."""
    path = str(user.home / "job.yaml")  # by its whole path: a process reads the file of one path once
    done = CliRunner().invoke(lint_command, ["--json", "--config", path, *words], standalone_mode=False)
    assert done.return_value == 1
    errors = [each for each in json.loads(done.stdout)["findings"] if each["severity"] == "error"]
    return [(each["code"], each["line"]) for each in errors]


@notes(*NOTES)
def test_lint_names_the_line_and_preflight_refuses_it(tmp_path: Path, tiny_model: str, note: Note) -> None:
    user = user_of(note, tmp_path, tiny_model)
    assert (note.rule, note.faulty_line) in lint(user, "--precision", note.precision)

    code, document = user.ask("preflight", "--config", "./job.yaml", "--ignore", TORCH_BUILD)
    assert code == 1
    assert document["would_use"]["precision"] == note.precision, document["would_use"]
    place = f"train.py:{note.faulty_line}"
    (stopping,) = [
        each for each in document["findings"] if each["blocks_launch"] and place in each["subject"]
    ]
    assert stopping["code"] == "SCR001"
    assert note.rule in stopping["message"]
    assert stopping["fix"]


@notes("4")
def test_a_run_starts_nothing_of_what_preflight_refuses(tmp_path: Path, tiny_model: str, note: Note) -> None:
    user = user_of(note, tmp_path, tiny_model)
    refused = user.gpulaunch("run", "-c", "./job.yaml", "--ignore", TORCH_BUILD)
    assert refused.returncode == 1
    assert f"train.py:{note.faulty_line}" in refused.stdout
    assert "nothing was started" in refused.stderr
    assert not (tmp_path / "gpulaunch-runs").exists()


# test_field_notes.py rehearses ranks of all notes; what is printed is their message.
@notes("1", "4")
def test_a_rehearsal_does_not_let_it_start(tmp_path: Path, tiny_model: str, note: Note) -> None:
    user = user_of(note, tmp_path, tiny_model)
    done = user.gpulaunch("run", "--rehearse", "-c", "./job.yaml", "--ignore", f"SCR001,{TORCH_BUILD}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"[{note.guard}]" in done.stdout
    assert all(words in done.stdout for words in note.cause), done.stdout
    assert "nothing was started: the rehearsal has not proven this run" in done.stderr
    assert len(list((tmp_path / "gpulaunch-runs").iterdir())) == 1, "the rehearsal's own run and no other"
    assert not (tmp_path / ".gpulaunch-rehearsal").exists()
    assert not (tmp_path / "out").exists()


# Of the other notes test_field_notes.py tries the guard in a rank, and the rehearsal above what it prints.
@notes("4")
def test_the_guard_stops_it_and_names_the_cause(tmp_path: Path, tiny_model: str, note: Note) -> None:
    user = user_of(note, tmp_path, tiny_model)
    done = user.gpulaunch("run", "-c", "./job.yaml", "--ignore", f"SCR001,{TORCH_BUILD}")
    assert done.returncode == STOPPED, done.stdout + done.stderr
    outcome = user.outcome()
    assert (outcome["verdict"], outcome["exit_code"]) == ("failed", STOPPED)
    cause = outcome["root_cause"]
    assert f"at optimizer step {note.step} [{note.guard}]" in cause["summary"]
    said = "\n".join([cause["summary"], *cause["last_lines"]])
    assert all(words in said for words in note.cause), said
    assert "fix: " in said


@notes("2", "3")
def test_preflight_lets_the_corrected_script_start(tmp_path: Path, tiny_model: str, note: Note) -> None:
    """test_field_notes.py trains it."""
    user = user_of(note, tmp_path, tiny_model, corrected=True)
    _, document = user.ask("preflight", "--config", "./job.yaml", "--ignore", TORCH_BUILD)
    assert not [each for each in document["findings"] if each["blocks_launch"]]
    assert document["would_use"]["precision"] == note.precision


@notes("0", "1", "4")
def test_the_corrected_script_trains_to_a_falling_loss(tmp_path: Path, tiny_model: str, note: Note) -> None:
    user = user_of(note, tmp_path, tiny_model, corrected=True)
    done = user.gpulaunch("run", "-c", "./job.yaml", "--ignore", TORCH_BUILD)
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = user.outcome()
    assert outcome["verified"]["mismatches"] == []
    plan = user.plan()
    assert (plan["mixed_precision"], plan["world_size"]) == (note.precision, note.ranks)
    assert all(word in plan["nodes"][0]["argv"] for word in note.passed)
    for rank in range(note.ranks):
        (found,) = re.findall(r"LOSSES (\[.*\])", user.log(rank))
        seen = [float(each) for each in json.loads(found.replace("'", '"'))]
        assert all(map(math.isfinite, seen))
        assert seen[-1] < 0.9 * seen[0]


# --- note 4 again: a codec on cuda:0 in every rank, and GPUs that take one process each ---


def test_a_codec_on_cuda_0_is_named_and_each_rank_is_shown_its_own_gpu(tmp_path: Path) -> None:
    user = User(tmp_path / "user", "2xl40s-exclusive")
    without_torch(user.home)
    (tmp_path / "contexts").mkdir()
    shims = shimmed(
        f"pretended_gpus {LIGHT}", SHIM_CAPABILITY="8.9", SHIM_EXCLUSIVE=str(tmp_path / "contexts")
    )
    user.write(scripts.NOTE_4_CODEC, {"gpus": "all", "env": shims})
    line = 1 + scripts.NOTE_4_CODEC[: scripts.NOTE_4_CODEC.index("cuda:0")].count("\n")

    assert ("D201", line) in lint(user, "--processes", "2")

    done = user.gpulaunch("run", "-c", "./job.yaml", "--ignore", f"SCR001,{TORCH_BUILD}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 ranks as planned: world size 2, each on its own GPU" in done.stdout
    assert user.plan()["nodes"][0]["ranks"]["single_gpu_visible"]
