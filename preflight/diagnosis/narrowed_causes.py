"""What a log's words narrow a row to, with advice. Its table: GPUs, packages, precision, memory. Pure."""

from collections.abc import Sequence

from preflight import regex as re
from preflight.diagnosis.advice_by_words import NARROWED

_SET_DEVICE = "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))"
_CUDA_TORCH = "python -m pip install --force-reinstall torch torchvision --index-url URL"
# Code, words of the log, cause, fix, command. Drivers by CUDA: NVIDIA's table of minor version compatibility.
_TABLE: tuple[tuple[str, str, str, str, str], ...] = (
    # GPUs
    ("S135", r"Neuron", "", "end the process that neuron-ls shows, or say which cores each process gets: it takes all of them without NEURON_RT_NUM_CORES or NEURON_RT_VISIBLE_CORES", "neuron-ls"),
    ("S135", r"TPU", "", "end the process that the message or lsof names; where none holds it, a killed one left /tmp/libtpu_lockfile", "sudo lsof -w /dev/accel* /dev/vfio/*"),
    ("S135", r"last training process", "", "end the process that npu-smi shows; then wait ten seconds for its device to be free", "npu-smi info"),
    ("S31", r"Attempting to deserialize", "the checkpoint names a GPU of the host that saved it, which this process does not have", "load it to the CPU first", "torch.load(FILE, map_location='cpu'), then move it to the rank's GPU"),
    ("S31", r"device_count\(\): 0|is_available\(\): False", "this process sees no GPU at all", "gpulaunch preflight HOST says why: a torch built for the CPU, CUDA_VISIBLE_DEVICES, the driver or the container", "python -c 'import torch; print(torch.version.cuda, torch.cuda.device_count())'"),
    ("S31", r"Total available GPUs", "the cluster has fewer GPUs than the config wants", "set nnodes and n_gpus_per_node to what Ray has, or start Ray on the hosts that it lacks", "ray status"),
    ("S31", r"No slot '", "", "write slots=GPUS behind that host in the hostfile, or take that slot out of --include", ""),
    ("S31", r"mesh_shape", "", "make the product of the mesh's shape the number of devices (jax.device_count(), over all processes): a process that did not join the others sees only its own", ""),
    ("S45", r"(?i)zero-?3|deepspeed", "DeepSpeed's ZeRO-3 places the weights itself, so from_pretrained may not", "take device_map= and low_cpu_mem_usage= out of from_pretrained: no other value of them helps", ""),
    ("S45", r"modules offloaded", "device_map put modules on the CPU or the disk, since the GPU had no room for them, and such a model cannot be moved", "take .to() and .cuda() out; for all of it to fit: fewer bits (quantization_config=), or shards (FSDP, ZeRO-3)", ""),
    ("S45", r"input module must be on the same type", "a part of the model is still on the CPU", "model.to(device) behind the last module that is added (a head, adapters), and before DistributedDataParallel", ""),
    ("S45", r"FSDP only supports", "the model's parameters are on more than one device when FSDP wraps it", "leave all of it on the CPU and give FSDP device_id=torch.cuda.current_device(), or move all of it to that GPU before; no device_map", ""),
    ("S45", r"device_ids\[0\]", "nn.DataParallel wraps a model that is not wholly on the first GPU; a Trainer does so in a process that sees several", "start one process for each GPU (torchrun, gpulaunch run), or CUDA_VISIBLE_DEVICES=0 for one; else model.to('cuda:0') before, without device_map", ""),
    ("S43", r"meta tensor|doesn't have storage", "weights are on the meta device: nothing gave them storage", "load them before anything moves the model: from_pretrained in place of a model made under init_empty_weights, or model.to_empty(device=...) and then load_state_dict; what device_map offloaded stays where it is", ""),
    ("S43", r"Pointer argument", "a Triton kernel got a tensor of the CPU, or of a GPU that is not the current one", f"{_SET_DEVICE} before the first kernel, and its tensors on that GPU", ""),
    ("S43", r"\bMPS\b", "", "model.to('mps') and the batch, too: weights and input must both be on it", ""),
    ("S43", r"cuda:(\d+)\b.{0,60}\bcuda:(?!\1\b)\d", "one process has tensors on two GPUs", f"no fixed cuda:N: {_SET_DEVICE} first of all, and device=x.device for what forward makes; with device_map='auto' the inputs go to model.device", ""),
    ("S42", r"/vllm/|\bvllm\b", "vLLM forked its workers after CUDA was in use in this process", "let nothing start CUDA before LLM(...), and start the script under if __name__ == '__main__'", "export VLLM_WORKER_MULTIPROCESSING_METHOD=spawn"),
    ("S32", r"too old to be supported by the triton", "torch.compile's Triton needs compute capability 7.0, and this GPU is older", "train without torch.compile on it: no other wheel helps", "export TORCHDYNAMO_DISABLE=1"),
    ("S32", r"[Uu]nsupported gpu architecture 'compute", "the CUDA toolkit that builds an extension does not know that architecture: the GPU is newer, or too old for it", "a toolkit that has it (12.8 or newer for Blackwell; 13 has none below 7.5), named by CUDA_HOME; or leave it out of TORCH_CUDA_ARCH_LIST", "nvcc --version"),
    ("S32", r"JIT compilation was disabled|JIT_COMPILATION_DISABLED|JitCompilationDisabled", "only its PTX is in this build, and CUDA_DISABLE_PTX_JIT forbids the driver to compile it", "let it be compiled, or take a build for this GPU", "unset CUDA_DISABLE_PTX_JIT"),
    ("S32", r"\bHIP\b|\bhip[A-Z]|\bHSA_|\bgfx\d|rocBLAS|Tensile",
     "this build of torch, or of an extension, has no code for this AMD GPU",
     "a torch for ROCm whose torch.cuda.get_arch_list() has its gfx; HSA_OVERRIDE_GFX_VERSION takes code of a near relative (10.3.0 for gfx103x, 11.0.0 for gfx110x), and is to be unset where it names another", ""),
    ("S101", r"\bout of resource:", "a Triton kernel wants more shared memory or registers than this GPU has", "smaller BLOCK sizes or num_stages in its configs; where a package brings the kernel, another version of it. It is not a lack of memory", ""),
    ("S101", r"invalid configuration|InvalidConfiguration", "a kernel was started over nothing or over too much: an empty input, or one too large for its grid", "print the shapes at that line: an empty batch or mask, or a dimension beyond 65535 blocks; CUDA_LAUNCH_BLOCKING=1 names the line", "export CUDA_LAUNCH_BLOCKING=1"),
    ("S35", r"unsatisfied condition|please update your driver", "the image wants a newer driver than the host has", "an image of an older CUDA, or a newer driver on the host: CUDA 13 wants 580, CUDA 12 525", "nvidia-smi --query-gpu=driver_version --format=csv,noheader"),
    ("S35", r"unsupported toolchain|UNSUPPORTED_PTX|UnsupportedPtx", "a kernel's PTX was made by a newer CUDA than the driver knows", "a newer driver; or build that extension for this GPU itself (TORCH_CUDA_ARCH_LIST without +PTX), with a CUDA no newer than nvidia-smi shows", ""),
    ("S35", r"open kernel modules", "this GPU works with NVIDIA's open kernel modules alone, and the others are installed", "install the same driver with them (nvidia-open, or nvidia-driver-NNN-open in Ubuntu), and reboot", ""),
    ("S35", r"NVIDIA [\d.]+ driver release", "the installed driver no longer knows this GPU", "install the last branch that does: 580 for Maxwell, Pascal and Volta, 470 for Kepler", ""),
    ("S35", r"driver on your system is too old", "", "", _CUDA_TORCH),
    ("S36", r"\bNVLS\b|[Mm]ulticast", "NCCL got no multicast memory of the NVSwitch (NVLS): the fabric manager does not serve it, or the container or virtual machine lacks it", "train without it now; sudo systemctl restart nvidia-fabricmanager on the host, with nothing on its GPUs, may bring it back", "export NCCL_NVLS_ENABLE=0"),
    ("S36", r"(?i)error:? 80[34]\b|unsupported display driver|driver_?mismatch|forward compat|compat_?not_?supported", "the CUDA library (libcuda) and the driver's kernel module are of two versions: cuda-compat is in the way, or the driver was upgraded without a reboot", "take directories named compat out of LD_LIBRARY_PATH (an image may set it); else reboot the host", "cat /proc/driver/nvidia/version; ldconfig -p | grep libcuda.so"),
    ("S120", r"/dev/(?:kfd|dri)", "", "sudo usermod -aG render,video USER, then log in anew; a container gets --device=/dev/kfd --device=/dev/dri and these groups (--group-add)", ""),
    ("S37", r"select device driver|nvidia-container-cli|runtime (?:name: |specified )nvidia|CDI devices? nvidia|NVIDIA Container Runtime", "the host's container runtime cannot hand out its GPUs", "install driver and NVIDIA Container Toolkit on the host, then sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker", "docker run --rm --gpus all ubuntu nvidia-smi"),
    ("S37", r"No XPU|XPU enabled|support for xpu", "torch sees no Intel GPU: no driver, no permission, or a variable that hides it", "sycl-ls must list it for this user (group render); unset ONEAPI_DEVICE_SELECTOR and ZE_AFFINITY_MASK; a container gets --device=/dev/dri", "sycl-ls"),
    ("S37", r"No HIP|HIP enabled|support for hip|backend 'rocm'", "torch sees no AMD GPU: no driver, no permission, or a variable that hides it", "rocminfo must list it for this user (groups render and video); unset HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES; a container gets --device=/dev/kfd --device=/dev/dri", "rocminfo | grep -m1 gfx; ls -l /dev/kfd; id"),
    ("S37", r"Unable to initialize backend '(?:cuda|gpu)", "JAX has no working plugin for CUDA: none is installed, it is of another version than jaxlib, or no driver answers", "nvidia-smi must work for this process; then install jax and its plugin together (jax[cuda13] from driver 580 on), and unset LD_LIBRARY_PATH", "python -m pip install -U 'jax[cuda12]'"),
    ("S37", r"Torch not compiled with CUDA|has no attribute '_cuda_|support for cuda devices", "the installed torch is a build without CUDA", "install the build for the host's driver: gpulaunch preflight HOST names the index URL; on a Mac use device='mps'", _CUDA_TORCH),
    ("S37", r"couldn't communicate with|\bmodprobe: |DRIVER_NOT_LOADED|DriverNotLoaded|\b0 active drivers|driver not loaded|: probe of ", "the NVIDIA driver's kernel module is not loaded, mostly since it was not built for a new kernel", "sudo apt install linux-headers-$(uname -r) && sudo dkms autoinstall && sudo modprobe nvidia; Secure Boot refuses a module that is not signed", "dkms status; uname -r; sudo dmesg | grep -i nvidia"),
    ("S40", r"RmInitAdapter", "the driver could not start the GPU", "read the NVRM lines before it: 'open kernel modules' wants the -open variant of the driver; else power the host off and on, and have the GPU replaced if it comes back", "sudo dmesg | grep NVRM"),
    ("S40", r"amdgpu|HW Exception|sq_intr", "", "", "sudo dmesg -T | grep -i amdgpu"),
    ("S40", r"NVRM|CUDA|NVML|ECC|[Xx]id\b", "", "", "nvidia-smi -q -d ECC,ROW_REMAPPER; sudo dmesg -T | grep -i xid"),
    ("S39", r"index out of bounds", "", "", "export CUDA_LAUNCH_BLOCKING=1"),
    ("S126", r"/vllm/|\bvllm\b", "vLLM could not record its CUDA graphs", "enforce_eager=True (--enforce-eager) runs without them, slower: it shows whether the capture alone fails; then another version of vLLM", ""),
    ("S41", r"\bMPS\b|\bMps|\bMPS_", "the MPS server that this process wants is gone, full, or another user's", "start it anew as the user who runs (nvidia-cuda-mps-control -d), or unset CUDA_MPS_PIPE_DIRECTORY where none is wanted", "echo get_server_list | nvidia-cuda-mps-control"),
    ("S136", r"\b[Nn][Rr][Tt][_:]|\bNRT\b", "", "NEURON_RT_LOG_LEVEL=INFO says why; neuron-ls shows the devices and who holds them; driver, runtime and torch-neuronx of one release", "neuron-ls"),
    ("S136", r"\bsyn[A-Z]|Habana", "", "$HABANA_LOGS says why; hl-smi shows the devices; driver, SynapseAI and habana-torch-plugin of one release", "hl-smi"),
    ("S136", r"NPU|\bERR\d{5}|\bE[A-Z]?\d{4,5}:|mindspore", "", "~/ascend/log says why (ASCEND_GLOBAL_LOG_LEVEL=1); npu-smi shows the devices; driver, CANN and torch_npu of one release", "npu-smi info"),
    ("S33", r"CUDA (?:driver )?error: invalid argument|cudaErrorInvalidValue|CUDA_ERROR_INVALID_VALUE",
     "a CUDA call refused what it was given: a size of 0 or less, memory that was freed, lies on another GPU or is not this process's, or something that this driver does not have",
     "CUDA_LAUNCH_BLOCKING=1 shows which call; where it shares memory between processes or hosts, try without expandable_segments and with NCCL_P2P_DISABLE=1", ""),
    ("S33", r"launch timed out", "a kernel ran longer than the driver lets it on a GPU that also drives a display", "train on a GPU without a display, or stop the desktop (sudo systemctl isolate multi-user.target; Windows: a larger TdrDelay)", ""),
    ("S33", r"CUDNN_STATUS_EXECUTION_FAILED", "a kernel of cuDNN failed: the GPU's memory is full, or an earlier kernel had broken its context", "a smaller batch first; CUDA_LAUNCH_BLOCKING=1 shows an earlier failure; one run with torch.backends.cudnn.enabled=False, whether it is cuDNN's", "export CUDA_LAUNCH_BLOCKING=1"),
    ("S33", r"PTX JIT compiler library", "the driver's libnvidia-ptxjitcompiler or libnvidia-nvvm is not found", "a container wants NVIDIA_DRIVER_CAPABILITIES=compute,utility and a toolkit as new as the driver; a host the driver's libraries installed whole", "ldconfig -p | grep -E 'ptxjitcompiler|nvidia-nvvm'"),
    ("S33", r"operation not supported|NOT_SUPPORTED|NotSupported", "this driver, GPU or virtual machine lacks what a CUDA call wants: virtual memory, access to peers, asynchronous allocation", "try without expandable_segments (PYTORCH_CUDA_ALLOC_CONF), then with NCCL_P2P_DISABLE=1 and NCCL_CUMEM_ENABLE=0", "export CUDA_LAUNCH_BLOCKING=1"),
    ("S33", r"undefined symbol|not defined in file|libnvrtc", "a library of another CUDA was loaded in place of torch's own", "", "unset LD_LIBRARY_PATH"),
    # Packages
    ("S104", r"Expected 88 from C header, got 96", "", "numpy below 2, or a newer build of the package that the traceback's last import names", "python -m pip install 'numpy<2'"),
    ("S104", r"Expected 96 from C header|but this version of numpy is 0x(?!2)", "a package was built for a newer NumPy than the installed one", "a newer numpy, or an older build of the package that the traceback's last import names", "python -m pip install -U numpy"),
    ("S104", r"multiarray failed to import", "", "numpy below 2, or a newer build of the package that the traceback's last import names", "python -m pip install 'numpy<2'"),
    ("S104", r"[Nn]eeds NumPy", "", "the numpy that the message names, or a newer numba", ""),
    ("S104", r"MKL_THREADING_LAYER", "MKL was to take Intel's threads, and GNU's OpenMP is already loaded", "set it for every rank, or import numpy before torch", "export MKL_THREADING_LAYER=GNU"),
    ("S104", r"OMP: Error #15", "one process loaded OpenMP twice: from packages of pip and of conda, or of unlike builds", "packages of one source in a new environment (all of pip, or all of conda-forge); KMP_DUPLICATE_LIB_OK=TRUE lets it run, and may change results", ""),
    ("S104", r"argument: 'Loader'", "PyYAML 6 takes yaml.load only with a Loader", "yaml.safe_load(FILE) in place of yaml.load(FILE); where a package calls it, a newer version of that", ""),
    ("S104", r"module 'lib' has no", "pyOpenSSL is older than the installed cryptography", "upgrade the two together", "python -m pip install -U pyopenssl cryptography"),
    ("S104", r"module 'pkgutil' has no", "pip or setuptools are older than Python 3.12", "upgrade them in this environment, or make a new one", "python -m pip install -U pip setuptools"),
    ("S104", r"module '(?:collections|inspect|asyncio|fractions)' has no", "a package is older than this Python, whose standard library no longer has that name", "upgrade the package whose file the traceback ends in; else an older Python for this environment", ""),
    ("S104", r"MatmulLtState", "", "upgrade the two together", "python -m pip install -U peft bitsandbytes"),
    ("S104", r"UnsupportedClassVersion", "the Java that runs is older than the one that these classes were built for", "let JAVA_HOME name a newer one for every process: class file version 61 is Java 17, 65 is Java 21", "java -version"),
    ("S104", r"require users to upgrade torch",
     "the installed transformers reads .bin and .pt files with torch 2.6 or newer alone (CVE-2025-32434), and this torch is older",
     "a newer torch; weights as safetensors need none, but optimizer.pt, scheduler.pt and rng_state.pth of a checkpoint do", ""),
    ("S128", r"[Rr]ecompil", "torch.compile compiled the same code anew too often: sizes, numbers or objects differ at each call", "torch._dynamo.mark_dynamic(x, DIM), or torch.compile(dynamic=True), for sizes that vary; pass a number that changes as a tensor", "export TORCH_LOGS=recompiles"),
    ("S68", r"AttrsDescriptor|triton_key|BackendConfig", "the installed Triton is of another version than this torch wants", "install the triton that pip check names; packages that pull in another one come after", "python -m pip check"),
    ("S68", r"unsupported GNU version|Microsoft Visual Studio version", "the C++ compiler is newer than this CUDA toolkit takes", "build with the newest that the message allows (CC=gcc-N CXX=g++-N, NVCC_PREPEND_FLAGS='-ccbin g++-N'), or with a newer toolkit", "ls /usr/bin/g++-*; nvcc --version"),
    ("S68", r"fatal error: (?:cuda|cu|nccl|nv|thrust)\S*: No such", "the CUDA toolkit that builds is not whole: it lacks headers", "install the toolkit of torch's CUDA version with its libraries (of conda cuda-toolkit, not cuda-nvcc alone), and set CUDA_HOME", "nvcc --version; ls $CUDA_HOME/include"),
    ("S68", r"libcuda\.so cannot found", "Triton does not find the driver's libcuda.so.1", "sudo ldconfig where the driver is installed; else TRITON_LIBCUDA_PATH=DIRECTORY (of WSL /usr/lib/wsl/lib)", "ldconfig -p | grep libcuda.so"),
    ("S89", r"module '(?:numpy|np)' has no attribute '(?:float|int|bool|object|str|complex)'", "NumPy 1.24 took its aliases of Python's own types away", "float, int and bool in place of np.float, np.int and np.bool; where the traceback ends in a package, a newer version of that", ""),
    ("S89", r"'PIL\.Image' has no attribute", "Pillow 10 took that name away", "Image.LANCZOS in place of Image.ANTIALIAS; where the traceback ends in a package, a newer version of that", "python -m pip install 'pillow<10'"),
    ("S89", r"No module named '_(?:lzma|bz2|ctypes|sqlite3|ssl|hashlib|tkinter|curses|readline)'", "this Python was built without that part of its standard library, which pip cannot add", "take another Python for the environment (the distribution's, conda's, uv's), or install the library's -dev package and build it again", ""),
    ("S89", r"\blib(?:GL|SM|Xext|Xrender|gthread-2\.0)\.so[.\d]*: cannot open", "the OpenCV with windows is installed, and this host or image has no graphics libraries", "take the build without windows; or sudo apt install libgl1 libglib2.0-0", "python -m pip uninstall -y opencv-python && python -m pip install opencv-python-headless"),
    ("S89", r"DLL load failed", "Windows cannot load a library of that module, or one that it needs", "Microsoft's Visual C++ Redistributable, then that package again, in a build for this Python and torch", ""),
    ("S91", r"requires Accelerate", "transformers loads quantised weights with accelerate, which is missing or too old", "", "python -m pip install -U accelerate"),
    ("S91", r"", "", "", "python -m pip install -U bitsandbytes"),
    # Precision
    ("S03", r"Found dtype (?:Long|Int|Short|Byte|Bool|Double) but", "a loss got targets of another dtype than the predictions", "targets.float() before the loss: mse_loss and binary_cross_entropy take neither integers nor float64", ""),
    ("S03", r"Found dtype (?:Half|BFloat16|Float) but", "a loss got predictions and targets of two dtypes", "logits.float() and targets.float() before the loss: in half precision it is also inexact", ""),
    ("S04", r"_scale is None", "", "scaler.scale(loss).backward() in place of loss.backward() (with accelerate accelerator.backward(loss)), before unscale_ and step", ""),
    ("S05", r"step\(\) has already been called|after step\(\)", "scaler.update() is missing between two steps of the optimizer", "scaler.update() once, right behind scaler.step(optimizer)", ""),
    ("S14", r"to be installed|was installed", "no package for fp8 is installed", "on GPUs from 8.9 on install one; else mixed precision bf16", "python -m pip install torchao"),
    ("S16", r"[Nn]o dot product attention",
     "TransformerEngine has no attention for these inputs on this GPU: each back end that is installed declines their head sizes, layout, mask or dtype",
     "its debug lines say why each declines; a newer cuDNN or flash-attn takes more, padded batches (bshd, sbhd) more than packed ones (thd)", ""),
    ("S16", r"/vllm/|\bvllm\b|Cannot use FlashAttention-\d backend", "", "another attention of vLLM: --attention-backend TRITON_ATTN (older versions read VLLM_ATTENTION_BACKEND)", ""),
    ("S16", r"fp16 and bf16", "FlashAttention got float32: the weights were loaded in it, or a module casts to it", "load them with dtype=torch.bfloat16 (torch_dtype= before transformers 4.56), or call the model under autocast; attn_implementation='sdpa' takes float32, too", ""),
    ("S16", r"[Xx]Formers|XFORMERS|xformers|memory_efficient_attention", "the installed xformers was built for another torch, CUDA or Python, or for no GPU", "install the xformers of this torch, or go without: torch's own sdpa needs no package", "python -m xformers.info"),
    ("S46 S88", r"torch\.Size\(\[0\]\) from checkpoint", "the checkpoint was saved under ZeRO-3 without gathering its weights, which are empty in it", "convert the engine's own checkpoint: python zero_to_fp32.py . OUTPUT, in its directory; for later ones stage3_gather_16bit_weights_on_model_save: true", ""),
    ("S46 S88", r"current model is torch\.Size\(\[0\]\)", "ZeRO-3 has already partitioned the model that the weights are loaded into", "from_pretrained, or load_state_dict before deepspeed.initialize and outside of zero.Init; else under deepspeed.zero.GatheredParameters(params, modifier_rank=0)", ""),
    ("S47", r"primitive descriptor", "oneDNN has no kernel on this processor for these dtypes or sizes", "on the CPU train in float32 (model.float(), no autocast), input and weights alike", ""),
    ("S08", r"without overflow", "a number is larger than the tensor's half precision holds, mostly a mask of -1e9", "torch.finfo(x.dtype).min in place of that number", ""),
    ("S08", r"\"\w{0,80}(?:cuda|cublas|cusolver)\w{0,80}\" not implemented for '(?:Half|BFloat16)'", "CUDA has no kernel of this operation for half precision", "x.float() before that call, and .to(x.dtype) behind it; under autocast with torch.autocast('cuda', enabled=False) around both", ""),
    ("S08", r"\"\w{0,80}(?:_cpu|KernelImpl|kernel_impl|channels_last)\w{0,80}\" not implemented for '(?:Half|BFloat16)'", "a model in half precision runs on the CPU, which has no such kernel for it", "move model and inputs to the GPU before that call; on the CPU load it in float32 (dtype=torch.float32)", ""),
    ("S08", r"cast to the desired output type", "an operation in place, or with out=, would put a wider dtype into a narrower tensor", "x = x + y in place of x += y, or x.float() where x is made", ""),
    ("S08", r"nll_loss\w{0,60}\W{1,3}not implemented for|'indices'|scalar types?:? Long\b(?!.{0,20}got Long)", "an embedding or a loss over classes got floats, and takes whole numbers", "ids and class labels are int64", "x.long() before that call (targets.long() for a loss)"),
    ("S08", r"[Ii]ndex put requires|Expected self\.dtype to be equal to", "values are written into a tensor of another dtype, often one that autocast made", "give them the target's dtype", "target[index] = values.to(target.dtype), as for scatter and index_copy"),
    ("S08", r"not implemented for '(?:Bool|Byte|Char|Short|Int|Long)'|floating point or complex", "an operation that takes no integers got some", "make them floats before it", "x.float() before that call"),
    ("S08", r"not implemented for 'Float8", "float8 is stored and multiplied (torch._scaled_mm), and has no other arithmetic", "convert it before", "x.to(torch.bfloat16) before that call"),
    ("S08", r"\bDouble\b|float64|DoubleTensor", "an operation met float64, as NumPy's and Python's numbers are, beside the model's dtype", "convert it where it comes from", "x = x.float() where the input is made"),
    # Memory
    ("S60", r"object store", "", "give the container more (docker run --shm-size=...), or Ray less: ray start --object-store-memory BYTES", ""),
    ("S20", r"Free memory on device", "others hold memory of that GPU, or gpu_memory_utilization wants more than is free", "end what holds it (gpulaunch preflight HOST names it, gpulaunch clean-zombies HOST ends what an earlier run left), or a smaller gpu_memory_utilization", "nvidia-smi"),
    ("S20", r"dispatched on the CPU or the disk", "the quantised model does not fit into what is free of the GPU's memory", "free the GPU (gpulaunch clean-zombies HOST ends what an earlier run left), fewer bits (load_in_4bit), or a smaller model; weights on the CPU make it many times slower", "nvidia-smi"),
    ("S20", r"MPS backend", "", "a smaller batch or model, and end what else uses the Mac's memory, which the GPU shares; PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 may freeze the system", ""),
    ("S20", r"[Nn]o (?:executable )?batch[ _]size", "not even a batch of one sample fits", "see who else holds the GPU (gpulaunch preflight HOST); then bfloat16 weights, adapters (LoRA), or shards (FSDP, ZeRO)", ""),
    ("S77", r"slurmstepd|srun|StepId|OUT_OF_ME", "", "#SBATCH --mem=0 gives the job all of a host's memory (--mem-per-cpu counts by core); fewer DataLoader workers or ranks per host need less", "sacct -j JOB -o JobID,MaxRSS,ReqMem"),
    ("S77", r"YARN|spark", "", "a larger spark.executor.memoryOverhead, which holds Python's memory, or fewer cores per executor", ""),
    ("S77", r"\b[Rr]ay\b|raylet|tasks / actors|node running low on memory", "", "fewer tasks at a time on a host: @ray.remote(memory=BYTES), or more num_cpus for each; RAY_memory_usage_threshold only moves the limit", ""),
    ("S77", r"OOMKilled|kubelet|kubectl|\bpods?\b", "", "raise resources.limits.memory of the pod (docker run --memory); files in /dev/shm count, too; fewer DataLoader workers need less", ""),
    ("S21", r"java\.lang\.OutOfMemoryError", "a JVM reached the limit of its heap", "raise it: spark.driver.memory or spark.executor.memory, elsewhere -Xmx (JAVA_TOOL_OPTIONS=-Xmx16g)", ""),
    ("S22", r"\[cudnn_frontend\]|cuDNN Frontend",
     "cuDNN has no kernel for this operation (its sizes, dtype and mask) on this GPU, or another cuDNN is loaded than the one that it was built with",
     "another back end for that operation, or a newer cuDNN; print(torch.backends.cudnn.version()) shows which is loaded", ""),
    ("S22", r"miopen|MIOpen|\bHIP(?:BLAS|FFT|SPARSE|SOLVER)_|rocblas", "a library of ROCm failed: it could not use its cache of kernels, memory ran out, or it lacks the kernel for this GPU", "MIOPEN_USER_DB_PATH and MIOPEN_CUSTOM_CACHE_DIR on a local disk that this user may write, for each rank; then a smaller batch", "export AMD_SERIALIZE_KERNEL=3"),
    ("S22", r"version incompatibility|VERSION_MISMATCH|SUBLIBRARY|Unable to load any of|(?:load|find) (?:cudnn|library libcudnn)", "another cuDNN is loaded than the one that torch brings, or a part of it is missing", "let LD_LIBRARY_PATH name no CUDA libraries; else install torch again with what it requires (nvidia-cudnn)", "unset LD_LIBRARY_PATH"),
    ("S22", r"CUSOLVER", "", "look for NaN and unscaled rows in the matrix of that line, use float64, or torch.backends.cuda.preferred_linalg_library('magma')", ""),
    ("S22", r"Blas \w* ?(?:GEMM)?.{0,10}launch failed|cuDNN failed to initialize", "", "nvidia-smi shows who else holds that GPU; let TensorFlow take memory as it needs it", "export TF_FORCE_GPU_ALLOW_GROWTH=true"),
)  # fmt: skip


def narrow_cause(code: str, text: str, places: Sequence[str]) -> tuple[str, str, str]:
    """Return (cause, fix, command) by the lines of a row with those below, and frames; "" is the row's own.

    The rows of this module are looked for in the frames, too; those of `advice_by_words` in the lines alone.
    """
    with_frames = "\n".join((text, *places))
    for codes, pattern, cause, fix, command in _TABLE:
        if code in codes.split() and re.search(pattern, with_frames, re.MULTILINE):
            return cause, fix, command
    for its_code, pattern, cause, fix in NARROWED:
        if code == its_code and re.search(pattern, text):
            return cause, fix, ""
    return "", "", ""
