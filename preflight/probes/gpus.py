"""GPUs and their driver."""

from .fact import Emit
from .nvml.library import import_pynvml, load_nvml
from .request import ProbeRequest


def probe(ask: ProbeRequest, emit: Emit) -> None:
    """Emit driver and gpus: by NVML where its library is, else by nvidia-smi; only that way is imported."""
    refused = load_nvml()
    if refused or ask.pynvml is None:
        from .nvidia_smi.command import emit_smi_gpus

        emit_smi_gpus(emit, refused or "no pynvml came with the request")
    else:
        from .nvml.gpus import emit_nvml_gpus

        emit_nvml_gpus(import_pynvml(ask.pynvml), emit, ask.known)
