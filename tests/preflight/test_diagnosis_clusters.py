"""What schedulers, containers, loaders and servers say of runs that fail, and what runs say that do not."""

import json

import pytest

from preflight.diagnosis.diagnose import diagnose
from preflight.diagnosis.result import BENIGN
from tests.preflight.diagnosis_logs import blocks

# A heading is a row's code and what its advice must say, or how the run went.
_LOGS = blocks("clusters.txt")
_HEALTHY = [log for heading, log in _LOGS if heading == "benign"]
_LIKE_THESE = [log for heading, log in _LOGS if heading == "failed"]
_ADVISED = [
    (*heading.split(" ", 1), log) for heading, log in _LOGS if heading.startswith("S") and " " in heading
]
_FRAME = (
    'Traceback (most recent call last):\n  File "/home/ana/ft/train.py", line 12, in <module>\n    run()\n'
)
_SITE = "/opt/venv/lib/python3.11/site-packages"
_NO_ID = (
    "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId"
    " from [0] via c10d key-value store by key '0', but store->get('0') got error:"
)


@pytest.mark.parametrize(
    "said", ["Socket Timeout", "wait timeout after 600000ms, keys: /default_pg/0//cuda//0"]
)
def test_an_nccl_id_that_did_not_come_is_likely_and_ranks_behind_what_rank_0_raised(said: str) -> None:
    within = f'  File "{_SITE}/torch/distributed/distributed_c10d.py", line 8, in barrier\n    x()\n'
    log = f"{_FRAME}{within}{_NO_ID} {said}\n"
    alone = diagnose(log).causes[0]
    assert (alone.code, alone.confidence) == ("S49", "likely")
    own = "".join(f"[rank0]: {line}\n" for line in f"{_FRAME}KeyError: 'mask'".split("\n"))
    both = diagnose(own + "".join(f"[rank1]: {line}\n" for line in log.split("\n")))
    assert [(cause.code, cause.rank) for cause in both.causes] == [("S00", 0), ("S49", 1)]


@pytest.mark.parametrize(("code", "advised", "log"), _ADVISED, ids=[each[1] for each in _ADVISED])
def test_the_cause_is_named_with_what_to_type_for_it(code: str, advised: str, log: str) -> None:
    cause = diagnose(log).causes[0]
    assert cause.code == code
    assert advised in f"{cause.cause}\n{cause.fix}\n{cause.command}"


def test_a_step_that_aborted_is_no_mpi() -> None:
    log = "srun: error: Application launch failed: Invalid argument\nsrun: Job step aborted\n"
    assert "mpirun" not in diagnose(log).causes[0].command


def test_a_heading_is_no_second_cause_beside_its_reason_and_keeps_the_place() -> None:
    log = (
        f"{_FRAME}RuntimeError: Failed to import transformers.models.llama because of the following error"
        " (look up to see its traceback):\n"
        "libcudart.so.11.0: cannot open shared object file: No such file or directory\n"
    )
    causes = diagnose(log).causes
    assert [(cause.code, cause.location) for cause in causes] == [("S89", "/home/ana/ft/train.py:12")]


@pytest.mark.parametrize("log", _HEALTHY)
def test_what_a_program_does_without_is_no_failure(log: str) -> None:
    assert diagnose(log).verdict == BENIGN


@pytest.mark.parametrize("log", _LIKE_THESE)
def test_what_is_like_it_and_failed_stays_one(log: str) -> None:
    assert diagnose(log).verdict != BENIGN


@pytest.mark.parametrize(
    ("code", "log"),
    [
        ("S00", f"{_FRAME}RuntimeError: cannot build the kernel (using PyTorch's headers)\nbye\n"),
        (
            "S38",
            "step 1\nRuntimeError: CUDA error: an illegal memory access was encountered (using default)\n",
        ),
        ("S76", "[rank1]: OSError: [Errno 28] No space left on device (ignored)\n[rank0]: step 2\n"),
    ],
)
def test_what_ends_a_traceback_or_a_process_is_not_replaced(code: str, log: str) -> None:
    assert [cause.code for cause in diagnose(log).causes] == [code]


def test_the_words_of_an_import_alone_are_likely_and_certain_below_what_ended_by_them() -> None:
    words = "No module named 'apex'\n"
    heading = "RuntimeError: Failed to import our.models because of the following error (look up):\n"
    alone, announced = diagnose(f"step 1\n{words}"), diagnose(f"{_FRAME}{heading}{words}")
    assert [(cause.code, cause.confidence) for cause in alone.causes] == [("S89", "likely")]
    assert [(cause.code, cause.confidence) for cause in announced.causes] == [("S89", "certain")]


def _records(level: str, *messages: str) -> str:
    return "\n".join(json.dumps({"level": level, "msg": message}) for message in messages)


def test_records_of_one_soft_level_only_inform_unless_one_shows_an_end() -> None:
    said = ("trying batch size 64", "CUDA out of memory at batch size 64", "batch size 32 fits")
    assert diagnose(_records("info", *said)).verdict == BENIGN
    assert diagnose(_records("warn", "Too many open files in the watcher", "again")).verdict == BENIGN
    assert diagnose('level=warn msg="Too many open files"\n' * 2).verdict == BENIGN
    ended = ("epoch 1", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.", "exit code 1")
    assert diagnose(_records("info", *ended)).verdict == "cuda-oom"
