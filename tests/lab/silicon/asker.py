"""Asks the NVML on the library path by the real pynvml: calls in, answers out, as JSON.

stdin: `{"system": [[function, arguments], ...], "gpu": [...]}`. stdout: the same shape,
`gpu` as one list per GPU. An NVML error is `{"error": code}`; a struct is an object of its fields.
"""

import ctypes
import json
import sys
from typing import Any

import pynvml


def plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, ctypes.Structure):
        return {field[0]: plain(getattr(value, field[0])) for field in value._fields_}
    if isinstance(value, (ctypes.Array, list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, ctypes._SimpleCData):
        return value.value
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "__dict__"):
        return {name: plain(item) for name, item in vars(value).items()}
    return value


def fabric(gpu: Any, version: int) -> Any:
    """The fabric's struct; pynvml wants it made by the caller."""
    kind = {2: pynvml.c_nvmlGpuFabricInfo_v2_t, 3: pynvml.c_nvmlGpuFabricInfo_v3_t}[version]
    info = kind()
    pynvml.nvmlDeviceGetGpuFabricInfoV(gpu, ctypes.byref(info))
    return info


def field(gpu: Any, number: int, scope: int = 0) -> Any:
    """One field value, by the type that it says it has."""
    value = pynvml.nvmlDeviceGetFieldValues(gpu, [(number, scope)])[0]
    if value.nvmlReturn:
        raise pynvml.NVMLError(value.nvmlReturn)
    names = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}
    return getattr(value.value, names[value.valueType])


def memory_v2(gpu: Any) -> Any:
    """Memory with the reserve told apart."""
    return pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)


def mig(gpu: Any, index: int) -> Any:
    """What a MIG device says of itself."""
    device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)
    return {
        "uuid": pynvml.nvmlDeviceGetUUID(device),
        "gpu_instance": pynvml.nvmlDeviceGetGpuInstanceId(device),
        "compute_instance": pynvml.nvmlDeviceGetComputeInstanceId(device),
        "memory": plain(memory_v2(device)),
        "parent": pynvml.nvmlDeviceGetUUID(parent),
    }


OURS: dict[str, Any] = {"fabric": fabric, "field": field, "memory_v2": memory_v2, "mig": mig}


def call(function: str, arguments: list[Any]) -> Any:
    """One call's answer, or NVML's error code."""
    try:
        return plain((OURS.get(function) or getattr(pynvml, function))(*arguments))
    except pynvml.NVMLError as error:
        return {"error": error.value, "words": str(error)}


def gpu_answers(index: int, calls: list[Any]) -> Any:
    """All answers about one GPU; one error where its handle cannot be had."""
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        return {"error": error.value, "words": str(error)}
    return [call(function, [handle, *arguments]) for function, arguments in calls]


def main() -> None:
    """Answer what stdin asks."""
    calls = json.load(sys.stdin)
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        json.dump({"error": error.value, "words": str(error)}, sys.stdout)
        return
    count = pynvml.nvmlDeviceGetCount()
    answer = {
        "system": [call(function, arguments) for function, arguments in calls.get("system", [])],
        "gpu": [gpu_answers(index, calls.get("gpu", [])) for index in range(count)],
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
