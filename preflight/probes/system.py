"""Kernel modules, the driver's services, ACS and IOMMU, and processes that hang in the kernel."""

import errno
import os
import re
import time
from typing import Any

from .commands import run_command
from .fact import Json, missing, read_fact
from .files import read_text_or
from .pci import PCI, list_pci_gpus
from .processes.proc_pid import read_stat
from .processes.walk import ProcessWalk

_MODULES = re.compile(
    r"^(nvidia\w*|nouveau|nova_core|gdrdrv|nv_peer_mem|vfio_pci|mlx[45]_\w+|ib_\w+|rdma_\w+|efa|gdr\w*|irdma)\b",
    re.MULTILINE,
)
_MPS = frozenset({"nvidia-cuda-mps", "nvidia-cuda-mps-control"})
# Names as Linux keeps them, in 15 characters.
_SERVICES = _MPS | {"nv-fabricmanage", "nvidia-persiste"}
_FIRST_PERSON = 1000  # user ids below it are those of services
_UNITS = ("nvidia-fabricmanager", "nvidia-persistenced")
_BETWEEN_LOOKS_S = 0.2


def read_system_fact(walk: ProcessWalk, started: float) -> Json:
    """Return facts.System; processes in state D are looked at a second time before they count as hung."""
    units = read_fact(_service_states)
    comms = {stat.comm for stat in walk.stats.values() if stat.comm in _SERVICES and _is_service(stat.pid)}
    return {
        "modules": sorted(set(_MODULES.findall(read_text_or("/proc/modules")))),
        "fabric_manager": _service("nvidia-fabricmanager", "nv-fabricmanage", units, comms),
        "persistence_daemon": _service("nvidia-persistenced", "nvidia-persiste", units, comms),
        "mps_control": bool(comms & _MPS),
        "acs_enabled": read_fact(is_acs_enabled),
        "iommu": read_fact(read_iommu),
        "hung": _hung(walk, started),
    }


def _is_service(pid: int) -> bool:
    """Whether a process may be what its name says: anybody can give any name to a process of theirs."""
    try:
        return os.stat("/proc/%d" % pid).st_uid in (*range(_FIRST_PERSON), os.getuid())
    except OSError:
        return False


def _service_states() -> dict[str, str]:
    """Return {unit: ActiveState} of the units that systemd knows; raises OSError without systemd."""
    if not os.path.isdir("/run/systemd/system"):
        raise FileNotFoundError(errno.ENOENT, "systemd does not run on this host")
    ran = run_command(["systemctl", "show", "-p", "Id", "-p", "LoadState", "-p", "ActiveState", *_UNITS], 3.0)
    states = {}
    for block in ran.text.split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if values.get("LoadState") not in ("not-found", None):
            states[values.get("Id", "").replace(".service", "")] = values.get("ActiveState", "")
    return states


def _service(unit: str, comm: str, units: Any, comms: set[str]) -> Any:
    """Return a service's state: systemd's word, else whether its process exists."""
    if comm in comms:
        return "active"
    if "missing" in units:
        return missing("its process does not run, and %s" % units["missing"], "not-found")
    return units.get(unit) or missing("there is no unit %s" % unit, "not-found")


def _hung(walk: ProcessWalk, started: float) -> list[str]:
    """Return "pid comm wchan" of processes in state D at both looks that used no CPU in between."""
    suspects = [stat for pid, stat in walk.stats.items() if stat.state == "D" and pid not in walk.kernel]
    if not suspects:
        return []
    time.sleep(max(0.0, started + _BETWEEN_LOOKS_S - time.monotonic()))
    found = []
    for before in suspects:
        try:
            after = read_stat(before.pid)
        except OSError:
            continue
        if after.state == "D" and after[-3:] == before[-3:]:
            found.append(
                "%d %s %s" % (after.pid, after.comm, read_text_or("/proc/%d/wchan" % after.pid, "?"))
            )
    return found


def is_acs_enabled() -> Any:
    """Return whether a PCI bridge redirects peer-to-peer traffic (ACS source validation on)."""
    if not list_pci_gpus():
        return missing("there is no NVIDIA device on the PCI bus", "not-found")
    seen = False
    for bus_id in os.listdir(PCI):
        folder = "%s/%s" % (PCI, bus_id)
        if not read_text_or(folder + "/class").startswith("0x0604"):
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


def read_iommu() -> Any:
    """Return "off", or how the IOMMU treats the GPUs: "passthrough" or "translated"."""
    groups = ["%s/%s/iommu_group" % (PCI, gpu["bus_id"]) for gpu in list_pci_gpus()]
    if not any(map(os.path.isdir, groups)):
        return "off"
    kinds = {read_text_or(group + "/type") for group in groups}
    if "" in kinds:
        return missing("the kernel names no types of its IOMMU groups", "not-supported")
    return "passthrough" if kinds == {"identity"} else "translated"
