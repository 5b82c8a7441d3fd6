"""GPUs of a host whose NVML cannot be used, by its nvidia-smi."""

from ..commands import run_command
from ..fact import Emit, missing, truncate
from ..nvml.library import read_driver_hint
from .values import parse_smi_error


def emit_smi_gpus(emit: Emit, refused: str) -> None:
    """Emit driver and gpus from `nvidia-smi -q -x`."""
    text = ""
    try:
        status, text = run_command(["nvidia-smi", "-q", "-x"], 12.0)
    except FileNotFoundError:
        excuse = missing(
            "NVML cannot be loaded (%s) and there is no nvidia-smi: no NVIDIA driver is installed%s"
            % (refused, read_driver_hint()),
            "no-library",
        )
    else:
        said = truncate(text.strip()) or "it printed nothing"
        excuse = parse_smi_error(text) or missing("nvidia-smi exited %s: %s" % (status, said))
        if status is None:
            text, excuse = "", missing("nvidia-smi did not answer within 12 s", "timeout")
    at = text.find("<nvidia_smi_log")
    if at < 0:
        emit("driver", excuse)
        emit("gpus", excuse)
        return
    from .tree import parse_driver, parse_gpus
    from .xmldoc import parse_xml

    tree = parse_xml(text[at:])
    emit("driver", parse_driver(tree, "nvidia-smi"))
    emit("gpus", parse_gpus(tree) or missing("the driver is loaded and lists no GPU", "no-devices"))
