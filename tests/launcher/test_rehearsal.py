"""Rehearsals judged, kept and compared; and one carried out, through the command."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.config.config_overrides import Overrides
from launcher.config.run_config import load_run_config
from launcher.follow.failures import Failure
from launcher.follow.outcome import EndCause, Measurements, Outcome, build_outcome
from launcher.follow.run_state import RunState
from launcher.planning.plan import ScriptFile
from launcher.rehearsal.batch_args import halve_batch
from launcher.rehearsal.proof_store import (
    Fingerprint,
    describe_proof,
    fingerprint,
    list_changes_since,
    save_proof,
)
from launcher.rehearsal.rehearse import RehearsalResult, build_rehearsal_job, calculate_gpu_use
from launcher.rehearsal.render import encode_rehearsal, render_rehearsal
from launcher.rehearsal.verdict import Proof, RehearsalVerdict, evaluate_rehearsal
from launcher.rundir.usage_series import RankSeries
from preflight.decide.script_args import get_option
from preflight.diagnosis.diagnose import diagnose
from preflight.facts.json_codec import encode
from preflight.job import Job, Precision
from tests.command_server import run_module
from tests.field_notes.ranks import LIGHT, SHIMS
from tests.hardware import l40s, titan
from tests.launcher.run_plans import NOWHERE, plan

ROOT = Path(__file__).parents[2]
MEASURED: dict[str, Any] = {
    "complete": True,
    "steps": 10,
    "performed": 10,
    "skipped": 0,
    "parameter_dtypes": {"float32": 4},
    "gradient_dtypes": {"float32": 4},
    "state_dtypes": {"float32": 8},
    "scaler": True,
    "scale": 65536.0,
    "mixed_precision": "fp16",
    "losses": [5.0, 4.0],
    "finite": {"loss": True, "gradients": True, "weights": True},
    "without_gradient": [],
    "trainable": 4,
    "devices": {"cuda:0": 4},
    "gpu": "GPU-0",
    "memory": {"rss_peak_mib": 512, "gpu_peak_reserved_mib": 20480, "gpu_total_mib": 24576},
    "step_s": [9.0, 0.5, 0.5, 0.5],
    "start_s": 3.0,
    "events": {"save": 4.5},
    "total_steps": 120,
    "samples_per_step": 64,
}


def with_measured(made: Outcome, by_rank: dict[int, dict[str, Any]]) -> Outcome:
    return replace(made, measurements=Measurements(rehearsal=by_rank))


def outcome(
    *, gpu: str | None = "GPU-0", precision: Precision = "fp16", measured: dict[str, Any] | None = None
) -> Outcome:
    made = build_outcome(RunState(plan((gpu,), precision=precision)), NOWHERE, 5.0, 1)
    return with_measured(made, {0: MEASURED if measured is None else measured})


def failing(verdict: RehearsalVerdict) -> list[tuple[str, bool | None]]:
    return [(proof.name, proof.ok) for proof in verdict.proofs if proof.ok is not True]


def judged(**changes: Any) -> list[tuple[str, bool | None]]:
    return failing(evaluate_rehearsal(outcome(measured={**MEASURED, **changes})))


def test_a_good_rehearsal_proves_everything() -> None:
    verdict = evaluate_rehearsal(outcome())
    assert verdict.proven
    assert failing(verdict) == []


@pytest.mark.parametrize(
    ("name", "ok", "changes"),
    [
        ("steps", False, {"performed": 0}),
        ("parameters", False, {"parameter_dtypes": {"float16": 4}, "gradient_dtypes": {"float16": 4}}),
        ("gradients' dtype", False, {"gradient_dtypes": {"bfloat16": 4}}),
        ("optimizer state", False, {"state_dtypes": {"float16": 8}}),
        ("precision", False, {"mixed_precision": "bf16"}),
        ("precision", False, {"scaler": False}),
        ("precision", None, {"mixed_precision": None}),
        ("loss", False, {"finite": {"loss": False, "gradients": True, "weights": True}}),
        ("loss", None, {"finite": {"loss": None, "gradients": True, "weights": True}}),
        ("gradients", False, {"finite": {"loss": True, "gradients": False, "weights": True}}),
        ("weights", False, {"finite": {"loss": True, "gradients": True, "weights": False}}),
        ("reached", False, {"without_gradient": ["lora_A"]}),
        ("device", False, {"gpu": "GPU-7"}),
        ("device", None, {"gpu": ""}),
        ("memory", None, {"memory": {}}),
    ],
)
def test_each_proof_can_fail_alone(name: str, changes: dict[str, Any], *, ok: bool | None) -> None:
    assert judged(**changes) == [(name, ok)]


def test_a_rank_that_told_nothing_proves_nothing() -> None:
    assert failing(evaluate_rehearsal(outcome(measured={}))) == [("steps", None)]


def test_a_cpu_rank_needs_the_cpu() -> None:
    on_cpu = {**MEASURED, "devices": {"cpu": 4}, "gpu": "", "mixed_precision": "no", "scaler": False}
    assert evaluate_rehearsal(outcome(gpu=None, precision="no", measured=on_cpu)).proven
    wrong = evaluate_rehearsal(
        outcome(gpu=None, precision="no", measured={**on_cpu, "devices": {"cuda:0": 4}})
    )
    assert failing(wrong) == [("device", False)]


def test_a_failed_run_is_never_proven() -> None:
    failed = replace(outcome(), verdict="failed", exit_code=86, why="the guard stopped rank 0")
    assert failing(evaluate_rehearsal(failed)) == [("end", False)]


def test_a_scratch_directory_left_behind_is_no_proof() -> None:
    verdict = evaluate_rehearsal(outcome(), (Proof("scratch", False, "could not be removed"),))
    assert not verdict.proven


def test_speed_leaves_the_first_step_out_and_gives_the_runs_duration() -> None:
    estimate = evaluate_rehearsal(outcome()).estimate
    assert estimate.step_s == 0.5
    assert estimate.run_s == 120 * 0.5 + 3.0
    assert estimate.samples_per_s == 128


def test_gpu_use_is_the_mean_of_the_samples_that_fell_into_the_steps() -> None:
    series = RankSeries(0, "a", at=[10.0, 20.0, 30.0, 40.0, 50.0])
    series.values["busy"] = [0.0, 80.0, float("nan"), 90.0, 0.0]
    measured = {**MEASURED, "stepping": [15.0, 41.0]}
    assert calculate_gpu_use(series, measured, 0.0) == 85.0
    assert calculate_gpu_use(series, {**MEASURED, "stepping": [5.0, 31.0]}, 10.0) == 85.0, (
        "the host's clock is behind"
    )
    assert calculate_gpu_use(series, {**MEASURED, "stepping": [11.0, 12.0]}, 0.0) is None
    assert calculate_gpu_use(series, {**MEASURED, "stepping": None}, 0.0) is None
    verdict = evaluate_rehearsal(outcome(), gpu_use={0: 85.0})
    assert verdict.ranks[0].gpu_use_percent == 85.0
    done = RehearsalResult(outcome(), verdict, NOW, (), ())
    assert encode_rehearsal(done, "x")["ranks"][0]["gpu_use_percent"] == 85.0
    assert any("GPUs 85 % busy" in line for line in render_rehearsal(done, Job()))


def test_samples_of_a_loop_of_its_own_are_those_that_all_ranks_took() -> None:
    made = build_outcome(RunState(plan(("GPU-0",), ("GPU-0",), precision="fp16")), NOWHERE, 5.0, 1)
    own = {name: value for name, value in MEASURED.items() if name not in ("total_steps", "samples_per_step")}
    took = {**own, "samples_per_step_here": 16.0}
    assert evaluate_rehearsal(with_measured(made, {0: took, 1: took})).estimate.samples_per_s == 64
    assert evaluate_rehearsal(with_measured(made, {0: took, 1: own})).estimate.samples_per_s is None


def test_the_slowest_rank_is_named() -> None:
    made = build_outcome(RunState(plan(("GPU-0",), ("GPU-0",), precision="fp16")), NOWHERE, 5.0, 1)
    slow = {**MEASURED, "step_s": [9.0, 0.9, 0.9]}
    assert evaluate_rehearsal(with_measured(made, {0: MEASURED, 1: slow})).estimate.slowest_rank == 1


# --- out of memory ---


def out_of_memory() -> Outcome:
    found = diagnose("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    cause = EndCause(Failure("a", 1.0, 0, 1, "rank 0 failed"), found)
    return replace(outcome(), verdict="failed", exit_code=1, why="oom", cause=cause)


@pytest.mark.parametrize(("free", "headroom"), [(None, "4.0"), (1024, "1.0"), (0, "0.0"), (9000, "4.0")])
def test_headroom_is_what_others_leave(free: int | None, headroom: str) -> None:
    memory = {**MEASURED["memory"], "gpu_free_mib": free}
    verdict = evaluate_rehearsal(outcome(measured={**MEASURED, "memory": memory}))
    (proof,) = (each for each in verdict.proofs if each.name == "memory")
    assert proof.text == f"peak 20.0 of 24.0 GiB, headroom {headroom} GiB"


def test_out_of_memory_says_what_to_try_next() -> None:
    verdict = evaluate_rehearsal(out_of_memory())
    assert verdict.out_of_memory
    job = Job(batch_args={"batch": "--bs", "accumulation": "--acc"})
    done = RehearsalResult(out_of_memory(), verdict, NOW, ("--bs", "8", "--acc=2"), ())
    assert "    --bs 4 --acc=4" in list(render_rehearsal(done, job))
    secret = replace(
        done, args=("--bs", "8", "--hub_token", "s3cret"), rejected_args=(("--hub_token", "s3cret"),)
    )
    assert "s3cret" not in "".join(render_rehearsal(secret, job)) + json.dumps(encode_rehearsal(secret, "x"))


@pytest.mark.parametrize(
    ("args", "smaller"),
    [
        (("--bs", "8", "--acc", "2"), ("--bs", "4", "--acc", "4")),
        (("--bs=8", "--acc=2"), ("--bs=4", "--acc=4")),
        (("--bs", "8"), ("--bs", "4", "--acc", "2")),
        (("--bs", "3", "--acc", "2"), ("--bs", "1", "--acc", "6")),
        (("--bs", "1", "--acc", "2"), None),
        (("--acc", "2"), None),
    ],
)
def test_half_the_batch_takes_twice_the_accumulation(
    args: tuple[str, ...], smaller: tuple[str, ...] | None
) -> None:
    assert halve_batch(args, {"batch": "--bs", "accumulation": "--acc"}) == smaller


def test_without_batch_args_nothing_is_halved() -> None:
    assert halve_batch(("--bs", "8"), {}) is None
    assert get_option(("--bsx", "8"), "--bs") is None


# --- the kept proof ---

NOW = Fingerprint("abc", "cfg", ("titan",), {"titan": ("GPU-0",)}, {"titan": {"torch": "2.13.0"}})


def test_what_has_changed_since_is_named() -> None:
    before = encode(NOW)
    assert list_changes_since(before, NOW) == ()
    assert list_changes_since(before, replace(NOW, script="xyz")) == ("the script",)
    assert list_changes_since(before, replace(NOW, config="other")) == ("the run config or its arguments",)
    assert list_changes_since(before, replace(NOW, gpus={"titan": ("GPU-9",)})) == ("the GPUs",)
    assert list_changes_since(before, replace(NOW, versions={"titan": {"torch": "2.14.0"}})) == (
        "torch on titan (2.13.0 -> 2.14.0)",
    )
    assert list_changes_since(before, replace(NOW, hosts=("l40s",), gpus={}, versions={})) == ("the hosts",)


def test_an_unreadable_script_is_never_called_unchanged() -> None:
    unread = replace(NOW, script="")
    assert "cannot be read" in list_changes_since(encode(unread), unread)[0]


def test_the_fingerprint_follows_script_config_and_hosts() -> None:
    facts = {"titan": titan()}
    job, sent = Job(script="t.py"), ScriptFile("t.py", "print(1)")
    first = fingerprint(job, facts, sent)
    assert first == fingerprint(replace(job, name="other"), facts, sent)
    assert first.script != fingerprint(job, facts, ScriptFile("t.py", "print(2)")).script
    assert first.config != fingerprint(replace(job, args=("--x",)), facts, sent).config
    assert first.hosts != fingerprint(job, {"l40s-01": l40s()}, sent).hosts


def test_a_rehearsal_adds_its_arguments_and_steps() -> None:
    job = build_rehearsal_job(Job(name="x", args=("a",), rehearse_args=("--output", "{scratch}")), 7)
    assert (job.args, job.rehearse_steps) == (("a", "--output", "{scratch}"), 7)


def test_the_document_is_plain_json() -> None:
    done = RehearsalResult(outcome(), evaluate_rehearsal(outcome()), NOW, ("a",), ())
    document = json.loads(json.dumps(encode_rehearsal(done, "x")))
    assert (document["schema"], document["proven"]) == ("gpulaunch.rehearsal/1", True)
    assert document["ranks"][0]["measured"]["scale"] == 65536.0


def test_a_rehearsal_that_was_stopped_leaves_the_proof_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    config, now = tmp_path / "job.yaml", NOW
    done = encode_rehearsal(RehearsalResult(outcome(), evaluate_rehearsal(outcome()), now, (), ()), "x")
    save_proof(config, done)
    save_proof(config, {**done, "proven": False, "run": {**done["run"], "verdict": "interrupted"}})
    assert describe_proof(config, now).endswith("all proven, and nothing has changed since")
    save_proof(config, {**done, "proven": False})
    assert "did not prove this run; gpulaunch rehearse shows" in describe_proof(config, now)


# --- the whole of it, here ---

SCRIPT = """
import os, sys, torch
from accelerate import Accelerator
accelerator = Accelerator()
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(320, 4, dtype=next(model.parameters()).dtype)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), batch_size=8)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for number, (batch,) in enumerate(loader, 1):
    loss = (model(batch) - 1).pow(2).mean()
    accelerator.backward(loss)
    if number % 2 == 0:
        optimizer.step(); optimizer.zero_grad()
os.makedirs("out", exist_ok=True)
open("out/done", "w").write("trained")
"""
CONFIG = "script: train.py\nsend_script: true\ngpus: none\nprocesses_per_host: 2\noutput: out\n"
ONE_RANK = CONFIG.replace("host: 2", "host: 1")


def gpulaunch(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "PYTHONPATH": f"{SHIMS}:{ROOT}",
        "SHIMS": LIGHT,
        "XDG_STATE_HOME": str(root / "state"),
        "OMP_NUM_THREADS": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    return run_module("launcher.cli", words, root, env, 150.0)


@pytest.mark.train
def test_a_rehearsal_is_carried_out_kept_and_compared_by_the_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "job.yaml").write_text(ONE_RANK)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "former").write_text("of a real run")
    done = gpulaunch(tmp_path, "rehearse", "-c", "job.yaml", "--steps", "4", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["proven"]
    (rank,) = document["ranks"]
    assert (rank["measured"]["steps"], rank["measured"]["samples_per_step_here"]) == (4, 16)
    assert document["estimate"]["samples_per_s"] > 0
    assert sorted(each.name for each in tmp_path.iterdir() if each.name.startswith(".")) == []
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["former"]

    run = gpulaunch(tmp_path, "run", "-c", "job.yaml")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "all proven, and nothing has changed since" in run.stdout
    assert (tmp_path / "out" / "done").exists()


# Before torch is imported, by its name: no step is needed to fail.
TOO_LARGE = """
import sys
class OutOfMemoryError(RuntimeError):
    __module__ = "torch"
if int(sys.argv[sys.argv.index("--bs") + 1]) > 2:
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
"""


@pytest.mark.train
def test_fit_halves_the_batch_until_it_fits(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TOO_LARGE + SCRIPT)
    options = "args: [--bs, 4]\nbatch_args: {batch: --bs, accumulation: --acc}\n"
    (tmp_path / "job.yaml").write_text(ONE_RANK + options)
    done = gpulaunch(tmp_path, "rehearse", "-c", "job.yaml", "--steps", "3", "--fit", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["rejected_args"] == [["--bs", "4"]]
    assert document["args"] == ["--bs", "2", "--acc", "2"]
    assert document["proven"]
    # The proof is about the arguments that fit: a run with the old ones is told so.
    written = load_run_config(str(tmp_path / "job.yaml"), Overrides()).job
    fits = fingerprint(replace(written, args=("--bs", "2", "--acc", "2")), {}, None)
    assert document["fingerprint"]["config"] == fits.config
    assert "the run config or its arguments" in list_changes_since(
        document["fingerprint"], fingerprint(written, {}, None)
    )


STOLEN = """
import os, sys
try:
    with open({first!r}, "x") as file: file.write(os.environ["MASTER_PORT"])
except FileExistsError: pass
if open({first!r}).read() in ("", os.environ["MASTER_PORT"]):
    open("scratch-of-the-first", "w").close()
    sys.exit("RuntimeError: The server socket has failed to listen: EADDRINUSE, address already in use")
"""


@pytest.mark.train
def test_an_attempt_that_lost_its_port_leaves_no_scratch_either(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STOLEN.format(first=str(tmp_path / "first")) + SCRIPT)
    (tmp_path / "job.yaml").write_text(CONFIG)
    done = gpulaunch(tmp_path, "rehearse", "-c", "./job.yaml", "--steps", "3", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["proven"]
    assert [rank["measured"]["steps"] for rank in document["ranks"]] == [3, 3]
    assert [rank["measured"]["samples_per_step_here"] for rank in document["ranks"]] == [16, 16]
    assert document["run"]["attempts"] == 2
    assert [each["name"] for each in document["overall"]] == ["end", "world", "output", "output"]
    assert not (tmp_path / ".gpulaunch-rehearsal").exists()
