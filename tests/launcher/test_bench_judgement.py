"""The development sets of lint and diagnose: labels that hold together, texts that can be fetched, counts."""

import subprocess
from pathlib import Path

import pytest

from bench import judgement, judgement_texts
from bench.judgement_faults import plant
from bench.judgement_texts import LogLabel, ScriptLabel
from preflight.diagnosis.signatures.table import SIGNATURES
from preflight.script.rules.all_rules import list_rule_codes

SCRIPTS = judgement_texts.script_labels()
LOGS = judgement_texts.log_labels()


def test_no_repository_is_in_both_sets_and_no_text_twice() -> None:
    for labels in (SCRIPTS, LOGS):
        parts = {(label.repository, label.part) for label in labels}
        assert len(parts) == len({repository for repository, _ in parts})
    assert len({(label.repository, label.path) for label in SCRIPTS}) == len(SCRIPTS)
    assert len({label.name for label in LOGS}) == len(LOGS)


def test_labels_name_what_the_tools_know() -> None:
    known = {row.code for row in SIGNATURES} | {row.slug for row in SIGNATURES}
    assert {cause for label in LOGS for cause in label.causes} <= known | {
        "benign",
        "user-exception",
        "nan-loss",
    }
    assert {code for label in SCRIPTS for code in label.required | label.tolerated} <= set(list_rule_codes())
    assert {label.launch for label in SCRIPTS} == {"ranks", "spawn", "one"}
    assert {script.part for script in SCRIPTS} | {log.part for log in LOGS} == {"work", "held"}


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a script, a log and a notebook, fetched into a directory of texts."""
    home = tmp_path_factory.mktemp("source")
    (home / "train.py").write_text("import os\nimport torch\ntorch.cuda.set_device(0)\n", encoding="utf-8")
    (home / "run.log").write_text(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n", encoding="utf-8"
    )
    (home / "nb.ipynb").write_text(
        '{"cells": [{"outputs": [{"text": ["step 1 ", "loss 2.0\\n"]}]}]}', "utf-8"
    )
    (home / "weights.bin").write_text("0", encoding="utf-8")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for argv in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "x")):
        subprocess.run((*git, *argv), cwd=home, check=True)
    commit = subprocess.run((*git, "rev-parse", "HEAD"), cwd=home, check=True, capture_output=True, text=True)
    into = tmp_path_factory.mktemp("texts")
    folder = judgement_texts.folder_of(into, "ana/ft")
    wanted = {"run.log", "nb.ipynb"}
    assert judgement_texts.fetch_one(folder, home.as_uri(), commit.stdout.strip(), wanted) == ""
    assert {path.name for path in folder.iterdir()} == {"train.py", *wanted}
    (into / "threads").mkdir()
    (into / "threads" / "ana+ft+7.txt").write_text("ValueError: x\n", encoding="utf-8")
    return into


def test_a_repository_of_logs_alone_is_fetched(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "a+b"
    home.mkdir()
    (home / "run.log").write_text("step 1\n", encoding="utf-8")
    git = ("git", "-C", str(home), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for argv in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "x")):
        subprocess.run((*git, *argv), check=True)
    commit = subprocess.run((*git, "rev-parse", "HEAD"), check=True, capture_output=True, text=True).stdout
    assert judgement_texts.fetch_one(folder, str(home), commit.strip(), {"run.log"}) == ""
    assert [path.name for path in folder.iterdir()] == ["run.log"]


def test_what_cannot_be_fetched_is_named(tmp_path: Path) -> None:
    reason = judgement_texts.fetch_one(tmp_path / "a+b", (tmp_path / "none.git").as_uri(), "0" * 40, set())
    assert reason.startswith("fatal:")


def test_lint_is_counted_by_script_and_planted_fault(texts: Path) -> None:
    none: frozenset[str] = frozenset()
    labels = [
        ScriptLabel("work", "ana/ft", "0", "train.py", "ranks", "read", frozenset({"D201", "D204"}), none),
        ScriptLabel("work", "ana/ft", "0", "train.py", "ranks", "read", none, none),
        ScriptLabel("work", "ana/ft", "0", "train.py", "one", "read", none, none),
        ScriptLabel("work", "ana/ft", "0", "absent.py", "one", "read", none, none),
    ]
    score = judgement.score_scripts(labels, texts)
    assert (score.scripts, score.absent) == (3, 1)
    assert (score.found, score.required) == ({"D201": 1}, {"D201": 1, "D204": 1})
    assert {level.value: count for level, count in score.blamed.items()} == {"error": 1, "warning": 0}
    assert score.planted == score.reported == {"CUDA_VISIBLE_DEVICES": 2}
    assert [round(target.ratio, 2) for target in judgement.lint_targets(score)] == [0.33, 0.0, 0.75]
    assert "  D204: 0 of 1 labelled faults reported" in list(judgement.lint_lines(score))


def test_diagnose_is_counted_by_cause_and_confidence(texts: Path) -> None:
    labels = [
        LogLabel("work", "ana/ft", "run.log", "0", frozenset({"S20"})),
        LogLabel("work", "ana/ft", "run.log", "0", frozenset({"disk-full"})),
        LogLabel("work", "ana/ft", "nb.ipynb", "0", frozenset({"benign"})),
        LogLabel("work", "ana/ft", "issue:7", "-", frozenset({"user-exception"})),
        LogLabel("work", "ana/ft", "issue:8", "-", frozenset({"user-exception"})),
    ]
    score = judgement.score_logs(labels, texts)
    assert (score.logs, score.absent, score.healthy, score.cleared) == (4, 1, 1, 1)
    assert (score.said["certain"], score.right["certain"], score.first) == (2, 1, 1 + score.right["possible"])
    assert any(line.startswith("wrong    ana/ft run.log: S20 certain") for line in score.each)


@pytest.mark.parametrize(
    ("script", "planted"),
    [
        ("scaler.unscale_(opt)\ntorch.nn.utils.clip_grad_norm_(p, 1)\n", [("clip without unscale_", 1)]),
        ("s = GradScaler(enabled=x)\nscaler.unscale_(opt)\nclip_grad_norm_(p, 1)\n", []),
        ("for b in l:\n    accelerator.backward(loss)\n", [("loss.backward()", 2)]),
        ("d = torch.device('cuda', args.local_rank)\n", [("literal GPU", 1)]),
        ("a = TrainingArguments(\n    'out',\n)\n", [("fp16 and bf16", 2)]),
        ("a = TrainingArguments('out', fp16=True)\n", []),
        ("m = AutoModelForCausalLM.from_pretrained('x')\nTrainer(m)\n", [('device_map="auto"', 1)]),
        ("if q:\n    m = AutoModelForCausalLM.from_pretrained('x')\nTrainer(m)\n", []),
        (
            "s = DistributedSampler(d)\nfor e in r:\n    sampler.set_epoch(e)\n    go()\n",
            [("no set_epoch", 1)],
        ),
        ("s = DistributedSampler(d)\nfor e in r:\n    sampler.set_epoch(e)\ngo()\n", []),
        ("for b in l:\n    scaler.step(o)\n    scaler.update()\n", [("no scaler.update()", 2)]),
        (
            "s = ShardedGradScaler()\nfor b in l:\n    scaler.step(o)\n    scaler.update()\n",
            [("optimizer.step()", 3)],
        ),
        (
            "s = DistributedSampler(d)\nl = DataLoader(\n    d,\n    sampler=s,\n)\n",
            [("no sampler", 2), ("shuffle beside a sampler", 4)],
        ),
        ("s = DistributedSampler(d) if m else None\ns = t\nl = DataLoader(d, sampler=s)\n", []),
        (
            "import torch.distributed as dist\ndist.init_process_group()\nif rank == 0:\n    save()\n",
            [("barrier of rank 0", 4)],
        ),
        ("if args.rank == 0:\n    torch.save(m, 'm.pt')\n", [("saved by every rank", 2)]),
        ("if args.rank == 0:\n    torch.save(m, f'{args.rank}.pt')\n", []),
        ("def f():\n    m = DDP(m, device_ids=[r])\n    opt.step()\n", [("no DDP", 3)]),
        ("def f():\n    m = DDP(m, device_ids=[r])\n    opt.step()\n    m.module.eval()\n", []),
        ("model = FSDP(model)\noptimizer = Adam(model.parameters())\n", [("optimizer before FSDP", 1)]),
        (
            "m = DDP(m, find_unused_parameters=True)\nx = checkpoint(f, x, use_reentrant=False)\n",
            [("reentrant checkpoint", 2)],
        ),
        ("s = GradScaler()\nscaler.step(opt)\n", [("optimizer.step()", 2)]),
        ("def (:\n", []),
    ],
)
def test_a_fault_is_planted_only_where_the_text_shows_one(
    script: str, planted: list[tuple[str, int]]
) -> None:
    faults = list(plant(script))
    assert [(fault.kind, fault.line) for fault in faults] == planted
    assert all(fault.text != script for fault in faults)
