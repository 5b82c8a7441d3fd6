"""What contradicts a cause that a log names: steps behind it, an exit code, a text that only shows it."""

from dataclasses import replace
from itertools import count

import pytest

from preflight.diagnosis.candidates import list_candidates
from preflight.diagnosis.contradictions import doubt_causes
from preflight.diagnosis.diagnose import diagnose
from preflight.diagnosis.lines import Log, read_logs
from preflight.diagnosis.run_progress import RunProgress
from preflight.diagnosis.signature_matcher import find_hits
from preflight.diagnosis.tracebacks import parse_exceptions

FRAMES = (
    'Traceback (most recent call last):\n  File "/home/ana/ft/train.py", line 71, in <module>\n    step()\n'
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB.\n"
FAILED = f"{FRAMES}{OOM}"
CAUGHT = FAILED.replace("<module>", "score")
HYDRA = "Error executing job with overrides: []\n"


def steps(start: int, end: int, form: str = "step {n} loss {loss:.3f}\n") -> str:
    return "".join(form.format(n=n, s=n % 60, loss=3 - n / 100) for n in range(start, end))


LIMIT = "slurmstepd: error: *** JOB 71 ON node3 CANCELLED AT 2026-03-01T10:00:00 DUE TO TIME LIMIT ***\n"
STAMPED = "2026-03-01 10:00:{s:02} | INFO | step {n} loss {loss:.3f}\n"
BEAT, DISK, PEERS = "heartbeat {n} alive\n", "disk 4{n}% used\n", "step {n} of 99\n" * 2
RECORD = "{{'loss': {loss:.3f}, 'learning_rate': 1e-4, 'epoch': {n}}}\n"


@pytest.mark.parametrize(
    ("log", "verdict", "confidence"),
    [
        (steps(0, 20) + FAILED, "cuda-oom", "certain"),
        (steps(0, 20) + FAILED + steps(20, 22), "cuda-oom", "certain"),
        (steps(0, 20) + FAILED + steps(20, 23), "cuda-oom", "likely"),  # a loader's start empties the buffer
        (steps(0, 20) + CAUGHT + steps(20, 23), "benign", ""),  # a buffer would have held them all
        (steps(0, 500) + CAUGHT + steps(500, 503), "cuda-oom", "likely"),
        (steps(0, 9, PEERS) + CAUGHT + steps(9, 20, PEERS), "cuda-oom", "likely"),
        (steps(0, 9) + HYDRA + CAUGHT + steps(9, 20), "cuda-oom", "likely"),
        (steps(1, 9, BEAT) + CAUGHT + steps(1, 9, BEAT), "cuda-oom", "certain"),
        (steps(1, 9, DISK) + "Killed\n" + steps(1, 9, DISK), "host-oom-killed", "likely"),
        (steps(0, 500) + FAILED + steps(500, 503), "cuda-oom", "likely"),  # or what a buffer still held
        (steps(0, 20, RECORD) + CAUGHT + steps(20, 30, RECORD), "benign", ""),
        (steps(0, 20) + FAILED + steps(20, 30) + "train.py FAILED\n", "cuda-oom", "likely"),
        (steps(0, 20, STAMPED) + FAILED + steps(20, 30, STAMPED), "benign", ""),
        (FAILED + steps(0, 20) + "train.py FAILED\n", "cuda-oom", "certain"),
        (FAILED + steps(0, 3, "Saved checkpoint to /ckpt/step_{n}.pt\n"), "cuda-oom", "likely"),
        (FAILED + steps(0, 3, "epoch {n}: val_acc 0.8{n}\n"), "cuda-oom", "likely"),
        (FAILED + steps(1, 4, "Trial {n} finished with value: 0.3{n}\n"), "cuda-oom", "likely"),
        (FAILED + "Process finished with exit code 0\n", "cuda-oom", "likely"),
        (FAILED + "Process finished with exit code 1\n", "cuda-oom", "certain"),
        (FAILED + "Job 12 finished with state COMPLETED, exit code 0:0\n", "cuda-oom", "likely"),
        (FAILED + "Job 12 finished with state FAILED, exit code 0:9\n", "cuda-oom", "certain"),
        (FAILED + "======= 3 passed in 2.1s =======\n", "cuda-oom", "likely"),
        (FAILED + "======= 1 failed, 3 passed in 2.1s =======\n", "cuda-oom", "certain"),
        (FAILED + "going to the CPU\n" + FRAMES + "KeyError: 'labels'\n", "cuda-oom", "likely"),
        (FAILED + "going to the CPU\n" + FRAMES + OOM, "cuda-oom", "certain"),
        (LIMIT + steps(0, 9, STAMPED) + "srun: error: node3: task 0: Terminated\n", "time-limit", "certain"),
        ("OSError: [Errno 98] Address already in use\ntrying 6007\n" + steps(0, 9), "port-in-use", "likely"),
        (FRAMES + "ModuleNotFoundError: No module named 'apex'\n" + steps(0, 9), "missing-module", "likely"),
        ("free(): invalid pointer\nAborted (core dumped)\n", "sigabrt", "likely"),
        ("starting\nAborted (core dumped)\n", "sigabrt", "possible"),  # for a reason that it does not say
    ],
)  # fmt: skip
def test_what_a_run_does_behind_a_message_may_contradict_it(log: str, verdict: str, confidence: str) -> None:
    found = diagnose(log)
    assert (found.verdict, found.causes[0].confidence if found.causes else "") == (verdict, confidence)


LOGGING = (
    "--- Logging error ---\nTraceback (most recent call last):\n"
    '  File "/usr/lib/python3.11/logging/__init__.py", line 1110, in emit\n    msg = self.format(record)\n'
    '{raised}\nCall stack:\n  File "train.py", line 3, in <module>\nMessage: 1\nArguments: (1,)\n'
)


@pytest.mark.parametrize(
    ("raised", "verdict"),
    [
        ("TypeError: not all arguments converted during string formatting", "benign"),
        ("OSError: [Errno 28] No space left on device", "disk-full"),
    ],
)
def test_a_message_that_cannot_be_formatted_ends_no_run(raised: str, verdict: str) -> None:
    assert diagnose(steps(0, 5) + LOGGING.format(raised=raised)).verdict == verdict


@pytest.mark.parametrize(
    "text",
    [
        "usage: train.py [--oom WHAT]\n\noptions:\n  --oom X, -o X  on CUDA out of memory: skip, raise\n",
        "+ grep -q 'CUDA out of memory' train.log\n+ echo 'no OOM'\nno OOM\n",
        "$ grep 'No space left on device' train.log\n1\n",
        ">>> raise RuntimeError('CUDA error: out of memory')\n",
        "--- a\n+++ b\n@@ -1 +1 @@\n+RuntimeError: Address already in use\n-CUDA out of memory\n text\n",
        '    """Raises RuntimeError: CUDA out of memory."""\n    raise RuntimeError("CUDA out of memory")\n',
        "  15 |     if 'CUDA out of memory' in str(error): skip()\n",
        "except RuntimeError as error:  # CUDA out of memory\n",
        "# RuntimeError: CUDA out of memory\n# a smaller batch cures it\n",
        '    for line in [\n        "CUDA out of memory",\n        "slurmstepd: oom-kill event",\n    ]:\n',
        "test_nccl.py::test_two xfail (Duplicate GPU detected : rank 0 and rank 1 both on CUDA device)\n",
    ],
)  # fmt: skip
def test_a_text_that_only_shows_a_message_names_no_cause(text: str) -> None:
    assert diagnose(text + steps(0, 6)).verdict == "benign"


@pytest.mark.parametrize(
    "line",
    [
        "+ RuntimeError: CUDA error: out of memory",  # no difference around it
        "# RuntimeError: CUDA error: out of memory",  # a heading
        "RuntimeError: CUDA error: out of memory",
        "- RuntimeError: CUDA error: out of memory",
    ],
)
def test_a_message_behind_a_mark_is_believed(line: str) -> None:
    assert diagnose(f"text\n{line}\nmore\n").verdict == "cuda-oom"


REPORT = (
    "INFO      HEAL014 on n[1-2]: processes ended for lack of memory since boot: 2; the last: Memory cgroup"
    " out of memory: Killed process 3013 (python)\n            fix: sudo dmesg | grep -i 'killed process'\n"
    'IGNORED   MODE002 on a gpu0: a rank on it dies with "device(s) is/are busy or unavailable"\n'
    "==> run p-20261126-034354-ec23fb: 2 ranks on n[1-2] (2), mixed precision no, main port 29500\n"
)


def test_what_a_preflight_remarked_of_the_hosts_is_no_cause_in_the_output_of_the_run() -> None:
    assert diagnose(REPORT + steps(0, 9)).verdict == "benign"
    assert diagnose(REPORT + "RuntimeError: CUDA error: out of memory\n").verdict == "cuda-oom"
    announced = "==> stopping every node (SIGTERM, 10 s, SIGKILL); Ctrl-C again kills and leaves at once\n"
    by_hand = diagnose(
        REPORT + announced + "==> interrupted: stopped by ada@laptop (exit code 130) after 10.1 s\n"
    )
    assert [cause.code for cause in by_hand.causes] == ["S78", "S73"]


def test_a_question_about_an_error_in_a_data_set_is_not_certain() -> None:
    log = "sample 1: How do I fix RuntimeError: CUDA out of memory in PyTorch?\nanswer: a smaller batch\n"
    assert diagnose(log).causes[0].confidence == "likely"
    assert diagnose(log + steps(0, 2)).verdict == "benign"


def test_a_warning_behind_which_many_steps_follow_ends_no_run() -> None:
    log = "[W socket.cpp:426] The server socket has failed to bind (errno: 98 - Address already in use).\n"
    assert diagnose(log + steps(0, 10)).verdict == "benign"


@pytest.mark.parametrize(
    "log",
    [
        '  File "/opt/venv/torch/nn/parallel/distributed.py", line 457, in _sync\n    self._sync(\n',
        "Exception: no word that a row knows\nlogs are closed\n",
        "containers ERROR    ExecuteUserScriptError:\n10:11:16 Uploading\n10:11:16 - Training job failed\n",
        "│   580 │   │   raise CalledProcessError(code, cmd)  │\n│   583                              │\n",
        steps(0, 3)
        + 'WARNING loop: Traceback (most recent call last): File "a.py", line 20: ValueError: too many\n',
        "[2026-03-01 10:00:38] sampler built\n[2026-03-01 10:00:38] Error: mesh has no faces\n",
    ],
)
def test_a_log_that_ends_in_a_failure_without_its_reason_is_unknown_and_not_benign(log: str) -> None:
    assert diagnose(log).verdict != "benign"


def test_an_exception_that_only_announces_another_one_is_no_cause_where_that_is_cut_off() -> None:
    log = (
        FRAMES
        + "Exception:\n\n-- Process 2 terminated with the following error:\n"
        + FRAMES.rstrip("\n")
        + "\n"
    )
    assert (diagnose(log).verdict, diagnose(log).causes) == ("unknown", ())


class CountedClass(str):
    """A class of failure that counts how often it is compared."""

    __slots__ = ()
    comparisons = count()

    def __ne__(self, other: object) -> bool:
        next(self.comparisons)
        return str.__ne__(self, other)

    def __eq__(self, other: object) -> bool:
        next(self.comparisons)
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def class_comparisons(size: int) -> int:
    """Return how often classes are compared where one process raised so many exceptions."""
    lines = read_logs((Log("".join(f"{FRAMES}KeyError: 'zone{n}x'\ngoing on\n" for n in range(size))),))
    raised, course = parse_exceptions(lines), RunProgress(lines)
    found = [
        replace(each, cause=replace(each.cause, slug=CountedClass(each.cause.slug)))
        for each in list_candidates(find_hits(lines), raised, course)
    ]
    before = next(CountedClass.comparisons)
    assert len(doubt_causes(found, raised, course)) == size
    return next(CountedClass.comparisons) - before - 1


def test_twice_as_many_exceptions_are_doubted_in_twice_as_many_comparisons() -> None:
    few, many = class_comparisons(50), class_comparisons(100)
    assert many <= 2 * few + 50, (few, many)


def test_what_nccl_warned_of_before_it_used_the_network_ended_no_run() -> None:
    warned = "node1:80744:80744 [1] misc/ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed\n"
    used = "node1:80744:80744 [1] NCCL INFO Using network IB\n"
    assert diagnose(warned + used).verdict == "benign"
    assert diagnose(warned + used.replace("80744", "80745")).verdict == "nccl-network"
    assert diagnose(warned + used + FAILED).causes[0].slug == "cuda-oom"


def test_a_disk_that_was_full_when_a_rank_ended_need_not_be_why() -> None:
    note = "gpulaunch: this log lacks what the rank printed last: /r: [Errno 28] No space left on device\n"
    said = "OSError: [Errno 28] No space left on device: '/r/model.bin'\n"
    for log, confidence in ((note, "likely"), (said + note, "certain")):
        cause = diagnose("step 1 loss 2.0\n\n" + log).causes[0]
        assert (cause.slug, cause.confidence) == ("disk-full", confidence)


@pytest.mark.parametrize(
    ("message", "verdict"),
    [
        ("this script needs two GPUs", "user-exception"),
        ("MYLIB_HOME is not set", "user-exception"),
        ("the checkpoint requires 8 GPUs", "user-exception"),
        ("cannot run on 1 GPU", "user-exception"),
        ("apex", "missing-module"),
        ("You must have h5py to save weights", "missing-module"),
        ("Please get it from https://example.com/fast", "missing-module"),
        ("mpi4py is needed for this launcher", "missing-module"),
        ("MyLib was built for another torch", "missing-module"),
        ("MyLib is not installed", "missing-module"),
        ("libmine.so.3: cannot open shared object file: No such file or directory", "missing-module"),
    ],
)
def test_an_import_error_of_another_reason_lacks_no_package(message: str, verdict: str) -> None:
    place = '  File "/home/ada/train.py", line 3, in <module>\n    raise ImportError("..")\n'
    text = f"Traceback (most recent call last):\n{place}ImportError: {message}\n"
    assert diagnose(text).verdict == verdict


@pytest.mark.parametrize(
    ("times", "steps", "confidence"), [(1, 0, "likely"), (0, 0, "certain"), (1, 4, "certain")]
)
def test_what_native_code_throws_behind_an_exception_may_be_of_its_end(
    times: int, steps: int, confidence: str
) -> None:
    waited = (
        'Traceback (most recent call last):\n  File "/x/deep_ep/buffer.py", line 4, in dispatch\n    go()\n'
        "RuntimeError: DeepEP error: timeout (dispatch CPU)\n"
    )
    thrown = (
        "terminate called after throwing an instance of 'EPException'\n"
        "  what():  Failed: CUDA error a.cpp:7 'an illegal memory access was encountered'\n"
    )
    made = "".join(f"step {number} loss {3 - number / 10:.2f}\n" for number in range(steps))
    causes = diagnose(waited * times + made + thrown).causes
    assert [cause.confidence for cause in causes if cause.code == "S38"] == [confidence]


def test_a_traceback_that_the_end_cuts_off_leaves_what_was_said_above_it_likely() -> None:
    said = "step 1\nslurmstepd: error: Detected 1 oom_kill event in StepId=4.0\nFATAL: kernel too old\n"
    assert diagnose(said).causes[0].confidence == "certain"
    assert diagnose(said + FRAMES).causes[0].confidence == "likely"


def test_a_port_that_the_store_tried_in_vain_is_likely_where_nothing_was_raised() -> None:
    taken = "The server socket has failed to listen on any local network address."
    bound = "The server socket has failed to bind to [::]:40112 (errno: 98 - Address already in use)."
    tried = f"[W socket.cpp:464] [c10d] {bound}\n[E socket.cpp:500] [c10d] {taken}\n"
    raised = f"{FRAMES}RuntimeError: {taken} port: 40112, code: -98, name: EADDRINUSE\n"
    assert diagnose(tried + raised).causes[0].confidence == "certain"
    assert diagnose(f"{tried}INFO:root:not distributed: {bound}\n").causes[0].confidence == "likely"
