"""Answers of the driver, nvidia-smi's words and NVML's lists of processes, each condition on both sides."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from preflight.probes.fact import missing
from preflight.probes.nvidia_smi.values import (
    NOT_HELD,
    convert_value,
    find_text,
    parse_number,
    parse_smi_error,
    parse_version,
    parse_whole,
    parse_yes,
    require_all,
)
from preflight.probes.nvml.processes import read_processes

GONE = missing("it hangs", "timeout")


# --- nvidia-smi's words ---


@pytest.mark.parametrize(
    ("text", "value"),
    [("Enabled", True), (" yes ", True), ("ON", True), ("Disabled", False), ("No", False), ("off", False)],
)
def test_words_for_on_and_off(text: str, *, value: bool) -> None:
    assert convert_value(text, parse_yes) is value


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("N/A", "not-supported"),
        ("[Not Supported]", "not-supported"),
        ("[GPU is lost]", "gpu-lost"),
        ("GPU requires reset", "reset-required"),
        ("[Insufficient Permissions]", "no-permission"),
        ("[Unknown Error]", "error"),
        ("", "error"),
        ("maybe", "error"),
    ],
)
def test_words_for_no_value(text: str, code: str) -> None:
    value = convert_value(text, parse_yes)
    assert value["code"] == code
    assert repr(text) in value["missing"]


def test_what_is_absent_or_twice_is_no_value() -> None:
    assert convert_value(None, parse_yes) == NOT_HELD
    assert "not-asked" in NOT_HELD.values()
    assert convert_value(["a", "b"], parse_yes)["code"] == "error"


@pytest.mark.parametrize(
    ("text", "value"),
    [("81559 MiB", 81559), ("38 C", 38), ("16x", 16), (" -4.5 W", -4), ("9" * 15, int("9" * 15))],
)
def test_the_leading_number_counts(text: str, value: int) -> None:
    assert parse_whole(text) == value


@pytest.mark.parametrize("text", ["", "x1", "9" * 16, "."])
def test_no_number_raises(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_number(text)


def test_a_version_has_a_dot() -> None:
    assert parse_version("595.71.05 (open)") == "595.71.05"
    with pytest.raises(ValueError, match="595"):
        parse_version("595")


def test_the_first_text_with_a_value_is_found() -> None:
    tree = {"a": {"b": "N/A", "c": "1"}, "d": "[N/A]", "e": {"f": {}}}
    assert find_text(tree, "a/b", "a/c") == "1"
    assert find_text(tree, "a/c", "a/b") == "1"
    assert find_text(tree, "a/b", "d") == "N/A"
    assert find_text(tree, "e/f", "a/b/c", "x") is None
    assert require_all({"a": 1, "b": GONE}) == GONE
    assert require_all({"a": 1}) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", "library-mismatch"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "not-loaded"),
        ("No devices were found", "no-devices"),
        ("Unable to determine the device handle for GPU0: GPU is lost.", "gpu-lost"),
        ("GPU requires reset", "reset-required"),
        ("Insufficient Permissions", "no-permission"),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", "no-library"),
        ("Failed to initialize NVML: Unknown Error", "error"),
    ],
)
def test_errors_of_nvidia_smi_have_codes(text: str, code: str) -> None:
    found = parse_smi_error(text)
    assert found is not None
    assert found["code"] == code
    assert parse_smi_error("index, name\n0, T4") is None


# --- NVML's lists of processes ---


class NvmlError(Exception):
    """As pynvml raises it."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


def nvml(lists: dict[str, Any]) -> Any:
    """Return a pynvml whose process lists answer as told: entries, or the code of an error."""

    def call(name: str) -> Callable[[object], Any]:
        def answer(_gpu: object) -> Any:
            found = lists.get(name, 13)
            if isinstance(found, int):
                raise NvmlError(found)
            return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in found]

        return answer

    kinds = ("ComputeRunning", "MPSComputeRunning", "GraphicsRunning")
    names = [f"nvmlDeviceGet{kind}Processes{version}" for kind in kinds for version in ("_v3", "_v2")]
    calls = {name: call(name.removeprefix("nvmlDeviceGet")) for name in names}
    return SimpleNamespace(
        **calls, NVMLError=NvmlError, nvmlLib=None, nvmlSystemGetProcessName=lambda pid: f"p{pid}".encode()
    )


def kinds_of(lists: dict[str, Any]) -> list[tuple[int, str, Any]]:
    return [(each["pid"], each["kind"], each["used_mib"]) for each in read_processes(nvml(lists), None)]


def test_a_process_that_computes_and_draws_is_one() -> None:
    found = kinds_of(
        {
            "ComputeRunningProcesses_v3": [(9, 5 << 20), (3, None)],
            "GraphicsRunningProcesses_v2": [(9, 5 << 20), (4, 0xFFFFFFFFFFFFFFFF)],
            "MPSComputeRunningProcesses_v3": [(7, 1 << 20)],
        }
    )
    unsaid = missing("the driver does not say", "not-supported")
    assert found == [(3, "compute", unsaid), (4, "graphics", unsaid), (7, "mps", 1), (9, "compute", 5)]


@pytest.mark.parametrize("code", [2, 3, 13, 25])
def test_lists_that_a_driver_lacks_are_left_out(code: int) -> None:
    has = {"ComputeRunningProcesses_v3": [(9, 1 << 20)]}
    lacks = dict.fromkeys(("GraphicsRunningProcesses_v3", "MPSComputeRunningProcesses_v3"), code)
    assert kinds_of({**has, **lacks}) == [(9, "compute", 1)]


@pytest.mark.parametrize(
    "lists",
    [
        {"ComputeRunningProcesses_v3": 3},
        {"ComputeRunningProcesses_v3": [], "GraphicsRunningProcesses_v3": 15},
        {},
    ],
    ids=["compute", "a lost GPU", "none at all"],
)
def test_a_list_that_cannot_be_read_is_an_error(lists: dict[str, Any]) -> None:
    with pytest.raises(NvmlError):
        kinds_of(lists)
