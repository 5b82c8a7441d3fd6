"""What a run printed behind the words of a failure: it continued, had an outcome, or stopped at them."""

import pytest

from preflight.diagnosis.diagnose import diagnose
from preflight.diagnosis.tracebacks import MOST_BELOW

_OOM = "CUDA out of memory. Tried to allocate 2.00 GiB"
_CAUGHT = 'Traceback (most recent call last):\n  File "/w/t.py", line 88, in attempt\n    step()\n'
_RAISED = f"{_CAUGHT}torch.OutOfMemoryError: {_OOM}\n"
_EXHAUSTED = "2026-05-02 10:00:05.1: W tensorflow/core/framework/op_kernel.cc:1839] OP_REQUIRES failed "
_EXHAUSTED += "at conv_ops.cc:698 : RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[256,512]\n"
_USAGE = (
    "usage: t.py [-h] [--lr LR]\n  --lr LR\n              t.py: error: argument --lr: invalid float value\n"
)
_CHAT = f"[10:00] anna: torch.OutOfMemoryError: {_OOM}\n[10:05] ben: less\nexported 2 messages to c.html\n"
_EPOCHS = "".join(f"epoch {n} | loss {3 - n / 10:.2f}\n" for n in range(4))
_BY_MODULE = 'Traceback (most recent call last):\n  File "/w/t.py", line 9, in <module>\n    main()\n'
_TRITON = (
    'Traceback (most recent call last):\n  File "/v/lib/python3.10/site-packages/xformers/__init__.py", '
)
_TRITON += "line 57, in _has\n    import triton\n"
_TRITON += "ModuleNotFoundError: No module named 'triton'\n"
_CHILD = "Process SpawnProcess-1:\n" + _CAUGHT.replace(
    "/w/t.py", "/usr/lib/python3.11/multiprocessing/process.py"
)
_BUFFERED = "".join(f"step {n} loss {3 - n / 10:.2f}\n" for n in range(4))
_SAVED = "save: 100%|██████████| 8/8 [00:03<00:00,  2.59it/s, avr_loss=0.112]\n"
_BAR = "steps: 100%|██████████| 800/800 [21:11<00:00,  1.59s/it, avr_loss=0.112]\n"


@pytest.mark.parametrize(
    "log",
    [
        f"Trying batch_size=32\n{_RAISED}Trying batch_size=16\n{_EPOCHS}",  # in order: one begins alike above
        f"prepare\n{_TRITON}{_BAR}model saved.\n",
        f"kind of error        train  val\n{_OOM}   120   14\nSegmentation fault    19    3\n{_EPOCHS}",
    ],
)
def test_a_run_that_continued_in_order_is_healthy(log: str) -> None:
    assert diagnose(log).causes == ()


@pytest.mark.parametrize(
    "log",
    [
        f"{_RAISED}Trying batch_size=16\n{_EPOCHS}",  # all of it may have been in a buffer
        f"Trying batch_size=32\n{_BY_MODULE}torch.OutOfMemoryError: {_OOM}\nTrying batch_size=16\n{_EPOCHS}",
        f"{_BAR}{_RAISED}{_BAR}",  # a bar that was full above, drawn again
        f"{_RAISED}{_BAR.replace('800/800', '400/800')}",
        # The last draw of a bar whose loop ended by it, of another loop, or of what is saved then.
        f"{_BAR.replace('800/800', '799/800')}{_RAISED}{_BAR}",
        f"{_BAR.replace('800/800', '400/800')}{_RAISED}{_SAVED}",
        # A logger writes at once, behind which the buffer of what was printed comes.
        f"10:00:00 INFO start\n{_RAISED}10:00:09 INFO close\n{_BUFFERED}",
        f"[10:00:00] build\n{_RAISED}[10:00:09] built\n{_BUFFERED}",
        f"step 1 loss 2.9\n{_RAISED}{_BAR}",  # a bar without its loss above
        f"rank   cause   exit   starts\nr0     {_OOM}   1   2\nr1     {_OOM}   1   2\n",
        f"{_OOM}   4711   1\n",  # one row alone counts nothing
    ],
)
def test_what_may_be_older_than_a_failure_does_not_hide_it(log: str) -> None:
    assert diagnose(log).verdict == "cuda-oom"


@pytest.mark.parametrize(
    "log",
    [
        f"epoch 1 loss 2.41\nOops! {_OOM}\nMetrics written to m.json\n",
        _EXHAUSTED,
        "step 1 loss 2.4\n- Make checkpoint: OSError [Errno 28]\n- Make checkpoint: OSError [Errno 28]\n",
        _USAGE,
    ],
)
def test_a_report_that_looks_like_shown_text_is_found(log: str) -> None:
    assert diagnose(log).causes


_MORE = "reading\n" * (MOST_BELOW + 1)  # more than a message may have
_OUTCOME = "wrote cache to /tmp/c.pkl\n"


@pytest.mark.parametrize(
    ("log", "confidence"),
    [
        (f"loading\n{_CAUGHT}EOFError: Ran out of input\nbuilding it\n{_OUTCOME}", "possible"),
        (f"loading\n{_CAUGHT}EOFError: Ran out of input\n{_MORE}", "likely"),
        (f"loading\n{_CAUGHT}EOFError: Ran out of input\n", "certain"),
        (f"loading\n{_BY_MODULE}EOFError: Ran out of input\n{_OUTCOME}", "certain"),
        (_CHAT, "possible"),
        (f"loading\n{_CHILD}EOFError: Ran out of input\n{_OUTCOME}", "certain"),
        (f"RuntimeError: {_OOM}\nit was refused\n2 checks passed\n", "possible"),
        (f"RuntimeError: {_OOM}\nmemory snapshot saved to /tmp/oom.pickle\n", "likely"),
        (f"RuntimeError: {_OOM}\nit was refused\n", "likely"),
        ("run.sh: line 3:  4111 Killed                  python t.py\nmetrics saved to m.json\n", "likely"),
    ],
)
def test_an_outcome_behind_words_of_a_failure_makes_them_possible(log: str, confidence: str) -> None:
    assert diagnose(log).causes[0].confidence == confidence


_IMPORTING = (
    'Traceback (most recent call last):\n  File "/w/ops/norm.py", line 9, in <module>\n    import fast_norm\n'
)
_IMPORTING += "ModuleNotFoundError: No module named 'fast_norm'\n"
_MANY_STEPS = "".join(f"INFO step={n} loss={3 - n / 50:.3f}\n" for n in range(12))
_OF_RANK = '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/w/t.py", line 9, in main\n'
_OF_RANK += "[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("fast_norm: import failed, using torch.nn.LayerNorm\n", ""),
        ("norms\n", "(ignored, fallback active)\n"),
        ("fast_norm is not available, falling back to torch\n", "(ignored)\n"),
    ],
)
def test_a_traceback_that_a_program_says_it_caught_is_not_the_cause(above: str, below: str) -> None:
    shown = above + _IMPORTING + below
    assert [each.code for each in diagnose(shown + _MANY_STEPS + _OF_RANK).causes][:1] == ["S40"]
    assert diagnose(shown + _MANY_STEPS).verdict == "benign"
    assert diagnose(shown).causes[0].code == "S89"  # the program came no further
    assert diagnose("norms\n" + _IMPORTING + _OF_RANK).causes[0].code == "S89"


_SERVED = "Training complete. Best loss 0.51.\nServing TensorBoard on localhost\n"
_INTERRUPT = 'Traceback (most recent call last):\n  File "/w/t.py", line 44, in serve\n    tb.wait()\n'
_INTERRUPT += "KeyboardInterrupt:\n"
_SCANCEL = "slurmstepd: error: *** JOB 86 ON n1 CANCELLED AT 2025-06-15T15:39:22 ***\n"


@pytest.mark.parametrize(
    "log",
    [
        _MANY_STEPS + _SERVED + _INTERRUPT,
        f"{_MANY_STEPS}all 90 epochs done, top1 76.4\nsleeping so that you can look around\n{_SCANCEL}",
        f"{_MANY_STEPS}final checkpoint written: /c/final.pth\n{_SCANCEL}",
        f"{_MANY_STEPS}best Error: 0.0077 (epoch 38)\nOK\n",
        f"WARNING: previous run ended with exit code 137; starting over from step 0\n{_MANY_STEPS}",
    ],
)
def test_what_comes_when_the_training_is_done_or_was_before_it_is_no_failure(log: str) -> None:
    assert diagnose(log).verdict == "benign"


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (_MANY_STEPS + _INTERRUPT, "S78"),
        (f"{_MANY_STEPS}epoch 3 of 90 done\n{_SCANCEL}", "S78"),
        (f"{_MANY_STEPS}Error: no space (epoch 38)\n", "S119"),
        (f"{_MANY_STEPS}the last attempt failed with exit code 137\n", "S70"),
    ],
)
def test_what_ends_a_run_amid_its_steps_is_a_failure(log: str, code: str) -> None:
    assert diagnose(log).causes[0].code == code


def test_records_below_a_configuration_are_read() -> None:
    config = "".join(f"  key_{n}: {n}\n" for n in range(6))
    steps = "".join(f'{{"level": "info", "step": {n}, "loss": 2.{n}}}\n' for n in range(9))
    spot = r'{"level": "warning", "msg": "EC2 spot interruption notice: {\"action\": \"terminate\"}"}'
    stop = '{"level": "info", "msg": "received SIGTERM, trying to checkpoint"}\n'
    assert [each.code for each in diagnose(f"Config:\n{config}{steps}{spot}\n{stop}").causes][:1] == ["S96"]


def test_modules_that_import_each_other_have_advice() -> None:
    said = (
        "ImportError: cannot import name 'build' from partially initialized module 'models' (/w/models.py)\n"
    )
    assert "import each other" in diagnose(_IMPORTING.partition("Module")[0] + said).causes[0].fix


_UNREACHED = "ssh: connect to host node9 port 22: Connection timed out\n"
_OF_RANKS = "".join(f"[rank 0] step {n} loss {3 - n / 10:.2f}\n" for n in range(1, 6))
_ATTEMPT = "[launcher] attempt {} of 3\n"
_NO_STORE = (
    f"{_BY_MODULE}torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while"
    " trying to connect to (10.0.0.1, 29500).\n"
)
_SMALLER = "CUDA out of memory with batch size {}, trying {}\n"


@pytest.mark.parametrize(
    "log",
    [
        f"{_UNREACHED}node9 left out of hosts.txt, 7 nodes remain\n{_OF_RANKS}",
        f"{_ATTEMPT.format(1)}{_NO_STORE}{_ATTEMPT.format(2)}{_BUFFERED}[launcher] attempt 2 succeeded\n",
        f"{_SMALLER.format(64, 32)}{_SMALLER.format(32, 16)}batch size 16 fits\n{_BUFFERED}",
    ],
)
def test_what_a_program_did_without_or_tried_again_is_no_failure(log: str) -> None:
    assert diagnose(log).causes == ()


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (f"{_UNREACHED}{_OF_RANKS}", "S64"),
        (f"{_UNREACHED}node9 left out of hosts.txt, 7 nodes remain\nno rank started\n", "S64"),
        (f"{_ATTEMPT.format(1)}{_NO_STORE}{_ATTEMPT.format(2)}{_NO_STORE}", "S51"),
        (f"{_ATTEMPT.format(1)}{_NO_STORE}{_ATTEMPT.format(2)}{_BUFFERED}{_BY_MODULE}ValueError: x\n", "S00"),
        (_SMALLER.format(64, 32) + _SMALLER.format(32, 16), "S20"),
        (f"{_SMALLER.format(64, 32)}{_BUFFERED}{_RAISED}", "S20"),
    ],
)
def test_what_failed_again_or_was_not_done_without_is_a_failure(log: str, code: str) -> None:
    assert diagnose(log).causes[0].code == code


_KILLED = (
    "/var/spool/slurm/job81/script: line 22: 81233 Killed                  python prep.py --workers 64\n"
)
_ABSENT = f"{_BY_MODULE}FileNotFoundError: [Errno 2] No such file or directory: 'tok.bin'\n"


@pytest.mark.parametrize(
    ("log", "code"), [(_KILLED + _ABSENT, "S70"), (_ABSENT + _KILLED, "S92"), (_ABSENT, "S92")]
)
def test_what_a_killed_command_did_not_write_is_not_the_cause(log: str, code: str) -> None:
    assert diagnose(log).causes[0].code == code
