"""What nvidia-smi printed on an H200 (driver 580.159.04): idle, with one process that computes, with MPS.

NVML said the same of the same minutes: one GPU, its memory, and the process with 1002 MiB that held it.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from preflight.facts.gpu import Driver, Gpu
from preflight.facts.missing import Missing
from preflight.smi_reports import parse_hosts
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_HOSTS = Path(__file__).with_name("smi_hosts")
_FULL = ("q.txt", "qx.xml", "csv-all.csv")
_WITH_PROCESSES = ("q.txt", "qx.xml", "table.txt", "qmem.txt", "pmon.txt", "pmon-um.txt")
_COMPUTE = (2865, "compute")


class _Read(NamedTuple):
    name: str
    gpu: Gpu
    driver: str


def _read(name: str) -> _Read:
    facts = parse_smi((_HOSTS / name).read_text(encoding="utf-8"), "host")
    (gpu,) = gpus_of(facts)
    return _Read(name, gpu, facts.driver.version if isinstance(facts.driver, Driver) else "")


_ALL = [path.name for path in sorted(_HOSTS.iterdir()) if ".apps." not in path.name]


@pytest.mark.parametrize("name", _ALL)
def test_every_form_names_the_one_gpu(name: str) -> None:
    read = _read(name)
    assert read.gpu.index == 0
    assert read.gpu.name == "NVIDIA H200" or isinstance(read.gpu.name, Missing)
    assert read.driver in ("580.159.04", "")


@pytest.mark.parametrize("form", _FULL)
def test_a_full_form_agrees_with_nvml(form: str) -> None:
    idle, busy = _read(f"h200-idle.{form}").gpu, _read(f"h200-busy.{form}").gpu
    assert [gpu.capability for gpu in (idle, busy)] == [(9, 0), (9, 0)]
    assert [gpu.throttle for gpu in (idle, busy)] == [("idle",), ("sw_power_cap",)]
    assert [getattr(gpu.memory, "used_mib", None) for gpu in (idle, busy)] == [0, 1011]
    assert [getattr(gpu.memory, "reserved_mib", None) for gpu in (idle, busy)] == [616, 616]
    assert [getattr(gpu.retired_pages, "code", None) for gpu in (idle, busy)] == ["not-supported"] * 2
    assert [gpu.recovery_action for gpu in (idle, busy)] == ["none", "none"]


@pytest.mark.parametrize("form", _WITH_PROCESSES)
def test_the_process_that_computes_is_on_its_gpu(form: str) -> None:
    processes = _read(f"h200-busy.{form}").gpu.processes
    assert not isinstance(processes, Missing)
    assert [(one.pid, one.kind) for one in processes] == [_COMPUTE]
    assert [one.used_mib for one in processes if form != "pmon.txt"] == [1002] * (form != "pmon.txt")


@pytest.mark.parametrize("form", ["table.txt", "pmon.txt"])
def test_a_client_of_mps_holds_the_gpu_beside_its_server(form: str) -> None:
    processes = _read(f"h200-mps.{form}").gpu.processes
    assert not isinstance(processes, Missing)
    assert [one.pid for one in processes if not str(one.name).startswith("nvidia-cuda-mps")] == [3037]


def test_a_server_of_mps_is_one_where_its_row_is_cut() -> None:
    lines = (_HOSTS / "h200-mps.table.txt").read_text(encoding="utf-8").splitlines()
    (gpu,) = gpus_of(parse_smi("\n".join(line[:66] for line in lines), "host"))
    assert not isinstance(gpu.processes, Missing)
    assert [one.kind for one in gpu.processes] == ["mps", "mps"]


@pytest.mark.parametrize(("state", "said"), [("idle", "(none)"), ("busy", "(pid 2865)")])
def test_a_list_of_processes_alone_says_which(state: str, said: str) -> None:
    gpus = parse_smi((_HOSTS / f"h200-{state}.apps.csv").read_text(encoding="utf-8"), "host").gpus
    assert isinstance(gpus, Missing)
    assert said in gpus.reason


def test_every_field_of_the_query_is_read_amid_other_forms() -> None:
    parts = ("L.txt", "csv-all.csv", "apps.csv", "dmon-all.txt")
    texts = [(_HOSTS / f"h200-busy.{part}").read_text(encoding="utf-8") for part in parts]
    (gpu,) = gpus_of(parse_smi("".join(texts), "host"))
    assert (gpu.throttle, getattr(gpu.memory, "used_mib", None)) == (("sw_power_cap",), 1011)
    assert not isinstance(gpu.processes, Missing)
    assert [one.pid for one in gpu.processes] == [2865]


def test_the_matrix_of_topo_is_read_behind_a_terminals_escapes() -> None:
    text = (_HOSTS / "h200-idle.topo.txt").read_text(encoding="utf-8")
    assert text.startswith("\t\x1b[4mGPU0")
    assert _read("h200-idle.topo.txt").gpu.index == 0


@pytest.mark.parametrize("affinity", [("", ""), ("  CPU Affinity", "  0-15"), ("", "  OK")])
def test_a_matrix_names_gpus_with_and_without_what_stands_behind_it(affinity: tuple[str, str]) -> None:
    text = f"     GPU0 GPU1{affinity[0]}\nGPU0  X   SYS{affinity[1]}\nGPU1 SYS   X {affinity[1]}\n"
    assert len(gpus_of(parse_smi(text, "host"))) == 2


@pytest.mark.parametrize(
    ("columns", "row", "throttle"),
    [
        ("clocks_throttle_reasons.active", "0x0000000000000009", ("idle", "hw_slowdown")),
        ("clocks_event_reasons.active", "0x0000000000000000", ()),
        ("clocks_event_reasons.active", "0x00000000", None),  # cut
        ("clocks_event_reasons.hw_slowdown", "Not Active", None),  # of other reasons nothing is known
    ],
)
def test_reasons_for_lower_clocks_are_read_where_all_are_known(
    columns: str, row: str, throttle: tuple[str, ...] | None
) -> None:
    text = f"index, name, {columns}, pstate\n0, NVIDIA H200, {row}, P0\n"
    (gpu,) = gpus_of(parse_smi(text, "host"))
    assert (None if isinstance(gpu.throttle, Missing) else gpu.throttle) == throttle


def test_a_host_from_which_others_were_reached_is_none() -> None:
    table = "GPU 0: NVIDIA A2 (UUID: GPU-e18afb8d-1627-f8ff-2ba3-c05c5a8e9e67)\n"
    session = "[ana@login ~]$ srun --gres=gpu:1 --pty bash\n[ana@gpu-25 ~]$ nvidia-smi -L\n" + table
    (facts,) = parse_hosts(session, "log")
    assert len(gpus_of(facts)) == 1
