"""NVIDIA's devices on the PCI bus."""

import os

from .fact import Json, missing
from .files import link_target, text_or

PCI = "/sys/bus/pci/devices"


def pci_gpus() -> list[Json]:
    """Return facts.PciGpu: NVIDIA's (10de) display controllers (class 03xx), with or without a driver."""
    found = []
    for bus_id in sorted(os.listdir(PCI)) if os.path.isdir(PCI) else []:
        folder = "%s/%s" % (PCI, bus_id)
        if text_or(folder + "/vendor") != "0x10de" or not text_or(folder + "/class").startswith("0x03"):
            continue
        driver = os.path.basename(link_target(folder + "/driver"))
        found.append(
            {
                "bus_id": bus_id,
                "device_id": text_or(folder + "/device")[2:],
                "driver": driver or missing("no driver is bound to it", "not-found"),
            }
        )
    return found
