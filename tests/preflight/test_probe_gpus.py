"""What the probes make of a driver's library and a PCI bus that are given: each condition on both sides."""

import ctypes
import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from preflight.probes import gpus, system
from preflight.probes.driver_library import list_refused_device_files
from preflight.probes.fact import missing
from preflight.probes.gpu_enums import THROTTLE
from preflight.probes.nvidia_smi import command
from preflight.probes.nvidia_smi.capability import find_capability
from preflight.probes.nvml import gpus as by_nvml
from preflight.probes.nvml import gpus as links
from preflight.probes.pci import format_bus_id
from preflight.probes.request import read_request

# --- what the driver's library says ---


def test_reasons_to_throttle_are_the_bits_of_nvml() -> None:
    assert [bit for bit, _ in THROTTLE] == [1 << place for place in range(9)]


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


def fabric_library(state: int, status: int) -> Any:
    class Info(ctypes.Structure):
        _fields_ = (("state", ctypes.c_uint), ("status", ctypes.c_uint))

    def fill(_gpu: object, info: Any) -> None:
        info._obj.state, info._obj.status = state, status

    return SimpleNamespace(
        c_nvmlGpuFabricInfoV_t=Info,
        nvmlDeviceGetGpuFabricInfoV=fill,
        nvmlErrorString=lambda code: f"Error {code}".encode(),
    )


@pytest.mark.parametrize(
    ("state", "status", "told"),
    [
        (3, 0, {"state": "completed", "status": "success"}),
        (3, 9, {"state": "completed", "status": "error 9"}),
        (2, 0, {"state": "in_progress", "status": "n/a"}),
        (1, 9, {"state": "not_started", "status": "n/a"}),
        (0, 0, missing("this GPU is not part of an NVSwitch fabric", "not-supported")),
        (4, 0, missing("this GPU is not part of an NVSwitch fabric", "not-supported")),
    ],
)
def test_a_fabric_has_a_status_once_it_is_completed(state: int, status: int, told: dict[str, Any]) -> None:
    assert links.read_fabric(fabric_library(state, status), None) == told


def link_library(states: dict[int, int | bool]) -> Any:
    def state(_gpu: object, link: int) -> bool:
        answer = states.get(link, 3)
        if not isinstance(answer, bool):
            raise NvmlError(answer)
        return answer

    return SimpleNamespace(
        NVMLError=NvmlError,
        nvmlDeviceGetNvLinkState=state,
        nvmlDeviceGetNvLinkErrorCounter=lambda _gpu, link, counter: 10**counter * (link + 1),
    )


def test_links_that_a_gpu_has_are_told_with_the_sum_of_their_errors() -> None:
    found = links.read_nvlinks(link_library({0: True, 1: False, 2: 2, 17: True, 18: True}), None)
    assert found == [
        {"link": 0, "active": True, "errors": 1111},
        {"link": 1, "active": False, "errors": 0},
        {"link": 17, "active": True, "errors": 18 * 1111},
    ]
    assert links.read_nvlinks(link_library({}), None) == missing("this GPU has no NVLink", "not-supported")
    with pytest.raises(NvmlError):
        links.read_nvlinks(link_library({4: 15}), None)


@pytest.mark.parametrize(
    ("refused", "carried", "way"),
    [
        (None, b"zip", "nvml"),
        ("none here", b"zip", "none here"),
        (None, None, "no pynvml came with the request"),
    ],
)
def test_gpus_are_read_by_nvml_where_the_library_and_pynvml_are(
    monkeypatch: pytest.MonkeyPatch, refused: str | None, carried: bytes | None, way: str
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(gpus, "load_nvml", lambda: refused)
    monkeypatch.setattr(gpus, "import_pynvml", lambda data: data)
    monkeypatch.setattr(by_nvml, "emit_nvml_gpus", lambda nv, _emit, _known: asked.append(("nvml", nv)))
    monkeypatch.setattr(command, "emit_smi_gpus", lambda _emit, reason: asked.append((reason, None)))
    gpus.probe(read_request({}, carried), lambda *_: None)
    assert asked == [(way, b"zip" if way == "nvml" else None)]


# --- the PCI bus ---


def bridge(control: int, *, pad: int = 0, kind: int = 0x0D) -> bytes:
    """A PCI configuration space whose second extended capability is of a kind and holds these bits."""
    config = bytearray(0x100 + pad)
    config += (0x01 | (0x108 + pad) << 20).to_bytes(4, "little") + bytes(4)
    config += (kind).to_bytes(4, "little") + bytes(2) + control.to_bytes(2, "little")
    return bytes(config)


def chain(length: int) -> bytes:
    """A configuration space with ACS behind so many other extended capabilities."""
    others = ((0x01 | (0x108 + 8 * at) << 20).to_bytes(4, "little") + bytes(4) for at in range(length))
    return bytes(0x100) + b"".join(others) + (0x0D).to_bytes(4, "little") + bytes(2) + b"\x05\x00"


@pytest.mark.parametrize(
    ("config", "control"),
    [
        (bridge(0x1D), 0x1D),
        (bridge(0), 0),
        (bridge(0x1D, kind=0x10), 0),
        (bridge(0x1D)[:-1], 0),
        (bytes(0x107), 0),
        (bytes(0x100) + (0x0D).to_bytes(4, "little") + bytes(2) + b"\x05\x00", 5),
        (chain(63), 5),
        (chain(64), 0),  # more than a space of 4 KiB holds of any use
        (bytes(0x100) + (0x01 | 0x100 << 20).to_bytes(4, "little") + bytes(4), 0),  # a list without end
    ],
)
def test_acs_is_found_in_a_list_of_capabilities(config: bytes, control: int) -> None:
    assert system._acs_control(config) == control


@pytest.mark.parametrize(
    ("devices", "enabled"),
    [
        ({"a": ("0x060400", bridge(0x1C)), "b": ("0x060400", bridge(0x1D))}, True),
        ({"a": ("0x060400", bridge(0x1C))}, False),
        ({"a": ("0x030000", bridge(0x1D))}, missing("no PCI bridge is visible", "not-found")),
        (
            {"a": ("0x060400", bytes(256))},
            missing("PCI bridges' extended configuration is for root", "no-permission"),
        ),
        ({"a": ("0x060400", bytes(257))}, False),
    ],
)
def test_a_bridge_that_redirects_traffic_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: dict[str, tuple[str, bytes]], enabled: Any
) -> None:
    for name, (kind, config) in devices.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "class").write_text(kind)
        (tmp_path / name / "config").write_bytes(config)
    monkeypatch.setattr(system, "PCI", str(tmp_path))
    monkeypatch.setattr(system, "list_pci_gpus", lambda: [{"bus_id": "x"}])
    assert system.is_acs_enabled() == enabled
    monkeypatch.setattr(system, "list_pci_gpus", list)
    assert system.is_acs_enabled() == missing("there is no NVIDIA device on the PCI bus", "not-found")


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ({}, "off"),
        ({"gpu": "identity", "usb": "DMA"}, "passthrough"),
        ({"gpu": "DMA-FQ", "usb": "identity"}, "translated"),
        ({"gpu": ""}, missing("the kernel names no types of its IOMMU groups", "not-supported")),
    ],
    ids=str,
)
def test_the_iommu_is_judged_by_the_groups_of_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, types: dict[str, str], said: Any
) -> None:
    for name, kind in types.items():
        (tmp_path / name / "iommu_group").mkdir(parents=True)
        (tmp_path / name / "iommu_group" / "type").write_text(f"{kind}\n")
    monkeypatch.setattr(system, "PCI", str(tmp_path))
    monkeypatch.setattr(system, "list_pci_gpus", lambda: [{"bus_id": "gpu"}])
    assert system.read_iommu() == said


# --- names and numbers ---


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("00000000:65:00.0", "0000:65:00.0"),
        ("65:0.1", "0000:65:00.1"),
        ("0001:AB:1F", "0001:ab:1f.0"),
        ("10000:01:00.0", "10000:01:00.0"),
        (" Odd ", "odd"),
    ],
)
def test_a_bus_id_is_written_in_one_way(text: str, known: str) -> None:
    assert format_bus_id(text) == known


CAPABILITIES = {
    (12, 1): ("NVIDIA GB10",),
    (10, 3): ("NVIDIA B300", "NVIDIA GB300"),
    (10, 0): ("NVIDIA B200", "NVIDIA GB200", "NVIDIA B100"),
    (12, 0): ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "NVIDIA GeForce RTX 5090"),
    (9, 0): ("NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA GH200 480GB", "NVIDIA H20"),
    (8, 9): ("NVIDIA L40S", "NVIDIA L4", "NVIDIA GeForce RTX 4090", "NVIDIA RTX 6000 Ada Generation"),
    (8, 0): ("NVIDIA A100-SXM4-80GB", "NVIDIA A30", "NVIDIA A800"),
    (8, 6): ("NVIDIA A10G", "NVIDIA A40", "NVIDIA GeForce RTX 3090", "NVIDIA RTX A6000", "NVIDIA A2"),
    (7, 5): ("Tesla T4", "NVIDIA TITAN RTX", "NVIDIA GeForce GTX 1660", "Quadro RTX 8000", "NVIDIA T1000"),
    (7, 0): ("Tesla V100-SXM2-32GB", "NVIDIA TITAN V", "Quadro GV100"),
    (6, 0): ("Tesla P100-PCIE-16GB", "Quadro GP100"),
    (6, 1): ("Tesla P40", "NVIDIA TITAN Xp", "NVIDIA GeForce GTX 1080 Ti", "Quadro P5000", "Tesla P4"),
    (5, 2): ("Tesla M60", "NVIDIA GeForce GTX 980", "GeForce GTX TITAN X", "Quadro M6000"),
    (5, 0): ("NVIDIA GeForce GTX 750 Ti", "Quadro K620", "GeForce 940MX"),
    (3, 7): ("Tesla K80",),
    (3, 5): ("Tesla K40c", "Tesla K20Xm"),
}


@pytest.mark.parametrize(("known", "names"), CAPABILITIES.items())
def test_the_name_of_a_gpu_gives_its_capability(known: tuple[int, int], names: tuple[str, ...]) -> None:
    assert [find_capability({}, name) for name in names] == [list(known)] * len(names)


@pytest.mark.parametrize(
    ("tree", "name", "known"),
    [
        ({"compute_cap": "8.6"}, "Tesla T4", [8, 6]),
        ({"compute_capability": "12.0"}, "Odd", [12, 0]),
        ({"compute_cap": "x"}, "Tesla T4", [7, 5]),
        ({"product_architecture": "Turing"}, "Odd", [7, 5]),
        ({"product_architecture": "Hopper"}, "Odd", [9, 0]),
        ({"product_architecture": "Ada Lovelace"}, "Odd", [8, 9]),
        ({"product_architecture": "Turing"}, "Tesla P100 in a long nam...", [6, 0]),
        ({"product_architecture": "Turing"}, "Quadro P4...", [7, 5]),  # P4000, say
    ],
)
def test_what_is_printed_comes_before_the_name_and_that_before_the_architecture(
    tree: dict[str, str], name: str, known: list[int]
) -> None:
    assert find_capability(tree, name) == known


def test_a_gpu_of_unknown_name_has_no_capability() -> None:
    assert find_capability({}, "Odd")["code"] == "not-asked"
    assert find_capability({}, missing("lost", "gpu-lost"))["code"] == "not-asked"


# --- device files ---


def test_a_device_file_that_cannot_be_opened_is_named_with_its_owner(tmp_path: Path) -> None:
    for name in ("nvidiactl", "nvidia0"):
        (tmp_path / name).touch()
    assert list_refused_device_files(str(tmp_path)) == ""
    for name in ("nvidia1", "nvidia-modeset"):  # a socket cannot be opened, not by root either
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(str(tmp_path / name))
    (tmp_path / "nvidia1").chmod(0o600)
    owner = f"uid {os.getuid()}, gid {os.getgid()}"
    said = f"; {tmp_path}/nvidia1: No such device or address (srw-------, {owner})"
    assert list_refused_device_files(str(tmp_path)) == said
    assert list_refused_device_files(str(tmp_path / "none")) == ""
