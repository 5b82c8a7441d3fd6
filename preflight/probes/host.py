"""A host's identity, limits, InfiniBand ports and GPU claims: files that do not hang."""

import os
import re
import resource
import time
from typing import Any, Iterator

from .cgroup_folder import find_own_cgroup, list_group_folders
from .claim_files import CLAIMS_DIR, Place, list_newest_by_owner, read_claim
from .earlier_facts import BOOT_ID, read_module_version
from .fact import Emit, Json, missing, read_fact
from .files import read_text, read_text_or
from .namespaces import link_target, read_own_namespace
from .pci import list_pci_gpus
from .request import ProbeRequest
from .users import read_user_name

_CLAIMS_DIR = CLAIMS_DIR
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of include/linux/proc_ns.h
_CLAIM = re.compile(r"gpulaunch-claim-([A-Za-z0-9_-]{1,100})\.[0-9a-z]{1,64}")
INFINIBAND = "/sys/class/infiniband"


def probe(_: ProbeRequest, emit: Emit) -> None:
    """Emit what a handful of /proc and /sys files say."""
    emit("identity", read_fact(read_identity))
    emit("limits", read_fact(read_limits))
    emit("environ", read_fact(launch_environ))
    emit("infiniband", read_fact(read_infiniband))
    emit("pci_gpus", read_fact(list_pci_gpus))
    emit("claims", read_fact(list_gpu_claims))


def read_infiniband() -> list[Json]:
    """Return facts.IbPort for each port; none on a host without InfiniBand."""
    ports = []
    for device in sorted(os.listdir(INFINIBAND)) if os.path.isdir(INFINIBAND) else []:
        for port in sorted(os.listdir("%s/%s/ports" % (INFINIBAND, device)), key=int):
            folder = "%s/%s/ports/%s" % (INFINIBAND, device, port)
            rate = re.match(r"[\d.]+", read_text_or(folder + "/rate"))
            ports.append(
                {
                    "device": device,
                    "port": int(port),
                    "state": read_text_or(folder + "/state").split(":")[-1].strip(),
                    "rate_gbps": float(rate.group(0))
                    if rate
                    else missing("the port names no rate", "not-supported"),
                    "link_layer": read_text_or(folder + "/link_layer"),
                }
            )
    return ports


def read_limits() -> Json:
    """Return facts.Limits."""
    memory = {
        key: int(kib) // 1024 for key, kib in re.findall(r"(\w+):\s+(\d+) kB", read_text("/proc/meminfo"))
    }
    shm = read_fact(lambda: os.statvfs("/dev/shm"))  # noqa: S108 - measured, not used
    total, available = memory.get("MemTotal", 0), memory.get("MemAvailable", memory.get("MemFree", 0))
    shm_room: Any = (total, available)
    if isinstance(shm, dict):
        shm_room = (shm, shm)
    elif shm.f_blocks:  # size=0 (`podman run --shm-size=0`) limits it by memory alone, and reports zeros
        shm_room = [blocks * shm.f_frsize >> 20 for blocks in (shm.f_blocks, shm.f_bavail)]
    unlimited = resource.RLIM_INFINITY
    memlock, nofile = map(resource.getrlimit, (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE))
    return {
        "cpus": count_cpus(),
        "memory_total_mib": total,
        "memory_available_mib": available,
        "memory_limit_mib": read_fact(read_memory_limit),
        "swap_total_mib": memory.get("SwapTotal", 0),
        "swap_used_mib": memory.get("SwapTotal", 0) - memory.get("SwapFree", 0),
        "load_1min": os.getloadavg()[0],
        "shm_total_mib": shm_room[0],
        "shm_free_mib": shm_room[1],
        "memlock_kib": -1 if memlock[0] == unlimited else memlock[0] // 1024,
        "nofile": -1 if nofile[0] == unlimited else nofile[0],
        "nofile_hard": -1 if nofile[1] == unlimited else nofile[1],
    }


def list_gpu_claims() -> list[Json]:
    """Return facts.GpuClaim for every live claim: a run of its owner holds its lock, in this boot."""
    place = Place(read_text_or(BOOT_ID), read_own_namespace("pid"))
    found = []
    for path in sorted(list_newest_by_owner(_CLAIMS_DIR, _CLAIM.fullmatch)):
        name, claim = _CLAIM.fullmatch(os.path.basename(path)), read_claim(path, place)
        if name is None or claim is None or not claim[2]:
            continue
        said, uid, _ = claim
        found.append(
            {
                "gpu_uuid": name.group(1),
                "run_id": said["run_id"],
                "user": read_user_name(uid),
                "uid": uid,
                "pid": said["pid"],
                "since_unix": said["since"],
            }
        )
    return found


def read_identity() -> Json:
    """Return facts.Identity."""
    system = os.uname()
    initial = link_target("/proc/self/ns/pid") == _INITIAL_PID_NAMESPACE
    return {
        "hostname": system.nodename,
        "boot_id": read_text_or(BOOT_ID),
        "uid": os.getuid(),
        "user": read_user_name(os.getuid()),
        "kernel": system.release,
        "nvidia_module": read_module_version(),
        "gpu_device_files": list_gpu_device_files(),
        "machine": system.machine,
        "now_unix": time.time(),
        "uptime_s": float(read_text("/proc/uptime").split()[0]),
        "container": _container(system.release, initial=initial),
        "initial_pid_namespace": initial,
        "pid_namespace": read_own_namespace("pid"),
        "time_namespace": read_own_namespace("time"),
    }


def list_gpu_device_files(folder: str = "/dev") -> list[str]:
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
    named = read_text_or("/run/systemd/container") or os.environ.get("container", "")  # noqa: SIM112 - its name
    if named:
        return named
    found = re.search(r"docker|kubepods|libpod|containerd|lxc", read_text_or("/proc/1/cgroup"))
    if found:
        return found.group(0)
    if "microsoft" in kernel.lower():
        return "wsl2"
    return "" if initial else "pid-namespace"


_LAUNCH_NAMES = re.compile(
    r"(CUDA|NCCL|GLOO|ACCELERATE|PET|TORCH|TORCHELASTIC|PYTORCH|OMP|MKL|HF|TRANSFORMERS|NVIDIA|UCX|FI|SLURM|GPULAUNCH"
    r"|FSDP|DEEPSPEED|XLA|TOKENIZERS|WANDB|KUBERNETES_SERVICE|NVTE|TRITON|BITSANDBYTES|CUBLAS|CUDNN)_\w+"
    r"|RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|ROLE_RANK|MASTER_ADDR|MASTER_PORT"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|PYTHONHOME|PYTHONSTARTUP|VIRTUAL_ENV|CONDA_PREFIX|TMPDIR|PATH"
    r"|(HTTP|HTTPS|ALL|NO)_PROXY|(http|https|all|no)_proxy"
)
_SECRET_NAME = re.compile(
    r"TOKEN(?!IZERS)|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|_KEY$|AUTH|COOKIE", re.IGNORECASE
)
_SECRET_VALUE = re.compile(
    r"://[^/\s]*@|\b(hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA)\w{8,}|^[0-9a-fA-F]{32,}$|\beyJ[\w-]{10,}\."
)


def launch_environ() -> dict[str, str]:
    """Return the variables that a launch of this user would inherit, without what looks like a secret."""
    return {
        name: value
        for name, value in os.environ.items()
        if _LAUNCH_NAMES.fullmatch(name) and not _SECRET_NAME.search(name) and not _SECRET_VALUE.search(value)
    }


def count_cpus() -> int:
    """Return how many CPUs this session may use: affinity, cut by the cgroup's quota."""
    count = len(os.sched_getaffinity(0))
    for folder in _cgroup_folders("cpu"):
        quota, period = [*read_text_or(folder + "/cpu.max").split(), "max", "0"][:2]
        if quota == "max":
            quota = read_text_or(folder + "/cpu.cfs_quota_us", "-1")
            period = read_text_or(folder + "/cpu.cfs_period_us", "0")
        if int(quota) > 0 and int(period) > 0:
            count = min(count, max(1, -(-int(quota) // int(period))))
    return count


def read_memory_limit() -> Any:
    """Return the smallest memory limit of this session's cgroup and those above it."""
    found = []
    for folder in _cgroup_folders("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = read_text_or(folder + "/" + name)
            if text.isdigit() and int(text) < 1 << 60:  # version 1 writes "none" as a number near 2**63
                found.append(int(text) >> 20)
    return min(found) if found else missing("no cgroup limits memory on this host", "not-found")


def _cgroup_folders(controller: str) -> Iterator[str]:
    """Yield the folders of this process's cgroup and those above it, version 2 and 1."""
    for kind in ("cgroup2", controller):
        yield from list_group_folders(find_own_cgroup(kind))
