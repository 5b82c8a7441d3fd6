"""Statuses of CUDA by name and number, as its two interfaces, torch and other libraries print them.

driver_types.h of CUDA 12.9 and 13 (cudaError_t), and cuda.h (CUresult). A name says which status it is; what is printed
beside it is made of it.
"""

from collections.abc import Mapping

# Name in cudaError_t: (its values, of which those behind the first are of CUDA before 10.1; its name in CUresult).
_STATUSES: Mapping[str, tuple[tuple[int, ...], str]] = {
    "MemoryAllocation": ((2,), "OUT_OF_MEMORY"),
    "InitializationError": ((3,), "NOT_INITIALIZED"),
    "InvalidConfiguration": ((9,), ""),
    "StubLibrary": ((34,), "STUB_LIBRARY"),
    "InsufficientDriver": ((35,), ""),
    "CallRequiresNewerDriver": ((36,), "CALL_REQUIRES_NEWER_DRIVER"),
    "DevicesUnavailable": ((46,), "DEVICE_UNAVAILABLE"),
    "PriorLaunchFailure": ((53,), ""),
    "InvalidDeviceFunction": ((98, 8), ""),
    "NoDevice": ((100, 38), "NO_DEVICE"),
    "InvalidDevice": ((101, 10), "INVALID_DEVICE"),
    "InvalidKernelImage": ((200, 47), "INVALID_IMAGE"),
    "NoKernelImageForDevice": ((209, 48), "NO_BINARY_FOR_GPU"),
    "ECCUncorrectable": ((214, 39), "ECC_UNCORRECTABLE"),
    "DeviceAlreadyInUse": ((216, 54), "CONTEXT_ALREADY_IN_USE"),
    "InvalidPtx": ((218, 78), "INVALID_PTX"),
    "NvlinkUncorrectable": ((220,), "NVLINK_UNCORRECTABLE"),
    "UnsupportedPtxVersion": ((222,), "UNSUPPORTED_PTX_VERSION"),
    "JitCompilationDisabled": ((223,), "JIT_COMPILATION_DISABLED"),
    "Contained": ((226,), "CONTAINED"),
    "InvalidSource": ((300,), "INVALID_SOURCE"),
    "OperatingSystem": ((304,), "OPERATING_SYSTEM"),
    "InvalidResourceHandle": ((400, 33), "INVALID_HANDLE"),
    "IllegalAddress": ((700, 77), "ILLEGAL_ADDRESS"),
    "LaunchOutOfResources": ((701, 7), "LAUNCH_OUT_OF_RESOURCES"),
    "Assert": ((710, 59), "ASSERT"),
    "HardwareStackError": ((714, 72), "HARDWARE_STACK_ERROR"),
    "IllegalInstruction": ((715, 73), "ILLEGAL_INSTRUCTION"),
    "MisalignedAddress": ((716, 74), "MISALIGNED_ADDRESS"),
    "InvalidAddressSpace": ((717, 75), "INVALID_ADDRESS_SPACE"),
    "InvalidPc": ((718, 76), "INVALID_PC"),
    "LaunchFailure": ((719, 4), "LAUNCH_FAILED"),
    "CooperativeLaunchTooLarge": ((720,), "COOPERATIVE_LAUNCH_TOO_LARGE"),
    "SystemNotReady": ((802,), "SYSTEM_NOT_READY"),
    "SystemDriverMismatch": ((803,), "SYSTEM_DRIVER_MISMATCH"),
    "CompatNotSupportedOnDevice": ((804,), "COMPAT_NOT_SUPPORTED_ON_DEVICE"),
    "MpsConnectionFailed": ((805,), "MPS_CONNECTION_FAILED"),
    "MpsRpcFailure": ((806,), "MPS_RPC_FAILURE"),
    "MpsServerNotReady": ((807,), "MPS_SERVER_NOT_READY"),
    "MpsMaxClientsReached": ((808,), "MPS_MAX_CLIENTS_REACHED"),
    "MpsMaxConnectionsReached": ((809,), "MPS_MAX_CONNECTIONS_REACHED"),
    "MpsClientTerminated": ((810,), "MPS_CLIENT_TERMINATED"),
    "StreamCaptureUnsupported": ((900,), "STREAM_CAPTURE_UNSUPPORTED"),
    "StreamCaptureInvalidated": ((901,), "STREAM_CAPTURE_INVALIDATED"),
    "StreamCaptureMerge": ((902,), "STREAM_CAPTURE_MERGE"),
    "StreamCaptureUnmatched": ((903,), "STREAM_CAPTURE_UNMATCHED"),
    "StreamCaptureUnjoined": ((904,), "STREAM_CAPTURE_UNJOINED"),
    "StreamCaptureIsolation": ((905,), "STREAM_CAPTURE_ISOLATION"),
    "StreamCaptureImplicit": ((906,), "STREAM_CAPTURE_IMPLICIT"),
    "CapturedEvent": ((907,), "CAPTURED_EVENT"),
    "StreamCaptureWrongThread": ((908,), "STREAM_CAPTURE_WRONG_THREAD"),
    "InvalidClusterSize": ((912,), "INVALID_CLUSTER_SIZE"),
    "FabricNotReady": ((919,), "FABRIC_NOT_READY"),
    "Unknown": ((999, 30), "UNKNOWN"),
}  # fmt: skip

# What a kernel prints of its check behind file, line, function, block and thread.
KERNEL_ASSERTION = r"(?:\.(?:cuh?|hip|inl):\d+: [^`]{0,300}|, thread: \[[\d,]{1,40}\] )[Aa]ssertion `(?!(?<!-side assertion `).{1,400}' failed\.?$)"


def match_cuda(*names: str) -> str:
    """Return the pattern of statuses, by their names without `cudaError`."""
    rows = [_STATUSES[name] for name in names]
    value = "|".join(str(number) for numbers, _ in rows for number in numbers)
    of_driver = "|".join(name for _, name in rows if name)
    return (
        rf"cudaError(?:{'|'.join(names)})\b|CUDA_ERROR_(?:{of_driver or 'NONE_SUCH'})\b"
        rf"|cuda runtime error \((?:{value})\)|THCudaCheck FAIL .{{1,300}}\berror=(?:{value})\b|[Cc]uda failure (?:{value})\b|CUDA failure (?:{value})\b"
        rf"|(?:CUDA|Cuda|cuda) [Ee]rror:? ?(?:{value})\b(?![.%])|CUDA [Ee]rror code ?=? ?(?:{value})\b|cudaError(?:_t)?[ (:=]{{1,3}}(?:{value})\b|CUresult[ (:=]{{1,3}}(?:{value})\b|\bcu(?:da)?[A-Z]\w{{2,40}} failed with error (?:{value})\b"
    )
