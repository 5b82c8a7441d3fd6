"""What the probes make of a driver's library and a PCI bus that are given: each condition on both sides."""

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from preflight.probes import gpus, peer_to_peer
from preflight.probes.fact import missing
from preflight.probes.gpu_enums import THROTTLE
from preflight.probes.nvidia_smi import command
from preflight.probes.nvml import gpus as by_nvml
from preflight.probes.nvml import links
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
    assert links.fabric(fabric_library(state, status), None) == told


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
    found = links.nvlinks(link_library({0: True, 1: False, 2: 2, 17: True, 18: True}), None)
    assert found == [
        {"link": 0, "active": True, "errors": 1111},
        {"link": 1, "active": False, "errors": 0},
        {"link": 17, "active": True, "errors": 18 * 1111},
    ]
    assert links.nvlinks(link_library({}), None) == missing("this GPU has no NVLink", "not-supported")
    with pytest.raises(NvmlError):
        links.nvlinks(link_library({4: 15}), None)


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
    monkeypatch.setattr(by_nvml, "nvml_gpus", lambda nv, _emit, _known: asked.append(("nvml", nv)))
    monkeypatch.setattr(command, "smi_gpus", lambda _emit, reason: asked.append((reason, None)))
    gpus.probe_gpus(read_request({}, carried), lambda *_: None)
    assert asked == [(way, b"zip" if way == "nvml" else None)]


# --- the PCI bus ---


def bridge(control: int, *, pad: int = 0, kind: int = 0x0D) -> bytes:
    """A PCI configuration space whose second extended capability is of a kind and holds these bits."""
    config = bytearray(0x100 + pad)
    config += (0x01 | (0x108 + pad) << 20).to_bytes(4, "little") + bytes(4)
    config += (kind).to_bytes(4, "little") + bytes(2) + control.to_bytes(2, "little")
    return bytes(config)


@pytest.mark.parametrize(
    ("config", "control"),
    [
        (bridge(0x1D), 0x1D),
        (bridge(0), 0),
        (bridge(0x1D, kind=0x10), 0),
        (bridge(0x1D)[:-1], 0),
        (bytes(0x107), 0),
        (bytes(0x100) + (0x0D).to_bytes(4, "little") + bytes(2) + b"\x05\x00", 5),
        (bytes(0x100) + (0x01 | 0x100 << 20).to_bytes(4, "little") + bytes(4), 0),  # a list without end
    ],
)
def test_acs_is_found_in_a_list_of_capabilities(config: bytes, control: int) -> None:
    assert peer_to_peer._acs_control(config) == control


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
    monkeypatch.setattr(peer_to_peer, "PCI", str(tmp_path))
    monkeypatch.setattr(peer_to_peer, "pci_gpus", lambda: [{"bus_id": "x"}])
    assert peer_to_peer.acs_enabled() == enabled
    monkeypatch.setattr(peer_to_peer, "pci_gpus", list)
    assert peer_to_peer.acs_enabled() == missing("there is no NVIDIA device on the PCI bus", "not-found")
