"""Facts about made-up hosts, for tests that decide something from them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from preflight.facts.gpu import Capability, ComputeMode, Gpu
from preflight.facts.host import BindTest, HostFacts, Identity, Interface, Limits, Network, Ports, PythonEnv
from preflight.facts.json_codec import decode
from preflight.facts.missing import Missing

NOT_ASKED = Missing("not asked", "not-asked")

CARDS: dict[str, Capability] = {
    "NVIDIA TITAN RTX": (7, 5),
    "NVIDIA L40S": (8, 9),
    "NVIDIA A100-SXM4-40GB": (8, 0),
    "NVIDIA GeForce RTX 3090": (8, 6),
    "NVIDIA H100 80GB HBM3": (9, 0),
    "NVIDIA B200": (10, 0),
    "Tesla V100-SXM2-16GB": (7, 0),
    "Tesla T4": (7, 5),
    "NVIDIA GeForce RTX 2080 Ti": (7, 5),
    "NVIDIA GeForce GTX 1660 Ti": (7, 5),
    "NVIDIA GeForce GTX 1650": (7, 5),
    "Quadro T1000": (7, 5),
    "NVIDIA GeForce GTX 1080 Ti": (6, 1),
    "Tesla P40": (6, 1),
    "Tesla P100-PCIE-16GB": (6, 0),
    "NVIDIA GeForce GTX 980": (5, 2),
}


def gpu(index: int, name: str = "NVIDIA TITAN RTX", *, host: str = "titan", **changes: Any) -> Gpu:
    """Return a healthy, free GPU; `changes` are fields that differ."""
    plain = decode(Gpu, {"index": index, "uuid": f"GPU-{host}-{index}", "name": name})
    mode: ComputeMode = "default"
    known = replace(
        plain,
        capability=CARDS[name],
        compute_mode=mode,
        processes=(),
        mig_enabled=False,
        recovery_action="none",
    )
    return replace(known, **changes)


def host(
    name: str = "titan", gpus: Sequence[Gpu] | Missing = (), *, address: str = "10.77.0.1", **changes: Any
) -> HostFacts:
    """Return the facts of a host with the given GPUs and one network interface, eth0."""
    facts = HostFacts(
        host=name,
        agent_version="test",
        identity=Identity(name, f"boot-{name}", 1000, "ada", "6.1", 0.0, 1.0, "", initial_pid_namespace=True),
        python=PythonEnv(
            "/opt/venv/bin/python", "3.11.2", {"torch": "2.13.0", "accelerate": "1.15.0"}, "12.8", "2.27"
        ),
        driver=NOT_ASKED,
        gpus=gpus if isinstance(gpus, Missing) else tuple(gpus),
        pci_gpus=(),
        processes=NOT_ASKED,
        ports=Ports("proc", (), (BindTest(29500, ok=True, error=""),), (43210, 43211), (32768, 60999)),
        network=Network(
            (
                Interface("lo", ("127.0.0.1", "::1"), up=True, virtual=True, mtu=65536, speed_mbps=NOT_ASKED),
                Interface("eth0", (address,), up=True, virtual=False, mtu=1500, speed_mbps=1000),
            ),
            default_interface="eth0",
            own_name_addresses=("127.0.1.1",),
            ssh_server_address=address,
        ),
        infiniband=(),
        limits=replace(decode(Limits, _LIMITS), cpus=32),
        paths=(),
        script=NOT_ASKED,
        kernel_log=NOT_ASKED,
        environ={},
        system=NOT_ASKED,
        probe_ms={},
    )
    return replace(facts, **changes)


def titan(count: int = 2, name: str = "titan", address: str = "10.77.0.1") -> HostFacts:
    """Return a host with TITAN RTX cards."""
    return host(name, [gpu(i, host=name) for i in range(count)], address=address)


def l40s(count: int = 2, name: str = "l40s-01", address: str = "10.77.0.2") -> HostFacts:
    """Return a host with L40S cards."""
    return host(name, [gpu(i, "NVIDIA L40S", host=name) for i in range(count)], address=address)


def cpu_host(name: str = "plain", address: str = "10.77.0.3") -> HostFacts:
    """Return a host without driver or GPU."""
    return host(name, Missing("NVML cannot be loaded", "no-library"), address=address)


_LIMITS = {
    "cpus": 32,
    "memory_total_mib": 65536,
    "memory_available_mib": 60000,
    "swap_total_mib": 0,
    "swap_used_mib": 0,
    "load_1min": 0.0,
    "memlock_kib": -1,
    "nofile": 65536,
    "nofile_hard": 65536,
}


def gpus_of(facts: HostFacts) -> tuple[Gpu, ...]:
    assert not isinstance(facts.gpus, Missing), facts.gpus
    return facts.gpus


def shown_gpus(facts: HostFacts) -> tuple[Gpu, ...]:
    """Return the GPUs that a file shows, as a host with no others numbers them: it may leave some out."""
    shown = [gpu for gpu in gpus_of(facts) if not isinstance(gpu.name, Missing)]
    return tuple(replace(gpu, index=index) for index, gpu in enumerate(shown))
