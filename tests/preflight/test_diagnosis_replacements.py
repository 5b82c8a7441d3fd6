"""A program that says what it does in place of what failed handled that; one that ends did not."""

import pytest

from preflight.diagnosis.diagnose import diagnose
from tests.preflight.diagnosis_logs import STEPS, TYPE_ERROR

_HEAD = 'Traceback (most recent call last):\n  File "/w/t.py", line 31, in {}\n    out = read(x)\n'
_TRUNCATED = "OSError: image file is truncated (12 bytes not processed): img_{}.jpg\n"
_NO_COMPILER = "torch._inductor.exc.InductorError: RuntimeError: Failed to find C compiler.\n\n"
_TRY = _HEAD.format("<module>")
_OOM = _TRY + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
_NAN = _TRY + "FloatingPointError: loss is nan\n"
_TF = (
    "2026-05-01 08:00:00.1: E xla/cuda_driver.cc:15] failed call to cuInit: CUDA error: UNKNOWN ERROR (303)\n"
)
_TIMED_OUT = "The client socket has timed out after 1000ms while trying to connect to (10.0.0.9, 99).\n"
_STORE = "[rank{0}]:[E501 08:00:0{0}.17 {1}.cpp:328] [c10d] " + _TIMED_OUT
_RUNS = "".join(f"  step {n} loss 0.{9 - n}\n" for n in range(4))
_PLAIN = "".join(f"batch {n} loss {3 - n / 10:.2f}\n" for n in range(12))
_STEPS = _PLAIN.replace("batch", "step")


@pytest.mark.parametrize(
    "log",
    [
        "".join(_HEAD.format("__getitem__") + _TRUNCATED.format(n) for n in (113, 214))
        + "skipping sample 214, using 213 instead\nskipping sample 113, using 112 instead\n"
        + _PLAIN,
        _HEAD.format("__getitem__")
        + "UnidentifiedImageError: cannot identify image file '/d/9.jpg'\nimage 9 is replaced by 8\n"
        + _PLAIN,
        _HEAD.format("collate") + "ValueError: tokens are empty\nempty tokens: sample ignored\n" + _PLAIN,
        _TRY + _NO_COMPILER + "WARNING: torch.compile is not usable; training without it\n" + _PLAIN,
        _NO_COMPILER + "falling back to eager\n" + _PLAIN,
        "ImportError: flash_attn is not installed\nusing the default attention instead\n" + _PLAIN,
        _TF + _PLAIN,
        "".join(_STORE.format(rank, at) for at in ("socket", "TCPStore") for rank in (0, 1))
        + "".join(f"[default{n % 2}]:step {n // 2} loss {3 - n / 40:.3f}\n" for n in range(20)),
        _RUNS + _NAN + "  step 0 loss nan\n" * 3 + "sweep: 7 completed, 1 failed; best model saved\n",
        _RUNS + _OOM + _RUNS + "search: 7 trials completed, 1 failed. Results written to sweep.csv\n",
        _RUNS + "  step 0 loss nan\n" * 3 + "hyperparameter search: 11 finished, 1 failed; best lr 1e-4\n",
        "SIGUSR1 handler installed (the run saves and goes on)\n" + STEPS + "Training finished\n",
        "received signal SIGTERM, saving emergency checkpoint\nresumed from a.pt at step 0\n" + _PLAIN,
    ],
)
def test_a_failure_in_whose_place_a_program_did_something_ended_nothing(log: str) -> None:
    assert diagnose(log).verdict == "benign"


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        # Of a main function that caught it the process ends, and writes last what it had kept back.
        (_HEAD.format("main") + _TRUNCATED.format(19) + "skipping image 12: small\n" + _PLAIN, "bad-data"),
        (_HEAD.format("load") + _TRUNCATED.format(19) + "skipping sample 3: small\n" + _PLAIN, "bad-data"),
        (_HEAD.format("load") + "KeyError: 'width'\nskipping short samples\n" + _PLAIN, "user-exception"),
        (_OOM + "memory efficient attention is used instead of flash\n" + _PLAIN, "cuda-oom"),
        (_TRY + "ValueError: empty batch\nempty sequences are skipped\n" + _PLAIN, "user-exception"),
        (_OOM + "skipping the evaluation\n" + _PLAIN + "all done\n", "cuda-oom"),
        (_TRY + _NO_COMPILER + "== eval\n" + _PLAIN + "all done\n", "inductor-compile"),
        (_NO_COMPILER + "training without it: compile\n" + _PLAIN + _OOM, "cuda-oom"),
        (_RUNS + _OOM + "array: 3 completed, 1 failed\n", "cuda-oom"),
        (_NAN * 4 + "sweep: 0 completed, 4 failed; nothing saved\n", "nan-loss"),
        ("sweep: 2 completed, 2 failed; best model saved\n" + TYPE_ERROR, "user-exception"),
        # Shards, jobs and stages are counted so, too: what failed of them is what is asked.
        ("prepared 998 ok, 2 failed, results written to /d\n" + "  step 4 loss nan\n" * 5, "nan-loss"),
        ("search: 7 finished, 1 failed; best lr 0.1\n" + _RUNS + "  step 4 loss nan\n" * 5, "nan-loss"),
        (_OOM + "jobs: 3 completed, 1 failed, logs written to /runs/7\n", "cuda-oom"),
        (_RUNS + _OOM + "pipeline: 2 succeeded, 1 failed (train). Saved report to a.html\n", "cuda-oom"),
        (_STORE.format(1, "socket") + _TRY + f"DistNetworkError: {_TIMED_OUT}{_PLAIN}", "rendezvous-timeout"),
        (f"train teacher\nargs: r50\n{_STEPS}{_OOM}train student\nargs: r18\n{_STEPS}done\n", "cuda-oom"),
        (STEPS + "received signal SIGTERM, saving emergency checkpoint\n", "terminated"),
        (STEPS + "WARNING Caught SIGTERM; writing a checkpoint and exiting\n", "terminated"),
        (STEPS + "WARNING SIGUSR1: the time limit is 60 s away; saved, leaving for requeue\n", "time-limit"),
        (_TRY + "OSError: [Errno 28] No space left on device: '/d/inotify_a/x.npy'\n", "disk-full"),
    ],
)  # fmt: skip
def test_a_failure_that_ended_a_program_is_none_that_it_handled(log: str, verdict: str) -> None:
    assert diagnose(log).verdict == verdict


def test_json_that_a_person_wrote_is_no_data() -> None:
    frames = (
        _TRY + '  File "/usr/lib/python3.11/json/decoder.py", line 353, in raw_decode\n    self.scan_once()\n'
    )
    said = "json.decoder.JSONDecodeError: {}: line {} column 1 (char 9)\n"
    written = diagnose(frames + said.format("Expecting property name enclosed in double quotes", 7))
    cut = diagnose(frames + said.format("Unterminated string starting at", 1))
    assert (written.causes[0].code, cut.causes[0].code) == ("S00", "S108")


def test_what_torch_got_while_it_made_a_fake_tensor_call_is_what_was_raised() -> None:
    said = "torch._dynamo.exc.TorchRuntimeError: RuntimeError when making fake tensor call\n"
    got = (
        "  Developer debug context: got RuntimeError('no fake impl registered for a::b')\n\nfrom user code:\n"
    )
    cause = diagnose(_TRY + said + got).causes[0].cause
    assert cause == "the script raised RuntimeError: no fake impl registered for a::b"
