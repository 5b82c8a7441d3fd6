"""What probes choose, count and call things, from a host that is given: each condition on both sides."""

import os
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

from preflight.probes import identity, infiniband, network, pci, sockets, system
from preflight.probes.fact import missing
from preflight.probes.marks import parse_mark
from preflight.probes.namespaces import namespace_pids, own_namespace
from preflight.probes.nvidia_smi.capability import capability
from preflight.probes.pci import pci_bus_id
from preflight.probes.processes.proc_pid import ProcessStat, gpu_devices, open_files, read_stat
from preflight.probes.processes.selection import select_pids
from preflight.probes.processes.table import _supervisors, process_table
from preflight.probes.processes.walk import ProcessWalk
from preflight.probes.script_imports import imported_modules, imported_names

# --- which processes matter ---

GONE = 1 << 23  # above every pid that Linux gives: /proc has nothing of such processes


def stat(number: int, ppid: int = 1, **more: Any) -> ProcessStat:
    known: dict[str, Any] = {"comm": "python", "state": "S", "kernel": False, "start_ticks": number}
    plain = {"pgid": 1, "sid": 1, "tty": False, "cpu_ticks": 0, "threads": 1}
    parent = GONE + ppid if ppid > 1 else ppid
    return ProcessStat(pid=GONE + number, ppid=parent, **{**plain, **known, **more})


def walk_of(*stats: ProcessStat, holders: tuple[int, ...] = (), gpu: tuple[int, ...] = ()) -> ProcessWalk:
    walk = ProcessWalk(frozenset())
    walk.stats = {1: stat(1)._replace(pid=1, ppid=0, comm="systemd"), **{each.pid: each for each in stats}}
    walk.kernel = {each.pid for each in stats if each.kernel}
    walk.holders = {"socket:[7]": [GONE + number for number in holders]}
    walk.gpu_files = {GONE + number: ["/dev/nvidia0"] for number in gpu}
    return walk


@pytest.mark.parametrize(
    ("walk", "chosen"),
    [
        (walk_of(stat(10)), set()),
        (walk_of(stat(10), holders=(10,)), {10}),
        (walk_of(stat(10), gpu=(10,)), {10}),
        *((walk_of(stat(10, state=state)), {10}) for state in "ZTtD"),
        *((walk_of(stat(10, state=state)), set()) for state in "RSI"),
        *((walk_of(stat(10, comm=comm)), {10}) for comm in ("pt_data_worker", "pt_data_pin", "pt_elastic")),
        (walk_of(stat(10, comm="nvidia-cuda-mps")), {10}),
        (walk_of(stat(10, state="D", kernel=True)), set()),
        (walk_of(stat(10, state="D", kernel=True), stat(11, state="T")), {11}),
        (walk_of(stat(10), stat(11, 10, state="T"), stat(12, 11), stat(13, 12), stat(14)), {10, 11, 12}),
        (walk_of(stat(10, comm="tini"), stat(11, 10, state="T"), stat(9, 10), stat(12, 10)), {9, 10, 11}),
        (walk_of(stat(10, comm="bash"), stat(11, 10, state="T"), stat(9, 10), stat(12, 10)), {10, 11}),
    ],
)
def test_what_holds_hangs_or_works_for_training_matters_with_its_family(
    walk: ProcessWalk, chosen: set[int]
) -> None:
    assert {pid - GONE for pid in select_pids(walk) if pid > GONE} == chosen
    assert (1 in select_pids(walk)) is bool(chosen)


@pytest.mark.parametrize("unreadable", [missing("denied", "no-permission"), []])
def test_open_files_that_cannot_be_read_are_no_reason(unreadable: Any) -> None:
    walk = walk_of(stat(10))
    walk.gpu_files = {GONE + 10: unreadable}
    assert select_pids(walk) == set()


def test_this_process_and_its_parent_are_no_part_of_it() -> None:
    walk = ProcessWalk(frozenset())
    mine = read_stat(os.getpid())
    walk.stats, walk.holders, walk.kernel = {mine.pid: mine._replace(state="D")}, {"x": [mine.pid]}, set()
    assert select_pids(walk) == set()
    child = stat(9, state="Z")._replace(ppid=mine.pid)
    walk.stats[child.pid], walk.holders = child, {}
    assert select_pids(walk) == set()
    above = mine._replace(pid=mine.ppid, ppid=1, state="D")
    walk.stats = {above.pid: above, child.pid: child._replace(ppid=above.pid), 1: stat(1)._replace(pid=1)}
    assert select_pids(walk) == set()


def test_all_processes_are_those_that_psutil_sees() -> None:
    before, walk, after = set(psutil.pids()), ProcessWalk(frozenset()), set(psutil.pids())
    assert before & after <= walk.stats.keys() <= before | after
    mine = walk.stats[os.getpid()]
    process = psutil.Process()
    assert (mine.ppid, mine.comm, mine.threads >= 1) == (process.ppid(), process.name()[:15], True)
    assert abs(mine.start_ticks / os.sysconf("SC_CLK_TCK") + psutil.boot_time() - process.create_time()) < 2
    assert (mine.pgid, mine.sid, mine.kernel) == (os.getpgid(0), os.getsid(0), False)
    assert walk.ancestors(os.getpid()) == [each.pid for each in process.parents()]
    assert os.getpid() not in walk.gpu_files
    assert walk.ancestors(GONE) == []


def test_a_socket_that_is_looked_for_has_its_holder() -> None:
    parent, child = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        parent.close()
        child.recv(1)
        os._exit(0)
    try:
        inode = f"socket:[{os.fstat(child.fileno()).st_ino}]"
        walk = ProcessWalk(frozenset({inode}))
        assert pid in walk.holders[inode]
        assert inode in open_files(read_stat(pid))
        assert open_files(read_stat(pid)._replace(state="Z", threads=1)) == set()
        table = process_table(walk, {pid})
        assert [row["pid"] for row in table["processes"]] == [pid]
        assert (table["total"], table["agent_pid"]) == (len(walk.stats), os.getppid())
        assert (table["ancestors"], table["unread"]) == (walk.ancestors(os.getppid()), [])
        assert process_table(walk, set())["source"] == "proc"
    finally:
        parent.close()
        child.close()
        os.waitpid(pid, 0)


@pytest.mark.parametrize(
    ("pid", "ticks", "found"), [(10, 10, {10, 9, 1}), (10, 11, set()), (9, 9, {9, 1}), (12, 10, set())]
)
def test_a_supervisor_is_found_by_its_pid_and_start(pid: int, ticks: int, found: set[int]) -> None:
    walk = walk_of(stat(9), stat(10, 9))
    here = f"{own_namespace('pid')}:{own_namespace('time')}"
    rows = [{"environ": {"GPULAUNCH_SUPERVISOR": f"boot:{here}:{GONE + pid}:{ticks}"}}]
    assert {each - GONE if each > 1 else each for each in _supervisors(walk, rows)} == found


def test_gpu_devices_are_those_of_nvidia_and_of_the_render_nodes() -> None:
    paths = {"/dev/nvidia0", "/dev/dri/renderD128", "/dev/nvidiactl", "/dev/null", "/dev/drix"}
    assert gpu_devices(paths) == ["/dev/dri/renderD128", "/dev/nvidia0", "/dev/nvidiactl"]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("b:1:2:3:4", ("b", "1", "2", 3, 4)),
        ("b:1:2:0:4", None),
        ("b:1:2:1:0", ("b", "1", "2", 1, 0)),
        ("b:1:2:3", None),
        ("b:1:2:3:4:5", None),
        (f"{'b' * 64}:1:2:3:4", ("b" * 64, "1", "2", 3, 4)),
        (f"{'b' * 65}:1:2:3:4", None),
        ("b:1:2:12345678901:4", None),
    ],
)
def test_a_mark_has_five_parts(text: str, known: tuple[str, str, str, int, int] | None) -> None:
    assert parse_mark(text) == known


def test_a_process_has_its_pid_in_its_own_namespace_last() -> None:
    assert namespace_pids(os.getpid())[0] == os.getpid()
    assert own_namespace("pid") == str(Path("/proc/self/ns/pid").stat().st_ino)
    assert own_namespace("nothing") == "0"


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
    assert pci_bus_id(text) == known


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
    assert [capability({}, name) for name in names] == [list(known)] * len(names)


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
    assert capability(tree, name) == known


def test_a_gpu_of_unknown_name_has_no_capability() -> None:
    assert capability({}, "Odd")["code"] == "not-asked"
    assert capability({}, missing("lost", "gpu-lost"))["code"] == "not-asked"


# --- what a script imports ---


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import a, b.c\nimport a as d\n", ["a", "b"]),
        ("from a.b import c\nfrom . import d\nfrom .e import f\n", ["a"]),
        ("if x:\n    import a\ntry:\n    import b\nexcept E: pass\ndef f():\n    import c\n", []),
        ("", []),
    ],
)
def test_modules_are_those_that_are_always_imported(text: str, names: list[str]) -> None:
    assert imported_names(text) == names


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"import a\n", ["a"]),
        (b"\xef\xbb\xbfimport a\n", ["a"]),
        (b"import a\n#".ljust(512 << 10, b"x"), ["a"]),
        (b"import a\n#".ljust((512 << 10) + 1, b"x"), []),
        (b"import (", []),
        (b"import a\n#\xff\n", ["a"]),
    ],
)
def test_a_script_of_512_kib_is_read_for_its_modules(tmp_path: Path, data: bytes, names: list[str]) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(data)
    assert imported_modules(str(path)) == names


# --- the network ---


def lay_out(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_ports_of_infiniband_are_those_of_sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infiniband, "INFINIBAND", str(tmp_path / "none"))
    assert infiniband.infiniband() == []
    monkeypatch.setattr(infiniband, "INFINIBAND", str(tmp_path))
    one = {"rate": "200 Gb/sec (4X HDR)", "state": "4: ACTIVE", "link_layer": "InfiniBand"}
    lay_out(tmp_path, {f"mlx5_1/ports/1/{name}": text for name, text in one.items()})
    lay_out(tmp_path, {"mlx5_0/ports/10/state": "1: DOWN\n", "mlx5_0/ports/2/rate": "2.5 Gb/sec"})
    lay_out(tmp_path, {"mlx5_1/ports/1/counters/link_downed": "3\n"})
    first, second, third = infiniband.infiniband()
    unknown = missing("the port names no rate", "not-supported")
    assert (first["device"], first["port"], first["rate_gbps"], first["state"]) == ("mlx5_0", 2, 2.5, "")
    assert (second["port"], second["rate_gbps"], second["state"]) == (10, unknown, "DOWN")
    assert isinstance(second["link_downed"], dict)
    assert third == {"device": "mlx5_1", "port": 1, "rate_gbps": 200.0, "state": "ACTIVE",
                     "link_layer": "InfiniBand", "link_downed": 3}  # fmt: skip


def test_gpus_of_the_bus_are_nvidias_display_controllers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pci, "PCI", str(tmp_path))
    for bus, vendor, kind in (
        ("0000:3b:00.0", "0x10de", "0x030200"),
        ("0000:3b:00.1", "0x10de", "0x040300"),
        ("0000:01:00.0", "0x10de", "0x030000"),
        ("0000:00:02.0", "0x8086", "0x030000"),
    ):
        lay_out(tmp_path, {f"{bus}/vendor": vendor, f"{bus}/class": kind, f"{bus}/device": "0x26b9\n"})
    (tmp_path / "0000:3b:00.0" / "driver").symlink_to("/sys/bus/pci/drivers/nvidia")
    unbound = missing("no driver is bound to it", "not-found")
    assert pci.pci_gpus() == [
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
    monkeypatch.setattr(network, "text_or", lambda *_: said)
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
    monkeypatch.setattr(network, "text_or", lambda path, default="": held.get(path, default))
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
    monkeypatch.setattr(sockets, "text_or", lambda path, default="": held.get(path, default))
    monkeypatch.setattr(sockets, "_bound_sockets", lambda ports: [])
    found = sockets.sockets_on((0x733C,))
    assert [(row["address"], row["state"]) for row in found[:2]] == [
        ("127.0.0.1", "LISTEN"),
        ("::1", "LISTEN"),
    ]
    assert sorted((row["state"], row["uid"], row["inode"]) for row in found if row["inode"] != "8") == sorted(
        (state, int(f"100{n}"), f"77{n}") for n, state in enumerate(STATES, 1)
    )
    assert {row["port"] for row in sockets.sockets_on((0x733C, 0x733D))} == {0x733C, 0x733D}
    assert sockets.sockets_on(()) == []


def test_a_socket_that_listens_is_found_on_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        (row,) = sockets.sockets_on((server.getsockname()[1],))
        assert row == {
            "port": server.getsockname()[1],
            "address": "127.0.0.1",
            "state": "LISTEN",
            "uid": os.geteuid(),
            "inode": str(os.fstat(server.fileno()).st_ino),
        }


# --- the machine ---


def test_the_machine_is_the_one_that_others_see() -> None:
    found = identity.identity()
    assert (found["hostname"], found["machine"]) == (os.uname().nodename, os.uname().machine)
    assert (found["uid"], found["kernel"]) == (os.getuid(), os.uname().release)
    assert found["initial_pid_namespace"] is (found["pid_namespace"] == "4026531836")
    assert abs(found["uptime_s"] - float(Path("/proc/uptime").read_text().split()[0])) < 600
    assert found["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.mark.parametrize(
    ("units", "comms", "state"),
    [
        ({}, {"nv-fabricmanage"}, "active"),
        ({"nvidia-fabricmanager": "failed"}, {"nv-fabricmanage"}, "active"),
        ({"nvidia-fabricmanager": "failed"}, set(), "failed"),
        ({"other": "active"}, set(), "not-found"),
        (missing("no systemd"), set(), "not-found"),
        (missing("no systemd"), {"nv-fabricmanage"}, "active"),
    ],
)
def test_a_service_is_what_its_process_or_systemd_says(units: Any, comms: set[str], state: str) -> None:
    found = system._service("nvidia-fabricmanager", "nv-fabricmanage", units, comms)
    assert state == (found["code"] if isinstance(found, dict) else found)


def test_what_was_no_longer_waiting_at_the_second_look_does_not_hang() -> None:
    walk = ProcessWalk(frozenset())
    mine = read_stat(os.getpid())
    for state, kernel in (("D", set[int]()), ("S", set[int]()), ("D", {mine.pid})):
        walk.stats, walk.kernel = {mine.pid: mine._replace(state=state)}, kernel
        assert system._hung(walk, 0.0) == []


def test_a_service_belongs_to_the_system_or_to_us() -> None:
    assert system._is_service(os.getpid())
    assert system._is_service(1) is (Path("/proc/1").stat().st_uid in (*range(1000), os.getuid()))
    assert not system._is_service(GONE)
