"""What dying runs print, what it means and what to do: the table that `preflight.diagnosis` searches logs with.

Rows are tried in this order on each line, and the first that matches takes the line; so the specific stands
above the general. `source`: "run" reproduced, "source" read in the library's source, "thread" a public thread,
"known" general knowledge.
"""

import re
from dataclasses import dataclass
from enum import IntEnum


class Depth(IntEnum):
    """How fundamental a match is; of several, the deepest and then the earliest is the cause."""

    ROOT = 0  # says itself what went wrong
    GENERAL = 1  # a root cause unless something deeper explains it
    ENDING = 2  # only how a process ended: a signal, an abort
    VICTIM = 3  # says that another process failed


@dataclass(frozen=True, slots=True)
class Signature:
    """One row. `slug` is the class of failure; `telling` False means that the line alone is no failure."""

    code: str
    slug: str
    depth: Depth
    pattern: re.Pattern[str]
    cause: str
    fix: str
    source: str
    telling: bool = True


@dataclass(frozen=True, slots=True)
class Notice:
    """A line that looks alarming. `safe` says whether it may be ignored, `verdict` why."""

    code: str
    pattern: re.Pattern[str]
    safe: bool
    verdict: str


ROOT, GENERAL, ENDING, VICTIM = Depth.ROOT, Depth.GENERAL, Depth.ENDING, Depth.VICTIM


def _row(  # noqa: PLR0913 - the columns of a table
    code: str,
    slug: str,
    depth: Depth,
    pattern: str,
    cause: str,
    fix: str,
    source: str,
    *,
    telling: bool = True,
) -> Signature:
    return Signature(code, slug, depth, re.compile(pattern), cause, fix, source, telling)


SIGNATURES: tuple[Signature, ...] = (
    # Precision and dtypes
    _row("S01", "fp16-unscale", ROOT, r"Attempting to unscale FP16 gradients",
         "a trainable parameter is fp16 while an fp16 gradient scaler is on",
         "load the trainable parameters in float32 (dtype=torch.float32) and keep fp16 mixed precision; or bf16 where"
         " every GPU has compute capability 8.0. No command-line flag mends it", "run"),
    _row("S02", "bf16-scaler", ROOT,
         r"_amp_(?:foreach_)?non_finite_check_and_unscale_?\w*\W+ not implemented for .?BFloat16",
         "trainable bf16 parameters under an fp16 gradient scaler (a bf16 checkpoint, TRL with a quantised base)",
         "use bf16 instead of fp16 (GPUs from 8.0 on), or cast the trainable parameters to float32", "thread"),
    _row("S03", "dtype-mismatch", ROOT,
         r"expected dtype \S+ for `(?:end|weight)` but got dtype \S+|Found dtype \w+ but expected \w+",
         "the module was cast after the optimizer made its state (for an evaluation, demo or save), or gradient and"
         " state differ in dtype", "find the .to(dtype)/.half()/.bfloat16() that runs between two steps and cast a"
         " copy.deepcopy(model) instead", "run"),
    _row("S04", "scaler-misuse", ROOT, r"Attempted \w+ but _scale is None|No inf checks were recorded for this optimizer",
         "loss.backward() ran without the scaler, or no parameter got a gradient",
         "use accelerator.backward(loss); check that the trained parameters require gradients", "run"),
    _row("S05", "scaler-misuse", ROOT,
         r"unscale_\(\) has already been called on this optimizer|step\(\) has already been called since the last update",
         "clipped twice in a step, or scaler.update() is missing", "one unscale_/clip per optimizer and step", "run"),
    _row("S06", "bf16-unsupported", ROOT,
         r"bf16 mixed precision requires PyTorch >= 1\.10|Your setup doesn't support bf16"
         r"|Current CUDA Device does not support bfloat16|bfloat16 is not supported on (?:this|your) (?:GPU|device)"
         r"|Bfloat16 is only supported on GPUs with compute capability of at least 8\.0|BF16 is not supported on this",
         "bf16 on a GPU older than compute capability 8.0, or on a process that sees no GPU",
         "fp16 on compute capability 7.x, else no; if a GPU should be there, see why torch does not see it", "run"),
    _row("S07", "driver-mismatch", ROOT,
         r"[Ff][Pp]16 mixed precision requires a (?:GPU|device in)"
         r"|FP16 Mixed precision training with AMP.*can only be used on CUDA",
         "fp16 was asked for, and this process sees no CUDA GPU", "gpulaunch preflight HOST: driver, CUDA_VISIBLE_DEVICES"
         " and the torch wheel; on CPU use no or bf16", "source"),
    _row("S10", "precision-conflict", ROOT, r"At most one of fp16 and bf16 can be True",
         "fp16 and bf16 are both set", "drop one of the two", "source"),
    _row("S09", "precision-conflict", ROOT, r"AcceleratorState has already been initialized and cannot be changed",
         "two Accelerators with different mixed precision, or TrainingArguments were made before",
         "one Accelerator and one precision", "run"),
    _row("S13", "dtype-mismatch", ROOT,
         r"attempting to assign a gradient with dtype|assigned grad has data of a different type",
         "the script assigns p.grad of another dtype", "cast the gradient to p.dtype", "run"),
    _row("S14", "fp8-unsupported", ROOT,
         r"FP8 is not available on this machine|Using `fp8` precision requires|insufficient for FP8"
         r"|Device compute capability 8\.9 or higher required for FP8",
         "fp8 without TransformerEngine, MS-AMP or torchao, or on a GPU below 8.9", "use bf16", "source"),
    _row("S15", "tf32-unsupported", ROOT, r"--tf32 requires Ampere", "tf32 on a GPU below 8.0", "drop tf32", "run"),
    _row("S16", "flash-attn-unsupported", ROOT,
         r"FlashAttention(?:-?\d)? only supports? (?:Ampere|Hopper|fp16)|FlashAttention\w* has been toggled on"
         r"|FlashAttention only support fp16 and bf16|flash_attn.*undefined symbol|package flash_attn seems to be not installed",
         "FlashAttention 2 needs compute capability 8.0 and fp16 or bf16 inputs, and the package itself",
         "attn_implementation='sdpa'", "run"),
    _row("S08", "dtype-mismatch", ROOT,
         r"mat1 and mat2 (?:must|to) have the same dtype|expected m\w+ and m\w+ to have the same dtype"
         r"|expected scalar type \w+ but found|Input type \(.*\) and (?:bias|weight) type \(.*\) should be the same"
         r"|Index put requires the source and destination dtypes match|\"\w+_cpu\w*\" not implemented for '(?:Half|BFloat16)'"
         r"|Expected out tensor to have dtype|self and mat2 must have the same dtype|query and key must have the same dtype",
         "a half-precision model fed float32 (or the reverse) outside autocast",
         "run that code under accelerator.autocast(), or cast its inputs to the weights' dtype", "run"),
    _row("S17", "no-gradient", ROOT, r"element 0 of tensors does not require grad",
         "every parameter is frozen, or reentrant checkpointing runs over frozen inputs",
         "model.enable_input_require_grads() or gradient_checkpointing_kwargs={'use_reentrant': False}", "run"),
    # Memory
    _row("S20", "cuda-oom", ROOT,
         r"CUDA out of memory|\bOutOfMemoryError\b|CUDA error: out of memory|cuda runtime error \(2\) : out of memory"
         r"|CUDA_ERROR_OUT_OF_MEMORY|HIP out of memory",
         "the GPU's memory is full; look first whether others hold some of it (gpulaunch preflight HOST)",
         "smaller batch with more accumulation, gradient checkpointing; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
         " when reserved is much more than allocated", "known"),
    _row("S77", "host-oom-killed", ROOT,
         r"Out of memory: Kill(?:ed)? process|oom-kill:|oom_reaper|Memory cgroup out of memory|OOMKilled"
         r"|(?:slurmstepd|srun): error:.*(?:oom[-_ ]kill|out-of-memory)|Detected \d+ oom[-_]kill event",
         "the kernel killed a process because the host's or the job's memory limit was reached",
         "fewer DataLoader workers or ranks per host, low_cpu_mem_usage, a higher memory limit", "run"),
    _row("S21", "host-oom-killed", ROOT,
         r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)|Cannot allocate memory|^MemoryError\b"
         r"|numpy\.core\._exceptions\.(?:_Array)?MemoryError|std::bad_alloc",
         "the host's memory is full", "fewer workers or ranks, load in parts", "known"),
    # Placement
    _row("S30", "device-busy", ROOT,
         r"CUDA-capable device\(s\) is/are busy or unavailable|all CUDA-capable devices are busy or unavailable",
         "Exclusive Process compute mode and a second process on that GPU: a leftover, or ranks that all touch cuda:0",
         "gpulaunch preflight HOST names the holder; gpulaunch clean-zombies HOST; in the script take the device from"
         " LOCAL_RANK before any CUDA call", "thread"),
    _row("S31", "invalid-device-ordinal", ROOT, r"invalid device ordinal|Invalid device id|device >= 0 && device < num_gpus",
         "a rank asked for a GPU that it cannot see: more ranks than GPUs, CUDA_VISIBLE_DEVICES, or a fixed cuda:N",
         "as many ranks as visible GPUs; accelerator.device instead of a fixed index", "known"),
    _row("S53", "nccl-duplicate-gpu", ROOT, r"Duplicate GPU detected",
         "two ranks are on one GPU: a fixed device, CUDA_VISIBLE_DEVICES set in the script, or more ranks than GPUs",
         "take the device from LOCAL_RANK (accelerator.device); as many ranks as GPUs", "thread"),
    _row("S45", "device-map-auto", ROOT,
         r"can't train a model that has been loaded with .?device_map='auto'.? in any distributed mode"
         r"|can't train a model that has been loaded in 8-bit or 4-bit precision"
         r"|device_ids and output_device arguments only work with single-device",
         "device_map put the model on other GPUs than the rank's own",
         "drop device_map='auto', or device_map={'': PartialState().local_process_index}", "source"),
    _row("S43", "device-mismatch", ROOT, r"Expected all tensors to be on the same device",
         "tensors on different GPUs, or a batch left on the CPU", "accelerator.device, and prepare the DataLoader", "known"),
    _row("S42", "cuda-reinit-in-fork", ROOT,
         r"Cannot re-initialize CUDA in forked subprocess|CUDA has been initialized before the `?notebook_launcher"
         r"|launch multiprocess(?:ing)? training from your notebook, the `?Accelerator",
         "a process forked after CUDA was in use (a DataLoader worker, a pool)",
         "multiprocessing_context='spawn', and no CUDA work in the dataset", "thread"),
    # Driver, wheel, hardware
    _row("S32", "no-kernel-image", ROOT,
         r"no kernel image is available for execution|CUDA capability sm_\d+ is not compatible"
         r"|does not include kernels for this GPU|PyTorch no longer supports this GPU|CUDA error: invalid device function"
         r"|not compatible with the current PyTorch installation",
         "this torch wheel has no code for this GPU", "install the wheel built for it: CUDA 12.6 builds below compute"
         " capability 7.5, CUDA 12.8 or newer for Blackwell", "source"),
    _row("S34", "driver-mismatch", ROOT, r"Driver/library version mismatch|driver and library versions? (?:do not match|mismatch)",
         "the driver was upgraded, and the old kernel module is still loaded", "reboot the host, or reload the nvidia"
         " modules", "known"),
    _row("S35", "driver-mismatch", ROOT,
         r"NVIDIA driver on your system is too old|CUDA driver version is insufficient"
         r"|forward compatibility was attempted on non supported HW|unsupported display driver / cuda driver combination",
         "the driver is older than the wheel's CUDA", "install the wheel of an older CUDA, or a newer driver", "known"),
    _row("S36", "driver-mismatch", ROOT, r"Error 80[234]: |system not yet initialized|system has unsupported display driver",
         "802: the fabric manager does not run; 803: driver and CUDA libraries differ; 804: cuda-compat on a GPU that"
         " does not take it", "sudo systemctl start nvidia-fabricmanager; drop cuda-compat from LD_LIBRARY_PATH", "thread"),
    _row("S37", "driver-mismatch", ROOT,
         r"Found no NVIDIA driver|No CUDA GPUs are available|Torch not compiled with CUDA enabled"
         r"|CUDA is not available or torch_xla is imported|ProcessGroupNCCL is only supported with GPUs, no GPUs found"
         r"|NCCL backend (?:requires|not available)|requires CUDA\.|doesn't have NCCL built in|no CUDA-capable device is detected"
         r"|has failed because it couldn't communicate with the NVIDIA driver",
         "this process sees no GPU: no driver, a CPU wheel, an empty CUDA_VISIBLE_DEVICES, or a container without GPUs",
         "gpulaunch preflight HOST; install a CUDA wheel; start the container with --gpus all", "run"),
    _row("S40", "gpu-lost", ROOT,
         r"uncorrectable ECC error|fallen off the bus|NVRM: Xid|GPU is lost|hardware stack error"
         r"|an uncorrectable NVLink error|CUDA error: unspecified launch failure.*Xid",
         "the GPU or its link failed", "take that GPU out (gpus: in the run config) and have it reset or replaced; see"
         " gpulaunch preflight HOST", "known"),
    _row("S39", "device-side-assert", ROOT, r"device-side assert triggered|Assertion `.*` failed\.?$",
         "an index out of range on the GPU: labels beyond the classes, token ids beyond the vocabulary",
         "run on the CPU or with CUDA_LAUNCH_BLOCKING=1 to see where; resize the embeddings", "known"),
    _row("S38", "illegal-memory-access", ROOT,
         r"an illegal memory access was encountered|CUDA error: unspecified launch failure|misaligned address"
         r"|illegal instruction was encountered|CUDNN_STATUS_EXECUTION_FAILED",
         "a GPU kernel read or wrote out of bounds (its own bug, a bad index, or failing hardware)",
         "CUDA_LAUNCH_BLOCKING=1 names the kernel; then try another GPU", "known"),
    _row("S41", "driver-mismatch", ROOT,
         r"CUDA driver initialization failed|CUDA unknown error - this may be due to|CUDA error: initialization error"
         r"|cuInit\b.{0,80}fail",
         "CUDA cannot start on this host: /dev/nvidia* or modules are missing, or a process forked",
         "sudo nvidia-modprobe -u; restart the container", "known"),
    _row("S22", "cuda-library", GENERAL,
         r"CUBLAS_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED|EXECUTION_FAILED|INVALID_VALUE)|CUDNN_STATUS_\w*(?:NOT_INITIALIZED|INTERNAL_ERROR)",
         "the GPU is nearly full, or an earlier assert broke its context", "as for CUDA out of memory, then"
         " CUDA_LAUNCH_BLOCKING=1", "known"),
    # Rendezvous and ports
    _row("S50", "port-in-use", ROOT,
         r"EADDRINUSE|[Aa]ddress already in use|Port .\d+.? is already in use|Tried to launch distributed communication on port"
         r"|server socket has failed to (?:bind|listen)(?! .*errno: 97)",
         "the main port is taken, often by a leftover or another job",
         "gpulaunch preflight HOST names the holder; gpulaunch run takes a free port by itself", "run"),
    _row("S51", "rendezvous-timeout", ROOT,
         r"client socket has (?:timed out after|failed to connect)|connection to the C10d store has failed"
         r"|TCP client failed to connect/validate to host|connect\(\) timed out",
         "the main host cannot be reached on the main port: wrong address, firewall, or rank 0 is not up",
         "gpulaunch preflight HOSTS connects from every node to the main host and says which cannot", "run"),
    _row("S52", "rendezvous-timeout", ROOT,
         r"RendezvousTimeoutError|Timed out (?:after \d+ \w+ )?waiting for clients|store->get\('\w+'\).*timed out"
         r"|^RuntimeError: Socket Timeout|RendezvousConnectionError|wait timeout after \d+ms, keys:"
         r"|Timed out initializing process group in store based barrier",
         "a node never joined: its launch failed, or the number of nodes is wrong",
         "read the log of the node that is missing; gpulaunch stops all nodes when one fails", "run"),
    # NCCL
    _row("S58", "nccl-version", ROOT,
         r"receiving \d+ bytes instead of \d+|Mismatched NCCL version|undefined symbol: nccl\w+|NCCL version mismatch"
         r"|Message truncated : received \d+ bytes instead of \d+",
         "different NCCL versions meet: between hosts, or two wheels in one environment",
         "the same torch on all hosts; pip list | grep nccl must show one", "thread"),
    _row("S63", "nccl-p2p-unsupported", ROOT, r"RTX 4000 series doesn't support faster",
         "these GPUs have no peer-to-peer over PCIe with this driver", "NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1", "source"),
    _row("S60", "shm", ROOT,
         r"Error while creating shared memory segment|posix_fallocate failed|insufficient shared memory \(shm\)"
         r"|(?:are|is|was|run) out of shared memory|killed by signal: Bus error|unable to write to file </torch_"
         r"|No space left on device.*/dev/shm|/dev/shm.*No space left on device|unable to mmap \d+ bytes from file </torch_",
         "/dev/shm is full (Docker gives 64 MB)", "docker run --ipc=host or --shm-size=16g; fewer workers", "run"),
    _row("S66", "nccl-system-error", ROOT,
         r"NCCL WARN Bootstrap ?: no socket interface found|has already checked in|NCCL WARN.*No route to host"
         r"|NCCL WARN Call to (?:bind|connect|socket) failed",
         "NCCL has no usable network interface, or its ports are closed",
         "NCCL_SOCKET_IFNAME=IF GLOO_SOCKET_IFNAME=IF with the interface of the main address; open the ephemeral ports"
         " between the hosts", "thread"),
    _row("S67", "nccl-network", ROOT,
         r"NET/IB ?: Got (?:async event|completion).*error|Connect to \S+ failed : Software caused connection abort"
         r"|ibv_\w+ failed|NET/IB.*(?:timeout|error 12)|169\.254\.\d+\.\d+<\d+>",
         "the network that NCCL chose does not carry its traffic", "NCCL_SOCKET_IFNAME=IF, NCCL_IB_HCA or"
         " NCCL_IB_DISABLE=1; check link state with gpulaunch preflight", "thread"),
    _row("S61", "ddp-unused-parameters", ROOT,
         r"Expected to have finished reduction in the prior iteration|Parameter indices which did not receive grad for rank"
         r"|parameters that were not used in producing (?:the )?loss",
         "some parameters take no part in the loss under DDP", "find_unused_parameters=True (ddp_find_unused_parameters in"
         " Trainer), or freeze what is not used", "source"),
    _row("S62", "collective-mismatch", ROOT,
         r"[Dd]etected mismatch between collectives|[Mm]ismatch(?:ed)? (?:between )?collective|op\.preamble\.length <= op\.nbytes"
         r"|Monitored barrier encountered error|Ranks? .* failed to pass monitoredBarrier",
         "the ranks took different code paths, or their tensors differ in size",
         "the same data length, configuration and precision on all ranks; TORCH_DISTRIBUTED_DEBUG=DETAIL names the call", "source"),
    _row("S56", "nccl-cuda-error", GENERAL, r"unhandled cuda error|ncclUnhandledCudaError|NCCL WARN Cuda failure",
         "CUDA failed inside NCCL: memory, a busy GPU or the driver", "NCCL_DEBUG=WARN and read the inner text", "known"),
    _row("S55", "nccl-system-error", GENERAL, r"unhandled system error|ncclSystemError|ncclInternalError|NCCL error in:.*internal error",
         "a socket, shared memory or network interface failed NCCL",
         "NCCL_DEBUG=WARN; NCCL_SOCKET_IFNAME; /dev/shm", "thread"),
    _row("S54", "nccl-timeout-watchdog", GENERAL,
         r"Watchdog caught collective operation timeout|watchdog got stuck for \d+ seconds|Heartbeat monitor timed out"
         r"|Some NCCL operations have failed or timed out|Timed out waiting \d+ms for (?:recv|send) operation"
         r"|Observed flight recorder dump signal",
         "a rank hung, died, skipped a collective or is slow; the others waited for it",
         "look at the rank that did not report; raise the time-out only when the work is really that long", "thread"),
    # Host limits and files
    _row("S75", "too-many-open-files", ROOT, r"Too many open files|received 0 items of ancdata|\bEMFILE\b",
         "the limit of open files is reached", "ulimit -n 65536 before the launch;"
         " torch.multiprocessing.set_sharing_strategy('file_system')", "run"),
    _row("S76", "disk-full", ROOT,
         r"No space left on device|Disk quota exceeded|PytorchStreamWriter failed writing|basic_ios::clear: iostream error"
         r"|unexpected pos \d+ vs \d+|\[Errno 122\]|os error 28",
         "the disk (or the quota) is full where the run writes", "free space, or move the output, HF_HOME and TMPDIR", "run"),
    _row("S74", "shm", ENDING, r"exitcode\s*:\s*-7\b|Signal 7 \(SIGBUS\)|\bSIGBUS\b|^Bus error",
         "a bus error, nearly always a full /dev/shm", "docker run --ipc=host or --shm-size=16g", "source"),
    # Checkpoints, hub, modules
    _row("S85", "bad-checkpoint", ROOT,
         r"Error while deserializing header|PytorchStreamReader failed|invalid load key|\bMetadataIncompleteBuffer\b|HeaderTooLarge"
         r"|UnpicklingError|failed finding central directory|unexpected EOF, expected \d+ more bytes|not a ZIP archive"
         r"|file_size \d+ .*corrupt|Ran out of input|is not a valid JSON file|git-lfs\.github\.com/spec",
         "the checkpoint is cut off, a Git LFS pointer, or another format", "git lfs pull, or copy it again and compare"
         " sha256; take an earlier checkpoint", "run"),
    _row("S84", "bad-checkpoint", ROOT, r"no file named (?:model\.safetensors|pytorch_model\.bin)",
         "the model directory holds no weights", "copy or download it again", "run"),
    _row("S86", "bad-checkpoint", ROOT,
         r"Couldn't instantiate the backend tokenizer|did not match any variant of untagged enum"
         r"|expected value at line 1 column 1|data did not match any variant",
         "tokenizer.json is broken, a Git LFS pointer, or written by a newer tokenizers",
         "copy it again; the same tokenizers version on all hosts", "run"),
    _row("S88", "bad-checkpoint", ROOT, r"size mismatch for [\w.]+: copying a param with shape|Missing key\(s\) in state_dict|Unexpected key\(s\) in state_dict",
         "the checkpoint belongs to another model", "load it into the model that it was saved from", "known"),
    _row("S80", "hf-hub-auth", ROOT,
         r"trying to access a gated repo|GatedRepoError|is a gated repository|Access to model .* is restricted",
         "the repository is gated: its licence is not accepted, or this host has no token",
         "accept the licence on the Hub; hf auth login on every host", "run"),
    _row("S81", "hf-hub-auth", ROOT,
         r"(?:401|403) Client Error|Invalid credentials in Authorization header|Repository Not Found|RepositoryNotFoundError"
         r"|Invalid user token|429 Client Error|Too Many Requests for url",
         "the Hub refused this host: no or a bad token, a private or renamed repository, or too many requests",
         "hf auth login on every host; download once and run offline", "known"),
    _row("S82", "hf-hub-auth", ROOT,
         r"couldn't connect to 'https://huggingface\.co'|LocalEntryNotFoundError|OfflineModeIsEnabled"
         r"|outgoing traffic has been disabled|Cannot reach https?://huggingface|MaxRetryError.*huggingface\.co",
         "the Hub cannot be reached (or offline mode is on) and the file is not in this host's cache",
         "download it on that host first: hf download REPO", "run"),
    _row("S83", "missing-file", ROOT, r"Repo id must be in the form|not a valid model identifier|is not a local folder",
         "a local model path that does not exist on this host", "copy the model there, or give an absolute path", "run"),
    _row("S87", "unknown-architecture", ROOT, r"does not recognize this architecture|Unrecognized model in|Unrecognized configuration class",
         "transformers is too old for this model, or the directory is not a model", "pip install -U transformers", "run"),
    _row("S68", "inductor-compile", ROOT,
         r"InvalidCxxCompiler|No working C\+\+ compiler found|BackendCompilerFailed|torch\._inductor\.exc\.\w+|InductorError"
         r"|triton\.(?:compiler|runtime)\.\w*[Ee]rror\w*|PassManager::run failed|ptxas.*fatal|Cannot find a working triton",
         "torch.compile could not build a kernel: no C++ compiler, no libcuda to link, or a Triton bug",
         "apt install g++ on that host; else run without torch.compile (TORCHDYNAMO_DISABLE=1) to train now", "run"),
    _row("S90", "deprecated-tokenizer-arg", ROOT,
         r"got an unexpected keyword argument '(?:tokenizer|evaluation_strategy|no_cuda|use_mps_device|fp16_backend"
         r"|half_precision_backend|group_by_length|load_in_[48]bit|dtype|max_seq_length|processing_class|eval_strategy"
         r"|dataset_text_field|packing|overwrite_output_dir|logging_dir)'",
         "the installed transformers or trl no longer (or not yet) takes this keyword",
         "tokenizer -> processing_class, evaluation_strategy -> eval_strategy, max_seq_length -> max_length, no_cuda ->"
         " use_cpu, load_in_8bit -> quantization_config, dtype -> torch_dtype below 4.56", "run"),
    _row("S91", "missing-module", ROOT, r"requires bitsandbytes|CUDA Setup failed despite|bitsandbytes.*(?:not|isn't) installed",
         "bitsandbytes is missing or built for another CUDA", "pip install -U bitsandbytes", "run"),
    _row("S89", "missing-module", ROOT,
         r"ModuleNotFoundError: No module named|PackageNotFoundError|is not available => install it using"
         r"|ImportError: .*(?:requires? the|is not installed|but was not found|requires? `)"
         r"|RuntimeError: \w+Callback requires \w+|requires \w+ to be installed|is not installed\. ?(?:Please|Run|Try)"
         r"|ImportError: cannot import name",
         "a package is missing in the environment of this host, or of another version",
         "install it in the interpreter that hosts.yaml names (python:), the same on all hosts", "run"),
    _row("S64", "ssh-access", ROOT, r"Permission denied \((?:publickey|password)|Host key verification failed|Could not resolve hostname",
         "SSH or the name lookup failed", "mend access first: ssh HOST true", "known"),
    _row("S92", "missing-file", GENERAL, r"FileNotFoundError|(?:can't open file|cannot access|error:).*No such file or directory",
         "a path does not exist on this host, or the working directory is another one", "copy it there; use absolute"
         " paths or workdir:", "known"),
    # Only how it ended
    _row("S72", "sighup", ENDING,
         r"Received 1 death signal|got signal: 1\b|Received Signals\.SIGHUP death signal|exitcode\s*:\s*-1\b|Signal 1 \(SIGHUP\)|closing signal SIGHUP",
         "the terminal or SSH session that held the launcher was closed", "start it with gpulaunch run, tmux or nohup", "run"),
    _row("S71", "segfault", ENDING, r"exitcode\s*:\s*-11\b|\bSIGSEGV\b|Segmentation fault|return code = -11\b|exit code 139\b",
         "native code crashed: an extension built for another version, the driver, numpy",
         "python -X faulthandler shows where; reinstall that extension", "run"),
    _row("S69", "sigabrt", ENDING,
         r"exitcode\s*:\s*-6\b|\bSIGABRT\b|return code = -6\b|exit code 134\b|^Aborted\b|free\(\): invalid|double free or corruption"
         r"|malloc\(\): |corrupted size vs\. prev_size|terminate called",
         "native code aborted: memory corruption, a C++ exception, or the NCCL watchdog",
         "the lines before it say why; a broken extension otherwise", "run"),
    _row("S70", "host-oom-killed", ENDING,
         r"exitcode\s*:\s*-9\b|Signal 9 \(SIGKILL\)|died with <Signals\.SIGKILL|return code = -9\b|exit code 137\b|\bKilled\s*(?:$|/|python)"
         r"|(?:worker|pid \d+).*killed by signal: Killed",
         "a process was killed with SIGKILL: the kernel's OOM killer is the usual one, a scheduler or a person may be it",
         "sudo dmesg -T | grep -i -E 'killed process|oom'; then less host memory: workers, ranks, loading", "run"),
    _row("S78", "terminated", ENDING,
         r"DUE TO TIME LIMIT|CANCELLED AT .* DUE TO|Received 15 death signal|got signal: 15\b|Received 2 death signal|got signal: 2\b|^KeyboardInterrupt",
         "the run was stopped from outside: a time limit, a scheduler, or a person", "resume from the last checkpoint", "known"),
    # Victims
    _row("S73", "terminated", VICTIM, r"exitcode\s*:\s*-15\b|Signal 15 \(SIGTERM\)|closing signal SIGTERM",
         "the launcher stopped this rank because another one failed", "look at the rank that failed first", "run"),
    _row("S57", "nccl-network", VICTIM,
         r"ncclRemoteError|Connection closed by (?:remote )?peer|Connection reset by peer|NCCL communicator was aborted"
         r"|recvValue failed|sendBytes failed|Broken pipe|socketProgress: Connection closed",
         "the other side was gone", "look at the other ranks and hosts", "source"),
    _row("S59", "nccl-network", VICTIM, r"Connection refused|No route to host|Network is unreachable",
         "nobody listens there, or a firewall is in between", "gpulaunch preflight HOSTS", "known", telling=False),
    _row("S99", "rank-failed", VICTIM, r"ChildFailedError|returned non-zero exit status|exitcode\s*:\s*[1-9]\d*\b|return code = [1-9]",
         "a rank failed; this line does not say why", "read the first traceback of that rank's own log", "run"),
)  # fmt: skip


def _notice(code: str, pattern: str, verdict: str, *, safe: bool) -> Notice:
    return Notice(code, re.compile(pattern), safe, verdict)


NOTICES: tuple[Notice, ...] = (
    _notice("W01", r"use_cache=True. is incompatible|Caching is incompatible with gradient checkpointing",
            "harmless: the cache is switched off for training", safe=True),
    _notice("W02", r"None of the inputs have requires_grad=True",
            "not harmless: reentrant checkpointing over frozen inputs, nothing inside it is trained; use_reentrant=False",
            safe=False),
    _notice("W03", r"not running the flash-attention implementation", "harmless: speed only", safe=True),
    _notice("W04", r"Mismatch dtype between input and weight",
            "the numbers are right (an unfused kernel is used), but dtypes are mixed: see gpulaunch lint", safe=True),
    _notice("W05", r"Setting OMP_NUM_THREADS environment variable", "harmless: speed only", safe=True),
    _notice("W06", r"values were not passed to .accelerate launch",
            "the precision may come from the host's default_config.yaml; gpulaunch run passes everything", safe=True),
    _notice("W07", r"`torch_dtype` is deprecated", "harmless from transformers 4.56 on", safe=True),
    _notice("W08", r"`tokenizer` is deprecated", "an error from transformers 5.0 on: processing_class=", safe=True),
    _notice("W09", r"torch\.cuda\.amp\.\w+\(args\.\.\.\)` is deprecated", "harmless", safe=True),
    _notice("W10", r"GradScaler is enabled, but CUDA is not available",
            "not harmless on a GPU job: this rank sees no GPU", safe=False),
    _notice("W11", r"libnccl-net\.so", "harmless: no network plugin, NCCL uses its own", safe=True),
    _notice("W12", r"errno: 97 - Address family not supported", "harmless: no IPv6 here", safe=True),
    _notice("W13", r"destroy_process_group\(\) was not called", "harmless at the end of a run", safe=True),
    _notice("W14", r"find_unused_parameters=True was specified", "harmless: speed only", safe=True),
    _notice("W15", r"Detected kernel version .* below the recommended minimum", "may hang: kernel before 5.5", safe=False),
    _notice("W16", r"lr_scheduler\.step\(\). before .optimizer\.step\(\)",
            "harmless once under fp16 (the first step is skipped)", safe=True),
    _notice("W17", r"newly initialized", "harmless for a new head only: these weights are random", safe=True),
    _notice("W18", r"using GPU \d+ (?:to perform barrier|as device used by this process)",
            "not harmless: which rank has which GPU is unknown; set the device first", safe=False),
    _notice("W19", r"device_map=`auto` while triggering a distributed run",
            "not harmless: every rank spreads its model over all GPUs", safe=False),
    _notice("W20", r"current process just got forked, after parallelism has already been used",
            "harmless: TOKENIZERS_PARALLELISM=false silences it", safe=True),
)  # fmt: skip
