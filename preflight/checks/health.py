"""Hardware health: what the GPUs and the kernel say about faults that would end a run."""

from collections import Counter
from collections.abc import Iterator

from preflight.checks.reading import absent, span
from preflight.facts import Gpu, HostFacts, KernelLog, Missing, Xid
from preflight.finding import Problem, Severity
from preflight.job import Expect
from preflight.registry import host_check
from preflight.xids import meaning

_RECOVERY_FIX: dict[str, str] = {
    "gpu_reset": "end its processes, then: sudo nvidia-smi --gpu-reset -i {index}",
    "node_reboot": "ask the administrator to reboot the host",
    "system_reboot": "ask the administrator to reboot the host",
    "drain_p2p": "end the jobs that use NVLink to this GPU, then ask the administrator",
    "drain_and_reset": "end all processes on the host's GPUs, then: sudo nvidia-smi --gpu-reset -i {index}",
    "bus_reset": "ask the administrator to reset the PCI bus, or power-cycle the host",
    "recover_imex": "ask the administrator to restart nvidia-imex",
}


@host_check("HEAL001", gpu_only=True)
def no_gpu_asks_for_recovery(gpus: tuple[Gpu, ...]) -> Iterator[Problem]:
    """No GPU's driver asks for a recovery action.

    The driver knows when a GPU will fail the next job although it still lists it. The rank on it hangs or
    dies.

    Fix: what the action says: a reset (root), or a reboot.
    Source: NVML field 230, GPU recovery action (driver 570 and later); older drivers do not have it.
    """
    for gpu in gpus:
        action = gpu.recovery_action
        if isinstance(action, Missing):
            yield from absent(gpu, "recovery action", action)
        elif action.lower() not in ("none", ""):
            fix = _RECOVERY_FIX.get(action.lower(), "ask the administrator")
            yield Problem(
                f"the driver asks for recovery: {action.replace('_', ' ')}",
                fix.format(index=gpu.index),
                gpu=gpu.index,
            )


@host_check("HEAL002", Severity.WARNING, gpu_only=True)
def no_xid_since_boot(facts: HostFacts, expect: Expect) -> Iterator[Problem]:
    """The kernel log holds no NVIDIA error (Xid) since boot that condemns a GPU.

    Some Xids mean that the GPU must be reset or replaced; others that a program misbehaved. The first kind
    stops a launch unless the GPU was reset since; the second is told for a while and stops nothing. Where the
    log cannot be read but every GPU's driver says that no recovery is needed, that is taken for an answer.

    Fix: NVIDIA's Xid catalogue says per code; `expect: {fatal_xids: [...]}` is the site's own list.
    Source: kernel log lines "NVRM: Xid"; https://docs.nvidia.com/deploy/xid-errors.
    """
    log = facts.kernel_log
    if isinstance(log, Missing):
        yield from _unread_log(facts, log)
        return
    for (bus, code), entries in _by_gpu(log).items():
        last = entries[-1]
        fatal = code in expect.fatal_xids
        if not fatal and (code in expect.program_xids or not _recent(facts, last, expect.recent_xid_s)):
            severity = Severity.INFO
        elif fatal and not _said_well(facts, bus):
            severity = Severity.CRITICAL
        else:
            severity = Severity.WARNING
        times = f"{len(entries)} times, last" if len(entries) > 1 else "once,"
        yield Problem(
            f"Xid {code} ({meaning(code)}) {times} {_when(facts, last)}",
            f"sudo dmesg | grep -i xid; https://docs.nvidia.com/deploy/xid-errors for {code}",
            subject="" if _index_at(facts, bus) is not None else bus,
            severity=severity,
            gpu=_index_at(facts, bus),
        )


def _unread_log(facts: HostFacts, log: Missing) -> Iterator[Problem]:
    if not isinstance(facts.gpus, Missing) and facts.gpus and all(_well(gpu) for gpu in facts.gpus):
        yield Problem(
            f"the kernel log cannot be read ({log.reason}); the driver says that no GPU needs recovery",
            "to read it: ask the administrator to add you to group adm, or kernel.dmesg_restrict=0",
            severity=Severity.INFO,
            unasked=log.code == "not-asked",
        )
        return
    yield Problem(
        f"whether the kernel reported GPU errors is not known: {log.reason}",
        "sudo dmesg | grep -i xid; or ask the administrator for group adm or kernel.dmesg_restrict=0",
        severity=Severity.UNKNOWN,
        unasked=log.code == "not-asked",
    )


def _well(gpu: Gpu) -> bool:
    return isinstance(gpu.recovery_action, str) and gpu.recovery_action.lower() == "none"


def _said_well(facts: HostFacts, bus: str) -> bool:
    index = _index_at(facts, bus)
    gpus = () if isinstance(facts.gpus, Missing) else facts.gpus
    return any(gpu.index == index and _well(gpu) for gpu in gpus)


def _by_gpu(log: KernelLog) -> dict[tuple[str, int], list[Xid]]:
    found: dict[tuple[str, int], list[Xid]] = {}
    for xid in log.xids:
        found.setdefault((xid.pci_bus_id, xid.code), []).append(xid)
    return found


def _index_at(facts: HostFacts, bus: str) -> int | None:
    """Return the GPU at a bus address as the kernel writes it ("0000:65:00"), None when none is there."""
    key = _slot(bus)
    for gpu in () if isinstance(facts.gpus, Missing) else facts.gpus:
        if not isinstance(gpu.pci_bus_id, Missing) and key and _slot(gpu.pci_bus_id) == key:
            return gpu.index
    return None


def _slot(bus: str) -> str:
    domain, _, rest = bus.lower().partition(":")
    return f"{domain.lstrip('0')}:{rest.partition('.')[0]}" if rest else ""


def _age(facts: HostFacts, xid: Xid) -> float | None:
    if isinstance(xid.at_uptime_s, Missing) or isinstance(facts.identity, Missing):
        return None
    return max(0.0, facts.identity.uptime_s - xid.at_uptime_s)


def _recent(facts: HostFacts, xid: Xid, within_s: float) -> bool:
    age = _age(facts, xid)
    return age is None or age <= within_s


def _when(facts: HostFacts, xid: Xid) -> str:
    age = _age(facts, xid)
    return "since boot" if age is None else f"{span(age)} ago"


@host_check("HEAL003", gpu_only=True)
def no_row_remap_waits(gpus: tuple[Gpu, ...]) -> Iterator[Problem]:
    """No GPU has a memory row remap pending or failed.

    Pending: a bad row is still in use until the next reset, and the job that touches it dies. Failed: the GPU
    has no spare rows left and must be replaced.

    Fix: pending: reset the GPU (root). Failed: ask the administrator for a replacement.
    Source: NVML nvmlDeviceGetRemappedRows; NVIDIA GPU memory error management guide.
    """
    for gpu in gpus:
        if isinstance(gpu.remap, Missing):
            yield from absent(gpu, "row remapping", gpu.remap)
        elif gpu.remap.failed:
            yield Problem(
                "a memory row could not be remapped: no spare rows are left",
                "ask the administrator to have the GPU replaced",
                gpu=gpu.index,
            )
        elif gpu.remap.pending:
            yield Problem(
                "a bad memory row waits to be remapped and is still in use",
                f"end its processes, then: sudo nvidia-smi --gpu-reset -i {gpu.index}",
                gpu=gpu.index,
            )


@host_check("HEAL004", gpu_only=True)
def no_uncorrected_memory_errors(gpus: tuple[Gpu, ...]) -> Iterator[Problem]:
    """No GPU has met an uncorrectable memory error since its driver was loaded.

    Each one ended a program. GPUs without ECC (GeForce) do not count them, and nothing is said about those.

    Fix: reset the GPU (root); if they come back, have it replaced.
    Source: NVML nvmlDeviceGetTotalEccErrors, volatile uncorrected.
    """
    for gpu in gpus:
        if isinstance(gpu.ecc, Missing):
            yield from absent(gpu, "ECC", gpu.ecc)
            continue
        count = gpu.ecc.uncorrected_volatile
        if isinstance(count, Missing):
            if gpu.ecc.enabled:
                yield from absent(gpu, "ECC error count", count)
        elif count > 0:
            yield Problem(
                f"{count} uncorrectable memory error{'s' if count > 1 else ''} since the driver was loaded",
                f"end its processes, then: sudo nvidia-smi --gpu-reset -i {gpu.index}",
                gpu=gpu.index,
            )


@host_check("HEAL005", gpu_only=True)
def the_nvswitch_fabric_is_ready(facts: HostFacts, gpus: tuple[Gpu, ...]) -> Iterator[Problem]:
    """Every GPU behind an NVSwitch has joined the fabric.

    Until the fabric manager has set the switches up, every CUDA call fails with "system not yet initialized"
    (error 802), on all GPUs of the host.

    Fix: root: `systemctl restart nvidia-fabricmanager`; its version must equal the driver's.
    Source: NVML nvmlDeviceGetGpuFabricInfoV; NVIDIA fabric manager user guide.
    """
    manager = "" if isinstance(facts.system, Missing) else facts.system.fabric_manager
    said = "" if isinstance(manager, Missing) or not manager else f"; nvidia-fabricmanager is {manager}"
    for gpu in gpus:
        if isinstance(gpu.fabric, Missing):
            yield from absent(gpu, "NVSwitch fabric", gpu.fabric)
        elif gpu.fabric.state != "not_supported" and (
            gpu.fabric.state != "completed" or gpu.fabric.status.lower() not in ("success", "")
        ):
            yield Problem(
                f"has not joined the NVSwitch fabric: {gpu.fabric.state.replace('_', ' ')}, "
                f"status {gpu.fabric.status or 'unknown'}{said}",
                "sudo systemctl restart nvidia-fabricmanager",
                gpu=gpu.index,
            )


@host_check("HEAL006", Severity.WARNING, gpu_only=True)
def nvlinks_are_up(gpus: tuple[Gpu, ...], expect: Expect) -> Iterator[Problem]:
    """Every NVLink of a GPU is up and without errors, where any is.

    With a link down NCCL goes through PCIe: the job runs, several times slower.

    Fix: reset the GPUs (root), reseat the bridge, or ask the administrator.
    Source: NVML nvmlDeviceGetNvLinkState and its error counters. A GPU whose links are all down has no
    bridge.
    """
    for gpu in gpus:
        if isinstance(gpu.nvlinks, Missing):
            yield from absent(gpu, "NVLink", gpu.nvlinks)
            continue
        down = [link.link for link in gpu.nvlinks if not link.active]
        if down and len(down) < len(gpu.nvlinks):
            yield Problem(
                f"NVLink {', '.join(map(str, down))} of {len(gpu.nvlinks)} down: traffic goes through PCIe",
                f"nvidia-smi nvlink -s -i {gpu.index}; then ask the administrator",
                gpu=gpu.index,
            )
        errors = sum(link.errors for link in gpu.nvlinks if not isinstance(link.errors, Missing))
        if errors > expect.nvlink_errors:
            yield Problem(f"{errors} NVLink errors", f"nvidia-smi nvlink -e -i {gpu.index}", gpu=gpu.index)


@host_check("HEAL007", Severity.WARNING)
def infiniband_is_up(facts: HostFacts) -> Iterator[Problem]:
    """Every InfiniBand or RoCE port is active and of one speed.

    NCCL uses all ports that it finds; one that is down or slow holds up every ring that passes it.

    Fix: cable or switch port: ask the administrator; leave a port out with NCCL_IB_HCA.
    Source: /sys/class/infiniband. Hosts without such a port are not asked.
    """
    ports = facts.infiniband
    if isinstance(ports, Missing):
        if ports.code not in ("not-found", "not-supported", "not-asked"):
            yield Problem(f"InfiniBand not checked: {ports.reason}", "ibstat", severity=Severity.UNKNOWN)
        return
    active = [port for port in ports if port.state.upper() == "ACTIVE"]
    for port in ports:
        if active and port not in active:
            yield Problem(
                f"port {port.port} is {port.state} ({port.link_layer})",
                f"ibstat {port.device}; leave it out with NCCL_IB_HCA=^{port.device}, or ask the "
                "administrator",
                subject=port.device,
            )
    rates = Counter(p.rate_gbps for p in active if not isinstance(p.rate_gbps, Missing))
    if len(rates) > 1:
        usual = max(rates)
        for port in active:
            if not isinstance(port.rate_gbps, Missing) and port.rate_gbps < usual:
                yield Problem(
                    f"port {port.port} runs at {port.rate_gbps:g} Gbit/s, others at {usual:g}",
                    f"ibstat {port.device}; check the cable",
                    subject=port.device,
                    severity=Severity.INFO,
                )


_THROTTLES = {
    "hw_slowdown": "the hardware slows it down (heat or power)",
    "hw_thermal": "it is too hot",
    "hw_thermal_slowdown": "it is too hot",
    "sw_thermal": "the driver slows it down because of heat",
    "sw_thermal_slowdown": "the driver slows it down because of heat",
    "hw_power_brake": "the power supply asks it to slow down",
    "hw_power_brake_slowdown": "the power supply asks it to slow down",
}


@host_check("HEAL008", Severity.WARNING, gpu_only=True)
def no_gpu_is_throttled(gpus: tuple[Gpu, ...]) -> Iterator[Problem]:
    """No GPU is slowed down by heat or by its power supply.

    One slow GPU slows all ranks. Idle clocks and the normal power cap are no fault and are not told.

    Fix: cooling, power cables, power supply: ask the administrator.
    Source: NVML nvmlDeviceGetCurrentClocksEventReasons.
    """
    for gpu in gpus:
        if isinstance(gpu.throttle, Missing):
            yield from absent(gpu, "throttling", gpu.throttle)
            continue
        reasons = [_THROTTLES[reason] for reason in gpu.throttle if reason in _THROTTLES]
        if reasons:
            yield Problem(
                f"it is throttled: {', '.join(dict.fromkeys(reasons))}",
                f"nvidia-smi -q -d PERFORMANCE -i {gpu.index}; check cooling and power cables",
                gpu=gpu.index,
            )


@host_check("HEAL009", Severity.WARNING, gpu_only=True)
def no_gpu_is_hot(gpus: tuple[Gpu, ...], expect: Expect) -> Iterator[Problem]:
    """No GPU is near the temperature at which it slows down.

    A GPU that is hot before the job starts will throttle in it.

    Fix: cooling; wait for the neighbour's job to end.
    Source: NVML temperature and slowdown threshold; margin `temperature_margin_c` of `expect:`.
    """
    for gpu in gpus:
        if isinstance(gpu.temperature_c, Missing):
            yield from absent(gpu, "temperature", gpu.temperature_c)
            continue
        limit = gpu.temperature_slowdown_c
        if not isinstance(limit, Missing) and gpu.temperature_c >= limit - expect.temperature_margin_c:
            yield Problem(
                f"{gpu.temperature_c} C; it slows down at {limit} C",
                f"nvidia-smi -q -d TEMPERATURE -i {gpu.index}; check the fans and the air flow",
                gpu=gpu.index,
            )


@host_check("HEAL010", Severity.INFO, gpu_only=True)
def pcie_links_are_wide(gpus: tuple[Gpu, ...]) -> Iterator[Problem]:
    """Every GPU's PCIe link has its full width.

    A narrow link is often a badly seated card or riser. The generation falls on an idle GPU by itself and is
    not judged.

    Fix: reseat the card; look at the slot's wiring (many boards give x8 to the second slot).
    Source: NVML current and maximum link width.
    """
    for gpu in gpus:
        if isinstance(gpu.pcie, Missing):
            yield from absent(gpu, "PCIe link", gpu.pcie)
        elif 0 < gpu.pcie.width < gpu.pcie.width_max:
            yield Problem(
                f"PCIe link runs with {gpu.pcie.width} of {gpu.pcie.width_max} lanes",
                f"nvidia-smi -q -d PCI -i {gpu.index}; ask the administrator to reseat the card",
                gpu=gpu.index,
            )


@host_check("HEAL011", Severity.INFO, gpu_only=True)
def rdma_reaches_the_gpus(facts: HostFacts) -> Iterator[Problem]:
    """Where there is an RDMA port, GPUs and network cards can exchange data directly.

    That needs the nvidia_peermem module (or DMA-BUF) and PCIe access control services (ACS) off; without,
    every message takes a detour through the host's memory.

    Fix: root: `modprobe nvidia_peermem`; ACS is switched off in the BIOS.
    Source: NCCL troubleshooting guide, GPU Direct; /proc/modules and PCI configuration space.
    """
    if isinstance(facts.infiniband, Missing) or not facts.infiniband or isinstance(facts.system, Missing):
        return
    if not {"nvidia_peermem", "nv_peer_mem"} & set(facts.system.modules):
        yield Problem(
            "nvidia_peermem is not loaded: GPU Direct RDMA works only through DMA-BUF",
            "sudo modprobe nvidia_peermem",
        )
    if facts.system.acs_enabled is True:
        yield Problem(
            "PCIe ACS is on: traffic between GPUs and network cards goes through the CPU",
            "ask the administrator to switch ACS off in the BIOS (virtual machines need it on)",
        )


@host_check("HEAL012", Severity.INFO, gpu_only=True)
def persistence_mode_is_on(gpus: tuple[Gpu, ...]) -> Iterator[Problem]:
    """Persistence mode is on.

    With it off the driver forgets the GPU whenever no process uses it: seconds at each start, and settings
    such as the compute mode's neighbours are lost.

    Fix: root: `nvidia-smi -pm 1`, or the nvidia-persistenced service.
    Source: NVML nvmlDeviceGetPersistenceMode.
    """
    off = []
    for gpu in gpus:
        if isinstance(gpu.persistence, Missing):
            yield from absent(gpu, "persistence mode", gpu.persistence)
        elif not gpu.persistence:
            off.append(str(gpu.index))
    if off:
        yield Problem(
            f"persistence mode is off on GPU {', '.join(off)}: slow starts", "sudo nvidia-smi -pm 1"
        )


@host_check("HEAL013", Severity.INFO, gpu_only=True)
def few_pages_are_retired(gpus: tuple[Gpu, ...], expect: Expect) -> Iterator[Problem]:
    """No GPU has many retired memory pages, and none is pending.

    Before Ampere, bad memory pages are retired one by one; many of them announce a failing GPU.

    Fix: pending: reset or reboot; many: have the GPU replaced.
    Source: NVML nvmlDeviceGetRetiredPages; threshold `retired_pages` of `expect:`.
    """
    for gpu in gpus:
        pages = gpu.retired_pages
        if isinstance(pages, Missing):
            yield from absent(gpu, "retired pages", pages)
            continue
        if pages.pending is True:
            yield Problem(
                "a memory page waits to be retired",
                f"end its processes, then: sudo nvidia-smi --gpu-reset -i {gpu.index}",
                severity=Severity.WARNING,
                gpu=gpu.index,
            )
        total = pages.single_bit + pages.double_bit
        if total > expect.retired_pages:
            yield Problem(
                f"{total} memory pages are retired",
                "ask the administrator whether the GPU should be replaced",
                gpu=gpu.index,
            )


@host_check("HEAL014", Severity.INFO)
def the_kernel_killed_nothing(facts: HostFacts) -> Iterator[Problem]:
    """The kernel has ended no process for lack of memory since boot, and reports no other NVIDIA trouble.

    A rank that vanished without a word was often ended by the out-of-memory killer.

    Fix: fewer DataLoader workers, smaller shards, more memory; in a container, a higher limit.
    Source: kernel log, "Out of memory: Killed process".
    """
    kernel_log = facts.kernel_log
    if isinstance(kernel_log, Missing):
        return  # only told; what a launch depends on is HEAL002
    if kernel_log.oom_kills:
        yield Problem(
            f"{len(kernel_log.oom_kills)} processes were ended for lack of memory since boot; the last: "
            f"{kernel_log.oom_kills[-1][:120]}",
            "sudo dmesg | grep -i 'killed process'",
        )
    if kernel_log.other:
        yield Problem(
            f"{len(kernel_log.other)} other NVIDIA messages; the last: {kernel_log.other[-1][:160]}",
            "sudo dmesg | grep -iE 'nvrm|nvidia'",
        )
