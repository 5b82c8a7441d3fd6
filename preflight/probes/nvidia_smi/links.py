"""PCIe and the NVSwitch fabric, as nvidia-smi prints them."""

from typing import Any

from ..fact import Json
from .values import all_or_first_missing, find, value_at, whole


def pcie(gpu: Json) -> Any:
    """Return facts.PcieLink."""
    xml, text = "pci/pci_gpu_link_info/", "pci/gpu_link_info/"
    return all_or_first_missing(
        {
            "generation": value_at(
                gpu, whole, xml + "pcie_gen/current_link_gen", text + "pcie_generation/current"
            ),
            "generation_max": value_at(
                gpu, whole, xml + "pcie_gen/max_link_gen", text + "pcie_generation/max"
            ),
            "width": value_at(
                gpu, whole, xml + "link_widths/current_link_width", text + "link_width/current"
            ),
            "width_max": value_at(gpu, whole, xml + "link_widths/max_link_width", text + "link_width/max"),
        }
    )


def fabric(gpu: Json) -> Any:
    """Return facts.Fabric."""
    states = {"completed": "completed", "in progress": "in_progress", "not started": "not_started"}
    state = value_at(gpu, lambda text: states[text.strip().lower()], "fabric/state")
    if isinstance(state, dict):
        return state
    return {"state": state, "status": (find(gpu, "fabric/status") or "n/a").lower()}
