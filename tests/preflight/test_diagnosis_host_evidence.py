import pytest

from preflight.diagnosis.diagnose import diagnose
from preflight.diagnosis.free_memory import FreeMemory
from preflight.diagnosis.host_evidence import Context, apply_context
from preflight.diagnosis.result import Cause
from preflight.diagnosis.signatures.table import find_signature
from preflight.facts.host import KernelLog, Xid
from preflight.facts.missing import Missing

_KILLED = "E1121 01:11:20 1 api.py:882] failed (exitcode: -9) local_rank: 1 (pid: 512) of binary: python\n"


def _kernel(*, kills: tuple[str, ...] = (), xids: tuple[int, ...] = ()) -> KernelLog:
    seen = tuple(
        Xid(code, "0000:3b:00", Missing("none"), f"NVRM: Xid (PCI:0000:3b:00): {code}, GPU") for code in xids
    )
    return KernelLog("dmesg", seen, kills, ())


def test_the_kernels_oom_line_makes_a_sigkill_certain() -> None:
    context = Context(kernel_logs=(_kernel(kills=("Out of memory: Killed process 512 (python)",)),))
    cause = diagnose(_KILLED, context).causes[0]
    assert (cause.slug, cause.confidence) == ("host-oom-killed", "certain")
    assert "Killed process 512" in cause.evidence[0].text
    assert cause.cause.startswith("a process was killed because the memory limit")


@pytest.mark.parametrize(
    ("kill", "confidence"),
    [
        ("Memory cgroup out of memory: Killed process 512 (python), UID 1000", "certain"),
        ("the kernel counted an out-of-memory kill in the run's control group just then", "certain"),
        ("the kernel counted an out-of-memory kill on this host just then", "likely"),
        ("Out of memory: Killed process 51 (chrome)", "likely"),
    ],
)
def test_a_kill_that_may_be_anothers_makes_a_sigkill_only_likely(kill: str, confidence: str) -> None:
    found = diagnose(_KILLED, Context(kernel_logs=(_kernel(kills=(kill,)),)))
    assert found.causes[0].confidence == confidence


@pytest.mark.parametrize(
    ("kills", "order"),
    [(("Out of memory: Killed process 512 (python)",), ["S70", "S71"]), ((), ["S71", "S70"])],
)
def test_only_a_kill_that_the_kernel_reports_stands_before_other_ends(
    kills: tuple[str, ...], order: list[str]
) -> None:
    rows = [row for code in ("S71", "S70") if (row := find_signature(code)) is not None]
    ends = tuple(Cause(row.code, row.slug, "likely", row.cause, row.fix, ()) for row in rows)
    for context in (Context(kernel_logs=(_kernel(kills=kills),)), *(() if kills else (Context(),))):
        assert [cause.code for cause in apply_context(ends, context)] == order


def test_a_kernel_log_without_an_oom_line_makes_it_only_possible() -> None:
    assert diagnose(_KILLED, Context(kernel_logs=(_kernel(),))).causes[0].confidence == "possible"


def test_an_xid_of_a_broken_gpu_stands_before_what_cuda_said() -> None:
    log = "RuntimeError: NCCL error in: x.cpp:1, unhandled cuda error, NCCL version 2.20\n"
    found = diagnose(log, Context(kernel_logs=(_kernel(xids=(79,)),)))
    assert found.verdict == "gpu-lost"


def test_an_xid_of_a_programs_own_fault_breaks_no_gpu() -> None:
    log = "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    found = diagnose(log, Context(kernel_logs=(_kernel(xids=(31,)),)))
    assert (found.verdict, found.causes[0].confidence) == ("illegal-memory-access", "certain")


def test_a_signal_that_no_line_tells_of_is_a_cause() -> None:
    assert diagnose("step 1 loss 2.0\n", Context(exit_codes=(-11,))).verdict == "segfault"


@pytest.mark.parametrize(
    ("code", "signals"),
    [(-9, (9,)), (0, ()), (1, ()), (128, ()), (129, (1,)), (139, (11,)), (160, ()), (255, ())],
)
def test_a_shells_exit_code_names_the_signal(code: int, signals: tuple[int, ...]) -> None:
    assert Context(exit_codes=(code,)).exit_signals == signals


@pytest.mark.parametrize(
    ("status", "free", "verdict"),
    [
        ("CUBLAS_STATUS_NOT_INITIALIZED", 300.0, "cuda-oom"),
        ("CUDNN_STATUS_INTERNAL_ERROR", 1023.0, "cuda-oom"),
        ("CUBLAS_STATUS_NOT_INITIALIZED", 1024.0, "cuda-library"),
        ("CUBLAS_STATUS_NOT_INITIALIZED", None, "cuda-library"),
        ("CUBLAS_STATUS_ARCH_MISMATCH", 300.0, "cuda-library"),
    ],
)
def test_a_cuda_library_that_fails_on_a_full_gpu_is_out_of_memory(
    status: str, free: float | None, verdict: str
) -> None:
    log = f"RuntimeError: CUDA error: {status} when calling `cublasCreate(handle)`\n"
    found = diagnose(log, Context(room=FreeMemory(3.2, free, 4000.0)))
    said = found.causes[0].evidence[-1]
    assert found.verdict == verdict
    assert (said.text == "the rank's GPU had 300 MiB free 3 s before") == (
        verdict == "cuda-oom" and free == 300
    )


def test_a_full_gpu_explains_no_other_failure() -> None:
    log = "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    assert diagnose(log, Context(room=FreeMemory(1.0, 10.0, 10.0))) == diagnose(log)


def test_the_signal_that_ended_a_rank_comes_before_an_error_that_no_row_knows() -> None:
    log = "step 1 loss 2.0\n2026-03-01 10:00:00 ERROR zone 4 has no owner\n"
    found = diagnose(log, Context(exit_codes=(-9,)))
    assert [cause.code for cause in found.causes] == ["S70", "S119"]


def test_a_run_that_failed_without_a_word_is_unknown() -> None:
    assert diagnose("step 1 loss 2.0\n", Context(exit_codes=(1,))).verdict == "unknown"


@pytest.mark.parametrize("sides", ["││", "||", "┃┃"])
def test_a_cause_in_a_box_is_found_as_outside_of_it(sides: str) -> None:
    message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    evidence = diagnose(f"{sides[0]} {message}  {sides[1]}\n").causes[0].evidence
    assert [each.text for each in evidence] == [message]


def test_what_the_log_put_behind_stays_there() -> None:
    rows = [row for code in ("S92", "S104") if (row := find_signature(code)) is not None]
    causes = tuple(Cause(row.code, row.slug, "likely", row.cause, row.fix, ()) for row in rows)
    for context in (Context(own_modules=frozenset({"data"})), Context(exit_codes=(-9,))):
        assert [cause.code for cause in apply_context(causes, context)][:2] == ["S92", "S104"]
