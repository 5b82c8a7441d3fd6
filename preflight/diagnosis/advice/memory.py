"""Memory of GPUs and hosts: advice by the words of a log."""

from preflight.diagnosis.advice.model import Advice

ROWS: tuple[Advice, ...] = (
    Advice("S60", r"object store", "", "give the container more (docker run --shm-size=...), or Ray less: ray start --object-store-memory BYTES"),
    Advice("S60 S74", "", command="df -h /dev/shm"),
    Advice("S20", r"Free memory on device", "others hold memory of that GPU, or gpu_memory_utilization wants more than is free", "end what holds it (gpulaunch preflight HOST names it, gpulaunch clean-zombies HOST ends what an earlier run left), or a smaller gpu_memory_utilization", "nvidia-smi"),
    Advice("S20", r"dispatched on the CPU or the disk", "the quantised model does not fit into what is free of the GPU's memory", "free the GPU (gpulaunch clean-zombies HOST ends what an earlier run left), fewer bits (load_in_4bit), or a smaller model; weights on the CPU make it many times slower", "nvidia-smi"),
    Advice("S20", r"MPS backend", "", "a smaller batch or model, and end what else uses the Mac's memory, which the GPU shares; PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 may freeze the system"),
    Advice("S20", r"[Nn]o (?:executable )?batch[ _]size", "not even a batch of one sample fits", "see who else holds the GPU (gpulaunch preflight HOST); then bfloat16 weights, adapters (LoRA), or shards (FSDP, ZeRO)"),
    Advice("S20", r"\bResourceExhaustedError\b|tensorflow[./]", command="export TF_GPU_ALLOCATOR=cuda_malloc_async helps where memory is in pieces"),
    Advice("S20", r"stream executor", command="nvidia-smi shows who holds that GPU: it had no room to start CUDA"),
    Advice("S20", r"\bRESOURCE_EXHAUSTED\b|\bjaxlib\b", command="jax.checkpoint on the layers keeps less for the backward; donate_argnums of jit frees the state that a step replaces"),
    Advice("S20", r"cache blocks|KV cache", command="a larger gpu_memory_utilization (vLLM's share of the whole GPU, its weights included), a smaller max_model_len, or more GPUs (tensor_parallel_size)"),
    Advice("S20", r"--mem-fraction", command="a larger --mem-fraction-static (SGLang's share of the GPU for weights and cache), or more GPUs (--tp)"),
    Advice("S20", r"\bOut of GPU memory\b", command="CUDA.memory_status() shows what is held; CUDA.reclaim() behind GC.gc() gives it back"),
    Advice("S77", r"slurmstepd|srun|StepId|OUT_OF_ME", "", "#SBATCH --mem=0 gives the job all of a host's memory (--mem-per-cpu counts by core); fewer DataLoader workers or ranks per host need less", "sacct -j JOB -o JobID,MaxRSS,ReqMem"),
    Advice("S77", r"YARN|spark", "", "a larger spark.executor.memoryOverhead, which holds Python's memory, or fewer cores per executor"),
    Advice("S77", r"\b[Rr]ay\b|raylet|tasks / actors|node running low on memory", "", "fewer tasks at a time on a host: @ray.remote(memory=BYTES), or more num_cpus for each; RAY_memory_usage_threshold only moves the limit"),
    Advice("S77", r"OOMKilled|kubelet|kubectl|\bpods?\b", "", "raise resources.limits.memory of the pod (docker run --memory); files in /dev/shm count, too; fewer DataLoader workers need less"),
    Advice("S21", r"java\.lang\.OutOfMemoryError", "a JVM reached the limit of its heap", "raise it: spark.driver.memory or spark.executor.memory, elsewhere -Xmx (JAVA_TOOL_OPTIONS=-Xmx16g)"),
    Advice("S21", r"WinError 1455|error code: <1455>|paging file", command="let Windows manage the size of the paging file, on a disk with room; DataLoader(num_workers=0)"),
    Advice("S22", r"\[cudnn_frontend\]|cuDNN Frontend", "cuDNN has no kernel for this operation (its sizes, dtype and mask) on this GPU, or another cuDNN is loaded than the one that it was built with", "another back end for that operation, or a newer cuDNN; print(torch.backends.cudnn.version()) shows which is loaded"),
    Advice("S22", r"miopen|MIOpen|\bHIP(?:BLAS|FFT|SPARSE|SOLVER)_|rocblas", "a library of ROCm failed: it could not use its cache of kernels, memory ran out, or it lacks the kernel for this GPU",
           "MIOPEN_USER_DB_PATH and MIOPEN_CUSTOM_CACHE_DIR on a local disk that this user may write, for each rank; then a smaller batch", "export AMD_SERIALIZE_KERNEL=3"),
    Advice("S22", r"version incompatibility|VERSION_MISMATCH|SUBLIBRARY|Unable to load any of|(?:load|find) (?:cudnn|library libcudnn)", "another cuDNN is loaded than the one that torch brings, or a part of it is missing",
           "let LD_LIBRARY_PATH name no CUDA libraries; else install torch again with what it requires (nvidia-cudnn)", "unset LD_LIBRARY_PATH"),
    Advice("S22", r"CUSOLVER", "", "look for NaN and unscaled rows in the matrix of that line, use float64, or torch.backends.cuda.preferred_linalg_library('magma')"),
    Advice("S22", r"Blas \w* ?(?:GEMM)?.{0,10}launch failed|cuDNN failed to initialize", "", "nvidia-smi shows who else holds that GPU; let TensorFlow take memory as it needs it", "export TF_FORCE_GPU_ALLOW_GROWTH=true"),
    Advice("S22", r"fused_attn|transformer_engine", command="export NVTE_FUSED_ATTN=0"),
    Advice("S22", r"cudnn_frontend|cuDNN Frontend", command="torch.backends.cuda.enable_cudnn_sdp(False) where attention asked for it; a newer cuDNN (nvidia-cudnn-cuNN) knows newer GPUs"),
    Advice("S22", r"\b[Xx][Ll][Aa]\b|/xla/|jax", command="export XLA_PYTHON_CLIENT_PREALLOCATE=false (JAX takes 75 % of a GPU at its start); nvidia-smi shows what else is on it"),
)  # fmt: skip
