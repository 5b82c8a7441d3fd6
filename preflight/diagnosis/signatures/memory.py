"""GPU memory, host memory, shared memory."""

from preflight.diagnosis.signatures.cuda_statuses import match_cuda
from preflight.diagnosis.signatures.model import ENDING, GENERAL, ROOT, Advice, Signature, match_signal

ROWS: tuple[Signature, ...] = (
    Signature("S60", "shm", ROOT,
              r"Error while creating shared memory segment|posix_fallocate failed|insufficient shared memory \(shm\)"
              r"|(?:are|is|was|run) out of shared memory|killed by signal: Bus error|unable to (?:write to|resize) file </torch_"
              r"|No space left on device.{0,200}/dev/shm|/dev/shm.{0,200}(?:No space left on device|Cannot allocate memory)"
              r"|unable to (?:mmap|allocate|resize).{0,20}shared memory(?!.*Too many open)|unable to open shared memory object \S{1,80} in read-write mode: (?!Too many open)|unable to mmap \d+ bytes from file </torch_(?!.*Too many open)"
              r"|Couldn't (?:allocate|open) shared (?:memory|file)(?!.*<1455>)|[Ee]rror: failed to extend /dev/shm"
              r"|Call to (?:posix_fallocate|ftruncate|shm_open).{0,40}failed|shm_open\(.{0,80}\).{0,40}(?:failed|No space)"
              r"|Unexpected bus error encountered in worker|Error while attaching to shared memory segment"
              r"|unable to open shared memory object </torch_.{0,80}(?:No space|Cannot allocate)|[Ss]hared memory (?:is )?(?:full|exhausted)"
              r"|object store.{0,60}/dev/shm.{0,60}(?:too small|not enough|only)|multiprocessing.{0,80}OSError: \[Errno 28\]",
              "/dev/shm is full (Docker gives 64 MB)", "docker run --ipc=host or --shm-size=16g (a pod: an emptyDir of medium Memory at /dev/shm); without a container sudo mount -o remount,size=90% /dev/shm; fewer workers need less", "run"),
    Signature("S129", "cuda-oom", ROOT, r"\d [KMGT]iB allowed; ",
              "the process reached the share of the GPU's memory that it may take (torch.cuda.set_per_process_memory_fraction), or the GPU is full",
              "raise that share, or take it out; else as for any lack of GPU memory: a smaller batch, gradient checkpointing", "run"),
    Signature("S20", "cuda-oom", ROOT,
              r"CUDA:? out of memory|\bOut of (?:GPU memory\b|memory error on GPU \d)|OOM when allocating tensor|CudaError: out of memory|NVML_SUCCESS == r INTERNAL ASSERT FAILED|HIP out of memory|MPS backend out of memory|XPU out of memory|NPU out of memory|^EL0004: Failed to allocate memory|\[driver error:out of memory\]|(?:cuda|torch)\S*OutOfMemoryError\b"
              r"|^OutOfMemoryError\b(?!: out of resource|: Container killed\b)|[Nn]o (?:executable )?batch[ _]size (?:found|fits)\b|CUDA [Ee]rror: out of memory"
              r"|" + match_cuda("MemoryAllocation") + r"|CUDA driver error: out of memory|Tried to allocate [\d.]+ [KMGT]iB"
              r"|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|CUSOLVER_STATUS_ALLOC_FAILED|cuDNN error: CUDNN_STATUS_ALLOC"
              r"|Failed to CUDA calloc|Cuda failure (?:\d+ )?'?out of memory|NCCL WARN.{0,80}out of memory|ncclUnhandledCudaError.{0,120}out of memory"
              r"|Triton Error \[CUDA\]: out of memory|cudaMalloc\w* failed:? out of memory|CUDA failure 2: out of memory"
              r"|No available memory for the cache blocks|\b(?:can be stored in (?:the )?KV cache|larger than the available KV cache memory)\b|^RuntimeError: Not enough memory\. Please try to increase --mem-fraction|Free memory on device .{0,80}less than desired|modules are dispatched on the CPU or the disk|not enough GPU memory|GPU memory (?:is )?exhausted|RESOURCE_EXHAUSTED: (?:.{0,40}Out of memory|Failed to allocate)|Ran out of memory in memory space (?:hbm|HBM)\b|CUDA_OUT_OF_MEMORY"
              r"|[Cc]uda\w* [Ee]rror:? (?:2 )?\(?out of memory|UR_RESULT_ERROR_OUT_OF_(?:DEVICE_MEMORY|RESOURCES)|[Oo]ut of memory at line \d+ in file .{0,200}\.(?:cu|cpp)",
              "the GPU's memory is full; look first whether others hold some of it (gpulaunch preflight HOST)",
              "smaller batch with more accumulation, gradient checkpointing; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
              " when reserved is much more than allocated", "known"),
    Signature("S77", "host-oom-killed", ROOT,
              r"Out of memory: Kill(?:ed)? process|oom-kill:(?:constraint)?|oom_reaper: reaped|invoked oom-killer"
              r"|Memory cgroup out of memory|OOMKilled|(?:slurmstepd|srun): error:.{0,200}(?:oom[-_ ]kill|[Oo]ut[-_ ][Oo]f[-_ ][Mm]emory)"
              r"|[Dd]etected \d+ oom[-_]kill event|Some of (?:your processes|the step tasks) (?:may )?have been (?:killed by the"
              r" cgroup out-of-memory handler|OOM Killed)|slurmstepd: error: .{0,60}[Ee]xceeded (?:job|step) memory limit"
              r"|State[:=] ?OUT_OF_MEMORY|OUT_OF_ME[M+]|Exceeded (?:job|step) memory limit at some point|killed by the cgroup out-of-memory"
              r"|killed because it exceeded (?:the|its) memory limit|Container killed due to memory usage|\b[Rr]eplica \S+ ran out-of-memory\b|TERM_(?:MEMLIMIT|SWAP)\b|job killed: p?v?mem \d+\w* exceeded limit|job killed after exceeding memory usage limit|oom_kill_process|Killed process \d+ \(.{1,40}\).{0,20} total-vm"
              r"|task was killed due to the node running low on memory|Task was killed due to the node running low on memory"
              r"|Workers? \(tasks / actors\) killed due to memory pressure|ray\.exceptions\.OutOfMemoryError|\bRayOutOfMemoryError: |Container killed on request\."
              r" Exit code is 137|exceeded its memory (?:limit|request)|The node was low on resource: memory|reason: OOM(?:Killed|Killing)"
              r"|exceeded memory limit|put on hold by \S{1,60} due to memory\b|(?:Your )?session crashed after using all available RAM|(?:Your )?notebook tried to allocate more memory than is available|exceeds the memory usage threshold of |\bfailed due to oom\b|has gone over memory limit|exceeded MEM usage hard limit|systemd-oomd\[?.{0,40}[Kk]illed|[Kk]illed \S{1,200} due to memory (?:pressure|used)|[Ss]ending SIG(?:TERM|KILL) to process \d.{0,80}\b(?:oom_score|badness)\b|[Ss]ending SIGKILL to .{0,120}\bOOM",
              "a process was killed because the memory limit of the host or of the job was reached",
              "fewer DataLoader workers or ranks per host, weights loaded by rank 0 alone (fsdp_cpu_ram_efficient_loading, zero.Init), or a higher limit", "run"),
    Signature("S21", "host-oom-killed", ROOT,
              r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)|\b(?:fork|vfork|clone|mmap|malloc|brk)\b.{0,80}Cannot allocate memory|^MemoryError(?::|$)"
              r"|numpy\.?\w*\._exceptions\.(?:_Array)?MemoryError|_ArrayMemoryError|std::bad_alloc|\[Errno 12\]"
              r"|malloc of size \d+ failed|fatal error: runtime: out of memory|ArrowMemoryError|Unable to allocate [\d.]+ [KMGT]iB for an array"
              r"|memory allocation of \d+ bytes failed|OpenBLAS error: Memory allocation still failed|\[WinError (?:8|14|1455)\]|paging file is too small|, error code: <1455>",
              "the host gave a process no memory: its memory is full, a limit is reached (`ulimit -v`, a job's, -Xmx or spark.driver.memory of a JVM), or one request was too large",
              "`free -g` and `ulimit -v` on the host; fewer workers or ranks, load in parts", "known"),
    # `exception_origins` makes it of S20 where page-locked memory was wanted.
    Signature("S127", "host-oom-killed", ROOT, r"cudaHost(?:Alloc|Register).{0,40}out of memory|[Ff]ailed to (?:allocate|pin|register) (?:\S+ ){0,4}(?:pinned|page-locked) (?:host )?memory",
              "the host has no page-locked memory to give (pin_memory): its memory, or the job's share of it, is full; it is not the GPU's",
              "pin_memory=False, fewer DataLoader workers, or less kept pinned (offload_optimizer pin_memory: false in DeepSpeed); free -g on the host", "run"),
    Signature("S22", "cuda-library", GENERAL,
              r"CUBLAS_STATUS_(?:NOT_INITIALIZED|EXECUTION_FAILED|INVALID_VALUE|INTERNAL_ERROR|ARCH_MISMATCH|NOT_SUPPORTED)"
              r"|CUDNN_STATUS_\w{0,40}(?:NOT_INITIALIZED|INTERNAL_ERROR|NOT_SUPPORTED|BAD_PARAM|MAPPING_ERROR|SUBLIBRARY_\w+|VERSION_MISMATCH)"
              r"|cuDNN version incompatibility|[Uu]nable to find an engine to execute this computation|CUFFT_INTERNAL_ERROR|CUSPARSE_STATUS_\w+"
              r"|(?:[Cc]ould not|[Ff]ailed to) (?:create|load) (?:cudnn|cublas|library libcudnn)|CUSOLVER_STATUS_\w+|Unable to load any of \{libcudnn",
              "the GPU is nearly full, an earlier assert broke its context, or cuBLAS or cuDNN of another version is loaded",
              "a smaller batch first; then CUDA_LAUNCH_BLOCKING=1 shows an earlier failure; then unset LD_LIBRARY_PATH, and a torch that is newer than the GPU", "known"),
    Signature("S74", "shm", ENDING,
              r"\bSIGBUS\b|^(?:\S+: line \d+: +\d+ )?Bus error\b|Fatal Python error: Bus error|Bus error +\(core dumped\)|zsh: bus error\b|" + match_signal(7, "SIGBUS"),
              "a bus error, nearly always a full /dev/shm", "where df shows it full: docker run --ipc=host or --shm-size=16g, fewer workers; else a mapped file (safetensors, Arrow) was cut or replaced while it was read: copy it again", "source"),
)  # fmt: skip

ADVICE: tuple[Advice, ...] = (
    Advice("S60", r"unable to open shared memory object .{1,200}No such file", "what one process had put into /dev/shm for another was gone: that process had ended, or cleaned up (the strategy file_system names files)", "torch.multiprocessing.set_sharing_strategy('file_descriptor') and a high ulimit -n; else pin_memory=False or persistent_workers=False. A worker that was killed has its own message above", "df -h /dev/shm; ulimit -n"),
    Advice("S60", r"object store", "", "give the container more (docker run --shm-size=...), or Ray less: ray start --object-store-memory BYTES"),
    Advice("S60 S74", "", command="df -h /dev/shm"),
    Advice("S20", r"Free memory on device", "others hold memory of that GPU, or gpu_memory_utilization wants more than is free", "end what holds it (gpulaunch preflight HOST names it, gpulaunch clean-zombies HOST ends what an earlier run left), or a smaller gpu_memory_utilization", "nvidia-smi"),
    Advice("S20", r"dispatched on the CPU or the disk", "the quantised model does not fit into what is free of the GPU's memory", "free the GPU (gpulaunch clean-zombies HOST ends what an earlier run left), fewer bits (load_in_4bit), or a smaller model; weights on the CPU make it many times slower", "nvidia-smi"),
    Advice("S20", r"warming up sampler|\bmax_num_seqs\b", "vLLM lacks the room that it needs beside weights and cache", "a smaller max_num_seqs, or a smaller gpu_memory_utilization where that leaves the cache enough"),
    Advice("S20", r"cumem_allocator|\bwake_up\b", "vLLM wakes up while something else holds the memory that it gave back when it slept",
           "move the trainer's weights and optimizer to the CPU and call torch.cuda.empty_cache() before wake_up(), or a smaller gpu_memory_utilization", "nvidia-smi"),
    Advice("S20", r"\bTPU\b|memory space hbm|_HBM\d", "the accelerator's memory (HBM) is full", "a smaller batch on each chip, or more chips in the mesh over which weights are sharded"),
    Advice("S20", r"MPS backend", "", "a smaller batch or model, and end what else uses the Mac's memory, which the GPU shares; PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 may freeze the system"),
    Advice("S20", r"[Nn]o (?:executable )?batch[ _]size", "not even a batch of one sample fits", "see who else holds the GPU (gpulaunch preflight HOST); then bfloat16 weights, adapters (LoRA), or shards (FSDP, ZeRO)"),
    Advice("S20", r"\bResourceExhaustedError\b|tensorflow[./]", command="export TF_GPU_ALLOCATOR=cuda_malloc_async helps where memory is in pieces"),
    Advice("S20", r"memory error on GPU \d", "", "end what else is on that GPU (nvidia-smi shows it), a smaller batch, recompute in Paddle's strategy; FLAGS_gpu_memory_limit_mb, where it is set, is a limit of its own"),
    Advice("S20", r"stream executor", command="nvidia-smi shows who holds that GPU: it had no room to start CUDA"),
    Advice("S20", r"\bjaxlib\b|XlaRuntimeError|JaxRuntimeError", "", "a smaller batch, or weights and optimizer sharded over more GPUs; XLA_PYTHON_CLIENT_MEM_FRACTION=.95 where nothing else is on the GPU"),
    Advice("S20", r"\bRESOURCE_EXHAUSTED\b|\bjaxlib\b", command="jax.checkpoint on the layers keeps less for the backward; donate_argnums of jit frees the state that a step replaces"),
    Advice("S20", r"cache blocks|KV cache", "what vLLM may take of the GPU leaves no room for its cache beside the weights", "see what else is on that GPU (gpulaunch preflight HOST): a trainer in the same process, another server; then what vLLM may take, and what it is to hold"),
    Advice("S20", r"cache blocks|KV cache", command="a larger gpu_memory_utilization (vLLM's share of the whole GPU, its weights included), a smaller max_model_len, or more GPUs (tensor_parallel_size)"),
    Advice("S20", r"--mem-fraction", command="a larger --mem-fraction-static (SGLang's share of the GPU for weights and cache), or more GPUs (--tp)"),
    Advice("S20", r"\bOut of GPU memory\b", command="CUDA.memory_status() shows what is held; CUDA.reclaim() behind GC.gc() gives it back"),
    Advice("S77", r"slurmstepd|srun|StepId|OUT_OF_ME", "", "#SBATCH --mem=0 gives the job all of a host's memory (--mem-per-cpu counts by core); fewer DataLoader workers or ranks per host need less", "sacct -j JOB -o JobID,MaxRSS,ReqMem"),
    Advice("S77", r"YARN|spark", "", "a larger spark.executor.memoryOverhead, which holds Python's memory, or fewer cores per executor"),
    Advice("S77", r"\b[Rr]ay\b|raylet|tasks / actors|node running low on memory", "", "fewer tasks at a time on a host: @ray.remote(memory=BYTES), or more num_cpus for each; RAY_memory_usage_threshold only moves the limit"),
    Advice("S77", r"OOMKilled|kubelet|kubectl|\bpods?\b", "", "raise resources.limits.memory of the pod (docker run --memory); files in /dev/shm count, too; fewer DataLoader workers need less"),
    Advice("S21", r"java\.lang\.OutOfMemoryError", "a JVM reached the limit of its heap", "raise it: spark.driver.memory or spark.executor.memory, elsewhere -Xmx (JAVA_TOOL_OPTIONS=-Xmx16g)"),
    Advice("S21", r"WinError 1455|error code: <1455>|paging file", command="let Windows manage the size of the paging file, on a disk with room; DataLoader(num_workers=0)"),
    Advice("S22", r"[Gg]eneral_gemm|cublaslt?_gemm|cuBLAS GEMM|check_cublas_", "cuBLAS has no kernel for that product of TransformerEngine: of these sizes and types (fp8 wants multiples of 16), or for this GPU in the cuBLAS that is loaded",
           "multiples of 16 in every size (batch x sequence, too), or that layer without fp8; a newer torch and TransformerEngine for a newer GPU", "python -m pip list | grep -i cublas"),
    Advice("S22", r"fused_attn|transformer_engine", "cuDNN has no kernel for this attention of TransformerEngine (its sizes, mask, dtype and layout), or is older than TransformerEngine wants", "another attention: flash-attn, or that of PyTorch; a newer cuDNN takes more", "export NVTE_FUSED_ATTN=0"),
    Advice("S22", r"cudnn_frontend|cuDNN Frontend", "cuDNN has no kernel for this operation (its sizes, dtype and mask) on this GPU, or another cuDNN is loaded than the one that it was built with", "another back end for that operation, or a newer cuDNN; print(torch.backends.cudnn.version()) shows which is loaded", "torch.backends.cuda.enable_cudnn_sdp(False) where attention asked for it; a newer cuDNN (nvidia-cudnn-cuNN) knows newer GPUs"),
    Advice("S22", r"miopen|MIOpen|\bHIP(?:BLAS|FFT|SPARSE|SOLVER)_|rocblas", "a library of ROCm failed: it could not use its cache of kernels, memory ran out, or it lacks the kernel for this GPU",
           "MIOPEN_USER_DB_PATH and MIOPEN_CUSTOM_CACHE_DIR on a local disk that this user may write, for each rank; then a smaller batch", "export AMD_SERIALIZE_KERNEL=3"),
    Advice("S22", r"version incompatibility|VERSION_MISMATCH|SUBLIBRARY|Unable to load any of|(?:load|find) (?:cudnn|library libcudnn)", "another cuDNN is loaded than the one that torch brings, or a part of it is missing",
           "let LD_LIBRARY_PATH name no CUDA libraries; else install torch again with what it requires (nvidia-cudnn)", "unset LD_LIBRARY_PATH"),
    Advice("S22", r"CUSOLVER", "", "look for NaN and unscaled rows in the matrix of that line, use float64, or torch.backends.cuda.preferred_linalg_library('magma')"),
    Advice("S22", r"Blas \w* ?(?:GEMM)?.{0,10}launch failed|cuDNN failed to initialize", "", "nvidia-smi shows who else holds that GPU; let TensorFlow take memory as it needs it", "export TF_FORCE_GPU_ALLOW_GROWTH=true"),
    Advice("S22", r"\b[Xx][Ll][Aa]\b|/xla/|jax", command="export XLA_PYTHON_CLIENT_PREALLOCATE=false (JAX takes 75 % of a GPU at its start); nvidia-smi shows what else is on it"),
)  # fmt: skip
