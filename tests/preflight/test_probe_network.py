"""The network as the agent reads it: InfiniBand, interfaces, routes and sockets."""

import os
import socket
from pathlib import Path

import psutil
import pytest

from preflight.probes import host, network, pci, sockets
from preflight.probes.fact import missing


def lay_out(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_ports_of_infiniband_are_those_of_sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "INFINIBAND", str(tmp_path / "none"))
    assert host.read_infiniband() == []
    monkeypatch.setattr(host, "INFINIBAND", str(tmp_path))
    one = {"rate": "200 Gb/sec (4X HDR)", "state": "4: ACTIVE", "link_layer": "InfiniBand"}
    lay_out(tmp_path, {f"mlx5_1/ports/1/{name}": text for name, text in one.items()})
    lay_out(tmp_path, {"mlx5_0/ports/10/state": "1: DOWN\n", "mlx5_0/ports/2/rate": "2.5 Gb/sec"})
    first, second, third = host.read_infiniband()
    unknown = missing("the port names no rate", "not-supported")
    assert (first["device"], first["port"], first["rate_gbps"], first["state"]) == ("mlx5_0", 2, 2.5, "")
    assert (second["port"], second["rate_gbps"], second["state"]) == (10, unknown, "DOWN")
    assert third == {"device": "mlx5_1", "port": 1, "rate_gbps": 200.0, "state": "ACTIVE",
                     "link_layer": "InfiniBand"}  # fmt: skip


def test_gpus_of_the_bus_are_nvidias_display_controllers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pci, "PCI", str(tmp_path))
    for bus, vendor, kind in (
        ("0000:3b:00.0", "0x10de", "0x030200"),
        ("0000:3b:00.1", "0x10de", "0x040300"),
        ("0000:01:00.0", "0x10de", "0x030000"),
        ("0000:3b:00.4", "0x10de", "0x030200"),
        ("0000:00:02.0", "0x8086", "0x030000"),
    ):
        lay_out(tmp_path, {f"{bus}/vendor": vendor, f"{bus}/class": kind, f"{bus}/device": "0x26b9\n"})
    (tmp_path / "0000:3b:00.0" / "driver").symlink_to("/sys/bus/pci/drivers/nvidia")
    (tmp_path / "0000:3b:00.4" / "physfn").symlink_to("../0000:3b:00.0")
    unbound = missing("no driver is bound to it", "not-found")
    assert pci.list_pci_gpus() == [
        {"bus_id": "0000:01:00.0", "device_id": "26b9", "driver": unbound},
        {"bus_id": "0000:3b:00.0", "device_id": "26b9", "driver": "nvidia"},
    ]


@pytest.mark.parametrize(
    ("said", "speed"),
    [("1000", 1000), ("0", 0), ("-1", None), ("", None), ("2147483647", (1 << 31) - 1), ("2147483648", None)],
)
def test_an_interface_has_the_speed_that_the_kernel_knows(
    monkeypatch: pytest.MonkeyPatch, said: str, speed: int | None
) -> None:
    monkeypatch.setattr(network, "read_text_or", lambda *_: said)
    known = missing("the interface names no speed", "not-supported") if speed is None else speed
    assert [each["speed_mbps"] == known for each in network._interfaces()] == [True] * len(
        socket.if_nameindex()
    )


def test_interfaces_are_those_that_psutil_sees() -> None:
    addresses, states = psutil.net_if_addrs(), psutil.net_if_stats()
    families = (socket.AF_INET, socket.AF_INET6)
    found = {each["name"]: each for each in network._interfaces()}
    assert found.keys() == states.keys()
    for name, each in found.items():
        known = {a.address.partition("%")[0] for a in addresses.get(name, ()) if a.family in families}
        assert set(each["addresses"]) == known
        assert each["addresses"] == sorted(each["addresses"], key=lambda text: ":" in text)
        assert each["mtu"] == states[name].mtu
        assert each["virtual"] is not Path(f"/sys/class/net/{name}/device").exists()
    assert found["lo"]["up"] is ("running" in states["lo"].flags and states["lo"].isup)


@pytest.mark.parametrize(
    ("said", "address"),
    [("10.0.0.9 50000 10.0.0.5 22", "10.0.0.5"), ("", None), ("a b c", None), ("a b c d e", None)],
)
def test_the_third_word_of_a_connection_is_our_address(
    monkeypatch: pytest.MonkeyPatch, said: str, address: str | None
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", said)
    found = network._ssh_server_address()
    assert found == address or (address is None and found["code"] == "not-found")


HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"


@pytest.mark.parametrize(
    ("routes", "interface"),
    [
        ("eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\n", "eth0"),
        ("eth0\t00000000\t01\t3\t0\t0\t100\t00000000\neth1\t00000000\t01\t3\t0\t0\t50\t00000000\n", "eth1"),
        ("eth0\t0000A8C0\t00000000\t1\t0\t0\t1\t00FFFFFF\n", None),
        ("eth0\t00000000\t00000000\t1\t0\t0\t1\t00FFFFFF\n", None),
        ("eth0\t0000A8C0\t00000000\t1\t0\t0\t1\t00000000\n", None),
        ("", None),
    ],
)
def test_the_default_route_is_the_one_with_the_lowest_metric(
    monkeypatch: pytest.MonkeyPatch, routes: str, interface: str | None
) -> None:
    held = {"/proc/net/route": HEAD + routes}
    monkeypatch.setattr(network, "read_text_or", lambda path, default="": held.get(path, default))
    found = network._default_interface()
    assert found == interface or (interface is None and found["code"] == "not-found")


STATES = ("ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE", "CLOSE_WAIT",
          "LAST_ACK", "LISTEN", "CLOSING", "SYN_RECV")  # fmt: skip


def test_sockets_on_a_port_have_address_state_and_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    rest = "00000000:00000000 00:00000000 00000000"
    rows = [
        f"   {n}: 0100007F:733C 00000000:0000 {n:02X} {rest}  100{n}        0 77{n} 1 0" for n in range(1, 13)
    ]
    rows += [f"  13: 0100007F:733D 00000000:0000 0A {rest}  1000        0 7 1 0"]
    six = f"   0: 00000000000000000000000001000000:733C {'0' * 32}:0000 0A {rest}  1000        0 8 1 0"
    held = {"/proc/net/tcp": "\n".join(["  sl  local", *rows]), "/proc/net/tcp6": six}
    monkeypatch.setattr(sockets, "read_text_or", lambda path, default="": held.get(path, default))
    monkeypatch.setattr(sockets, "_bound_sockets", lambda ports: [])
    found = sockets.list_sockets_on((0x733C,))
    assert [(row["address"], row["state"]) for row in found[:2]] == [
        ("127.0.0.1", "LISTEN"),
        ("::1", "LISTEN"),
    ]
    assert sorted((row["state"], row["uid"], row["inode"]) for row in found if row["inode"] != "8") == sorted(
        (state, int(f"100{n}"), f"77{n}") for n, state in enumerate(STATES, 1)
    )
    assert {row["port"] for row in sockets.list_sockets_on((0x733C, 0x733D))} == {0x733C, 0x733D}
    assert sockets.list_sockets_on(()) == []


def test_a_socket_that_listens_is_found_on_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        (row,) = sockets.list_sockets_on((server.getsockname()[1],))
        assert row == {
            "port": server.getsockname()[1],
            "address": "127.0.0.1",
            "state": "LISTEN",
            "uid": os.geteuid(),
            "inode": str(os.fstat(server.fileno()).st_ino),
        }
