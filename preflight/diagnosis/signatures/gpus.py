"""Which GPU, the driver, the wheel, the hardware."""

from preflight.diagnosis.signatures.model import GENERAL, ROOT, Signature
from preflight.facts.xid_table import ADDRESS_FAULT_XIDS, PROGRAM_XIDS, any_xid


def cuda_status(*numbers: int) -> str:
    """Return the pattern of these values of cudaError_t (driver_types.h; the older numbers are those before CUDA 10.1)."""
    value = "|".join(map(str, numbers))
    return (
        rf"cuda runtime error \((?:{value})\)|THCudaCheck FAIL .{{1,300}}\berror=(?:{value})\b|[Cc]uda failure (?:{value})\b|CUDA failure (?:{value})\b"
        rf"|(?:CUDA|Cuda|cuda) [Ee]rror:? ?(?:{value})\b(?![.%])|CUDA [Ee]rror code ?=? ?(?:{value})\b|cudaError(?:_t)?[ (:=]{{1,3}}(?:{value})\b|CUresult[ (:=]{{1,3}}(?:{value})\b"
    )


ROWS: tuple[Signature, ...] = (
    Signature("S30", "device-busy", ROOT,
              r"CUDA-capable device\(s\) is/are busy or unavailable|all CUDA-capable devices are busy or unavailable"
              r"|cudaErrorDevicesUnavailable|cudaErrorDeviceUnavailable|" + cuda_status(46)
              + r"|exclusive[- ](?:thread|process) device already in use|CUDA error: exclusive-thread|cudaErrorDeviceAlreadyInUse"
              r"|CUDA_ERROR_DEVICE_UNAVAILABLE|Cuda failure (?:46 )?'?(?:all )?CUDA-capable devices?",
              "Exclusive Process compute mode and a second process on that GPU: a leftover, or ranks that all touch cuda:0",
              "gpulaunch preflight HOST names the holder; gpulaunch clean-zombies HOST; in the script take the device from"
              " LOCAL_RANK before any CUDA call", "thread"),
    Signature("S31", "invalid-device-ordinal", ROOT,
              r"invalid device ordinal|Invalid device (?:id|ordinal)\b|device >= 0 && device < num_gpus|" + cuda_status(10, 101)
              + r"|cudaErrorInvalidDevice\b|CUDA_ERROR_INVALID_DEVICE|torch\.cuda\.device_count\(\) is \d+\. Please use"
              r"|Attempting to deserialize object on CUDA device \d+|Requested GPUs?:? ?\[?[\d, ]+\]? but only|You requested (?:gpu|GPUs):|Tried to use device \d+ but only|No slot '\d+' specified on host|is greater than the number of GPUs"
              r"|[Bb]ut your machine only has: \[(?!\])|is less than the (?:requested|required) number of (?:GPUs|processes)"
              r"|(?:nproc|num_gpus|n_gpus?|--gpus)\S{0,20} .{0,40}(?:exceeds|greater than|more than) .{0,40}(?:available|visible)"
              r"|[Ii]nvalid CUDA 'device=|Invalid CUDA_VISIBLE_DEVICES|Total available GPUs [\d.]+ is less than|device_index out of range|AssertionError: +assert .{0,60}device_count\(\)",
              "a rank asked for a GPU that it cannot see: more ranks than GPUs, CUDA_VISIBLE_DEVICES, or a fixed cuda:N",
              "as many ranks as visible GPUs; accelerator.device instead of a fixed index", "known"),
    Signature("S53", "nccl-duplicate-gpu", ROOT, r"[Dd]uplicate GPUs? (?:detected|in use|found)|both on (?:CUDA|HIP) device [0-9a-f]|[Rr]anks? .{0,40}both (?:use|using|on) (?:the same )?(?:GPU|device)|must be on distinct (?:GPU|CUDA) devices|[Mm]ultiple [Rr]anks? .{0,40}(?:on|using)"
              r" the same (?:GPU|device)|more than one rank (?:on|uses|per) (?:the same |a )?(?:GPU|device)|same GPU is (?:used|shared) by (?:multiple|several) ranks",
              "two ranks are on one GPU: a fixed device, CUDA_VISIBLE_DEVICES set in the script, or more ranks than GPUs",
              "take the device from LOCAL_RANK (accelerator.device); as many ranks as GPUs", "thread"),
    Signature("S45", "device-map-auto", ROOT,
              r"can't train a model that has been loaded with .?device_map=.?['\"]?auto['\"]?.? in any distributed mode"
              r"|can't train a model that has been loaded in (?:8-bit or 4-bit|8-bit|4-bit) precision"
              r"|FSDP only supports single device modules|device_ids and output_device arguments only work with single-device|module that(?: only)? (?:is|are) distributed on multiple devices"
              r"|DistributedDataParallel's input module must be on the same type of devices|device_map='auto'.{0,80}(?:distributed|not supported|multi-?GPU)"
              r"|You (?:cannot|can't) use `?device_map`?.{0,80}(?:distributed|DeepSpeed|ZeRO)|DeepSpeed Zero-3 is not compatible with .{0,40}device_map"
              r"|`?device_map`? .{0,60}not compatible with .{0,40}(?:ZeRO|distributed|FSDP|DDP)|module must have its parameters .{0,40}on device .{0,20}device_ids\[0\]"
              r"|can't move a model that has some modules offloaded",
              "the model, or a part of it, is not on the rank's own GPU: device_map spread it, or a .to() chose another one",
              "drop device_map='auto', or device_map={'': PartialState().local_process_index}; before DataParallel model.to('cuda:0') with"
              " CUDA_VISIBLE_DEVICES for the GPUs you want", "source"),
    Signature("S43", "device-mismatch", ROOT,
              r"Expected all tensors to be on the same device|[Ii]nput,? output and indices must be on the current device"
              r"|Input type \(torch\.(?:cuda\.)?(?P<kind>\w+)\) and \w+ type \(torch\.(?:cuda\.)?(?P=kind)\)|arguments are located on different GPUs"
              r"|Cannot access data pointer of Tensor that doesn't have storage|tensor is on cpu, expected it on GPU"
              r"|[Ee]xpected (?:object of )?type torch\.cuda\.\w+Tensor but (?:got|found type) torch\.(?!cuda)\w+|[Ee]xpected (?:object of )?type torch\.(?!cuda)\w+Tensor but (?:got|found type) torch\.cuda\."
              r"|is on (?:cpu|cuda:\d+), but expected (?:them to be )?on"
              r"|Pointer argument \(at \d+\) cannot be accessed from Triton|Cannot copy out of meta tensor|Placeholder storage has not been allocated on MPS|all tensors must be on devices\[0\]",
              "tensors on different GPUs, or a batch left on the CPU", "accelerator.device, and prepare the DataLoader", "known"),
    Signature("S42", "cuda-reinit-in-fork", ROOT,
              r"Cannot re-?initialize CUDA in forked subprocess|CUDA has been initialized before the `?notebook_launcher"
              r"|training from your notebook, the `?Accelerator|must use the 'spawn' start method"
              r"|To use CUDA with multiprocessing, you must|Poison fork in .{0,40}CUDA",
              "a process forked after CUDA was in use (a DataLoader worker, a pool)",
              "multiprocessing_context='spawn', and no CUDA work in the dataset", "thread"),
    # `signature_matcher` makes it S42 where the lines above show a fork.
    Signature("S100", "driver-mismatch", GENERAL,
              r"(?<!initialization error: )(?:CUDA|cuda|Cuda)(?: driver)? (?:[Ee]rror|failure)(?: 3)?:? '?initialization error|[Cc]uda(?:Error)?InitializationError|CUDA_ERROR_NOT_INITIALIZED|" + cuda_status(3)
              + r"|Unexpected error from cudaGetDeviceCount\(\)(?!.*Error (?:80[234]|100|34): )|AssertionError: +assert .{0,60}cuda\.is_available\(\)",
              "CUDA could not start in this process: it sees no GPU, the host's driver, devices or MIG set-up do not let it, or it forked"
              " from a process that had used CUDA",
              "gpulaunch preflight HOST; nvidia-smi -L and CUDA_VISIBLE_DEVICES name a MIG device by its UUID; in worker processes"
              " multiprocessing_context='spawn'", "known"),
    Signature("S32", "no-kernel-image", ROOT,
              r"no kernel image is available for execution|CUDA capability sm_\d+ is not compatible|cudaErrorNoKernelImageForDevice"
              r"|does not include kernels for this GPU|PyTorch no longer supports this GPU|CUDA error: invalid device function"
              r"|not compatible with the current PyTorch installation|device kernel image is invalid|" + cuda_status(8, 48, 98, 200, 209, 218, 222)
              + r"|the provided PTX was compiled with an unsupported toolchain|invalid device function|CUDA_ERROR_NO_BINARY_FOR_GPU"
              r"|no binary for gpu|(?:find|found) (?:a )?(?:binary|code object) for (?:all )?(?:the )?current devices|[Uu]nsupported gpu architecture 'compute_\d+|too old to be supported by the triton GPU compiler"
              r"|nvrtc: error: invalid value for --gpu-architecture|Value 'sm_\d+\w?' is not defined for option 'gpu-name'|sm_\d+\w?\S* is not a recognized processor"
              r"|CUDA error: no binary for|cutlass\w*: no kernel found to launch|named symbol not found.{0,60}cublas"
              r"|PTX JIT compilation (?:failed|was disabled)|cudaErrorInvalidPtx|CUDA_ERROR_(?:INVALID|UNSUPPORTED)_PTX|cuda runtime error \(78\)"
              r"|TensileLibrary.{0,100}GPU arch|rocBLAS error: Cannot read",
              "this build of torch, or of an extension, has no code for this GPU", "install the wheel built for it: CUDA 12.6 builds"
              " below compute capability 7.5, CUDA 12.8 or newer for Blackwell; build extensions again on such a GPU"
              " (TORCH_CUDA_ARCH_LIST)", "source"),
    Signature("S101", "kernel-resources", ROOT,
              r"too many resources requested for launch|cudaErrorLaunchOutOfResources|CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES|cudaErrorInvalidConfiguration|CUDA (?:[Ee]rror|failure): invalid configuration argument|" + cuda_status(7, 9, 701),
              "a GPU kernel wants more registers or threads per block than this GPU has, or was started over nothing: it was written or built for another GPU, or its input is empty",
              "build the extension that holds the kernel for this GPU (TORCH_CUDA_ARCH_LIST), give it fewer threads per block, or use"
              " another implementation; CUDA_LAUNCH_BLOCKING=1 names the kernel. It is not a lack of memory", "known"),
    Signature("S34", "driver-mismatch", ROOT,
              r"Driver/library version mismatch|driver and library versions? (?:do not match|mismatch)"
              r"|NVMLError_LibRmVersionMismatch|NVML/RM version mismatch|NVRM: API mismatch|API mismatch: the client has the version|nvml error: driver/library|\bERROR_LIB_RM_VERSION_MISMATCH\b",
              "the driver was upgraded, and the old kernel module is still loaded", "reboot the host, or reload the nvidia"
              " modules", "known"),
    Signature("S35", "driver-mismatch", ROOT,
              r"NVIDIA driver on your system is too old|CUDA driver version is insufficient|cudaErrorInsufficientDriver|cudaErrorCallRequiresNewerDriver|" + cuda_status(35, 36)
              + r"|cuda>=[\d.]+, please update your driver|requirement error: unsatisfied condition: (?:cuda|brand|driver)"
              r"|driver version .{0,40}(?:is )?(?:too old|insufficient|not supported)|Cuda failure (?:\d+ )?'?CUDA driver version"
              r"|API call is not supported in the installed CUDA driver|found an older CUDA driver|Please update your (?:GPU|NVIDIA) driver",
              "the driver is older than the wheel's CUDA", "install the wheel of an older CUDA, or a newer driver", "known"),
    Signature("S36", "driver-mismatch", ROOT,
              r"Error 80[234]: |system not yet initialized|NVLink SHARP \(NVLS\) Multicast memory|\bcuMulticast\w+ failed|system has unsupported display driver|cudaErrorSystemNotReady|forward compatibility was attempted on non supported HW"
              r"|unsupported display driver / cuda driver combination"
              r"|cudaErrorSystemDriverMismatch|cudaErrorCompatNotSupportedOnDevice|CUDA_ERROR_SYSTEM_(?:NOT_READY|DRIVER_MISMATCH)",
              "802, or no NVLS memory: the fabric manager does not run; 803: driver and CUDA libraries differ; 804: cuda-compat on a GPU that"
              " does not take it", "sudo systemctl start nvidia-fabricmanager; drop cuda-compat from LD_LIBRARY_PATH", "thread"),
    Signature("S120", "driver-mismatch", ROOT,
              r"/dev/(?:nvidia|kfd|dri/)\S{0,40}.{0,40}(?:Permission denied|Operation not permitted)|(?:Permission denied|Operation not permitted).{0,40}/dev/(?:nvidia|kfd|dri/)",
              "this process may not open the GPU's device file: the user is not in the group that owns it, or the container or job was given no GPU",
              "ask for GPUs where the job or container starts (--gres=gpu:N, --gpus all), or join the group that owns the file", "source"),
    Signature("S37", "driver-mismatch", ROOT,
              r"Found no NVIDIA driver|[Bb]ut your machine only has: \[\]|No supported GPU\(s\) detected|No HIP GPUs are available|CUDA driver is a stub library|can ?not run on your system since the accelerator is not available|GPUs? requested but none (?:is|are) available|asked for (?:native )?AMP on CPU|No CUDA GPUs are available|Torch not compiled with \w+ enabled|PyTorch is not linked with support for (?:cuda|hip|xpu) devices|No XPU devices are available"
              r"|CUDA is not available or torch_xla is imported|ProcessGroupNCCL is only supported with GPUs, no GPUs found"
              r"|NCCL backend (?:requires|not available)|doesn't have NCCL built in|no CUDA-capable device is detected|cudaErrorNoDevice"
              r"|has failed because it couldn't communicate with the NVIDIA driver|Attempting to deserialize object on a CUDA device but"
              r"|could not select device driver .{0,20}with capabilities: \[\[gpu\]\]|libnvidia-ml\.so\.?\d?: cannot open shared object"
              r"|NVML Shared Library Not Found|\b(?:NVML|nvml) init failed|\bERROR_(?:LIBRARY_NOT_FOUND|DRIVER_NOT_LOADED)\b|NVMLError_(?:DriverNotLoaded|LibraryNotFound|Uninitialized)\b|unresolvable CDI devices? nvidia|libcuda\.so(?:\.1)?: cannot open shared object|CUDA_ERROR_NO_DEVICE|cudaErrorStubLibrary|" + cuda_status(34, 38, 100)
              + r"|[Nn]o (?:NVIDIA )?GPUs? (?:found|detected|available|is available)[.!]? *(?:A GPU|This|Training|Please|You|$|\()|RuntimeError: CUDA is not available"
              r"|CUDA is not available\. (?:Training|This|Please|A GPU)|torch\.cuda\.is_available\(\) (?:is|returned|should be) (?:False|True)"
              r"|[Nn]o supported gpu backend found|[Nn]o accelerator (?:is )?(?:found|available)|requires? (?:a )?(?:CUDA|GPU|NVIDIA) ?(?:GPU|device)?,? but (?:none|no)"
              r"|You need (?:a|an NVIDIA|at least one) GPU|Failed to initialize NVML|(?:ValueError|AssertionError|RuntimeError): Cuda is not available"
              r"|\b0 active drivers\b|nvidia-container-cli: (?!(?:ldcache|mount|container|input) error).{0,80}(?:error|failed)|AssertionError: (?:CUDA|cuda) (?:is not|unavailable)|requires CUDA\."
              r"|Unsloth cannot find any torch accelerator|No GPU or accelerator|[Uu]nable to find any CUDA device|nvidia-smi: command not found",
              "this process sees no GPU: no driver, a CPU wheel, an empty CUDA_VISIBLE_DEVICES, or a container without GPUs",
              "gpulaunch preflight HOST; install a CUDA wheel; start the container with --gpus all", "run"),
    Signature("S40", "gpu-lost", ROOT,
              r"uncorrectable ECC error|[Uu]ncorrectable (?:NVLink|DRAM|SRAM) error|fallen off the bus|NVRM: Xid .{0,40}: (?!" + any_xid(PROGRAM_XIDS) + r")\d+"
              r"|GPU is lost|hardware stack error|uncorrectable NVLink error|cudaErrorECCUncorrectable|" + cuda_status(39, 214, 220, 226, 714)
              + r"|NVRM: .{0,60}RmInitAdapter failed|GPU requires reset|Detected Critical Xid Error|[Rr]eset the GPU|GPU reset is required|Unable to determine the device handle for"
              r"|cudaErrorNvlinkUncorrectable|cudaErrorHardwareStackError|CUDA_ERROR_ECC_UNCORRECTABLE|GPU at PCI:.{0,30}has fallen"
              r"|amdgpu .{0,80}uncorrectable hardware error|HW Exception by GPU node|ERR_GPU_LOST|NVML_ERROR_GPU_IS_LOST|NVMLError_(?:GpuIsLost|ResetRequired|IrqIssue|CorruptedInforom)|CUDA error: (?:an )?(?:Invalid access of peer GPU memory over nvlink|uncorrectable)"
              r"|(?:UR_RESULT|PI|ZE_RESULT)_ERROR_DEVICE_LOST|nvlink (?:uncorrectable|error)|remote side.{0,30}nvlink error|cudaErrorContained|CUDA error: .{0,30}contained error|SXid .{0,60}, [Ff]atal\b",
              "the GPU or its link failed", "take that GPU out (gpus: in the run config) and have it reset or replaced; see"
              " gpulaunch preflight HOST", "known"),
    Signature("S114", "host-hardware", ROOT,
              r"\bEDAC \S{1,20}: \d+ UE\b|\bMemory failure: 0x[0-9a-f]+: (?:Sending SIGBUS|Killing|.{0,60}: Failed)|hardware memory corruption|[Uu]ncorrected hardware memory error"
              r"|\[Hardware Error\]: (?:event severity: (?:fatal|recoverable)|.{0,80}(?:[Uu]ncorrected|[Ff]atal))|\bKernel panic - not syncing|NMI watchdog: Watchdog detected hard LOCKUP|\bmce: .{0,80}Fatal machine check",
              "the host failed, not the run: memory or a processor with errors that could not be corrected, or a kernel that stopped",
              "leave the host out (hosts: in the run config) and report it: ras-mc-ctl --errors and the BMC's event log name the DIMM or CPU", "known", broad=True),
    Signature("S39", "device-side-assert", ROOT,
              r"device-side assert triggered|\.cu:\d+:.{0,200}Assertion `.*` failed|cudaErrorAssert\b|" + cuda_status(59, 710)
              + r"|Assertion `(?:srcIndex|t >= 0|index|input_val|ind|idx|target|cur_target|label)",
              "an index out of range on the GPU: labels beyond the classes, token ids beyond the vocabulary",
              "run on the CPU or with CUDA_LAUNCH_BLOCKING=1 to see where; resize the embeddings", "known"),
    Signature("S38", "illegal-memory-access", ROOT,
              r"an illegal memory access was encountered|misaligned address|illegal instruction was encountered|cudaErrorIllegalAddress"
              r"|CUDA error: unspecified launch failure|CUDA_ERROR_ILLEGAL_ADDRESS|CUDA_ERROR_LAUNCH_FAILED|CUDA error: invalid program counter"
              r"|" + cuda_status(4, 73, 74, 77, 700, 715, 716, 717, 718, 719) + r"|NVRM: Xid .{0,40}: " + any_xid(ADDRESS_FAULT_XIDS) + r"|invalid address space|CUDA error: operation not supported on"
              r" global|Invalid __global__ (?:read|write)|Warp (?:Illegal|Misaligned|Out-of-range) |unspecified launch failure"
              r"|Memory access fault by GPU \W{0,3}node|HSA_STATUS_ERROR_(?:EXCEPTION|MEMORY_APERTURE_VIOLATION|ILLEGAL_INSTRUCTION|MEMORY_FAULT)|Cuda failure (?:\d+ )?'?an illegal",
              "a GPU kernel read or wrote out of bounds (its own bug, a bad index, or failing hardware)",
              "CUDA_LAUNCH_BLOCKING=1 names the kernel; then try another GPU", "known"),
    Signature("S41", "driver-mismatch", ROOT,
              r"CUDA driver initialization failed|CUDA unknown error - this may be due to|cuInit\b.{0,80}fail"
              r"|CUDA error: unknown error|" + cuda_status(30, 304, 805, 806, 807, 808, 809, 999) + r"|cudaErrorUnknown|CUDA error: OS call failed|CUDA error: driver shutting down"
              r"|MPS client failed to connect|between the MPS server and the MPS client failed|MPS server (?:is not ready|has hit its maximum)|MPS client has been terminated|hardware resources required to (?:create MPS|support device)|cudaErrorMps\w+|NVMLError_Unknown\b|CUDA_ERROR_MPS_\w+",
              "CUDA failed and does not say why: at the start of a run /dev/nvidia* or modules are missing, the MPS server is gone, or a process forked;"
              " later the driver or the GPU failed",
              "sudo dmesg | grep -i xid; at the start sudo nvidia-modprobe -u; restart the container; with MPS: nvidia-cuda-mps-control -d, or unset CUDA_MPS_PIPE_DIRECTORY", "known"),
    Signature("S33", "cuda-library", GENERAL,
              r"CUDNN_STATUS_EXECUTION_FAILED|CURAND_STATUS_(?!SUCCESS)|\b[Cc]urand error \d{3}\b|^Error (?!.{0,40}out of memory).{1,80} at line \d+ in file .{1,200}\.(?:cuh?|cpp)$|(?:CUDA(?: driver)?|HIP) error: (?:invalid \w|operation not (?:permitted(?! when stream is capturing)|supported)"
              r"|an internal operation failed|the launch timed out|PTX JIT compiler library|shared object|named symbol)|failed to open libnvrtc|symbol \w+ version lib\w+\.so\S* not defined in file|undefined symbol: (?:__nvJitLink|nvJitLink|cublas|cudnn|cusparse|cusolver|cufft|curand|nvrtc)\w*",
              "a CUDA library failed or is of another version than torch expects",
              "unset LD_LIBRARY_PATH; reinstall torch in a clean environment", "known"),
)  # fmt: skip
