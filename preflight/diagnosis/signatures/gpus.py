"""Which GPU, the driver, the wheel, the hardware."""

from preflight.diagnosis.signatures.cuda_statuses import KERNEL_ASSERTION, match_cuda
from preflight.diagnosis.signatures.model import GENERAL, ROOT, Advice, Signature
from preflight.facts.xid_table import ADDRESS_FAULT_XIDS, PROGRAM_XIDS, build_xid_pattern

ROWS: tuple[Signature, ...] = (
    Signature("S30", "device-busy", ROOT,
              r"CUDA-capable device\(s\) is/are busy or unavailable|all CUDA-capable devices are busy or unavailable"
              r"|" + match_cuda("DevicesUnavailable", "DeviceAlreadyInUse")
              + r"|exclusive[- ](?:thread|process) device already in use|CUDA error: exclusive-thread"
              r"|Cuda failure (?:46 )?'?(?:all )?CUDA-capable devices?",
              "Exclusive Process compute mode and a second process on that GPU: a leftover, or ranks that all touch cuda:0",
              "gpulaunch preflight HOST names the holder; gpulaunch clean-zombies HOST; in the script take the device from"
              " LOCAL_RANK before any CUDA call", "thread"),
    Signature("S135", "device-busy", ROOT,
              r"\bTPU is already in use\b|\bNeuronCore\(s\) not available\b|Maybe the last training process is running",
              "another process holds the accelerator (TPU, NeuronCore, NPU): an earlier run that has not ended, or a second one beside it",
              "end it: the message or `ps -ef | grep python` names it; then wait ten seconds for its device to be free", "known"),
    Signature("S31", "invalid-device-ordinal", ROOT,
              r"(?<!failure 101 ')invalid device ordinal|\binit\.cc:\d+ NCCL WARN Cuda failure 101\b|Invalid device (?:id|ordinal)\b|device >= 0 && device < num_gpus|" + match_cuda("InvalidDevice").replace("[Cc]uda", "(?<!WARN )[Cc]uda")
              + r"|torch\.cuda\.device_count\(\) is \d+\. Please use"
              r"|Attempting to deserialize object on CUDA device \d+|Requested GPUs?:? ?\[?[\d, ]+\]? but only|You requested (?:gpu|GPUs):|Tried to use device \d+ but only|No slot '\d+' specified on host|is greater than the number of GPUs"
              r"|Number of devices \d+ must be >= the product of mesh_shape|[Bb]ut your machine only has: \[(?!\])|is less than the (?:requested|required) number of (?:GPUs|processes)"
              r"|(?:nproc|num_gpus|n_gpus?|--gpus)\S{0,20} .{0,40}(?:exceeds|greater than|more than) .{0,40}(?:available|visible)"
              r"|[Ii]nvalid CUDA 'device=|Invalid CUDA_VISIBLE_DEVICES|Total available GPUs [\d.]+ is less than|[Cc]annot provide a placement group requiring |No available node types can fulfill resource request |device_index out of range|AssertionError: +assert .{0,60}device_count\(\)",
              "a rank asked for a GPU that it cannot see: more ranks than GPUs, CUDA_VISIBLE_DEVICES, or a fixed cuda:N",
              "as many ranks as visible GPUs (torchrun --nproc_per_node gpu; gpulaunch run counts them), and the device from LOCAL_RANK (accelerator.device) instead of a fixed cuda:N", "known"),
    Signature("S53", "nccl-duplicate-gpu", ROOT, r"[Dd]uplicate GPUs? (?:detected|in use|found)|both on (?:CUDA|HIP) device [0-9a-f]|[Rr]anks? .{0,40}both (?:use|using|on) (?:the same )?(?:GPU|device)|must be on distinct (?:GPU|CUDA) devices|[Mm]ultiple [Rr]anks? .{0,40}(?:on|using)"
              r" the same (?:GPU|device)|more than one rank (?:on|uses|per) (?:the same |a )?(?:GPU|device)|same GPU is (?:used|shared) by (?:multiple|several) ranks",
              "two ranks are on one GPU: a fixed device, no set_device, CUDA_VISIBLE_DEVICES set in the script, or more ranks than GPUs",
              "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) first of all (accelerator.device does it), and as many ranks as GPUs", "thread"),
    Signature("S45", "device-map-auto", ROOT,
              r"can't train a model that has been loaded with .?device_map=.?['\"]?auto['\"]?.? in any distributed mode"
              r"|can't train a model that has been loaded in (?:8-bit or 4-bit|8-bit|4-bit) precision"
              r"|FSDP only supports single device modules|device_ids and output_device arguments only work with single-device(?!.{0,600}module parameters \{device\(type='cpu'\)\})|module that(?: only)? (?:is|are) distributed on multiple devices"
              r"|DistributedDataParallel's input module must be on the same type of devices|device_map='auto'.{0,80}(?:distributed|not supported|multi-?GPU)"
              r"|You (?:cannot|can't) use `?device_map`?.{0,80}(?:distributed|DeepSpeed|ZeRO)|DeepSpeed Zero-3 is not compatible with .{0,40}device_map"
              r"|`?device_map`? .{0,60}not compatible with .{0,40}(?:ZeRO|distributed|FSDP|DDP)|module must have its parameters .{0,40}on device .{0,20}device_ids\[0\]"
              r"|can't move a model that has some modules offloaded",
              "the model, or a part of it, is not on the rank's own GPU: device_map spread it, or a .to() chose another one",
              "take device_map='auto' out of from_pretrained, or device_map={'': PartialState().local_process_index} (quantised weights); no .to() to a fixed cuda:N behind it", "source"),
    Signature("S43", "device-mismatch", ROOT,
              r"Expected all tensors to be on the same device|device_ids and output_device arguments only work with single-device.{0,600}module parameters \{device\(type='cpu'\)\}|[Ii]nput,? output and indices must be on the current device"
              r"|Input type \(torch\.(?:cuda\.)?(?P<kind>\w+)\) and \w+ type \(torch\.(?:cuda\.)?(?P=kind)\)|arguments are located on different GPUs"
              r"|Cannot access data pointer of Tensor that doesn't have storage|tensor is on cpu, expected it on GPU|is not on the expected device\b|Expected an? '[\w:]+' (?:device type for generator|generator device) but found"
              r"|[Ee]xpected (?:object of )?type torch\.cuda\.\w+Tensor but (?:got|found type) torch\.(?!cuda)\w+|[Ee]xpected (?:object of )?type torch\.(?!cuda)\w+Tensor but (?:got|found type) torch\.cuda\."
              r"|is on (?:cpu|cuda:\d+), but expected (?:them to be )?on"
              r"|Pointer argument \(at \d+\) cannot be accessed from Triton|Cannot copy out of meta tensor|Placeholder storage has not been allocated on MPS|all tensors must be on devices\[0\]",
              "tensors on different GPUs, or a batch or a model left on the CPU", "model.to(device) before the optimizer and batch = batch.to(device) in the loop (accelerator.prepare does both); a tensor kept as an attribute moves only as register_buffer, one made in forward wants device=x.device", "known"),
    Signature("S42", "cuda-reinit-in-fork", ROOT,
              r"Cannot re-?initialize CUDA in forked subprocess|CUDA has been initialized before the `?notebook_launcher|verifying a stable environment for the notebook launcher|multi-GPU training from your notebook, you need to avoid"
              r"|training from your notebook, the `?Accelerator|must use the 'spawn' start method"
              r"|To use CUDA with multiprocessing, you must|create new processes if CUDA is already initialized|Poison fork in .{0,40}CUDA",
              "a process forked after CUDA was in use (a DataLoader worker, a pool)",
              "return tensors of the CPU from dataset and collate_fn, and move them in the training loop; else DataLoader(multiprocessing_context='spawn')", "thread"),
    # `signature_matcher` makes it S42 where the lines above show a fork.
    Signature("S100", "driver-mismatch", GENERAL,
              r"(?<!initialization error: )(?:CUDA|cuda|Cuda)(?: driver)? (?:[Ee]rror|failure)(?: 3)?:? '?initialization error|[Cc]uda(?:Error)?InitializationError|" + match_cuda("InitializationError")
              + r"|Unexpected error from cudaGetDeviceCount\(\)(?!.*Error (?:80[234]|100|34): )|AssertionError: +assert .{0,60}cuda\.is_available\(\)",
              "CUDA could not start in this process: it sees no GPU, the host's driver, devices or MIG set-up do not let it, or it forked"
              " from a process that had used CUDA",
              "gpulaunch preflight HOST; nvidia-smi -L and CUDA_VISIBLE_DEVICES name a MIG device by its UUID; in worker processes"
              " multiprocessing_context='spawn'", "known"),
    Signature("S32", "no-kernel-image", ROOT,
              r"no kernel image is available for execution|CUDA capability sm_\d+ is not compatible"
              r"|does not include kernels for this GPU|PyTorch no longer supports this GPU|CUDA error: invalid device function"
              r"|not compatible with the current PyTorch installation|device kernel image is invalid|" + match_cuda("InvalidDeviceFunction", "InvalidKernelImage", "NoKernelImageForDevice", "InvalidPtx", "JitCompilationDisabled", "InvalidSource")
              + r"|invalid device function|no binary for gpu|(?:find|found) (?:a )?(?:binary|code object) for (?:all )?(?:the )?current devices|[Uu]nsupported gpu architecture 'compute_\d+|too old to be supported by the triton GPU compiler"
              r"|nvrtc: error: invalid value for --gpu-architecture|Value 'sm_\d+\w?' is not defined for option 'gpu-name'|sm_\d+\w?\S* is not a recognized processor"
              r"|CUDA error: no binary for|cutlass\w*: no kernel found to launch|\bconditional MMA instruction used without targeting|named symbol not found.{0,60}cublas"
              r"|PTX JIT compilation (?:failed|was disabled)|HSA_STATUS_ERROR_INVALID_ISA"
              r"|TensileLibrary.{0,100}GPU arch|rocBLAS error: Cannot read",
              "this build of torch, or of an extension, has no code for this GPU", "install the wheel built for it (gpulaunch preflight HOST names its index URL): CUDA 12.6 builds"
              " below compute capability 7.5, CUDA 12.8 or newer for Blackwell; build extensions again on such a GPU"
              " (TORCH_CUDA_ARCH_LIST)", "source"),
    Signature("S101", "kernel-resources", ROOT,
              r"too many resources requested for launch|\bout of resource: [\w ]{1,40}, Required: |CUDA (?:driver )?(?:[Ee]rror|failure): invalid configuration argument|too many blocks in cooperative launch|due to cluster misconfiguration|"
              + match_cuda("LaunchOutOfResources", "InvalidConfiguration", "CooperativeLaunchTooLarge", "InvalidClusterSize"),
              "a GPU kernel wants more registers, threads or shared memory per block than this GPU has, or was started over nothing: it was written or built for another GPU, or its input is empty",
              "build the extension that holds the kernel for this GPU (TORCH_CUDA_ARCH_LIST), give it fewer threads per block, or use"
              " another implementation; CUDA_LAUNCH_BLOCKING=1 names the kernel. It is not a lack of memory", "known"),
    Signature("S34", "driver-mismatch", ROOT,
              r"(?:Failed to initialize NVML: )?Driver/library version mismatch|driver and library versions? (?:do not match|mismatch)"
              r"|NVMLError_LibRmVersionMismatch|NVML/RM version mismatch|NVRM: API mismatch|API mismatch: the client has the version|nvml error: driver/library|\bERROR_LIB_RM_VERSION_MISMATCH\b",
              "the driver was upgraded, and the old kernel module is still loaded", "reboot the host; without: end all that uses its GPUs, then"
              " sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia; start containers anew after it", "known"),
    Signature("S35", "driver-mismatch", ROOT,
              r"NVIDIA driver on your system is too old|CUDA driver version is insufficient|" + match_cuda("InsufficientDriver", "CallRequiresNewerDriver", "UnsupportedPtxVersion")
              + r"|cuda>=[\d.]+, please update your driver|requirement error: unsatisfied condition: (?:cuda|brand|driver)"
              r"|driver version .{0,40}(?:is )?(?:too old|insufficient|not supported)|Cuda failure (?:\d+ )?'?CUDA driver version"
              r"|API call is not supported in the installed CUDA driver|found an older CUDA driver|Please update your (?:GPU|NVIDIA) driver|the provided PTX was compiled with an unsupported toolchain"
              r"|is not supported by the NVIDIA [\d.]+ driver release|requires use of the NVIDIA open kernel modules",
              "the driver is older than the wheel's CUDA, or than the compiler of a kernel's PTX", "install torch for an older CUDA (gpulaunch preflight HOST names the index URL for its driver), or a newer driver: CUDA 13 wants 580 or newer, CUDA 12 525", "known"),
    Signature("S36", "driver-mismatch", ROOT,
              r"Error 80[234]: |\(error 80[234]\)|[Ss]ystem not yet initialized|NVLink SHARP \(NVLS\) Multicast memory|\bcuMulticast\w+ failed|system has unsupported display driver|[Ff]orward compatibility was attempted on non supported HW"
              r"|unsupported display driver / cuda driver combination"
              r"|GPU fabric is not ready|" + match_cuda("SystemNotReady", "SystemDriverMismatch", "CompatNotSupportedOnDevice", "FabricNotReady"),
              "802, or no NVLS memory: the fabric manager does not run; 803: driver and CUDA libraries differ; 804: cuda-compat on a GPU that"
              " does not take it", "sudo systemctl enable --now nvidia-fabricmanager, of the driver's own version, on a host with NVSwitch (for a container or virtual machine: on its host)", "thread"),
    Signature("S120", "driver-mismatch", ROOT,
              r"/dev/(?:nvidia|kfd|dri/)\S{0,40}.{0,40}(?:Permission denied|Operation not permitted)|(?:Permission denied|Operation not permitted).{0,40}/dev/(?:nvidia|kfd|dri/)",
              "this process may not open the GPU's device file: the user is not in the group that owns it, or the container or job was given no GPU",
              "ask for GPUs where the job or container starts (--gres=gpu:N, --gpus all), or join the group that owns the file", "source"),
    Signature("S37", "driver-mismatch", ROOT,
              r"Found no NVIDIA driver|Number of devices \d+ must be >= the product of mesh_shape|[Bb]ut your machine only has: \[\]|No supported GPU\(s\) detected|No HIP GPUs are available|CUDA driver is a stub library|can ?not run on your system since the accelerator is not available|GPUs? requested but none (?:is|are) available|asked for (?:native )?AMP on CPU|No CUDA GPUs are available|Torch not compiled with \w+ enabled|module 'torch\._C' has no attribute '_cuda_|PyTorch is not linked with support for (?:cuda|hip|xpu) devices|No XPU devices are available"
              r"|CUDA is not available or torch_xla is imported|ProcessGroupNCCL is only supported with GPUs, no GPUs found"
              r"|NCCL backend (?:requires|not available)|doesn't have NCCL built in|no (?:CUDA|ROCm)-capable device is detected"
              r"|has failed because it couldn't communicate with the NVIDIA driver|Attempting to deserialize object on a CUDA device but"
              r"|could not select device driver .{0,20}with capabilities: \[\[gpu\]\]|libnvidia-ml\.so\.?\d?: cannot open shared object"
              r"|NVML Shared Library Not Found|\b(?:NVML|nvml) init failed|\bERROR_(?:LIBRARY_NOT_FOUND|DRIVER_NOT_LOADED)\b|NVMLError_(?:DriverNotLoaded|LibraryNotFound|Uninitialized)\b|unresolvable CDI devices? nvidia|\b[Uu]nknown (?:or invalid )?runtime (?:name: |specified )nvidia\b|\bfailed to create NVIDIA Container Runtime\b|libcuda\.so(?:\.1)?: cannot open shared object|" + match_cuda("StubLibrary", "NoDevice")
              + r"|[Nn]o (?:NVIDIA )?GPUs? (?:found|detected|available|is available)[.!]? *(?:A GPU|This|Training|Please|You|$|\()|RuntimeError: CUDA is not available"
              r"|CUDA is not available\. (?:Training|This|Please|A GPU)|torch\.cuda\.is_available\(\) (?:is|returned|should be) (?:False|True)"
              r"|[Nn]o supported gpu backend found|[Nn]o accelerator (?:is )?(?:found|available)|requires? (?:a )?(?:CUDA|GPU|NVIDIA) ?(?:GPU|device)?,? but (?:none|no)"
              r"|You need (?:a|an NVIDIA|at least one) GPU|Failed to initialize NVML|(?:ValueError|AssertionError|RuntimeError): Cuda is not available"
              r"|\b0 active drivers\b|nvidia-container-cli: (?!(?:ldcache|mount|container|input) error).{0,80}(?:error|failed)|AssertionError: (?:CUDA|cuda) (?:is not|unavailable)|requires CUDA\."
              r"|Unsloth (?:cannot find any torch accelerator|currently only works on )|No GPU or accelerator|[Uu]nable to find any CUDA device|nvidia-smi: command not found",
              "this process sees no GPU: no driver, a CPU wheel, a CUDA_VISIBLE_DEVICES that is empty or names no GPU of this host, or a container without GPUs",
              "ask for GPUs where the job or container starts (--gres=gpu:N, --gpus all), correct CUDA_VISIBLE_DEVICES, install torch for the driver's CUDA, or the driver: gpulaunch preflight HOST says which", "run"),
    Signature("S40", "gpu-lost", ROOT,
              r"uncorrectable ECC error|[Uu]ncorrectable (?:NVLink|DRAM|SRAM) error|fallen off the bus|NVRM: Xid .{0,40}: (?!" + build_xid_pattern(PROGRAM_XIDS) + r")\d+"
              r"|GPU is lost|hardware stack error|uncorrectable NVLink error|" + match_cuda("ECCUncorrectable", "NvlinkUncorrectable", "Contained", "HardwareStackError")
              + r"|NVRM: .{0,60}RmInitAdapter failed|GPU requires reset|Detected Critical Xid Error|[Rr]eset the GPU|GPU reset is required|Unable to determine the device handle for"
              r"|GPU at PCI:.{0,30}has fallen"
              r"|amdgpu .{0,80}uncorrectable hardware error|HW Exception by GPU node|ERR_GPU_LOST|NVML_ERROR_GPU_IS_LOST|NVMLError_(?:GpuIsLost|ResetRequired|IrqIssue|CorruptedInforom)|CUDA (?:driver )?error: (?:an )?(?:Invalid access of peer GPU memory over nvlink|uncorrectable)"
              r"|(?:UR_RESULT|PI|ZE_RESULT)_ERROR_DEVICE_LOST|nvlink (?:uncorrectable|error)|remote side.{0,30}nvlink error|CUDA error: .{0,30}contained error|SXid .{0,60}, [Ff]atal\b",
              "the GPU or its link failed", "take that GPU out (gpus: in the run config); with nothing on it sudo nvidia-smi --gpu-reset -i N, or reboot; have it replaced if it comes back"
              " (gpulaunch preflight HOST names it)", "known"),
    Signature("S114", "host-hardware", ROOT,
              r"\bEDAC \S{1,20}(?: \S{1,10})?: \d+ UE\b|\bMemory failure: 0x[0-9a-f]+: (?:Sending SIGBUS|Killing|.{0,60}: Failed)|hardware memory corruption|[Uu]ncorrected hardware memory error"
              r"|\[Hardware Error\]: (?:event severity: (?:fatal|recoverable)|.{0,80}(?:[Uu]ncorrected|[Ff]atal))|\bKernel panic - not syncing|NMI watchdog: Watchdog detected hard LOCKUP|\bmce: .{0,80}Fatal machine check",
              "the host failed, not the run: memory or a processor with errors that could not be corrected, or a kernel that stopped",
              "leave the host out (hosts: in the run config) and report it: ras-mc-ctl --errors and the BMC's event log name the DIMM or CPU", "known", broad=True),
    Signature("S39", "device-side-assert", ROOT, KERNEL_ASSERTION + r"[^`]{0,120}(?:\bout of bounds\b|(?:[Ii]nd(?:ex|ices?)?|[Ii]dx|\bt|[Tt]arget|[Ll]abel)(?:_?\w{1,12})?\)? <)",
              "an index out of range on the GPU: labels beyond the classes, token ids beyond the vocabulary",
              "CUDA_LAUNCH_BLOCKING=1 names the line: print before it the smallest and the largest index beside the size that it goes into", "run"),
    Signature("S124", "device-side-assert", ROOT, KERNEL_ASSERTION + r"[^`]{0,40}\binput(?:_val)? >= (?:zero|0)",
              "a loss of probabilities (binary_cross_entropy) got an input on the GPU that is not between 0 and 1: a logit, or NaN",
              "binary_cross_entropy_with_logits takes logits, and autocast allows it; else sigmoid before the loss, and look for NaN", "run"),
    Signature("S123", "device-side-assert", GENERAL, r"device-side assert triggered|" + KERNEL_ASSERTION + "|" + match_cuda("Assert"),
              "a check in a GPU kernel failed, and its text, where the log has it, says which: mostly an index out of range (labels beyond the"
              " classes, token ids beyond the vocabulary), or a value such as NaN",
              "look above for a line with `Assertion`; on the CPU, or with CUDA_LAUNCH_BLOCKING=1, the same code names the place", "known"),
    Signature("S125", "illegal-memory-access", GENERAL,
              r"unspecified launch failure|an illegal instruction was encountered|CUDA (?:driver )?error: invalid program counter|"
              + match_cuda("LaunchFailure", "PriorLaunchFailure", "IllegalInstruction", "InvalidPc") + r"|Warp Illegal Instruction|HSA_STATUS_ERROR_(?:EXCEPTION|ILLEGAL_INSTRUCTION)",
              "the GPU stopped a kernel, and CUDA does not say for what: a bad address, a trap of the kernel itself, a stack overflow, or failing hardware",
              "CUDA_LAUNCH_BLOCKING=1 names the kernel, compute-sanitizer its fault; sudo dmesg | grep -i xid; then try another GPU", "run"),
    Signature("S38", "illegal-memory-access", ROOT,
              r"an illegal memory access was encountered|misaligned address|"
              + match_cuda("IllegalAddress", "MisalignedAddress", "InvalidAddressSpace") + r"|NVRM: Xid .{0,40}: " + build_xid_pattern(ADDRESS_FAULT_XIDS) + r"|invalid address space|operation not supported on"
              r" global|Invalid __global__ (?:read|write)|Warp (?:Illegal Address|Misaligned|Out-of-range) "
              r"|Memory access fault by GPU \W{0,3}node|HSA_STATUS_ERROR_(?:MEMORY_APERTURE_VIOLATION|MEMORY_FAULT)|Cuda failure (?:\d+ )?'?an illegal",
              "a GPU kernel read or wrote at an address that is out of bounds or misaligned (its own bug, a bad index, or failing hardware)",
              "CUDA_LAUNCH_BLOCKING=1 (ROCm: AMD_SERIALIZE_KERNEL=3) names the kernel; then try another GPU", "run"),
    Signature("S126", "user-exception", ROOT,
              r"operation not permitted when stream is capturing|previous error during capture|merge of separate capture sequences|capture was not ended in the same stream|capturing stream has unjoined work"
              r"|on uncaptured work in another stream|depend on a capturing blocking stream|last recorded in a capturing stream|thread-local capture sequence|Cannot prepare for replay during capturing stage|\b(?:[Cc]annot|[Cc]an't|not) .{1,120} during CUDA graph capture\b|\bCUDA generator not in capture mode\b|"
              + match_cuda("StreamCaptureUnsupported", "StreamCaptureInvalidated", "StreamCaptureMerge", "StreamCaptureUnmatched", "StreamCaptureUnjoined", "StreamCaptureIsolation", "StreamCaptureImplicit", "CapturedEvent", "StreamCaptureWrongThread"),
              "code inside a CUDA graph's capture did what no graph can hold: .item() or print of a tensor, a copy to the CPU, a synchronisation, memory or work of another stream",
              "take that line out of the capture; warm up on a side stream before it; torch.compile without mode='reduce-overhead' captures nothing", "run"),
    Signature("S139", "user-exception", GENERAL,
              r"(?:CUDA(?: driver)?|HIP) error: invalid resource handle|" + match_cuda("InvalidResourceHandle"),
              "a stream, an event or a tensor shared by CUDA IPC is used where it is not valid: in another process than its own one, on another GPU, or after its owner ended",
              "set_device before each process's first CUDA call; processes that share tensors see the same GPUs (CUDA_VISIBLE_DEVICES), and the sender lives until they are read; else send tensors of the CPU", "known"),
    Signature("S41", "driver-mismatch", ROOT,
              r"CUDA driver initialization failed|CUDA unknown error - this may be due to|cuInit\b.{0,80}fail"
              r"|CUDA (?:driver )?error: unknown error|" + match_cuda("Unknown", "OperatingSystem", "MpsConnectionFailed", "MpsRpcFailure", "MpsServerNotReady", "MpsMaxClientsReached", "MpsMaxConnectionsReached", "MpsClientTerminated") + r"|CUDA (?:driver )?error: (?:OS call failed|driver shutting down)"
              r"|MPS client failed to connect|between the MPS server and the MPS client failed|MPS server (?:is not ready|has hit its maximum)|MPS client has been terminated|hardware resources required to (?:create MPS|support device)|NVMLError_Unknown\b",
              "CUDA failed and does not say why: at the start of a run /dev/nvidia* or modules are missing, or a process forked;"
              " later the driver or the GPU failed",
              "at the start of a run: sudo nvidia-modprobe -u -c=0, after a suspend sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm, or start the container anew; later: sudo dmesg | grep -i xid", "known"),
    Signature("S136", "accelerator-runtime", GENERAL,
              r"\bERR\d{5} (?!DIST\b)[A-Z]{3,5} call \w|\bACL (?:stream|event|device) \w+ failed\b|\bE[A-Z]?\d{4,5}: .{0,80}\bInner Error\b|\b(?:NPU|OPS) function error: |\bsynStatus(?: ?= ?| )(?:[1-9]\d{0,3}\b|syn(?!Status|Success)[A-Z]\w+)|\bHabana exception raised|\b(?:ERROR|FATAL) +NRT:nrt_(?!close|infodump)\w+ |\bNrt::\w+ failed\b|\bnrt_\w+ status=[1-9]|\bNRT_(?:FAILURE|TIMEOUT|EXEC\w*|RESOURCE)\b|\bneuronx?-cc\b.{0,4000}(?:returned non-zero|died with|terminated abnormally|failed with)|\bneuronxcc\.\S{1,60}: +An Internal Compiler Error|\bGot a cached failed neff\b",
              "the runtime of an accelerator other than a GPU failed (Ascend's CANN, Gaudi's SynapseAI, Neuron): an operation that it does not have, a driver of another release, or the device itself",
              "its own log says why: ~/ascend/log (ASCEND_GLOBAL_LOG_LEVEL=1) and npu-smi info; $HABANA_LOGS and hl-smi; NEURON_RT_LOG_LEVEL=INFO and"
              " neuron-ls; driver, runtime and torch plug-in of one release", "known", broad=True),
    Signature("S33", "cuda-library", GENERAL,
              r"CUDNN_STATUS_EXECUTION_FAILED|CURAND_STATUS_(?!SUCCESS)|\b[Cc]urand error \d{3}\b|^Error (?!.{0,40}out of memory).{1,80} at line \d+ in file .{1,200}\.(?:cuh?|cpp)$|(?:CUDA(?: driver)?|HIP) error: (?:invalid (?!resource handle)\w|operation not (?:permitted|supported)"
              r"|an internal operation failed|the launch timed out|PTX JIT compiler library|shared object|named symbol)|failed to open libnvrtc|symbol \w+ version lib\w+\.so\S* not defined in file|undefined symbol: (?:__nvJitLink|nvJitLink|cublas|cudnn|cusparse|cusolver|cufft|curand|nvrtc)\w*",
              "a CUDA library failed or is of another version than torch expects",
              "CUDA_LAUNCH_BLOCKING=1 shows whether an earlier call failed; a smaller batch where the GPU is nearly full; take directories of CUDA out of LD_LIBRARY_PATH", "known"),
)  # fmt: skip

_SET_DEVICE = "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))"
_CUDA_TORCH = "python -m pip install --force-reinstall torch torchvision --index-url URL"
_NEWER_PTXAS = "export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas"
# Drivers by CUDA: NVIDIA's table of minor version compatibility.
ADVICE: tuple[Advice, ...] = (
    Advice("S135", r"Neuron", "", "end the process that neuron-ls shows, or say which cores each process gets: it takes all of them without NEURON_RT_NUM_CORES or NEURON_RT_VISIBLE_CORES", "neuron-ls"),
    Advice("S135", r"TPU", "", "end the process that the message or lsof names; where none holds it, a killed one left /tmp/libtpu_lockfile", "sudo lsof -w /dev/accel* /dev/vfio/*"),
    Advice("S135", r"last training process", "", "end the process that npu-smi shows; then wait ten seconds for its device to be free", "npu-smi info"),
    Advice("S31", r"Attempting to deserialize", "the checkpoint names a GPU of the host that saved it, which this process does not have", "load it to the CPU first", "torch.load(FILE, map_location='cpu'), then move it to the rank's GPU"),
    Advice("S31", r"device_count\(\): 0|is_available\(\): False", "this process sees no GPU at all", "gpulaunch preflight HOST says why: a torch built for the CPU, CUDA_VISIBLE_DEVICES, the driver or the container", "python -c 'import torch; print(torch.version.cuda, torch.cuda.device_count())'"),
    Advice("S31", r"Total available GPUs|placement group|can fulfill resource request", "the cluster has fewer GPUs than the config wants", "ask for what Ray has (nnodes and n_gpus_per_node, or the parallel sizes), or start Ray on the hosts that it lacks", "ray status"),
    Advice("S31", r"No slot '", "", "write slots=GPUS behind that host in the hostfile, or take that slot out of --include"),
    Advice("S31", r"mesh_shape", "", "make the product of the mesh's shape the number of devices (jax.device_count(), over all processes): a process that did not join the others sees only its own"),
    Advice("S45", r"(?i)zero-?3|deepspeed", "DeepSpeed's ZeRO-3 places the weights itself, so from_pretrained may not", "take device_map= and low_cpu_mem_usage= out of from_pretrained: no other value of them helps", in_frames=True),
    Advice("S45", r"modules offloaded", "device_map put modules on the CPU or the disk, since the GPU had no room for them, and such a model cannot be moved", "take .to() and .cuda() out; for all of it to fit: fewer bits (quantization_config=), or shards (FSDP, ZeRO-3)"),
    Advice("S45", r"input module must be on the same type", "a part of the model is still on the CPU", "model.to(device) behind the last module that is added (a head, adapters), and before DistributedDataParallel"),
    Advice("S45", r"FSDP only supports", "the model's parameters are on more than one device when FSDP wraps it", "leave all of it on the CPU and give FSDP device_id=torch.cuda.current_device(), or move all of it to that GPU before; no device_map"),
    Advice("S45", r"device_ids\[0\]", "nn.DataParallel wraps a model that is not wholly on the first GPU; a Trainer does so in a process that sees several", "start one process for each GPU (torchrun, gpulaunch run), or CUDA_VISIBLE_DEVICES=0 for one; else model.to('cuda:0') before, without device_map"),
    Advice("S43", r"meta tensor|doesn't have storage", "weights are on the meta device: nothing gave them storage", "load them before anything moves the model: from_pretrained in place of a model made under init_empty_weights, or model.to_empty(device=...) and then load_state_dict; what device_map offloaded stays where it is"),
    Advice("S43", r"Pointer argument", "a Triton kernel got a tensor of the CPU, or of a GPU that is not the current one", f"{_SET_DEVICE} before the first kernel, and its tensors on that GPU"),
    Advice("S43", r"\bMPS\b", "", "model.to('mps') and the batch, too: weights and input must both be on it"),
    Advice("S43", r"cuda:(\d+)\b.{0,60}\bcuda:(?!\1\b)\d", "one process has tensors on two GPUs", f"no fixed cuda:N: {_SET_DEVICE} first of all, and device=x.device for what forward makes; with device_map='auto' the inputs go to model.device"),
    Advice("S43", r"generator", command="DataLoader(generator=torch.Generator(device='cuda')), or torch.set_default_device back to 'cpu': a sampler draws on the default device"),
    Advice("S42", r"/vllm/|\bvllm\b", "vLLM forked its workers after CUDA was in use in this process", "let nothing start CUDA before LLM(...), and start the script under if __name__ == '__main__'", "export VLLM_WORKER_MULTIPROCESSING_METHOD=spawn", in_frames=True),
    Advice("S42", r"notebook|create new processes", command="restart the kernel, and before the launcher or trainer let nothing start CUDA (torch.cuda.*, .to('cuda'), imports that do)"),
    Advice("S100", r"Error 2: out of memory", command="ulimit -v; free -g; nvidia-smi: a limit of address space, the host's memory or the GPU's leaves CUDA no room to start"),
    Advice("S32", r"\barch_major\b", "DeepGEMM has this operation for another generation of GPUs only (arch_major 9 is Hopper, 10 Blackwell)", "weights or a cache in a format that this GPU has, or another back end of the MoE (SGLang's --moe-runner-backend, vLLM's VLLM_USE_DEEP_GEMM=0)", "nvidia-smi --query-gpu=name,compute_cap --format=csv"),
    Advice("S32", r"too old to be supported by the triton", "torch.compile's Triton needs compute capability 7.0, and this GPU is older", "train without torch.compile on it: no other wheel helps", "export TORCHDYNAMO_DISABLE=1"),
    Advice("S32", r"[Uu]nsupported gpu architecture 'compute", "the CUDA toolkit that builds an extension does not know that architecture: the GPU is newer, or too old for it",
           "a toolkit that has it (12.8 or newer for Blackwell; 13 has none below 7.5), named by CUDA_HOME; or leave it out of TORCH_CUDA_ARCH_LIST", "nvcc --version"),
    Advice("S32", r"JIT compilation was disabled|JIT_COMPILATION_DISABLED|JitCompilationDisabled", "only its PTX is in this build, and CUDA_DISABLE_PTX_JIT forbids the driver to compile it", "let it be compiled, or take a build for this GPU", "unset CUDA_DISABLE_PTX_JIT"),
    Advice("S32", r"\bHIP\b|\bhip[A-Z]|\bHSA_|\bgfx\d|rocBLAS|Tensile", "this build of torch, or of an extension, has no code for this AMD GPU",
           "a torch for ROCm whose torch.cuda.get_arch_list() has its gfx; HSA_OVERRIDE_GFX_VERSION takes code of a near relative (10.3.0 for gfx103x, 11.0.0 for gfx110x), and is to be unset where it names another"),
    Advice("S32", r"\bhip|\bHIP\b|\bHSA_|\bgfx\d", command="rocminfo | grep -m1 gfx names the architecture that the build must have"),
    Advice("S32 S68", r"option 'gpu-name'|ptxas'.{1,80}--gpu-name", "Triton's ptxas does not know this GPU, which is newer", "a newer torch with its triton, or the ptxas of a CUDA toolkit that knows the GPU (12.8 for Blackwell)", _NEWER_PTXAS),
    Advice("S32", "", command="python -c 'import torch; print(torch.cuda.get_arch_list(), torch.cuda.get_device_capability())'"),
    Advice("S101", r"\bout of resource:", "a Triton kernel wants more shared memory or registers than this GPU has", "smaller BLOCK sizes or num_stages in its configs; where a package brings the kernel, another version of it. It is not a lack of memory"),
    Advice("S101", r"invalid configuration|InvalidConfiguration", "a kernel was started over nothing or over too much: an empty input, or one too large for its grid",
           "print the shapes at that line: an empty batch or mask, or a dimension beyond 65535 blocks; CUDA_LAUNCH_BLOCKING=1 names the line", "export CUDA_LAUNCH_BLOCKING=1"),
    Advice("S35", r"unsatisfied condition|please update your driver", "the image wants a newer driver than the host has", "an image of an older CUDA, or a newer driver on the host: CUDA 13 wants 580, CUDA 12 525", "nvidia-smi --query-gpu=driver_version --format=csv,noheader"),
    Advice("S35", r"unsupported toolchain|UNSUPPORTED_PTX|UnsupportedPtx", "a kernel's PTX was made by a newer CUDA than the driver knows", "a newer driver; or build that extension for this GPU itself (TORCH_CUDA_ARCH_LIST without +PTX), with a CUDA no newer than nvidia-smi shows"),
    Advice("S35", r"open kernel modules", "this GPU works with NVIDIA's open kernel modules alone, and the others are installed", "install the same driver with them (nvidia-open, or nvidia-driver-NNN-open in Ubuntu), and reboot"),
    Advice("S35", r"NVIDIA [\d.]+ driver release", "the installed driver no longer knows this GPU", "install the last branch that does: 580 for Maxwell, Pascal and Volta, 470 for Kepler"),
    Advice("S35", r"(?:driver version is insufficient|InsufficientDriver)", "", "in a container start it with --gpus all (without the host's driver in it CUDA says the same); else torch for an older CUDA (gpulaunch preflight HOST names the index URL for its driver), or a newer driver: CUDA 13 wants 580 or newer, CUDA 12 525"),
    Advice("S35", r"driver on your system is too old", command=_CUDA_TORCH),
    Advice("S36", r"\bNVLS\b|[Mm]ulticast", "NCCL got no multicast memory of the NVSwitch (NVLS): the fabric manager does not serve it, or the container or virtual machine lacks it",
           "train without it now; sudo systemctl restart nvidia-fabricmanager on the host, with nothing on its GPUs, may bring it back", "export NCCL_NVLS_ENABLE=0"),
    Advice("S36", r"(?i)error:? 80[34]\b|unsupported display driver|driver_?mismatch|forward compat|compat_?not_?supported", "the CUDA library (libcuda) and the driver's kernel module are of two versions: cuda-compat is in the way, or the driver was upgraded without a reboot",
           "reboot the host where nvidia-smi fails with a mismatch, too, as the driver was upgraded; else take directories named compat out of LD_LIBRARY_PATH (an image may set it)", "nvidia-smi; cat /proc/driver/nvidia/version; ldconfig -p | grep libcuda.so"),
    Advice("S120", r"/dev/(?:kfd|dri)", "", "sudo usermod -aG render,video USER, then log in anew; a container gets --device=/dev/kfd --device=/dev/dri and these groups (--group-add)"),
    Advice("S120", "", command="ls -l /dev/nvidia* /dev/dri; id"),
    Advice("S37", r"select device driver|nvidia-container-cli|runtime (?:name: |specified )nvidia|CDI devices? nvidia|NVIDIA Container Runtime", "the host's container runtime cannot hand out its GPUs",
           "install driver and NVIDIA Container Toolkit on the host, then sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker", "docker run --rm --gpus all ubuntu nvidia-smi"),
    Advice("S37", r"No XPU|XPU enabled|support for xpu", "torch sees no Intel GPU: no driver, no permission, or a variable that hides it", "sycl-ls must list it for this user (group render); unset ONEAPI_DEVICE_SELECTOR and ZE_AFFINITY_MASK; a container gets --device=/dev/dri", "sycl-ls"),
    Advice("S37", r"No HIP|HIP enabled|support for hip|backend 'rocm'", "torch sees no AMD GPU: no driver, no permission, or a variable that hides it",
           "rocminfo must list it for this user (groups render and video); unset HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES; a container gets --device=/dev/kfd --device=/dev/dri", "rocminfo | grep -m1 gfx; ls -l /dev/kfd; id"),
    Advice("S37", r"Unable to initialize backend '(?:cuda|gpu)", "JAX has no working plugin for CUDA: none is installed, it is of another version than jaxlib, or no driver answers",
           "nvidia-smi must work for this process; then install jax and its plugin together (jax[cuda13] from driver 580 on), and unset LD_LIBRARY_PATH", "python -m pip install -U 'jax[cuda12]'"),
    Advice("S37", r"Torch not compiled with CUDA|has no attribute '_cuda_|support for cuda devices", "the installed torch is a build without CUDA", "install the build for the host's driver: gpulaunch preflight HOST names the index URL; on a Mac use device='mps'", _CUDA_TORCH),
    Advice("S37", r"couldn't communicate with|\bmodprobe: |DRIVER_NOT_LOADED|DriverNotLoaded|\b0 active drivers|driver not loaded|: probe of ", "the NVIDIA driver's kernel module is not loaded, mostly since it was not built for a new kernel",
           "sudo apt install linux-headers-$(uname -r) && sudo dkms autoinstall && sudo modprobe nvidia; Secure Boot refuses a module that is not signed", "dkms status; uname -r; sudo dmesg | grep -i nvidia"),
    Advice("S37", r"Unable to initialize backend '(?!cuda|gpu|rocm)", command="unset JAX_PLATFORMS JAX_PLATFORM_NAME: they name a kind of device that this host or this jaxlib does not have"),
    Advice("S37", r"stub library", command="unset LD_LIBRARY_PATH: it leads to the stubs of the CUDA toolkit, which are for linkers"),
    Advice("S37", r"Attempting to deserialize", command="torch.load(FILE, map_location='cpu') where no GPU is wanted"),
    Advice("S37", r"NCCL built in", command="init_process_group('gloo') on Windows and macOS, whose torch has no NCCL"),
    Advice("S40", r"RmInitAdapter", "the driver could not start the GPU", "read the NVRM lines before it: 'open kernel modules' wants the -open variant of the driver; else power the host off and on, and have the GPU replaced if it comes back", "sudo dmesg | grep NVRM"),
    Advice("S40", r"level_zero|UR_RESULT_", "the driver reset the Intel GPU, or lost it", "sudo dmesg -T | grep -i -E 'xe|i915' says why; a newer driver and level-zero, and a reboot where the GPU is gone", "xpu-smi discovery"),
    Advice("S40", r"amdgpu|HW Exception|sq_intr", command="sudo dmesg -T | grep -i amdgpu"),
    Advice("S40", r"NVRM|CUDA|NVML|ECC|[Xx]id\b", command="nvidia-smi -q -d ECC,ROW_REMAPPER; sudo dmesg -T | grep -i xid"),
    Advice("S39", r"index out of bounds", command="export CUDA_LAUNCH_BLOCKING=1"),
    Advice("S39", r"n_classes|[Tt]arget|[Ll]abel", command="print(labels.min(), labels.max()) before the loss: 0 to the number of classes - 1, ignore_index aside"),
    Advice("S39", r"srcIndex|vocab|[Ee]mbedding", command="print(input_ids.max()): less than the rows of the embedding (model.resize_token_embeddings(len(tokenizer)))"),
    Advice("S38 S125", r"\bHIP\b|\bhip[A-Z]|\bHSA_|amdgpu|by GPU \W{0,3}node", command="export AMD_SERIALIZE_KERNEL=3"),
    Advice("S38 S125", "", command="export CUDA_LAUNCH_BLOCKING=1"),
    Advice("S126", r"/vllm/|\bvllm\b", "vLLM could not record its CUDA graphs", "enforce_eager=True (--enforce-eager) runs without them, slower: it shows whether the capture alone fails; then another version of vLLM", in_frames=True),
    Advice("S41", r"\bMPS\b|\bMps|\bMPS_", "the MPS server that this process wants is gone, full, or another user's", "start it anew as the user who runs (nvidia-cuda-mps-control -d), or unset CUDA_MPS_PIPE_DIRECTORY where none is wanted", "echo get_server_list | nvidia-cuda-mps-control"),
    Advice("S136", r"\b[Nn][Rr][Tt][_:]|\bNRT\b", "", "NEURON_RT_LOG_LEVEL=INFO says why; neuron-ls shows the devices and who holds them; driver, runtime and torch-neuronx of one release", "neuron-ls"),
    Advice("S136", r"\bsyn[A-Z]|Habana", "", "$HABANA_LOGS says why; hl-smi shows the devices; driver, SynapseAI and habana-torch-plugin of one release", "hl-smi"),
    Advice("S136", r"NPU|\bERR\d{5}|\bE[A-Z]?\d{4,5}:|mindspore", "", "~/ascend/log says why (ASCEND_GLOBAL_LOG_LEVEL=1); npu-smi shows the devices; driver, CANN and torch_npu of one release", "npu-smi info"),
    Advice("S33", r"CUDA (?:driver )?error: invalid argument|cudaErrorInvalidValue|CUDA_ERROR_INVALID_VALUE", "a CUDA call refused what it was given: a size of 0 or less, memory that was freed, lies on another GPU or is not this process's, or something that this driver does not have",
           "CUDA_LAUNCH_BLOCKING=1 shows which call; where it shares memory between processes or hosts, try without expandable_segments and with NCCL_P2P_DISABLE=1"),
    Advice("S33", r"launch timed out", "a kernel ran longer than the driver lets it on a GPU that also drives a display", "train on a GPU without a display, or stop the desktop (sudo systemctl isolate multi-user.target; Windows: a larger TdrDelay)"),
    Advice("S33", r"CUDNN_STATUS_EXECUTION_FAILED", "a kernel of cuDNN failed: the GPU's memory is full, or an earlier kernel had broken its context", "a smaller batch first; CUDA_LAUNCH_BLOCKING=1 shows an earlier failure; one run with torch.backends.cudnn.enabled=False, whether it is cuDNN's", "export CUDA_LAUNCH_BLOCKING=1"),
    Advice("S33", r"PTX JIT compiler library", "the driver's libnvidia-ptxjitcompiler or libnvidia-nvvm is not found", "a container wants NVIDIA_DRIVER_CAPABILITIES=compute,utility and a toolkit as new as the driver; a host the driver's libraries installed whole", "ldconfig -p | grep -E 'ptxjitcompiler|nvidia-nvvm'"),
    Advice("S33", r"operation not supported|NOT_SUPPORTED|NotSupported", "this driver, GPU or virtual machine lacks what a CUDA call wants: virtual memory, access to peers, asynchronous allocation",
           "try without expandable_segments (PYTORCH_CUDA_ALLOC_CONF), then with NCCL_P2P_DISABLE=1 and NCCL_CUMEM_ENABLE=0", "export CUDA_LAUNCH_BLOCKING=1"),
    Advice("S33", r"undefined symbol|not defined in file|libnvrtc", "a library of another CUDA was loaded in place of torch's own", "take directories of CUDA out of LD_LIBRARY_PATH; where there are none, the nvidia-* package of that library is older than what was built with it", "unset LD_LIBRARY_PATH"),
    Advice("S114", r"\bnhc: ", "the health check of the node (NHC) found a fault", "leave the host out until what the message names is repaired: GPUs, bandwidth, a mount, a service"),
)  # fmt: skip
