"""One way to write the address of a PCI device."""

import re


def pci_bus_id(text: str) -> str:
    """Return a bus id as /sys names it, "0000:3b:00.0", from the form of NVML or of the kernel log."""
    match = re.fullmatch(
        r"(?:([0-9a-fA-F]{4,16}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\.([0-7]))?", text.strip()
    )
    if match is None:
        return text.strip().lower()
    domain, bus, device, function = match.groups()
    return "%04x:%02x:%02x.%s" % (int(domain or "0", 16), int(bus, 16), int(device, 16), function or "0")
