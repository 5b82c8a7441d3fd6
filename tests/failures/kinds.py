"""Failures that can be made for real: each a small script and how it is started. Those of `gpu` need one.

`scripts/NAME.py` is what fails, `preparation/NAME.py` what writes its files before. The logs of `gpu` were
recorded on an H200 (driver 580.159.04, torch 2.11, CUDA 13.0) when the scripts up to `gpu-trains` were
functions of one file, so their lines have other numbers.
"""

from dataclasses import dataclass
from pathlib import Path

SCRIPT = "train.py"
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Kind:
    """A failure: its name, the class that a diagnosis must give it, and what surrounds its start.

    `ranks`: started by torchrun with that many. `shell`: a shell line in which {run} is the start command
    (for limits and mounts); `environ`: more environment. `gpu`: it needs a GPU, and `needs`
    names a module or program beside torch.
    """

    name: str
    slug: str
    ranks: int = 0
    shell: str = ""
    environ: tuple[tuple[str, str], ...] = ()
    torchrun: tuple[str, ...] = ()
    timeout_s: int = 120
    gpu: bool = False
    needs: str = ""

    @property
    def script(self) -> str:
        """The script that fails; "" where the failure is that there is none."""
        path = _HERE / "scripts" / f"{self.name}.py"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def prepare(self) -> str:
        """Python that writes files before; "" for none."""
        path = _HERE / "preparation" / f"{self.name}.py"
        return path.read_text(encoding="utf-8") if path.exists() else ""


KINDS: tuple[Kind, ...] = (
    # precision
    Kind("unscale", "fp16-unscale"),
    Kind("unscale-accelerate", "fp16-unscale"),
    Kind("clipped-twice", "scaler-misuse"),
    Kind("no-inf-checks", "scaler-misuse"),
    Kind("late-cast", "dtype-mismatch"),
    Kind("mixed-matmul", "dtype-mismatch"),
    Kind("conv-input", "dtype-mismatch"),
    Kind("half-kernel", "dtype-mismatch"),
    Kind("index-put", "dtype-mismatch"),
    Kind("fp16-and-bf16", "precision-conflict"),
    Kind("two-accelerators", "precision-conflict"),
    Kind("frozen", "no-gradient"),
    Kind("anomaly", "nan-loss"),
    Kind("diverges", "nan-loss"),
    Kind("flash-attention-missing", "missing-module"),
    # rendezvous and collectives
    Kind("port-taken", "port-in-use"),
    Kind("port-taken-accelerate", "port-in-use"),
    Kind("port-taken-torchrun", "port-in-use"),
    Kind("rank-0-unreachable", "rendezvous-timeout"),
    Kind("rank-1-absent", "rendezvous-timeout"),
    Kind(
        "node-absent",
        "rendezvous-timeout",
        ranks=1,
        torchrun=(
            "--nnodes",
            "2",
            "--rdzv_backend",
            "c10d",
            "--rdzv_endpoint",
            "127.0.0.1:29679",
            "--rdzv_conf",
            "join_timeout=4",
        ),
    ),
    Kind("bad-address", "rendezvous-timeout"),
    Kind("bad-interface", "nccl-system-error", ranks=2, environ=(("GLOO_SOCKET_IFNAME", "nope0"),)),
    Kind("monitored-barrier", "collective-mismatch", ranks=2),
    Kind(
        "mismatched-collectives",
        "collective-mismatch",
        ranks=2,
        environ=(("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),),
    ),
    Kind("leaves-early", "collective-mismatch", ranks=2, environ=(("GLOO_SOCKET_IFNAME", "lo"),)),
    Kind("unused-parameters", "ddp-unused-parameters", ranks=2),
    Kind("nccl-without-gpu", "driver-mismatch", ranks=1),
    # signals and aborts
    Kind("signal-9", "host-oom-killed", ranks=2),
    Kind("signal-11", "segfault", ranks=2),
    Kind("signal-6", "sigabrt", ranks=2),
    Kind("signal-7", "shm", ranks=2),
    Kind("null-pointer", "segfault", shell="{run}; echo exit code $?"),
    Kind("faulthandler", "segfault"),
    Kind("bad-free", "sigabrt", shell="{run}; echo exit code $?"),
    Kind("spawn-abort", "sigabrt"),
    Kind("launcher-hangup", "sighup", ranks=2),
    Kind("launcher-terminated", "terminated", ranks=2),
    # limits of the host
    Kind("address-space", "host-oom-killed", shell="ulimit -v 16000000; {run}"),
    Kind("numpy-memory", "host-oom-killed", shell="ulimit -v 8000000; {run}"),
    Kind(
        "shm-full", "shm", shell="unshare -m sh -c 'mount -t tmpfs -o size=4m tmpfs /dev/shm && exec {run}'"
    ),
    Kind("open-files", "too-many-open-files", shell="ulimit -n 40; {run}"),
    Kind("open-files-plain", "too-many-open-files", shell="ulimit -n 60; {run}"),
    Kind(
        "disk-torch",
        "disk-full",
        shell="unshare -m sh -c 'mkdir -p small && mount -t tmpfs -o size=1m tmpfs small && exec {run}'",
    ),
    Kind(
        "disk-safetensors",
        "disk-full",
        shell="unshare -m sh -c 'mkdir -p small && mount -t tmpfs -o size=1m tmpfs small && exec {run}'",
    ),
    Kind(
        "disk-text",
        "disk-full",
        shell="unshare -m sh -c 'mkdir -p small && mount -t tmpfs -o size=1m tmpfs small && exec {run}'",
    ),
    Kind(
        "disk-numpy",
        "disk-full",
        shell="unshare -m sh -c 'mkdir -p small && mount -t tmpfs -o size=1m tmpfs small && exec {run}'",
    ),
    Kind(
        "read-only",
        "storage",
        shell="unshare -m sh -c 'mkdir -p small && mount -t tmpfs -o size=1m,ro tmpfs small && exec {run}'",
    ),
    # checkpoints, models and data
    Kind("cut-checkpoint", "bad-checkpoint"),
    Kind("empty-checkpoint", "bad-checkpoint"),
    Kind("lfs-checkpoint", "bad-checkpoint"),
    Kind("lfs-safetensors", "bad-checkpoint"),
    Kind("cut-safetensors", "bad-checkpoint"),
    Kind("weights-only", "bad-checkpoint"),
    Kind("other-model", "bad-checkpoint"),
    Kind("missing-keys", "bad-checkpoint"),
    Kind("tokenizer-broken", "bad-checkpoint"),
    Kind("tokenizer-other-version", "bad-checkpoint"),
    Kind("no-weights", "bad-checkpoint"),
    Kind("hub-offline", "hf-hub-auth", environ=(("HF_HUB_OFFLINE", "1"), ("HF_HOME", "empty-cache"))),
    Kind(
        "hub-offline-download", "hf-hub-auth", environ=(("HF_HUB_OFFLINE", "1"), ("HF_HOME", "empty-cache"))
    ),
    Kind(
        "hub-unreachable",
        "hf-hub-auth",
        environ=(
            ("HF_HOME", "empty-cache"),
            ("HTTPS_PROXY", "http://127.0.0.1:9"),
            ("HF_HUB_ETAG_TIMEOUT", "2"),
        ),
        timeout_s=180,
    ),
    Kind("no-local-model", "missing-file"),
    Kind("unknown-model", "unknown-architecture"),
    Kind("no-data", "missing-file"),
    Kind("no-script", "missing-file", shell="{python} nowhere.py"),
    # packages and drivers
    Kind("python-home", "broken-interpreter", shell="PYTHONHOME=/nonexistent {python} train.py"),
    Kind("python-path", "broken-interpreter", shell="PYTHONPATH=lib {python} train.py"),
    Kind("missing-module", "missing-module"),
    Kind("missing-name", "missing-module"),
    Kind("missing-deepspeed", "missing-module"),
    Kind("missing-bitsandbytes", "missing-module"),
    Kind("renamed-argument", "deprecated-tokenizer-arg"),
    Kind("removed-argument", "deprecated-tokenizer-arg"),
    Kind("removed-8bit", "deprecated-tokenizer-arg"),
    Kind(
        "no-compiler",
        "inductor-compile",
        environ=(
            ("CXX", "/nonexistent/g++"),
            ("TORCHINDUCTOR_CACHE_DIR", "cache"),
            ("TORCHINDUCTOR_FX_GRAPH_CACHE", "0"),
        ),
    ),
    Kind(
        "broken-compiler",
        "inductor-compile",
        environ=(
            ("CXX", "/bin/false"),
            ("TORCHINDUCTOR_CACHE_DIR", "cache"),
            ("TORCHINDUCTOR_FX_GRAPH_CACHE", "0"),
        ),
    ),
    Kind("no-cuda", "driver-mismatch"),
    Kind("cuda-checkpoint", "driver-mismatch"),
    # the user's own script, and runs that end well
    Kind("key-error", "user-exception"),
    Kind("key-error-rank-1", "user-exception", ranks=2),
    Kind("worker-error", "user-exception"),
    Kind("spawn-error", "user-exception"),
    Kind("pool-error", "user-exception"),
    Kind("chained", "user-exception"),
    Kind("usage", "user-exception"),
    Kind("syntax", "user-exception"),
    Kind("all-frozen", "no-gradient", ranks=2),
    Kind("shape-error", "user-exception"),
    Kind("trains", "benign"),
    # Its pause is for gloo's threads: those that still need the GIL while the interpreter ends abort it.
    Kind("trains-ddp", "benign", ranks=2),
    Kind("trains-forked", "benign"),
    Kind("handled", "benign"),
    # on a GPU
    Kind("gpu-address", "illegal-memory-access", gpu=True, needs="cupy"),
    Kind("gpu-misaligned", "illegal-memory-access", gpu=True, needs="cupy"),
    Kind("gpu-trap", "illegal-memory-access", gpu=True, needs="cupy"),
    Kind("gpu-stack", "illegal-memory-access", gpu=True, needs="cupy"),
    Kind("gpu-triton-store", "illegal-memory-access", gpu=True),
    Kind("gpu-block-too-large", "user-exception", gpu=True, needs="cupy"),
    Kind("gpu-embedding", "device-side-assert", gpu=True),
    Kind("gpu-label", "device-side-assert", gpu=True),
    Kind("gpu-gather", "device-side-assert", gpu=True),
    Kind("gpu-index-put", "device-side-assert", gpu=True),
    Kind("gpu-bce", "device-side-assert", gpu=True),
    Kind("gpu-multinomial", "nan-loss", gpu=True),
    Kind("gpu-fp16-overflow", "nan-loss", gpu=True),
    Kind("gpu-forked-worker", "cuda-reinit-in-fork", gpu=True),
    Kind("gpu-batch-on-cpu", "device-mismatch", gpu=True),
    Kind("gpu-labels-on-cpu", "device-mismatch", gpu=True),
    Kind("gpu-ddp-on-cpu", "device-mismatch", ranks=1, gpu=True),
    Kind("gpu-half-conv", "dtype-mismatch", gpu=True),
    Kind("gpu-fsdp-dtypes", "dtype-mismatch", ranks=1, gpu=True),
    Kind("gpu-scaler-bf16", "bf16-scaler", gpu=True),
    Kind("gpu-float32-attention", "flash-attn-unsupported", gpu=True),
    Kind("gpu-pinned", "host-oom-killed", gpu=True),
    Kind("gpu-cholesky", "user-exception", gpu=True),
    Kind("gpu-graph-capture", "user-exception", gpu=True),
    Kind(
        "gpu-allocator-setting",
        "user-exception",
        environ=(("PYTORCH_CUDA_ALLOC_CONF", "expandable_segment:True"),),
        gpu=True,
    ),
    Kind("gpu-fsdp-frozen", "user-exception", ranks=1, gpu=True),
    Kind("gpu-fp8", "fp8-unsupported", gpu=True),
    Kind("gpu-other-architecture", "no-kernel-image", gpu=True, needs="nvcc"),
    Kind("gpu-extension", "inductor-compile", gpu=True, needs="nvcc"),
    Kind("gpu-graph-break", "inductor-compile", gpu=True),
    Kind("gpu-checkpoint-ordinal", "invalid-device-ordinal", gpu=True),
    Kind("gpu-one-for-two-ranks", "invalid-device-ordinal", ranks=2, gpu=True),
    Kind("gpu-memory-share", "cuda-oom", gpu=True),
    Kind("gpu-memory-full", "cuda-oom", gpu=True),
    Kind("gpu-same-for-two-ranks", "nccl-duplicate-gpu", ranks=2, gpu=True),
    Kind("gpu-same-nccl-debug", "nccl-duplicate-gpu", ranks=2, environ=(("NCCL_DEBUG", "INFO"),), gpu=True),
    Kind("gpu-nccl-cpu-tensor", "collective-unsupported", ranks=1, gpu=True),
    Kind("gpu-invisible", "driver-mismatch", environ=(("CUDA_VISIBLE_DEVICES", "7"),), gpu=True),
    Kind("gpu-trains", "benign", ranks=1, gpu=True),
    Kind("gpu-restart-recovers", "benign", ranks=1, torchrun=("--max-restarts", "1"), gpu=True),
    Kind("gpu-restart-resumes", "benign", ranks=1, torchrun=("--max-restarts", "1"), gpu=True),
    Kind("gpu-older-checkpoint", "benign", gpu=True),
    Kind("gpu-address-watchdog", "illegal-memory-access", ranks=1, gpu=True),
    Kind("gpu-jax-nan", "nan-loss", gpu=True, needs="jax"),
    Kind("gpu-jiterator", "inductor-compile", gpu=True),
    Kind("gpu-triton-name", "inductor-compile", gpu=True),
    Kind("gpu-triton-shared-memory", "kernel-resources", gpu=True),
    Kind("gpu-sampler", "device-mismatch", gpu=True),
    Kind("gpu-nccl-net", "nccl-system-error", ranks=1, environ=(("NCCL_NET", "IB"),), gpu=True),
    Kind("gpu-nccl-memory", "cuda-oom", ranks=1, gpu=True),
    Kind("gpu-jax-then-torch", "cuda-oom", gpu=True, needs="jax"),
    Kind("gpu-compiled-memory", "cuda-oom", gpu=True),
    Kind(
        "gpu-async-allocator",
        "cuda-oom",
        environ=(("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync"),),
        gpu=True,
    ),
    Kind(
        "gpu-no-uvm",
        "driver-mismatch",
        shell="unshare -m bash -c 'mount --bind /dev/null /dev/nvidia-uvm && exec {run}'",
        gpu=True,
    ),
    Kind("gpu-address-space", "driver-mismatch", shell="ulimit -v 12000000; exec {run}", gpu=True),
    Kind("gpu-lightning-fork", "cuda-reinit-in-fork", gpu=True, needs="lightning"),
    # Lightning imports mpi4py; Open MPI then looks for ssh, which this host lacks.
    Kind("gpu-mpi-without-ssh", "scheduler-launch", gpu=True, needs="mpi4py"),
    Kind("gpu-nvrtc-header", "inductor-compile", gpu=True, needs="cupy"),
    Kind("gpu-compile-backend", "user-exception", gpu=True),
    Kind("gpu-custom-backward", "device-mismatch", gpu=True),
    Kind("gpu-triton-assert", "device-side-assert", environ=(("TRITON_DEBUG", "1"),), gpu=True),
    Kind("gpu-generate", "nan-loss", gpu=True, needs="transformers"),
    Kind("gpu-optimizer-states", "cuda-oom", gpu=True),
    Kind("gpu-after-memory", "user-exception", gpu=True),
    Kind("gpu-skips-batch", "benign", gpu=True),
    Kind("gpu-signal-10", "time-limit", ranks=1, gpu=True),
    Kind(
        "gpu-stale-lock",
        "terminated",
        shell="mkdir -p ext/fused_ops; >ext/fused_ops/lock; TORCH_EXTENSIONS_DIR=ext timeout -s INT 9 {run}",
        gpu=True,
    ),
    Kind(
        "gpu-xla-flags",
        "user-exception",
        environ=(("XLA_FLAGS", "--xla_gpu_enable_async_all_reduce_everywhere=true"),),
        gpu=True,
        needs="jax",
    ),
    Kind("gpu-term-saved", "terminated", gpu=True),
    Kind("gpu-usr1-requeue", "time-limit", gpu=True),
    Kind("gpu-json-hook", "cuda-oom", gpu=True),
    Kind("gpu-samples-of-errors", "benign", gpu=True),
    Kind("gpu-jax-tpu", "driver-mismatch", environ=(("JAX_PLATFORMS", "tpu"),), gpu=True, needs="jax"),
    Kind(
        "gpu-etcd-backend",
        "missing-module",
        ranks=1,
        torchrun=("--rdzv-backend", "etcd-v2", "--rdzv-endpoint", "localhost:2379", "--rdzv-id", "7"),
        gpu=True,
    ),
    Kind("gpu-capture-lazy-init", "user-exception", gpu=True),
    Kind("gpu-no-recompile-allowed", "inductor-compile", gpu=True),
    Kind("gpu-metrics-port", "port-in-use", gpu=True, needs="prometheus_client"),
    Kind("gpu-dcp-no-dir", "bad-checkpoint", ranks=1, gpu=True),
    Kind("gpu-retried-download", "benign", gpu=True),
    Kind("gpu-op-without-fake", "user-exception", gpu=True),
    Kind("gpu-yaml-lr", "user-exception", gpu=True),
    Kind("gpu-paged-adam", "missing-module", gpu=True, needs="transformers"),
    Kind("gpu-mean-of-bools", "dtype-mismatch", gpu=True),
    Kind("gpu-int-targets", "dtype-mismatch", gpu=True),
    Kind("gpu-weights", "cuda-oom", gpu=True),
    Kind("gpu-no-batch-fits", "cuda-oom", gpu=True),
)
