"""What is between GPUs that talk to each other directly over PCI: ACS and the IOMMU."""

import os
from typing import Any

from .fact import missing
from .files import text_or
from .pci import PCI, pci_gpus


def acs_enabled() -> Any:
    """Return whether a PCI bridge redirects peer-to-peer traffic (ACS source validation on)."""
    if not pci_gpus():
        return missing("there is no NVIDIA device on the PCI bus", "not-found")
    seen = False
    for bus_id in os.listdir(PCI):
        folder = "%s/%s" % (PCI, bus_id)
        if not text_or(folder + "/class").startswith("0x0604"):
            continue
        with open(folder + "/config", "rb", buffering=0) as file:
            config = file.read(4096)
        if len(config) <= 256:
            return missing("PCI bridges' extended configuration is for root", "no-permission")
        seen = True
        if _acs_control(config) & 1:
            return True
    return False if seen else missing("no PCI bridge is visible", "not-found")


def _acs_control(config: bytes) -> int:
    """Return the ACS control register of a PCI device's configuration space, 0 without ACS."""
    at, steps = 0x100, 0
    while at and at + 8 <= len(config) and steps < 64:
        header = int.from_bytes(config[at : at + 4], "little")
        if header & 0xFFFF == 0x0D:
            return int.from_bytes(config[at + 6 : at + 8], "little")
        at, steps = header >> 20, steps + 1
    return 0


def iommu() -> Any:
    """Return "off", or how the IOMMU treats devices: "passthrough" or "translated"."""
    groups = "/sys/kernel/iommu_groups"
    if not os.path.isdir(groups) or not os.listdir(groups):
        return "off"
    kinds = {text_or("%s/%s/type" % (groups, group)) for group in os.listdir(groups)}
    return "passthrough" if kinds == {"identity"} else "translated"
