"""NVIDIA's devices on the PCI bus."""

import os
import re

from .fact import Json, missing
from .files import read_text_or
from .namespaces import link_target

PCI = "/sys/bus/pci/devices"


def list_pci_gpus() -> list[Json]:
    """Return facts.PciGpu: NVIDIA's (10de) display controllers (class 03xx), with or without a driver."""
    found = []
    for bus_id in sorted(os.listdir(PCI)) if os.path.isdir(PCI) else []:
        folder = "%s/%s" % (PCI, bus_id)
        if read_text_or(folder + "/vendor") != "0x10de" or not read_text_or(folder + "/class").startswith(
            "0x03"
        ):
            continue
        if os.path.islink(folder + "/physfn"):
            continue  # a virtual function, for a virtual machine: the host's driver lists the physical one
        driver = os.path.basename(link_target(folder + "/driver"))
        found.append(
            {
                "bus_id": bus_id,
                "device_id": read_text_or(folder + "/device")[2:],
                "driver": driver or missing("no driver is bound to it", "not-found"),
            }
        )
    return found


def format_bus_id(text: str) -> str:
    """Return a bus id as /sys names it, "0000:3b:00.0", from the form of NVML or of the kernel log."""
    match = re.fullmatch(
        r"(?:([0-9a-fA-F]{4,16}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\.([0-7]))?", text.strip()
    )
    if match is None:
        return text.strip().lower()
    domain, bus, device, function = match.groups()
    return "%04x:%02x:%02x.%s" % (int(domain or "0", 16), int(bus, 16), int(device, 16), function or "0")
