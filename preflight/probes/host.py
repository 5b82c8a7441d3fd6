"""Facts out of a handful of files of the kernel that do not hang."""

from .claims import gpu_claims
from .fact import Emit, fact
from .identity import identity
from .infiniband import infiniband
from .launch_environment import launch_environ
from .limits import limits
from .pci import pci_gpus


def probe_host(emit: Emit) -> None:
    """Emit what a handful of /proc and /sys files say."""
    emit("identity", fact(identity))
    emit("limits", fact(limits))
    emit("environ", fact(launch_environ))
    emit("infiniband", fact(infiniband))
    emit("pci_gpus", fact(pci_gpus))
    emit("claims", fact(gpu_claims))
