"""Which machine this is, in which container, and who we are on it."""

import os
import re
import time

from .earlier_facts import BOOT_ID, nvidia_module
from .fact import Json
from .files import link_target, read_text, text_or
from .namespaces import own_namespace
from .users import user_name

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of include/linux/proc_ns.h


def identity() -> Json:
    """Return facts.Identity."""
    kernel = os.uname().release
    namespace = link_target("/proc/self/ns/pid")
    initial = namespace == _INITIAL_PID_NAMESPACE
    return {
        "hostname": os.uname().nodename,
        "boot_id": text_or(BOOT_ID),
        "uid": os.getuid(),
        "user": user_name(os.getuid()),
        "kernel": kernel,
        "nvidia_module": nvidia_module(),
        "gpu_device_files": gpu_device_files(),
        "machine": os.uname().machine,
        "now_unix": time.time(),
        "uptime_s": float(read_text("/proc/uptime").split()[0]),
        "container": _container(kernel, initial=initial),
        "initial_pid_namespace": initial,
        "pid_namespace": own_namespace("pid"),
        "time_namespace": own_namespace("time"),
    }


def gpu_device_files(folder: str = "/dev") -> list[str]:
    """Return the device files of NVIDIA's GPUs; those of the driver alone (nvidiactl) are none of them."""
    try:
        names = [name for name in os.listdir(folder) if re.fullmatch(r"nvidia\d+", name)]
    except OSError:
        return []
    return ["%s/%s" % (folder, name) for name in sorted(names, key=lambda name: int(name[6:]))]


def _container(kernel: str, *, initial: bool) -> str:
    """Return what says that this is not a plain host, or ""."""
    if os.path.exists("/run/.containerenv"):
        return "podman"
    if "KUBERNETES_SERVICE_HOST" in os.environ or os.path.exists("/var/run/secrets/kubernetes.io"):
        return "kubernetes"
    if os.path.exists("/.dockerenv"):
        return "docker"
    named = text_or("/run/systemd/container") or os.environ.get("container", "")  # noqa: SIM112 - its name
    if named:
        return named
    found = re.search(r"docker|kubepods|libpod|containerd|lxc", text_or("/proc/1/cgroup"))
    if found:
        return found.group(0)
    if "microsoft" in kernel.lower():
        return "wsl2"
    return "" if initial else "pid-namespace"
