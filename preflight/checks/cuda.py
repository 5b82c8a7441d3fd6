"""The start of CUDA: whether a rank can compute where the driver and NVML are fine."""

from collections.abc import Iterator

from preflight.checks.driver import CAPABILITIES, FIND_HANGING, RESTART_CONTAINER
from preflight.checks.finding import Problem, Severity
from preflight.checks.registry import host_check
from preflight.checks.unread_facts import REPORTED_ELSEWHERE, fix_missing
from preflight.facts.gpu import CudaStart, Gpu
from preflight.facts.host import HostFacts, Identity
from preflight.facts.missing import Missing

_NO_COMPAT = "take .../cuda/compat out of LD_LIBRARY_PATH (or out of /etc/ld.so.conf.d, then ldconfig)"
_ON_WSL = (
    "WSL2 has its driver from Windows, in /usr/lib/wsl/lib: remove what is installed in Linux (sudo apt "
    "remove 'libnvidia-compute-*' 'nvidia-driver-*'), update the driver of Windows, then in Windows: wsl "
    "--shutdown"
)
"""A Linux driver hides the libraries that Windows provides, and WSL2 has no /dev/nvidia* to look at."""
_NIXOS = "/run/opengl-driver/lib/"
_NO_GPU = 100

_WHY: dict[int, tuple[str, str]] = {
    2: (
        "CUDA gets no memory to start with: a limit of address space or of the container is too low",
        "ulimit -v has to be unlimited (it is set by /etc/security/limits.conf, a profile or a job's script)",
    ),
    34: (
        "the libcuda.so.1 that the loader finds is the CUDA toolkit's stub, and not the driver's",
        "take the folder .../stubs out of LD_LIBRARY_PATH; ldconfig -p | grep libcuda shows the driver's",
    ),
    _NO_GPU: (
        "CUDA finds no GPU that this user may open",
        f"ls -l /dev/nvidia*: this user has to read and write them; {RESTART_CONTAINER}",
    ),
    802: (
        "the NVSwitch fabric is not ready",
        (
            "sudo systemctl restart nvidia-fabricmanager; its version has to be the driver's; without "
            "NVSwitch, in a confidential virtual machine: sudo nvidia-smi conf-compute -srs 1"
        ),
    ),
    803: (
        "libcuda.so.1 and the kernel module are of different versions",
        f"{_NO_COMPAT}, or reboot after an upgrade of the driver",
    ),
    804: (
        "a libcuda.so.1 for forward compatibility is loaded, which this GPU does not support",
        f"{_NO_COMPAT}, or ask for a driver as new as the image's CUDA",
    ),
    999: (
        "CUDA does not start: mostly /dev/nvidia-uvm is missing, or its module hangs after a suspend",
        (
            "ls -l /dev/nvidia-uvm; sudo nvidia-modprobe -u -c=0; after a suspend: sudo rmmod nvidia_uvm && "
            f"sudo modprobe nvidia_uvm; {RESTART_CONTAINER}"
        ),
    ),
}
"""What a CUresult means for the host, and the remedy."""
_WHATEVER_GPU = frozenset({2, 34, 803, 804})
"""What memory, or the library itself, keeps from starting: no GPU that is left out changes that."""
_DRIVER_MIXED = frozenset({_NO_GPU, 803, 804, 999})  # under WSL2, with a driver for Linux installed


@host_check("DRV005", gpu_only=True, reads=("cuda",))
def cuda_starts(facts: HostFacts) -> Iterator[Problem]:
    """CUDA starts on the host and lists the GPUs that the driver lists.

    `nvidia-smi` can be fine where no rank can compute, because CUDA is another library and needs a device
    file of its own: a container without the capability `compute`, a stub or a compatibility libcuda in
    LD_LIBRARY_PATH, a driver in a folder that the loader does not search, no /dev/nvidia-uvm, an
    NVSwitch fabric that is not up. torch then reports "CUDA unknown error", "No CUDA GPUs are available",
    error 802, 803 or 804. gpulaunch starts CUDA in a process of its own (cuInit) and makes no context, so no
    memory of a GPU is taken.

    Fix: printed per error; most need root, or another start of the container.
    Source: CUresult in cuda.h; a rank's own first call is cuInit.
    """
    cuda = facts.cuda
    if isinstance(facts.gpus, Missing):
        return  # DRV001 has said so
    if isinstance(cuda, Missing):
        yield from _not_started(cuda, facts)
    elif cuda.code or not cuda.uuids:
        yield from _failed(cuda, facts.gpus, facts)
    else:
        yield from _unsearched_library(cuda, facts)
        yield from _unlisted_gpus(cuda, facts.gpus)


def _is_lost(gpu: Gpu) -> bool:
    values = (gpu.memory, gpu.name, gpu.capability)
    return any(isinstance(value, Missing) and value.code in REPORTED_ELSEWHERE for value in values)


def _is_wsl(facts: HostFacts) -> bool:
    return isinstance(facts.identity, Identity) and "microsoft" in facts.identity.kernel.lower()


def _failed(cuda: CudaStart, gpus: tuple[Gpu, ...], facts: HostFacts) -> Iterator[Problem]:
    code = cuda.code or _NO_GPU
    if code == _NO_GPU and gpus and all(gpu.mig_enabled is True for gpu in gpus):
        yield Problem(
            "every GPU is in MIG mode, and has no instance that this user may open: " + cuda.error,
            "sudo nvidia-smi -mig 0 for whole GPUs; sudo nvidia-smi mig -lgi lists instances",
        )
        return
    why, fix = _WHY.get(code, ("CUDA does not start", "sudo dmesg | grep -i nvrm, then reboot"))
    lost = [str(gpu.index) for gpu in gpus if _is_lost(gpu)]
    # A launch without it has a list of its own: what CUDA says of that is not known.
    if lost and code not in _WHATEVER_GPU:
        yield Problem(
            f"CUDA does not start beside the lost GPU {','.join(lost)}, and may without it: {cuda.error}",
            "leave the GPU out (gpus: in hosts.yaml) until it is back; GPU003 says how",
            severity=Severity.WARNING,
        )
        return
    words = f"{why}: {cuda.error or 'it lists none'}"
    yield Problem(words, _ON_WSL if _is_wsl(facts) and code in _DRIVER_MIXED else fix)


def _unsearched_library(cuda: CudaStart, facts: HostFacts) -> Iterator[Problem]:
    """Report a libcuda that was found by its path alone: torch asks the loader for it.

    Not on NixOS, where packages know the folder by a path that is in them.
    """
    folder = cuda.library.rpartition("/")[0]
    if folder and not cuda.library.startswith(_NIXOS):
        yield Problem(
            f"libcuda.so.1 is in {folder}, where the loader does not search: torch finds no driver",
            f"in hosts.yaml, for {facts.host}: env: {{LD_LIBRARY_PATH: {folder}}}; or as root: echo {folder} "
            "> /etc/ld.so.conf.d/nvidia.conf && ldconfig",
        )


def _not_started(cuda: Missing, facts: HostFacts) -> Iterator[Problem]:
    if cuda.code == "no-library":
        install = (
            f"{CAPABILITIES}; on a host: install the driver's libcuda (Debian: libcuda1, Ubuntu: "
            "libnvidia-compute-VERSION)"
        )
        yield Problem(
            f"the driver's CUDA library cannot be loaded, so no rank can use a GPU: {cuda.reason}",
            _ON_WSL if _is_wsl(facts) else install,
        )
    elif cuda.code == "timeout":
        yield Problem(
            f"CUDA does not start ({cuda.reason}); a launch would hang in the same way", FIND_HANGING
        )
    elif cuda.code != "not-asked":  # a recording of a version that did not start CUDA
        words = f"whether CUDA starts is not known: {cuda.reason}"
        yield Problem(words, fix_missing(cuda), severity=Severity.UNKNOWN)


def _unlisted_gpus(cuda: CudaStart, gpus: tuple[Gpu, ...]) -> Iterator[Problem]:
    """Report GPUs that CUDA leaves out.

    Of a host with MIG it lists one instance, however many it has; lists that share no GPU name it otherwise.
    """
    if any(gpu.mig_enabled is True for gpu in gpus) or not any(gpu.uuid in cuda.uuids for gpu in gpus):
        return
    for gpu in gpus:
        if isinstance(gpu.uuid, str) and gpu.uuid not in cuda.uuids:
            yield Problem(
                f"CUDA does not list this GPU, and lists {len(cuda.uuids)} of {len(gpus)}",
                f"ls -l /dev/nvidia*: this user has to read and write them; {RESTART_CONTAINER}",
                gpu=gpu.index,
            )
