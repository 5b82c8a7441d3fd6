"""Hardware health: memory errors, throttling, heat, kills by the kernel, settings that slow a GPU down."""

from collections.abc import Iterator, Sequence

from preflight.checks.finding import Problem, Severity
from preflight.checks.message_text import shorten
from preflight.checks.registry import host_check
from preflight.checks.unread_facts import judge_each_gpu, report_unreadable
from preflight.facts.gpu import Ecc, Gpu, RetiredPages, RowRemap
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.job import Expect
from preflight.probes.fact import MOST_LINES


@host_check("HEAL003", gpu_only=True)
@judge_each_gpu("remap", "row remapping")
def no_row_remap_waits(gpu: Gpu, remap: RowRemap) -> Iterator[Problem]:
    """No GPU has a memory row remap pending or failed.

    Pending: memory failed, its pages are out of use, and a spare row takes their place at the next reset.
    DCGM fails such a GPU, so a long job should not start on it; where the driver (570 and later) says that no
    recovery is needed now, work may continue. Failed: the GPU has no spare rows left and must be replaced.
    Rows that were remapped before do no harm.

    Fix: pending: reset the GPU (root). Failed: ask the administrator for a replacement.
    Source: NVML nvmlDeviceGetRemappedRows; NVIDIA's guide to GPU memory errors, "Error Recovery and Response
    Flags"; DCGM_FR_PENDING_ROW_REMAP.
    """
    if remap.failed is True:
        yield Problem(
            "a memory row could not be remapped: no spare rows are left",
            "ask the administrator to have the GPU replaced",
        )
    elif remap.pending is True:
        yield _after_reset(gpu, "a bad memory row waits to be remapped")


def _after_reset(gpu: Gpu, message: str) -> Problem:
    """Return what a reset ends; a warning where the driver asks for no recovery now."""
    reset = f"sudo nvidia-smi --gpu-reset -i {gpu.index}"
    if gpu.needs_no_recovery:
        fix = f"the driver asks for no recovery now; when the GPU is free: {reset}"
        return Problem(message, fix, severity=Severity.WARNING)
    return Problem(message, f"end its processes, then: {reset}")


@host_check("HEAL004", gpu_only=True)
@judge_each_gpu("ecc", "ECC")
def no_uncorrected_memory_errors(gpu: Gpu, ecc: Ecc) -> Iterator[Problem]:
    """No GPU has met an uncorrectable memory error since its driver was loaded.

    Each one ended a program; where the driver (570 and later) says that no recovery is needed now, that is a
    warning. GPUs without ECC (GeForce) do not count them, and nothing is said about those.

    Fix: reset the GPU (root); if they come back, have it replaced.
    Source: NVML nvmlDeviceGetTotalEccErrors, volatile uncorrected.
    """
    count = ecc.uncorrected_volatile
    if isinstance(count, Missing):
        if ecc.enabled:
            yield from report_unreadable(gpu, "ECC error count", count)
    elif count > 0:
        errors = f"{count} uncorrectable memory error{'s' if count > 1 else ''}"
        yield _after_reset(gpu, f"{errors} since the driver was loaded")


_THROTTLES = {
    "hw": "the hardware slows it down (heat or power)",
    "hw_thermal": "it is too hot",
    "sw_thermal": "the driver slows it down because of heat",
    "hw_power_brake": "the power supply asks it to slow down",
}
"""Without the ending "_slowdown", which not every source writes."""


@host_check("HEAL008", Severity.WARNING, gpu_only=True)
@judge_each_gpu("throttle", "throttling")
def no_gpu_is_throttled(gpu: Gpu, active: tuple[str, ...]) -> Iterator[Problem]:
    """No GPU is slowed down by heat or by its power supply.

    One slow GPU slows all ranks. Idle clocks and the normal power cap are normal and are not reported.

    Fix: cooling, power cables, power supply: ask the administrator.
    Source: NVML nvmlDeviceGetCurrentClocksEventReasons.
    """
    names = (reason.removesuffix("_slowdown") for reason in active)
    reasons = dict.fromkeys(_THROTTLES[name] for name in names if name in _THROTTLES)
    if reasons:
        yield Problem(
            f"it is throttled: {', '.join(reasons)}",
            f"nvidia-smi -q -d PERFORMANCE -i {gpu.index}; check cooling and power cables",
        )


@host_check("HEAL009", Severity.WARNING, gpu_only=True)
@judge_each_gpu("temperature_c", "temperature")
def no_gpu_is_hot(gpu: Gpu, celsius: int, expect: Expect) -> Iterator[Problem]:
    """No GPU is near the temperature at which it slows down.

    A GPU that is hot before the job starts will throttle in it.

    Fix: cooling; wait for the neighbour's job to end.
    Source: NVML temperature and slowdown threshold; margin `temperature_margin_c` of `expect:`.
    """
    limit = gpu.temperature_slowdown_c
    if not isinstance(limit, Missing) and celsius >= limit - expect.temperature_margin_c:
        yield Problem(
            f"{celsius} C; it slows down at {limit} C",
            f"nvidia-smi -q -d TEMPERATURE -i {gpu.index}; check the fans and the air flow",
        )


_UNTIL_REBOOT = "nvidia-smi -pm 1   (until a reboot)"


@host_check("HEAL012", Severity.INFO, gpu_only=True)
def persistence_mode_is_on(gpus: tuple[Gpu, ...], facts: HostFacts) -> Iterator[Problem]:
    """Persistence mode is on.

    With it off the driver forgets the GPU whenever no process uses it: seconds at each start, and settings
    such as a power limit are lost.

    Fix: root: `nvidia-smi -pm 1`, or the nvidia-persistenced service.
    Source: NVML nvmlDeviceGetPersistenceMode.
    """
    off = []
    for gpu in gpus:
        if isinstance(gpu.persistence, Missing):
            yield from report_unreadable(gpu, "persistence mode", gpu.persistence)
        elif not gpu.persistence:
            off.append(str(gpu.index))
    if off:
        unit = None if isinstance(facts.system, Missing) else facts.system.persistence_daemon
        starts = isinstance(unit, str) and unit != "active"  # what the service sets holds after a reboot, too
        yield Problem(
            f"persistence mode is off on GPU {', '.join(off)}: slow starts",
            f"sudo {'systemctl enable --now nvidia-persistenced' if starts else _UNTIL_REBOOT}",
        )


@host_check("HEAL013", Severity.INFO, gpu_only=True)
@judge_each_gpu("retired_pages", "retired pages")
def few_pages_are_retired(gpu: Gpu, pages: RetiredPages, expect: Expect) -> Iterator[Problem]:
    """No GPU has many retired memory pages, and none is pending.

    Before Ampere, bad memory pages are retired one by one; many of them announce a failing GPU.

    Fix: pending: reset or reboot; many: have the GPU replaced.
    Source: NVML nvmlDeviceGetRetiredPages; threshold `retired_pages` of `expect:`.
    """
    if pages.pending is True:
        yield Problem(
            "a memory page waits to be retired",
            f"end its processes, then: sudo nvidia-smi --gpu-reset -i {gpu.index}",
            severity=Severity.WARNING,
        )
    total = pages.single_bit + pages.double_bit
    if total > expect.retired_pages:
        yield Problem(
            f"{total} memory pages are retired", "ask the administrator whether the GPU should be replaced"
        )


_TROUBLES = (
    ("RmInitAdapter failed", "if nvidia-smi -L does not list the GPU, power-cycle the host"),
    (
        "API mismatch",
        "if nvidia-smi fails: sudo reboot, as programs have another driver than the kernel module",
    ),
    (
        "infoROM is corrupted",
        "ask the administrator to reboot the host; if it returns, have the GPU replaced",
    ),
)
"""Messages without an Xid that say what is wrong, and what to do."""


def _count(lines: Sequence[str], held: Sequence[str]) -> str:
    """Return the number of lines, with "or more" where the log may have had more than facts hold."""
    return f"{len(lines)}{' or more' if len(held) >= MOST_LINES else ''}"


@host_check("HEAL014", Severity.INFO)
def the_kernel_killed_nothing(facts: HostFacts) -> Iterator[Problem]:
    """The kernel log has no process ended for lack of memory, and no other NVIDIA trouble.

    A rank that vanished without a word was often ended by the out-of-memory killer. The kernel's own buffer
    and a saved log may not reach back to the boot.

    Fix: fewer DataLoader workers, smaller shards, more memory; in a container, a higher limit.
    Source: kernel log, "Out of memory: Killed process".
    """
    kernel_log = facts.kernel_log
    if isinstance(kernel_log, Missing):
        return  # information only; what a launch depends on is HEAL002
    kills, said = kernel_log.oom_kills, kernel_log.other
    since = " since boot" if kernel_log.source == "journal" else ", as far as the kernel log reaches"
    if kills:
        yield Problem(
            f"processes ended for lack of memory{since}: {_count(kills, kills)}; the last: "
            f"{shorten(kills[-1], 120)}",
            "sudo dmesg | grep -i 'killed process'",
        )
    for words, fix in _TROUBLES:
        lines = [line for line in said if words in line]
        if lines:
            yield Problem(f"the driver says: {shorten(lines[-1], 160)}", fix, severity=Severity.WARNING)
    others = [line for line in said if not any(words in line for words, _ in _TROUBLES)]
    if others:
        yield Problem(
            f"other NVIDIA messages: {_count(others, said)}; the last: {shorten(others[-1], 160)}",
            "sudo dmesg | grep -iE 'nvrm|nvidia'",
        )
