"""Gives a simulated host its GPUs: the library, nvidia-smi, device files, PCI devices, the module's name."""

import os
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.lab.silicon.build import CUDA_NAME, LIBRARY_NAME
from tests.lab.silicon.profile import Profile, load_profile
from tests.lab.silicon.salt import salted
from tests.lab.silicon.state import MOUNT_POINT, stage, write_state

NULL_DEVICE = os.makedev(1, 3)  # opens, reads and writes like nothing; only its name matters here
NVIDIA_VENDOR = "10de"


class Host(Protocol):
    """What of a `tests.lab` host is used here."""

    @property
    def name(self) -> str:
        """Its host name."""
        ...

    def path(self, inner: str) -> Path:
        """Where an absolute path of the host lies for this machine."""
        ...

    def run(self, argv: Sequence[str], *, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run a command on the host as root."""
        ...


def _library_folder() -> str:
    multiarch: Any = sysconfig.get_config_var("MULTIARCH")
    for folder in (f"/usr/lib/{multiarch}", "/usr/lib64"):
        if Path(folder).is_dir():
            return folder
    return "/usr/lib"


def _device_names(profile: Profile) -> list[str]:
    if profile.device_files == "dxg":
        return ["dxg"]
    if profile.device_files == "none" or not profile.driver_loaded:
        return []
    minors = [gpu.values["minor_number"] for gpu in profile.gpus]
    return ["nvidiactl", "nvidia-uvm", *(f"nvidia{minor}" for minor in minors)]


def _make_device_files(host: Host, profile: Profile) -> None:
    for old in host.path("/dev").glob("nvidia*"):
        old.unlink()
    for name in _device_names(profile):
        node = host.path(f"/dev/{name}")
        node.unlink(missing_ok=True)
        os.mknod(node, 0o020666, NULL_DEVICE)
        node.chmod(0o666)


def _link(source: str, target: Path) -> None:
    target.unlink(missing_ok=True)
    target.symlink_to(source)


def _pci_entry(folder: Path, device_id: int, *, bound: bool) -> None:
    """One directory as /sys/bus/pci/devices has it: a 3D controller of NVIDIA's."""
    folder.mkdir(parents=True)
    texts = {"vendor": f"0x{NVIDIA_VENDOR}", "device": f"0x{device_id >> 16:04x}", "class": "0x030200"}
    for name, text in texts.items():
        (folder / name).write_text(text + "\n")
    if bound:
        (folder / "driver").symlink_to("../../../bus/pci/drivers/nvidia")


def _make_pci(host: Host, profile: Profile) -> None:
    """A fake /sys/bus/pci/devices over the host's own: what the bus shows without asking the driver."""
    root = host.path(f"{MOUNT_POINT}/pci")
    host.run(["umount", "/sys/bus/pci/devices"], check=False)
    host.run(["rm", "-rf", f"{MOUNT_POINT}/pci"])
    root.mkdir(parents=True)
    for gpu in profile.gpus:
        domain, _, rest = gpu.values["pci_bus_id"].lower().partition(":")
        device_id = int(gpu.values.get("pci_device_id", "0"), 0)
        _pci_entry(root / f"{int(domain, 16):04x}:{rest}", device_id, bound=profile.driver_loaded)
    if host.path("/sys/bus/pci/devices").is_dir():
        host.run(["mount", "--bind", f"{MOUNT_POINT}/pci", "/sys/bus/pci/devices"])


def _make_modules(host: Host, profile: Profile) -> None:
    """/proc/modules with the driver in it where it is loaded."""
    names = ("nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia")
    loaded = names if profile.driver_loaded and profile.device_files == "nvidia" else ()
    text = "".join(f"{name} 1048576 0 - Live 0x0000000000000000 (POE)\n" for name in loaded)
    listing = host.path(f"{MOUNT_POINT}/modules")
    host.run(["umount", "/proc/modules"], check=False)
    own = Path("/proc/modules")
    listing.write_text(text + (own.read_text() if own.exists() else ""))
    if own.exists():
        host.run(["mount", "--bind", f"{MOUNT_POINT}/modules", "/proc/modules"])


def install(host: Host, profile: str | Profile) -> None:
    """Give a running host the GPUs of a profile (its name, a file, or itself). Raises ProfileError.

    Their UUIDs and serials are the host's own, so that hosts of one profile differ as real ones do.
    """
    chosen = salted(load_profile(profile) if isinstance(profile, str) else profile, host.name)
    stage(chosen, host.path(MOUNT_POINT))
    for name in (LIBRARY_NAME, CUDA_NAME):
        _link(f"{MOUNT_POINT}/lib/{name}", host.path(f"{_library_folder()}/{name}"))
    _link(f"{MOUNT_POINT}/bin/nvidia-smi", host.path("/usr/bin/nvidia-smi"))
    _link(f"{MOUNT_POINT}/bin/compute", host.path("/usr/bin/silicon-compute"))
    _make_device_files(host, chosen)
    _make_pci(host, chosen)
    _make_modules(host, chosen)


def update(host: Host, profile: Profile) -> None:
    """Change what the GPUs say from the next nvmlInit on; live processes and devices stay."""
    write_state(salted(profile, host.name), host.path(MOUNT_POINT))
