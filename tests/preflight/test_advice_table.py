"""What the words of a log narrow a row to: each alternative gets advice of its own."""

import pytest

from preflight.diagnosis.diagnose import diagnose

FRAMES = (
    'Traceback (most recent call last):\n  File "/home/ana/ft/train.py", line 7, in <module>\n    run()\n'
)
OF_VLLM = FRAMES + '  File "/opt/venv/lib/python3.11/site-packages/vllm/worker.py", line 8, in run\n    x()\n'
CUDA = "RuntimeError: CUDA error:"
SIZE = (
    "RuntimeError: Error(s) in loading state_dict for Llama:\n"
    "\tsize mismatch for embed.weight: copying a param with shape"
)
CHANGED = "ValueError: numpy.dtype size changed, may indicate binary incompatibility."
COUNT = "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error"
FORKED = "RuntimeError: Cannot re-initialize CUDA in forked subprocess."
CAPTURING = f"{CUDA} operation not permitted when stream is capturing"
HIP = (
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. "
    "GPU 0 has a total capacity of 64 GiB of which"
)


@pytest.mark.parametrize(
    ("message", "advised", "not_advised"),
    [
        (
            "RuntimeError: The TPU is already in use by process with pid 8123.",
            "lsof -w /dev/accel*",
            "ps -ef",
        ),
        ("RuntimeError: NeuronCore(s) not available - Requested:2 Available:0", "neuron-ls", "ps -ef"),
        (f"{CUDA} invalid device ordinal", "--nproc_per_node gpu", ""),
        (
            "ValueError: Invalid CUDA 'device=0' requested.\n\ntorch.cuda.is_available(): False",
            "preflight",
            "ranks",
        ),
        ("ValueError: Total available GPUs 4 is less than total desired GPUs 8", "ray status", "nproc"),
        ("ValueError: No slot '4' specified on host 'localhost'", "slots=GPUS", "nproc"),
        (
            "ValueError: Number of devices 4 must be >= the product of mesh_shape (2, 4)",
            "device_count()",
            "nproc",
        ),
        (
            "ValueError: DeepSpeed Zero-3 is not compatible with passing a `device_map`.",
            "out of from",
            "local_pro",
        ),
        (
            "RuntimeError: You can't move a model that has some modules offloaded to cpu or disk.",
            ".to()",
            "local",
        ),
        (
            "RuntimeError: FSDP only supports single device modules but got params on {cpu, cuda}",
            "device_id=",
            "''",
        ),
        ("NotImplementedError: Cannot copy out of meta tensor; no data!", "to_empty", "batch"),
        (
            "RuntimeError: Expected all tensors to be on the same device, but found two, cuda:0 and cuda:1!",
            "set_dev",
            "batch",
        ),
        (
            "ValueError: Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)",
            "set_device(int(",
            "",
        ),
        (
            "RuntimeError: Placeholder storage has not been allocated on MPS device!",
            "to('mps')",
            "accelerator",
        ),
        (
            "RuntimeError: Found NVIDIA GTX 1080 which is too old to be supported by the triton GPU compiler",
            "export TORCHDYNAMO_DISABLE=1",
            "wheel built",
        ),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120'", "nvcc --version", "wheel built"),
        (f"{CUDA} PTX JIT compilation was disabled", "unset CUDA_DISABLE_PTX_JIT", "wheel built"),
        (
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 9",
            "num_stages",
            "ARCH_LIST",
        ),
        (f"{CUDA} invalid configuration argument", "export CUDA_LAUNCH_BLOCKING=1", "ARCH_LIST"),
        (
            "requirement error: unsatisfied condition: cuda>=12.8, please update your driver to",
            "--query-gpu=driver_version",
            "torch",
        ),
        (
            f"{CUDA} the provided PTX was compiled with an unsupported toolchain.",
            "TORCH_CUDA_ARCH_LIST",
            "index",
        ),
        (
            "RuntimeError: The NVIDIA driver on your system is too old (found version 12020).",
            "--index-url",
            "",
        ),
        (f"{COUNT} 802: system not yet initialized", "nvidia-fabricmanager", "compat"),
        (
            f"{COUNT} 803: system has unsupported display driver / cuda driver combination",
            "reboot",
            "fabricmanager",
        ),
        (f"{COUNT} 804: forward compatibility was attempted on non supported HW", "compat", "fabricmanager"),
        (
            "a:1:2 [3] nvls.cc:158 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 9",
            "export NCCL_NVLS_ENABLE=0",
            "compat",
        ),
        ("RuntimeError: Unable to open /dev/kfd read-write: Permission denied", "usermod -aG render", "gres"),
        ("RuntimeError: No HIP GPUs are available", "rocminfo", "CUDA"),
        ("RuntimeError: No XPU devices are available.", "sycl-ls", "CUDA"),
        (
            "AssertionError: Torch not compiled with CUDA enabled",
            "--force-reinstall torch torchvision",
            "gres",
        ),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            "dkms autoinstall",
            "torch",
        ),
        (
            "RuntimeError: Unable to initialize backend 'cuda': UNKNOWN: no such backend",
            "'jax[cuda12]'",
            "torch",
        ),
        (
            "docker: Error response from daemon: unknown or invalid runtime name: nvidia.",
            "nvidia-ctk runtime",
            "",
        ),
        (f"{CUDA} uncorrectable ECC error encountered", "-d ECC,ROW_REMAPPER", "amdgpu"),
        (f"{CUDA} MPS client failed to connect to the MPS control daemon", "mps-control", "modprobe"),
        ("88:88 ERROR  NRT:nrt_load_collectives failed: NRT_FAILURE", "neuron-ls", "HABANA"),
        (f"{CUDA} the launch timed out and was terminated", "isolate multi-user.target", "install"),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "export CUDA_LAUNCH", "install"),
        (f"{CUDA} PTX JIT compiler library not found", "NVIDIA_DRIVER_CAPABILITIES=", "venv"),
        (f"{CUDA} operation not supported", "expandable_segments", "venv"),
        (f"{CHANGED} Expected 96 from C header, got 88 from PyObject", "-U numpy", "'numpy<2'"),
        (f"{CHANGED} Expected 88 from C header, got 96 from PyObject", "'numpy<2'", "-U numpy"),
        ("ImportError: Numba needs NumPy 2.0 or less. Got NumPy 2.2.", "'numpy==2.0.*'", "torch"),
        ("ImportError: numpy.core.multiarray failed to import", "'numpy<2'", "torch"),
        (
            "Error: MKL_THREADING_LAYER=INTEL is incompatible with libgomp.so.1 library.",
            "export MKL_THR",
            "torchv",
        ),
        (
            "AttributeError: module 'lib' has no attribute 'X509_V_FLAG_NOTIFY_POLICY'",
            "-U pyopenssl",
            "numpy",
        ),
        ("AttributeError: module 'pkgutil' has no attribute 'ImpImporter'", "-U pip setuptools", "numpy"),
        (
            "AttributeError: 'MatmulLtState' object has no attribute 'memory_efficient'",
            "-U peft bitsandb",
            "numpy",
        ),
        (
            "ImportError: cannot import name 'AttrsDescriptor' from 'triton.compiler.compiler'",
            "pip check",
            "DYNAMO",
        ),
        (
            "/usr/local/cuda/include/crt/host_config.h:132:2: error: #error -- unsupported GNU version!",
            "CC=gcc-N",
            "rm -r",
        ),
        (
            "/t/CUDAContextLight.h:7:10: fatal error: cusparse.h: No such file or directory",
            "cuda-toolkit",
            "rm -r",
        ),
        ("AssertionError: libcuda.so cannot found!", "ldconfig", "g++"),
        ("AttributeError: module 'numpy' has no attribute 'float'.", "place of np.float", ""),
        ("AttributeError: module 'PIL.Image' has no attribute 'ANTIALIAS'", "Image.LANCZOS", ""),
        ("ModuleNotFoundError: No module named 'distutils'", "pip install setuptools", "PYTHONPATH"),
        ("ModuleNotFoundError: No module named 'pkg_resources'", "'setuptools<82'", ""),
        ("ModuleNotFoundError: No module named '_lzma'", "another Python", "PYTHONPATH"),
        (
            "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
            "-headless",
            "hosts.yaml",
        ),
        (
            "ImportError: Using `bitsandbytes` 8-bit quantization requires Accelerate: `pip",
            "-U accelerate",
            "-U bitsandbytes",
        ),
        ("RuntimeError: Found dtype Long but expected Float", "targets.float()", "deepcopy"),
        ("AssertionError: Attempted unscale_ but _scale is None.", "scaler.scale(loss).backward()", ""),
        ("RuntimeError: step() has already been called since the last update().", "scaler.update()", "clip"),
        ("RuntimeError: FlashAttention only support fp16 and bf16 data type", "dtype=torch.bfloat16", ""),
        (
            "NotImplementedError: No operator found for `memory_efficient_attention_forward` with inputs:",
            "xformers.info",
            "attn_imp",
        ),
        ("ValueError: Using `fp8` precision requires `torchao` to be installed.", "install torchao", ""),
        (
            f"{SIZE} torch.Size([0]) from checkpoint, the shape in current model is torch.Size([8, 4]).",
            "zero_to_fp32",
            "",
        ),
        (
            f"{SIZE} torch.Size([8, 4]) from checkpoint, the shape in current model is torch.Size([0]).",
            "zero.Init",
            "",
        ),
        ("RuntimeError: could not create a primitive descriptor for a matmul primitive", "float32", "custom"),
        ("RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'", "on the CPU load it", "autocast"),
        ("RuntimeError: \"svd_cuda_gesvdj\" not implemented for 'Half'", "x.float()", "accelerator"),
        (
            "RuntimeError: value cannot be converted to type at::Half without overflow",
            "torch.finfo",
            "autocast",
        ),
        (
            "RuntimeError: result type Float can't be cast to the desired output type long int",
            "x = x + y",
            "autocast",
        ),
        ("RuntimeError: expected scalar type Long but found Float", "targets.long()", "autocast"),
        ("RuntimeError: unable to write to file </torch_881_2130>", "df -h /dev/shm", ""),
        (
            "ValueError: Free memory on device cuda:0 (12/23 GiB) on startup is less than desired GPU memory",
            "clean-zombies",
            "smaller batch",
        ),
        ("ValueError: Some modules are dispatched on the CPU or the disk.", "load_in_4bit", "smaller batch"),
        ("RuntimeError: MPS backend out of memory (MPS allocated: 9 GB)", "Mac's memory", "ALLOC_CONF"),
        ("RuntimeError: No executable batch size found, reached zero.", "LoRA", "smaller batch"),
        (
            f"{HIP} 1 GiB is free. 40 GiB is allocated by PyTorch, and 22 GiB is reserved by PyTorch",
            "HIP_ALLOC",
            "CUDA_ALLOC_CONF=expandable_segments:True ||",
        ),
        (f"{HIP} 1 GiB is free. this process has 3 GiB memory in use.", "rocm-smi", "nvidia-smi"),
        ("slurmstepd: error: Detected 3 oom_kill events in StepId=8812.0.", "--mem=0", ""),
        (
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
            "memory=",
            "",
        ),
        (
            "Container killed by YARN for exceeding memory limits. 5.6 GB of 5.5 GB used.",
            "memoryOverhead",
            "zero.Init",
        ),
        ("java.lang.OutOfMemoryError: Java heap space", "spark.driver.memory", "ranks"),
        (
            "RuntimeError: cuDNN version incompatibility: PyTorch was compiled against (9, 1, 0)",
            "unset LD_LIBRARY",
            "batch",
        ),
        ("RuntimeError: miopenStatusUnknownError", "MIOPEN_USER_DB_PATH", "CUDA_LAUNCH"),
        (
            "tensorflow.InternalError: Blas GEMM launch failed : a.shape=(32, 784), b.shape=(784, 512)",
            "TF_FORCE_GPU_ALLOW_GROWTH=true",
            "CUDA_LAUNCH",
        ),
        ("torch._dynamo.exc.FailOnRecompileLimitHit: recompile_limit reached", "TORCH_LOGS=recompiles", ""),
    ],
)
def test_an_alternative_gets_its_own_advice(message: str, advised: str, not_advised: str) -> None:
    cause = diagnose(f"{FRAMES}{message}\n").causes[0]
    said = f"{cause.fix} || {cause.command}"

    assert advised in said
    assert not not_advised or not_advised not in said


@pytest.mark.parametrize(
    ("message", "advised", "else_advised"),
    [
        (FORKED, "VLLM_WORKER_MULTIPROCESSING_METHOD=spawn", "collate_fn"),
        (CAPTURING, "--enforce-eager", "side stream"),
        ("RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "--attention-backend", "sdpa"),
    ],
)
def test_what_vllm_raised_is_set_by_options_of_its_own(message: str, advised: str, else_advised: str) -> None:
    of_vllm, other = (diagnose(f"{frames}{message}\n").causes[0] for frames in (OF_VLLM, FRAMES))

    assert advised in of_vllm.fix + of_vllm.command
    assert else_advised in other.fix
    assert else_advised not in of_vllm.fix


@pytest.mark.parametrize(
    ("message", "fix"),
    [
        ("IndexError: index out of range in self", "input_ids.max()"),
        ("IndexError: Target 7 is out of bounds.", "num_labels="),
        ("IndexError: invalid index of a 0-dim tensor. Use `tensor.item()`", "loss.item()"),
        ("IndexError: Dimension out of range (expected to be in range of [-1, 0], but got 1)", "its shape"),
        ("IndexError: tensors used as indices must be long, int, byte or bool tensors", "index.long()"),
        ("ValueError: Expected more than 1 value per channel when training, got [1, 512]", "drop_last=True"),
        ("RuntimeError: view size is not compatible with input tensor's size and stride", ".reshape("),
        ("RuntimeError: Can't call numpy() on Tensor that requires grad.", "detach().cpu()"),
        ("RuntimeError: a leaf Variable that requires grad is being used in-place", "no_grad()"),
        ("RuntimeError: Boolean value of Tensor with more than one value is ambiguous", ".any()"),
        ("RuntimeError: One of the Tensors appears to not have been used in the graph", "allow_unused=True"),
        ("RuntimeError: Only Tensors of floating point dtype can require gradients", "x.float()"),
        (
            "RuntimeError: The size of tensor a (731) must match the size of tensor b (512) at dimension 1",
            "max_length=",
        ),
        (
            "ValueError: Target size (torch.Size([8])) must be the same as input size (torch.Size([8, 1]))",
            "squeeze(-1)",
        ),
        ("ValueError: could not convert string to float: '1,5'", "a comma is in it"),
        ("ValueError: At least one stride in the given numpy array is negative", ".copy()"),
        ("ValueError: sampler option is mutually exclusive with shuffle", "set_epoch(epoch)"),
        ("ValueError: max() arg is an empty sequence", "filled from"),
        ("TypeError: 'float' object cannot be interpreted as an integer", "int(...)"),
        ("TypeError: 'int' object is not callable", "print its type"),
        ("AssertionError: hidden size must be a multiple of the heads", "what must hold"),
        (
            "NotImplementedError: Could not run 'torchvision::nms' with arguments from the 'CUDA' backend.",
            "--force-reinstall torch torchvision",
        ),
    ],
)
def test_an_exception_of_torch_and_python_gets_its_own_advice(message: str, fix: str) -> None:
    assert fix in diagnose(f"{FRAMES}{message}\n").causes[0].fix
