"""What is between GPUs, and between hosts: NVLink, NVSwitch, PCIe, InfiniBand and RDMA."""

from collections import Counter
from collections.abc import Iterator

from preflight.checks.finding import Problem, Severity
from preflight.checks.registry import host_check
from preflight.checks.unread_facts import judge_each_gpu
from preflight.facts.gpu import Fabric, Gpu, NvLink, PcieLink
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.job import Expect


@host_check("HEAL005", gpu_only=True)
@judge_each_gpu("fabric", "NVSwitch fabric")
def the_nvswitch_fabric_is_ready(_: Gpu, fabric: Fabric, facts: HostFacts) -> Iterator[Problem]:
    """Every GPU behind an NVSwitch has joined the fabric.

    Until the fabric manager has set the switches up, every CUDA call fails with "system not yet initialized"
    (error 802), on all GPUs of the host.

    Fix: root, while no job computes on the host: `systemctl restart nvidia-fabricmanager`; its version must
    equal the driver's.
    Source: NVML nvmlDeviceGetGpuFabricInfoV; NVIDIA fabric manager user guide.
    """
    manager = "" if isinstance(facts.system, Missing) else facts.system.fabric_manager
    said = "" if isinstance(manager, Missing) or not manager else f"; nvidia-fabricmanager is {manager}"
    is_ready = fabric.state == "completed" and fabric.status.lower() in ("success", "")
    if fabric.state != "not_supported" and not is_ready:
        yield Problem(
            f"has not joined the NVSwitch fabric: {fabric.state.replace('_', ' ')}, "
            f"status {fabric.status or 'unknown'}{said}",
            "end the jobs on the host's GPUs, then: sudo systemctl restart nvidia-fabricmanager",
        )


@host_check("HEAL006", Severity.WARNING, gpu_only=True)
@judge_each_gpu("nvlinks", "NVLink")
def nvlinks_are_up(
    gpu: Gpu, links: tuple[NvLink, ...], expect: Expect, facts: HostFacts
) -> Iterator[Problem]:
    """Every NVLink of a GPU is up and without errors, where any is.

    With a link down NCCL goes through PCIe: the job runs, several times slower.

    Fix: reset the GPUs (root), reseat the bridge, or ask the administrator.
    Source: NVML nvmlDeviceGetNvLinkState and its error counters. A GPU whose links are all down has no
    bridge, unless it is the only one of an even number: bridges join pairs, and switches all.
    """
    down = [link.link for link in links if not link.active]
    linked = sum(map(_has_link, facts.known_gpus))
    if down and (len(down) < len(links) or (linked % 2 and linked == len(facts.known_gpus) - 1)):
        some = f"NVLink {', '.join(map(str, down))} of {max(link.link for link in links) + 1}"
        yield Problem(
            f"{some if len(down) < len(links) else 'all NVLinks'} down: traffic goes through PCIe",
            f"nvidia-smi nvlink -s -i {gpu.index}; then ask the administrator",
        )
    errors = sum(link.errors for link in links if not isinstance(link.errors, Missing))
    if errors > expect.nvlink_errors:
        fix = (
            f"nvidia-smi nvlink -e -i {gpu.index} counts them by link; where they grow, ask the administrator"
        )
        yield Problem(f"{errors} NVLink errors", fix)


def _has_link(gpu: Gpu) -> bool:
    return not isinstance(gpu.nvlinks, Missing) and any(link.active for link in gpu.nvlinks)


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


@host_check("HEAL010", Severity.INFO, gpu_only=True)
@judge_each_gpu("pcie", "PCIe link")
def pcie_links_are_wide(gpu: Gpu, pcie: PcieLink, facts: HostFacts) -> Iterator[Problem]:
    """Every GPU's PCIe link has its full width.

    A narrow link is often a badly seated card or riser, and a warning where most GPUs of the host have their
    full width. The generation falls on an idle GPU and is not judged.

    Fix: reseat the card; look at the slot's wiring (many boards give x8 to the second slot).
    Source: NVML current and maximum link width.
    """
    links = [each.pcie for each in facts.known_gpus if not isinstance(each.pcie, Missing)]
    wide = sum(link.width == link.width_max for link in links)
    if 0 < pcie.width < pcie.width_max:
        yield Problem(
            f"PCIe link runs with {pcie.width} of {pcie.width_max} lanes",
            f"nvidia-smi -q -i {gpu.index} | grep -A9 'GPU Link Info'; ask for the card to be reseated",
            severity=Severity.WARNING if 2 * wide > len(facts.known_gpus) else None,
        )


@host_check("HEAL011", Severity.INFO, gpu_only=True)
def rdma_reaches_the_gpus(facts: HostFacts) -> Iterator[Problem]:
    """Where there is an RDMA port, GPUs and network cards can exchange data directly.

    That needs the nvidia_peermem module (or DMA-BUF), PCIe access control services (ACS) off, and an IOMMU
    that is off or passes through; without, every message takes a detour through the host's memory.

    Fix: root: `modprobe nvidia_peermem`; ACS is switched off in the BIOS; `iommu=pt` of the kernel.
    Source: NCCL troubleshooting guide, GPU Direct; /proc/modules, PCI configuration space and IOMMU groups.
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
    elif facts.system.iommu == "translated":
        yield Problem(
            "the IOMMU translates addresses: traffic between GPUs and network cards may go through the CPU",
            "ask the administrator to start the kernel with iommu=pt (virtual machines need translation)",
        )
