"""GPU families by PCI device id, for recordings that name no compute capability.

Ranges of device ids as NVIDIA has given them to its chips (the public PCI id list has every one).
"""

import re
from typing import NamedTuple


class Family(NamedTuple):
    """Device ids `first` to `last` share a chip generation."""

    first: int
    last: int
    architecture: int  # NVML's number: 3 Maxwell, 4 Pascal, 5 Volta, 6 Turing, 7 Ampere, 8 Ada, 9 Hopper
    capability: tuple[int, int]


FAMILIES = (
    Family(0x1340, 0x13BF, 3, (5, 0)),  # GM108, GM107
    Family(0x13C0, 0x143F, 3, (5, 2)),  # GM204, GM206
    Family(0x15F0, 0x15FF, 4, (6, 0)),  # GP100
    Family(0x1617, 0x1667, 3, (5, 2)),  # GM204 mobile
    Family(0x17C2, 0x17FD, 3, (5, 2)),  # GM200
    Family(0x1B00, 0x1D7F, 4, (6, 1)),  # GP102 to GP108
    Family(0x1D81, 0x1DBF, 5, (7, 0)),  # GV100
    Family(0x1DF0, 0x1DFF, 5, (7, 0)),
    Family(0x1E02, 0x1FFF, 6, (7, 5)),  # TU102, TU104, TU106, TU117
    Family(0x20B0, 0x20FF, 7, (8, 0)),  # GA100
    Family(0x2180, 0x21FF, 6, (7, 5)),  # TU116
    Family(0x2200, 0x22FF, 7, (8, 6)),  # GA102
    Family(0x2300, 0x23FF, 9, (9, 0)),  # GH100
    Family(0x2400, 0x25FF, 7, (8, 6)),  # GA103, GA104, GA106, GA107
    Family(0x2680, 0x28FF, 8, (8, 9)),  # AD102 to AD107
    Family(0x2900, 0x29FF, 10, (10, 0)),  # GB100: B200, GB200
    Family(0x2B80, 0x2FFF, 10, (12, 0)),  # GB202 to GB207
    Family(0x3180, 0x31FF, 10, (10, 3)),  # GB110: B300, GB300
)


# Marketing names, for recordings whose contributor has masked the device id.
NAMES = (
    (re.compile(r"GTX 10[3-8]0|TITAN X[p ]"), 0x1B06),
    (re.compile(r"RTX 20[5-8]0|GTX 16[356]0"), 0x1E87),
    (re.compile(r"RTX 30[5-9]0|RTX A[2-6]\d00|NVIDIA A(10|10G|16|40)$"), 0x2204),
    (re.compile(r"RTX 40[5-9]0"), 0x2684),
    (re.compile(r"RTX 50[5-9]0"), 0x2B85),
)


def device_id_by_name(name: str) -> int:
    """A device id of the family that a marketing name belongs to, 0 for an unknown name."""
    return next((device_id for pattern, device_id in NAMES if pattern.search(name)), 0)


def _family(device_id: int) -> Family | None:
    for family in FAMILIES:
        if family.first <= device_id <= family.last:
            return family
    return None


def architecture_of(device_id: int) -> int | None:
    """NVML's architecture number of a PCI device id, None for an unknown one."""
    family = _family(device_id)
    return family.architecture if family else None


def capability_of(device_id: int) -> tuple[int, int] | None:
    """Compute capability of a PCI device id, None for an unknown one."""
    family = _family(device_id)
    return family.capability if family else None
