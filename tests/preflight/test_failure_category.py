import pytest

from preflight.diagnosis.diagnose import diagnose
from preflight.diagnosis.failure_category import CATEGORIES, PERMANENT, classify_cause
from preflight.diagnosis.host_evidence import Context
from preflight.diagnosis.result import ZERO_CODE, Cause
from preflight.diagnosis.signatures.table import SIGNATURES
from preflight.facts.host import KernelLog

_FAILED = "\nroot: exitcode: 1\n"


def cause(log: str, context: Context | None = None) -> Cause:
    return diagnose(log, context).causes[0]


def test_every_class_of_failure_has_its_nature_and_none_is_left_over() -> None:
    slugs = {row.slug for row in SIGNATURES} | {"user-exception", "nan-loss"}
    codes = {row.code for row in SIGNATURES} | {ZERO_CODE}
    classes = {each for row in CATEGORIES.values() for each in row.classes.split()}
    assert slugs <= classes
    assert classes <= slugs | codes


def test_what_lasts_is_what_a_person_must_mend() -> None:
    assert PERMANENT == ("oom", "script", "precision", "crash", "environment", "unknown")
    assert {name for name, row in CATEGORIES.items() if row.retryable}.isdisjoint(PERMANENT)


@pytest.mark.parametrize(
    ("log", "nature"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "oom"),
        ('Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nKeyError: 3', "script"),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "gpu"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "gpu"),
        ("node1:12:34 [0] NCCL WARN Call to connect failed : Connection timed out", "network"),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01 DUE TO PREEMPTION ***", "external"),
        ("ValueError: Attempting to unscale FP16 gradients.", "precision"),
        ("OSError: [Errno 28] No space left on device", "environment"),
        ("PermissionError: [Errno 13] Permission denied: '/data'", "environment"),
        ("OSError: [Errno 116] Stale file handle", "storage"),
        ("Fatal Python error: Segmentation fault", "crash"),
    ],
)
def test_a_log_has_a_nature(log: str, nature: str) -> None:
    assert classify_cause(cause(log + _FAILED)).name == nature


def test_a_sigkill_is_from_outside_until_the_kernel_says_that_memory_was_why() -> None:
    log = "E1121 01:11:20 1 api.py:882] failed (exitcode: -9) local_rank: 1 (pid: 512) of binary: python\n"
    assert classify_cause(cause(log)).name == "external"
    kernel = KernelLog("dmesg", (), ("Out of memory: Killed process 512 (python)",), ())
    assert classify_cause(cause(log, Context(kernel_logs=(kernel,)))).name == "oom"


def test_a_class_that_the_table_does_not_know_is_not_known_to_pass() -> None:
    new = Cause("S999", "something-new", "certain", "", "", ())
    assert classify_cause(new).name == "unknown"
