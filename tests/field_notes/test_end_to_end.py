"""Every field note from its faulty line to a falling loss, through the commands that a user types.

Lint names the line; preflight refuses; with that ignored the rehearsal does not let it start; without a
rehearsal the guard stops it; the corrected script trains. torch, transformers, accelerate and peft are real.
"""

import json
import math
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.field_notes import scripts
from tests.field_notes.ranks import LIGHT, STOPPED, shimmed
from tests.torchless import write_python
from tests.users import TORCH_BUILD, User

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(shutil.which("cc") is None, reason="the simulated NVML needs a C compiler"),
]

MODEL = "MODEL"


@dataclass(frozen=True)
class Note:
    """One field note: its script, where it ran, and what each line of defence must say of it."""

    script: str
    corrected: str
    rule: str  # what lint calls it
    line: str  # the words on the faulty line
    precision: str
    guard: str
    step: int
    cause: tuple[str, ...]  # words of the guard's message or fix
    gpus: str = ""  # a profile of simulated GPUs; "" = CPU ranks
    shims: dict[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    precision_args: dict[str, list[str]] = field(default_factory=dict)
    passed: tuple[str, ...] = ()  # what gpulaunch itself adds to the script's arguments
    ranks: int = 1


NOTES = {
    "0": Note(
        scripts.NOTE_0,
        scripts.NOTE_0_FIXED,
        rule="P101",
        line="torch_dtype=torch.float16",
        precision="fp16",
        guard="G1",
        step=1,
        cause=("Attempting to unscale FP16 gradients", "dtype=torch.float32"),
        shims=shimmed(f"cpu_scaler {LIGHT} known_models"),
        args=(MODEL,),
    ),
    "1": Note(
        scripts.NOTE_1,
        scripts.NOTE_1_FIXED,
        rule="P101",
        line=".to(torch.float16)",
        precision="fp16",
        guard="G1",
        step=1,
        cause=("Attempting to unscale FP16 gradients", "0.weight"),
        gpus="titan-rtx",
        shims=shimmed(f"pretended_gpus {LIGHT}", SHIM_CAPABILITY="7.5"),
        precision_args={"fp16": ["--fp16"], "bf16": []},
        passed=("--fp16",),
    ),
    "2": Note(
        scripts.NOTE_2,
        scripts.NOTE_2_FIXED,
        rule="P102",
        line="model.half()",
        precision="no",
        guard="G1",
        step=1,
        cause=("the weights become NaN in step 1", "lora_A"),
        shims=shimmed(f"{LIGHT} known_models"),
        args=(MODEL,),
    ),
    "3": Note(
        scripts.NOTE_3,
        scripts.NOTE_3_FIXED,
        rule="P102",
        line="model.to(getattr",
        precision="no",
        guard="G1",
        step=1,
        cause=("pure fp16", "the weights become NaN in step 1"),
        gpus="p100",
        shims=shimmed(f"pretended_gpus {LIGHT}", SHIM_CAPABILITY="6.0"),
    ),
    "4": Note(
        scripts.NOTE_4,
        scripts.NOTE_4_FIXED,
        rule="P111",
        line="model.to(torch.bfloat16)",
        precision="bf16",
        guard="G3",
        step=8,
        cause=("between step 7 and step 8", "expected dtype float for `end`"),
        gpus="2xl40s",
        shims=shimmed(f"pretended_gpus {LIGHT}", SHIM_CAPABILITY="8.9"),
        ranks=2,
    ),
}
each_note = pytest.mark.parametrize("note", NOTES.values(), ids=[f"note_{name}" for name in NOTES])


def without_torch(home: Path) -> None:
    """Have ranks started by the stand-in of tests/torchless; they themselves import the real torch."""
    entry = {"python": write_python(home)}
    (home / "hosts.yaml").write_text(json.dumps({"hosts": {"localhost": entry}}))


def user_of(note: Note, home: Path, tiny_model: str, *, corrected: bool = False) -> User:
    user = User(home, note.gpus)
    args = [tiny_model if word == MODEL else word for word in note.args]
    gpus = "all" if corrected else 1  # one rank is enough to see a fault
    if not corrected or note.ranks == 1:  # accelerate's own launcher, two seconds of torch, starts several
        without_torch(home)
    config: dict[str, object] = {
        "gpus": gpus if note.gpus else "none",
        "args": args,
        "env": dict(note.shims),
        "output": "out",
        "engine": "accelerate",
    }
    if note.precision_args:
        config["precision_args"] = note.precision_args
    user.write(note.corrected if corrected else note.script, config)
    return user


def faulty_line(note: Note) -> int:
    return 1 + note.script[: note.script.index(note.line)].count("\n")


@each_note
def test_lint_names_the_line_and_preflight_refuses_it(tmp_path: Path, tiny_model: str, note: Note) -> None:
    user = user_of(note, tmp_path, tiny_model)
    place = f"train.py:{faulty_line(note)}"

    code, linted = user.ask("lint", "--config", "./job.yaml", "--precision", note.precision)
    assert code == 1
    errors = [each for each in linted["findings"] if each["severity"] == "error"]
    assert (note.rule, faulty_line(note)) in [(each["code"], each["line"]) for each in errors]

    code, document = user.ask("preflight", "--config", "./job.yaml", "--ignore", TORCH_BUILD)
    assert code == 1
    assert document["would_use"]["precision"] == note.precision, document["would_use"]
    (stopping,) = [
        each for each in document["findings"] if each["blocks_launch"] and place in each["subject"]
    ]
    assert stopping["code"] == "SCR001"
    assert note.rule in stopping["message"]
    assert stopping["fix"]

    refused = user.gpulaunch("run", "-c", "./job.yaml", "--ignore", TORCH_BUILD)
    assert refused.returncode == 1
    assert place in refused.stdout
    assert "nothing was started" in refused.stderr
    assert not (tmp_path / "gpulaunch-runs").exists()


@each_note
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
@pytest.mark.parametrize("note", [NOTES["4"]], ids=["note_4"])
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


@each_note
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

    code, linted = user.ask("lint", "--config", "./job.yaml", "--processes", "2")
    assert code == 1
    assert ("D201", line) in [(each["code"], each["line"]) for each in linted["findings"]]

    done = user.gpulaunch("run", "-c", "./job.yaml", "--ignore", f"SCR001,{TORCH_BUILD}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 ranks as planned: world size 2, each on its own GPU" in done.stdout
    assert user.plan()["nodes"][0]["ranks"]["single_gpu_visible"]
