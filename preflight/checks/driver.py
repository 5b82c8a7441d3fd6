"""The NVIDIA driver: that it answers, in time, and is new enough."""

from collections.abc import Iterator

from preflight import regex as re
from preflight.checks.finding import Problem, Severity
from preflight.checks.install import install_command
from preflight.checks.minimum_drivers import find_minimum_driver
from preflight.checks.registry import host_check
from preflight.checks.unread_facts import fix_missing
from preflight.checks.versions import compare, parse_release, satisfies
from preflight.facts.gpu import CudaStart, Driver
from preflight.facts.host import HostFacts, PythonEnv, System
from preflight.facts.missing import Missing, MissingCode
from preflight.job import Expect, Job
from preflight.probes.nvidia_smi.values import NO_PROGRAM

_NVML_SAYS = ("NVML: ", "nvidia-smi: Failed to initialize NVML")
_RESTART = (
    "in a container: start the container again with --gpus all (a pod: nvidia.com/gpu under its limits)"
)
RESTART_CONTAINER = f"{_RESTART}, for `systemctl daemon-reload` on its host takes devices away"
FIND_HANGING = (
    "look for processes in state D with: ps -eo pid,stat,wchan,comm | grep ' D'; then reboot the host"
)
CAPABILITIES = (
    "in a container: start the container with -e NVIDIA_DRIVER_CAPABILITIES=compute,utility --gpus all"
)

_WHY: dict[MissingCode, tuple[str, str]] = {
    "no-library": (
        "no NVIDIA driver library (libnvidia-ml) is installed, so no rank can use a GPU",
        (
            f"{_RESTART}; on a host: ask the administrator to install the driver; for CPU ranks run with "
            "--gpus none"
        ),
    ),
    "not-loaded": (
        "the driver's kernel module is not loaded or does not answer",
        f"{_RESTART}; on a host: sudo modprobe nvidia && nvidia-smi   (else dkms status, then reboot)",
    ),
    "library-mismatch": (
        (
            "the driver was upgraded under a running kernel: library and kernel module differ, every CUDA "
            "call fails"
        ),
        (
            "when no job runs on the host: sudo reboot   (or, with no process on any GPU: sudo rmmod "
            "nvidia_drm nvidia_modeset nvidia_uvm nvidia && sudo modprobe nvidia)"
        ),
    ),
    "no-devices": (
        "the driver runs and finds no GPU",
        "lspci -d 10de: shows what the bus sees; if it lists the GPU, look at: sudo dmesg | grep -i nvrm",
    ),
    "gpu-lost": (
        "a GPU is lost and the driver answers nothing",
        "sudo dmesg | grep -i xid; then power-cycle",
    ),
    "reset-required": ("a GPU needs a reset", "sudo nvidia-smi --gpu-reset -i INDEX, or reboot"),
}


@host_check("DRV001", gate=True, gpu_only=True)
def the_driver_answers(facts: HostFacts, job: Job) -> Iterator[Problem]:
    """The NVIDIA driver is loaded and answers.

    Without it no rank can open a GPU. The reason is named apart, because the remedies differ: no library,
    module not loaded, library and module of different versions (an upgrade without a reboot), no devices, no
    answer.

    Fix: printed per reason; most need root.
    Source: NVML return codes of nvmlInit (nvml.h); `nvidia-smi` messages.
    """
    for what, fact in (("driver", facts.driver), ("GPU list", facts.gpus)):
        if not isinstance(fact, Missing):
            continue
        if fact.code == "no-library" and isinstance(facts.cuda, CudaStart) and not facts.cuda.code:
            yield Problem(
                f"CUDA starts, and NVML, which lists the GPUs, cannot be loaded: {fact.reason}",
                f"{CAPABILITIES}; on a host: install the rest of the driver (nvidia-utils-VERSION)",
            )
        elif fact.code == "no-library" and re.search(NO_PROGRAM, fact.reason, re.IGNORECASE):
            yield Problem(
                f"nvidia-smi is not found: no NVIDIA driver is installed, or PATH lacks it: {fact.reason}",
                f"{CAPABILITIES}; on a host: ls /usr/bin/nvidia-smi /usr/lib/wsl/lib/nvidia-smi, and without "
                "either ask the administrator to install the driver; for CPU ranks run with --gpus none",
            )
        elif fact.code in _WHY:
            why, fix = _WHY[fact.code]
            cpu = "; for CPU ranks: --gpus none" if job.gpus_by_auto and "--gpus none" not in fix else ""
            yield Problem(f"{why}: {fact.reason}", fix + cpu)
        else:
            yield _unanswered(what, fact)
        return


def _unanswered(source: str, fact: Missing) -> Problem:
    if fact.code == "timeout":
        return Problem(
            f"the driver does not answer ({fact.reason}); a launch would hang in the same way", FIND_HANGING
        )
    if fact.code == "no-permission":
        return Problem(
            f"this user may not ask the driver: {fact.reason}",
            f"ask the administrator for access to /dev/nvidia*; {RESTART_CONTAINER}",
        )
    if fact.code == "error" and fact.reason.startswith(_NVML_SAYS):
        return Problem(
            f"the driver's library does not start: {fact.reason}",
            f"{RESTART_CONTAINER}; on a host: sudo dmesg | grep -i nvrm, then reboot",
        )
    fix = fix_missing(fact) if fact.code == "not-asked" else "nvidia-smi"
    return Problem(f"{source} could not be read: {fact.reason}", fix, severity=Severity.UNKNOWN)


@host_check("DRV002", gpu_only=True)
def the_driver_is_what_the_site_expects(driver: Driver, expect: Expect) -> Iterator[Problem]:
    """The driver's version fits `expect: {driver: ...}` of hosts.yaml.

    Sites pin drivers for reasons that no check can see. Nothing is checked where nothing is expected.

    Fix: ask the administrator for the driver, or change `expect:`.
    Source: the site's own hosts.yaml.
    """
    if expect.driver and not satisfies(driver.version, expect.driver):
        yield Problem(
            f"driver {driver.version} does not fit the expected {expect.driver}",
            "ask the administrator to install it, or change expect: {driver: ...} in hosts.yaml",
        )


@host_check("DRV003", gate=True, gpu_only=True)
def the_driver_runs_this_torch(
    facts: HostFacts, driver: Driver, python: PythonEnv, job: Job
) -> Iterator[Problem]:
    """The driver is new enough for the CUDA that torch was built with.

    With an older driver torch says "The NVIDIA driver on your system is too old", finds no GPU, and trains on
    the CPU or stops. Minor versions of one CUDA major are compatible; a new major needs a new driver, or the
    libraries of NVIDIA's forward compatibility (cuda-compat), with which the driver names the newer CUDA.

    Fix: a newer driver, or a torch wheel of an older CUDA.
    Source: CUDA release notes, table of minimum driver versions; CUDA 13 needs R580; NVIDIA's guide to CUDA
    compatibility.
    """
    build = python.torch_cuda
    if isinstance(build, Missing) or not parse_release(build) or not job.uses_torch:
        return  # ENV003 has said so
    floor = find_minimum_driver(build)
    if not floor:
        yield Problem(
            f"no known driver requirement for CUDA {build}",
            "look it up in the CUDA release notes and compare with nvidia-smi",
            severity=Severity.INFO,
        )
    elif not parse_release(driver.version):
        yield Problem(
            f"driver version {driver.version!r} cannot be compared with the {floor} that CUDA {build} needs",
            "nvidia-smi --query-gpu=driver_version --format=csv",
            severity=Severity.UNKNOWN,
        )
    elif compare(parse_release(driver.version), parse_release(floor)) < 0 and not _runs_newer(driver, build):
        yield Problem(
            f"torch was built with CUDA {build}, which needs driver {floor} or newer; this is "
            f"{driver.version}",
            f"ask the administrator for driver {floor}+, or: {install_command(facts, python, ('torch',))}",
        )


def _runs_newer(driver: Driver, build: str) -> bool:
    """Whether libcuda is of a newer CUDA than the kernel's driver."""
    cuda = driver.cuda_version
    return not isinstance(cuda, Missing) and compare(parse_release(cuda)[:1], parse_release(build)[:1]) >= 0


@host_check("DRV004", gpu_only=True)
def no_driver_call_hangs(system: System) -> Iterator[Problem]:
    """No process hangs inside the NVIDIA driver.

    A process that stays in uninterruptible sleep (state D) in the driver cannot be killed, keeps its GPU, and
    is what the next process that touches the GPU will become.

    Fix: reboot the host; a GPU reset does not help while the process lives.
    Source: /proc/PID/stat and wchan, seen twice; NVIDIA/NVSentinel issue 1576.
    """
    for line in system.hung:
        words = line.split(maxsplit=2)
        deep = "nvidia" in line.lower() or "nv_" in line or "rm_" in line
        yield Problem(
            f"process in state D at two looks: {line}",
            "ask the administrator to reboot the host"
            if deep
            else f"look at its storage or network mount: sudo cat /proc/{words[0] if words else 'PID'}/stack",
            subject=f"pid {words[0]}" if words else "",
            severity=Severity.CRITICAL if deep else Severity.INFO,
        )
