"""What to type or to change for one cause in one log, where its lines say enough for that. Pure."""

from collections.abc import Callable, Iterable
from shlex import quote

from preflight import regex as re
from preflight.facts.package_names import package_of_module

_RENAMED = {
    "tokenizer": "processing_class", "evaluation_strategy": "eval_strategy", "max_seq_length": "max_length", "no_cuda": "use_cpu",
    "use_auth_token": "token", "torch_dtype": "dtype", "use_flash_attention_2": "attn_implementation='flash_attention_2'",
    "gpus": "devices", "distributed_backend": "strategy", "replace_sampler_ddp": "use_distributed_sampler",
    "per_gpu_train_batch_size": "per_device_train_batch_size", "per_gpu_eval_batch_size": "per_device_eval_batch_size",
    "load_in_8bit": "quantization_config=BitsAndBytesConfig(load_in_8bit=True)",
    "load_in_4bit": "quantization_config=BitsAndBytesConfig(load_in_4bit=True)", "dispatch_batches": "dataloader_config",
    "split_batches": "dataloader_config", "fp16_backend": "fp16", "half_precision_backend": "fp16",
}  # fmt: skip
# What a keyword was called before, for an installation that does not know the new one yet.
_OLDER = {
    "processing_class": "tokenizer",
    "eval_strategy": "evaluation_strategy",
    "use_cpu": "no_cuda",
    "dtype": "torch_dtype",
}
ACTIVATE_CONDA = 'eval "$(conda shell.bash hook)" && conda activate ENV, in the script that starts the run'
_ARGUMENT = re.compile(r"unexpected keyword argument ['\"]?(\w+)")
_PORT = re.compile(
    r"port[`'\": =]+(\d{2,5})\b|\]?:(\d{4,5})\b(?=.{0,40}(?:in use|EADDR|errno))|[Pp]ort `?(\d{2,5})"
)
_REPO = re.compile(
    r"huggingface\.co/(?:api/)?(?:models/)?((?!(?:api|models|datasets|spaces|docs|settings)/)[\w.-]+(?:(?=/(?:resolve|revision)/)|/(?!(?:resolve|revision)/)[\w.-]*\w))|model ([\w.-]+/[\w.-]+) is restricted"
)
_NEW_NUMPY = re.compile(
    r"_ARRAY_API|NumPy 1\.x|Numpy is not available|removed in the NumPy 2|version of numpy is 0x2"
)
_OLD_PROTOBUF = "'protobuf<=3.20.3'"
_SCRIPT = re.compile(r"(?<![\w./-])([\w./-]+\.py): error: ")
_HOST_AND_PORT = re.compile(
    r"\(([\w.-]{2,80}), (\d{2,5})\)|\[?\b((?:\d{1,3}\.){3}\d{1,3}|[a-z][\w-]*(?:\.[\w-]+)*)\]?:(\d{4,5})\b(?!\])"
)
_RAY = re.compile(r"\bray\b|Actor|raylet")
_POD = re.compile(r"\bPod: ([a-z0-9-]+)\.([\w-]+) exited")
_OF_MODULE = re.compile(r"AttributeError: (?:partially initialized )?module '([A-Za-z]\w*)' has no attribute")
_REFUSED = re.compile(r"'(?:-u|-X\w*)', '([\w./-]{1,300}\.py)'.{0,4000}returned non-zero exit status 2\b")
_PADDLE_RANK = re.compile(r"trainer process with rank=\[(\d{1,5})")
_MEANT = re.compile(r"No such option:? (--?[\w-]{1,80}) Did you mean (--?[\w-]{1,80})\?")
_JOB = re.compile(r"\*\*\* (?:JOB|STEP) (\d{1,12})\b.{0,200} CANCELLED AT")
_NO_SUCH = re.compile(r"No such file or directory: ['\"]([^'\"\n]{1,300})['\"]")
_NO_PARENT = re.compile(r"Parent directory (\S{1,300}) does not exist")
_SET_VARIABLE = re.compile(
    r"\benvironment variable ['\"`]?([A-Z][A-Z0-9_]{2,60})['\"`]? (?:to|=|as) "
    r"(?:(?P<quote>['\"`])([\w.:/-]{1,60})(?P=quote)|(\d[\w.:/-]{0,60}\b|[Tt]rue\b|[Ff]alse\b))"
)
_NEWER_PTXAS = "export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas"
_UNITS_PER_GIB = {"G": 1.0, "M": 1024.0, "K": 1024.0**2}
_MUCH, _OTHERS_HOLD_GIB, _NEARLY_ALL = 0.2, 2.0, 0.9
"""Share of a GPU's memory, and GiB: what CUDA itself takes for a process is less; and a share that leaves others none."""
_WAITS = re.compile(r"\[Rank (\d{1,6})\] Watchdog caught .{1,60}SeqNum=(\d{1,12}), OpType=(\w{1,40})")
_PRODUCT = re.compile(r"shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)")
_CHANNELS = re.compile(r"expected input\[.{1,60}\] to have (\d+) channels, but got (\d+) channels")
_FILE = re.compile(r"(?<!File )['\"](/[^'\"\n]+)['\"]")


_BY_WORDS: dict[str, tuple[tuple[str, str], ...]] = {
    "S08": (
        (r"[Ii]ndex put requires", "target[index] = values.to(target.dtype), under autocast too"),
        (r"nll_loss\w*\W+not implemented for", "targets.long(): a loss over classes takes their numbers as int64"),
        (r"not implemented for '(?:Bool|Byte|Char|Short|Int|Long)'|floating point or complex", "x.float() before it: the operation takes no integers"),
        (r"not implemented for 'Float8", "x.to(torch.bfloat16) before it: float8 is stored and multiplied (torch._scaled_mm), and has no other arithmetic"),
        (r"\bDouble\b|float64|DoubleTensor", "x = x.float() where the input is made: NumPy's and Python's numbers are float64"),
    ),
    "S16": (
        (r"undefined symbol|cannot open shared object", "python -m pip install --force-reinstall --no-deps --no-cache-dir --no-build-isolation flash-attn"),
        (r"[Nn]o dot product attention", "export NVTE_DEBUG=1 NVTE_DEBUG_LEVEL=2"),
        (r"[Nn]o available kernel", "the warnings above say why each kernel declines; allow another one: sdpa_kernel([..., SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])"),
    ),
    "S20": (
        (r"\bResourceExhaustedError\b|tensorflow[./]", "export TF_GPU_ALLOCATOR=cuda_malloc_async helps where memory is in pieces"),
        (r"stream executor", "nvidia-smi shows who holds that GPU: it had no room to start CUDA"),
        (r"\bRESOURCE_EXHAUSTED\b|\bjaxlib\b", "jax.checkpoint on the layers keeps less for the backward; donate_argnums of jit frees the state that a step replaces"),
        (r"cache blocks|KV cache", "a larger gpu_memory_utilization (vLLM's share of the whole GPU, its weights included), a smaller max_model_len, or more GPUs (tensor_parallel_size)"),
        (r"--mem-fraction", "a larger --mem-fraction-static (SGLang's share of the GPU for weights and cache), or more GPUs (--tp)"),
        (r"\bOut of GPU memory\b", "CUDA.memory_status() shows what is held; CUDA.reclaim() behind GC.gc() gives it back"),
    ),
    "S18": ((r"returned nan values in its", "the traceback of the forward above it names the line: an eps or a clamp before its sqrt, log, power, norm or division"),),
    "S22": (
        (r"fused_attn|transformer_engine", "export NVTE_FUSED_ATTN=0"),
        (r"cudnn_frontend|cuDNN Frontend", "torch.backends.cuda.enable_cudnn_sdp(False) where attention asked for it; a newer cuDNN (nvidia-cudnn-cuNN) knows newer GPUs"),
        (r"\b[Xx][Ll][Aa]\b|/xla/|jax", "export XLA_PYTHON_CLIENT_PREALLOCATE=false (JAX takes 75 % of a GPU at its start); nvidia-smi shows what else is on it"),
    ),
    "S21": ((r"WinError 1455|error code: <1455>|paging file", "let Windows manage the size of the paging file, on a disk with room; DataLoader(num_workers=0)"),),
    "S26": (("", "gradient_checkpointing_kwargs={'use_reentrant': False}"),),
    "S32": (
        (r"\bhip|\bHIP\b|\bHSA_|\bgfx\d", "rocminfo | grep -m1 gfx names the architecture that the build must have"),
        (r"option 'gpu-name'", _NEWER_PTXAS),
        ("", "python -c 'import torch; print(torch.cuda.get_arch_list(), torch.cuda.get_device_capability())'"),
    ),
    "S31": ((r"Attempting to deserialize", "torch.load(FILE, map_location='cpu'), then move it to the rank's GPU"),),
    "S37": (
        (r"Unable to initialize backend '(?!cuda|gpu)", "unset JAX_PLATFORMS JAX_PLATFORM_NAME: they name a kind of device that this host or this jaxlib does not have"),
        (r"stub library", "unset LD_LIBRARY_PATH: it leads to the stubs of the CUDA toolkit, which are for linkers"),
        (r"Attempting to deserialize", "torch.load(FILE, map_location='cpu') where no GPU is wanted"),
        (r"select device driver|nvidia-container-cli", "install the driver and the NVIDIA Container Toolkit on the host; docker run --rm --gpus all ubuntu nvidia-smi shows whether they work"),
        (r"NCCL built in", "init_process_group('gloo') on Windows and macOS, whose torch has no NCCL"),
    ),
    **dict.fromkeys(("S38", "S125"), ((r"\bHIP\b|\bhip[A-Z]|\bHSA_|amdgpu|by GPU \W{0,3}node", "export AMD_SERIALIZE_KERNEL=3"), ("", "export CUDA_LAUNCH_BLOCKING=1"))),
    "S39": (
        (r"n_classes|[Tt]arget|[Ll]abel", "print(labels.min(), labels.max()) before the loss: 0 to the number of classes - 1, ignore_index aside"),
        (r"srcIndex|vocab|[Ee]mbedding", "print(input_ids.max()): less than the rows of the embedding (model.resize_token_embeddings(len(tokenizer)))"),
    ),
    "S42": ((r"notebook|create new processes", "restart the kernel, and before the launcher or trainer let nothing start CUDA (torch.cuda.*, .to('cuda'), imports that do)"),),
    "S44": (
        (r"[Cc]redential|[Mm]unge", "munge -n | ssh NODE unmunge; ssh NODE date"),
        (r"kubectl|\bpods?\b|kubelet|Error from server|Insufficient \w+(?:\.com/gpu)?$", "kubectl describe pod POD"),
        (r"plm_rsh_agent|daemon on the local node", "export OMPI_MCA_plm_rsh_agent=sh where the host has no ssh and one process is enough; or uninstall mpi4py, which Lightning and others import"),
        (r"not enough slots", "mpirun -np N -H HOST:SLOTS,... with a slot for each GPU; --oversubscribe where it counts too few cores"),
        (r"mpirun|mpiexec|MPI_I(?:nit|NIT)|orted|prte|PMIX|PMI\b", "which mpirun, on every host"),
        (r"\bqsub\b|\bPBS\b|pbs_", "qstat -xf JOB"),
        (r"\b(?:srun|sbatch|salloc|slurmstepd)\b", "sinfo -o '%P %l %D %G %N %T' lists partitions, limits and GPUs"),
    ),
    "S60": (("", "docker run --ipc=host ..."),),
    "S61": (("", "DistributedDataParallelKwargs(find_unused_parameters=True)"),),
    "S43": ((r"generator", "DataLoader(generator=torch.Generator(device='cuda')), or torch.set_default_device back to 'cpu': a sampler draws on the default device"),),
    "S56": (
        (r"\b[Nn][Vv][Ll][Ss]\b|nvls\.cc|multicast", "export NCCL_NVLS_ENABLE=0"),
        (r"Cuda failure 1 'invalid argument'", "export NCCL_CUMEM_ENABLE=0"),
    ),
    "S65": (("", "unset PYTHONHOME PYTHONPATH"),),
    "S66": ((r"NET plugin", "unset NCCL_NET NCCL_NET_PLUGIN: the network that they name is not on this host"),),
    "S67": (
        (r"(?i)nvshmem", "export NVSHMEM_DEBUG=WARN; NVSHMEM_IB_ENABLE_IBGDA=0 takes the path that needs no options of the driver (PeerMappingOverride=1)"),
        (r"[Gg]loo", "ip -br addr names the interfaces: GLOO_SOCKET_IFNAME=IF on every host"),
        (r"Cannot allocate memory", "ulimit -l unlimited (docker run --ulimit memlock=-1) on every host"),
        (r"NET/IB|\bibv?_|mlx5|IBV_WC|InfiniBand", "ibstat shows the links; NCCL_IB_DISABLE=1 takes the network without them"),
    ),
    # A kernel that was built and does not start is none of a compiler's.
    "S68": (
        (r"Python\.h: No such", "sudo apt install python3-dev"),
        (r"[Nn]inja is required|ninja not being installed|\bninja\b.{0,40}not found|No such file or directory: '\S*ninja'", "python -m pip install ninja"),
        (r"\bninja\b.{0,4000}non-zero|ninja: build stopped", "rm -r ~/.cache/torch_extensions, then MAX_JOBS=1: the compiler's first error is above this message"),
        (r"CUDA_HOME|No such file or directory: '\S*nvcc'|CUDA version|MissingCUDA", "install the CUDA toolkit of torch's CUDA version, and set CUDA_HOME"),
        (r"No such file or directory: '/(?!usr/bin/)\S{1,200}/(?:gcc|g\+\+|clang)", "unset CC CXX, or let them name a compiler of this host (env: of the run config)"),
        (r"C(?:\+\+)? compiler|CxxCompiler|No such file or directory: '\S*(?:gcc|g\+\+|clang)'|Compiler: \S+ is not found", "sudo apt install g++"),
        (r"^triton\.compiler\.errors\.CompilationError(?!(?s:.*)(?:_inductor|_dynamo))", "correct the @triton.jit function, or take another version of its package: line and column count from its def, and the last line names the fault"),
        (r"option 'gpu-name'", _NEWER_PTXAS),
        (r"cannot find -lcuda\b", "export LIBRARY_PATH=/usr/local/cuda/lib64/stubs"),
        (r"Triton Error|_inductor|_dynamo|inductor|[Tt]riton", "export TORCHDYNAMO_DISABLE=1"),
    ),
    "S70": (("", "sudo dmesg -T | grep -i -E 'killed process|oom'"),),
    "S71": ((r"Fatal Python error", ""), ("", "export PYTHONFAULTHANDLER=1")),
    "S75": (("", "ulimit -n 65536"),),
    "S118": ((r"gloo device", "python -m pip install torch==2.7.1 --index-url URL"),),
    "S120": (("", "ls -l /dev/nvidia* /dev/dri; id"),),
    "S121": ((r"[Tt]ensor[Bb]oard", "tensorboard --logdir DIR --port 0 takes a free one"),),
    "S122": (("", "sudo sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=1024"),),
    "S76": ((r"[Qq]uota|\[Errno 122\]|os error 122", "quota -s"),),
    "S79": (
        (r"-8\b|\b136\b|\(8\)|FPE|[Ff]loating|signal:? 8\b", "export PYTHONFAULTHANDLER=1 shows where a whole number was divided by zero (a size, a stride, a count of 0)"),
        ("", "lscpu | grep -E 'Model name|avx'"),
    ),
    "S110": (
        (r"CondaError: Run|to use 'conda activate'", ACTIVATE_CONDA),
        (r"Environment(?:Name|Location)NotFound", "conda env list names those that this host has"),
        (r"modulefile|Lmod has detected", "module spider NAME lists its versions, and what each wants loaded before"),
    ),
    "S113": (
        (r"\\r\W|\^M|^(?:: |': )", "sed -i 's/\\r$//' SCRIPT takes the line ends of Windows away"),
        (r"' is not recognized as|Missing expression after unary", "write the command in one line: cmd continues a line with ^, PowerShell with `, and neither with \\"),
        (r"[=-]\S{0,80}: (?:command )?not found$|not found: -", "end the line above that argument with \\ as its last character: a blank or a comment behind it ends the command"),
    ),
    "S115": (
        (r"[Pp]ermission|\b403\b|[Ff]orbidden", "wandb login --relogin, with entity= and project= of wandb.init (or WANDB_ENTITY) that this login may write to"),
        (r"[Ww]andb.{0,200}(?:[Kk]ey|[Ll]og ?in|[Pp]ermission|[Aa]uthent|[Ee]ntity|\b40[13]\b)", "wandb login"),
        (r"[Ww]andb", "export WANDB_MODE=offline"),
    ),
    "S81": (
        (r"\b429\b|Too Many Requests|\bSlowDown\b", "HF_HUB_OFFLINE=1 after one download: each rank of each host asks the server otherwise"),
        (r"\b(?:boto\w*|aio\w*|s3\w*)\b|ExpiredToken", "aws sts get-caller-identity on every host shows whose credentials it has, and whether they expired"),
        (r"^azure\.|\bazure\.core\.", "az login, or a SAS token that has not expired, on every host"),
        (r"\bgoogle\.|\bgcsfs\b|gs://", "gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS=KEY.json, on every host"),
    ),
    "S82": ((r"\bCAS (?:service|client)|\bxet\b", "export HF_HUB_DISABLE_XET=1"),),
    "S84": ((r"[Nn]o (?:valid )?checkpoint found in", "leave resume_from_checkpoint out of a first start: the output directory holds no checkpoint-N yet"),),
    "S88": (
        (r"Missing key\(s\)[^\n]{0,40}\"module\.", "load into model.module: the model is wrapped (DataParallel, DDP), the checkpoint is of the model within"),
        (r"(?:Unexpected|unexpected) key(?:\(s\))?[^\n]{0,40}\"(module|_orig_mod)\.", "{key.removeprefix('module.').removeprefix('_orig_mod.'): value for key, value in state.items()}"),
        (r"Unexpected key\(s\)[^\n]{0,4000}\"(?:epoch|iteration|global_step|optimizer\w*|state_dict|model|\w+_state_dict)\"", "the file holds more than weights: load_state_dict(checkpoint['...']) with one of the keys that are unexpected"),
    ),
    "S91": (("", "python -m pip install -U bitsandbytes"),),
    "S92": (
        (r"_(?:doc|sample|shuffle)_(?:idx|index)\.npy", "an index cache on storage that all hosts share (--data-cache-path): rank 0 builds it on its own host alone"),
        (r"binascii\.Error|existing deepspeed config", "ls -l CONFIG.json on every host: DeepSpeed takes a path that does not exist for a config in base64"),
    ),
    "S98": (
        (r"XLA_FLAGS", "take that flag out of XLA_FLAGS (env: of the run config): the installed jaxlib does not know it"),
        (r"\b(?:hydra|omegaconf)\.errors\.|in struct|Missing key |unknown key in a struct|Could not override|You must specify|Primary config", "python SCRIPT --cfg job shows the config; KEY=VALUE sets a key of it, +KEY=VALUE adds one"),
        (r"error: .{0,80}--local[-_]rank", 'read LOCAL_RANK from the environment, or add_argument("--local-rank", "--local_rank", type=int)'),
        (r"(?:torchrun|\b(?:run|launch)\.py): error: unrecognized arguments: (?:.{0,80} )?--(?:nproc-per|node-rank|rdzv-|master-|max-restarts|monitor-interval|start-method|log-dir|no-python|run-path)", "write its - as _ (--nproc_per_node), which every torchrun takes: torch before 2.0 knows no other"),
        (r"(?<!launch)\.py: error: unrecognized arguments: .{0,80}(?:torch\.distributed|--(?:nproc|nnodes|node|rdzv|master|use|standalone|num_(?:processes|machines)|main_process|multi_gpu)[\w-]*)\b", "the launcher's options belong before the script: torchrun --nproc_per_node N SCRIPT ARGUMENTS"),
    ),
    "S95": ((r"Signal 10\b|-10\b", "signal.signal(signal.SIGUSR1, save_and_exit): a process that does not catch the warning of --signal=USR1@SECONDS ends by it"),),
    "S97": ((r"\b[Kk]ernel (?:crashed|appears to have died|has died|died)\b", "jupyter nbconvert --to script NOTEBOOK.ipynb, then python -X faulthandler NOTEBOOK.py; sudo dmesg -T | grep -i oom"),),
    "S99": (
        (r"\bAlgorithmError\b|\bExecuteUserScriptError\b", "aws logs tail /aws/sagemaker/TrainingJobs --since 1d --log-stream-name-prefix JOB, whose streams end in the hosts' names (algo-1)"),
        (r"\breplica \S{1,40} exited with a non-zero status", "gcloud ai custom-jobs stream-logs JOB, or the log explorer's link in the message"),
    ),
    "S100": ((r"Error 2: out of memory", "ulimit -v; free -g; nvidia-smi: a limit of address space, the host's memory or the GPU's leaves CUDA no room to start"),),
    "S102": ((r"NCCL built in", "init_process_group('gloo'), or run it on Linux (WSL): torch for Windows and macOS has no NCCL"),),
    "S104": ((r"require users to upgrade torch", "python -m pip install -U 'torch>=2.6' torchvision --index-url URL"),
             (r"static TLS block", "export LD_PRELOAD=FILE with the library of the message, or import its package before all others"),
             (r"torchvision|custom C\+\+ ops", "python -m pip install --force-reinstall torch torchvision --index-url URL")),
    "S108": ((r"Error tokenizing data", "read_csv(..., on_bad_lines='warn') names the lines with more fields than the first: another sep=, or an open quote"),
             ("", "find DIR -type f -size 0 lists empty files")),
    "S111": (
        (r"registry-1\.docker\.io/v2/[\w-]+\.[\w.-]+/", "--container-image=REGISTRY#IMAGE: pyxis separates a registry by #"),
        (r"returned error code: 40[13]", "the registry's login belongs into ~/.config/enroot/.credentials"),
        (r"kubelet|ErrImagePull|ImagePullBackOff|Back-off pulling", "kubectl describe pod POD"),
        (r"[Dd]ocker daemon", "docker info"),
        (r"\.sif\b", "apptainer inspect IMAGE.sif"),
    ),
}  # fmt: skip
"""By code: (words of a log, what to type), of which the first that fits counts."""
_WITH_NAME = {
    "S50": (_PORT, "ss -ltnp 'sport = :{0}' on the main host shows who holds port {0}"),
    "S51": (_HOST_AND_PORT, "nc -vz {0} {1}"),
    "S138": (_PORT, "ss -ltnp 'sport = :{0}' on the server's host shows whether it listens"),
    "S76": (_FILE, "df -h {0}"),
    "S78": (_JOB, "sacct -j {0} -X -o JobID,State%40,Elapsed,Timelimit names who cancelled it"),
    "S80": (_REPO, "hf auth login && hf download {0}"),
    "S81": (_REPO, "hf auth login && hf download {0}"),
    "S82": (_REPO, "hf download {0}"),
    "S92": (_NO_PARENT, "mkdir -p {0}"),
    "S98": (_SCRIPT, "python {0} --help"),
}
"""By code: what to type with the names that a pattern finds in a log, where no words of `_BY_WORDS` fit."""


_MEMORY_AT = (
    (r"/torch/optim/", "no smaller batch helps: the optimizer's states do not fit beside the weights (AdamW keeps two copies of them): shard them (FSDP, ZeRO), take an 8-bit optimizer, or train adapters (LoRA)"),
    (r"/torch/nn/modules/module\.py:(?:convert|_apply)|/transformers/(?:modeling_utils|core_model_loading|integrations/accelerate)\.py", "no smaller batch helps: the weights alone do not fit: dtype=torch.bfloat16, fewer bits (quantization_config=), or shards of them (FSDP, ZeRO-3)"),
    (r"/transformers/(?:generation/|cache_utils\.py)", "fewer sequences at once and fewer new tokens: the cache of keys and values grows with both"),
)  # fmt: skip
_AT_PLACE = {
    "S20": _MEMORY_AT,
    "S129": _MEMORY_AT,
    "S78": ((r"/torch/utils/file_baton\.py:", "rm -r ~/.cache/torch_extensions (TORCH_EXTENSIONS_DIR): it waits for the lock of a build that was killed"),),
}  # fmt: skip
"""By code: (file:function of the innermost frames, what to do), where a log's words do not say it."""


def command_for(code: str, text: str) -> str:
    """Return what to do, made from a cause's lines (joined); "" where they do not say enough."""
    said = next((command for words, command in _BY_WORDS.get(code, ()) if re.search(words, text)), "")
    pattern, command = _WITH_NAME.get(code, (None, ""))
    found = pattern.search(text) if pattern else None
    names = [shell_word(group) for group in found.groups() if group] if found else []
    make = _MAKERS.get(code)
    return said or (command.format(*names) if names else "") or (make(text) if make else "")


def command_at(code: str, places: Iterable[str]) -> str:
    """Return what to do about a cause that was raised at such places (file:function), "" where they do not say it."""
    where = "\n".join(places)
    return next((command for words, command in _AT_PLACE.get(code, ()) if re.search(words, where)), "")


def shell_word(path: str) -> str:
    """Return a path or name of a log, which may hold anything, as one word of a shell; `~/` stays."""
    home = "~/" if path.startswith("~/") else ""
    return home + quote(path.removeprefix(home))


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return next((group for group in found.groups() if group), "") if found else ""


def _rename(text: str) -> str:
    name = _first(_ARGUMENT, text)
    if name in _RENAMED:
        new = _RENAMED[name]
        return f"write {new}{'' if '=' in new else '='} instead of {name}="
    if name in _OLDER:
        return f"write {_OLDER[name]}= instead of {name}=, or install the version that the script was written for"
    return f"take {name}= out of the call" if name else ""


def _option(text: str) -> str:
    meant = _MEANT.search(text)
    return f"write {meant[2]} instead of {meant[1]}" if meant else ""


def _ended(text: str) -> str:
    pod, refused = _POD.search(text), _REFUSED.search(text)
    if pod:
        return f"kubectl logs -n {pod[1]} {pod[2]} --previous"
    if worker := _first(_PADDLE_RANK, text):
        return f"less log/workerlog.{worker}, which is that rank's output (--log_dir of paddle.distributed.launch)"
    if refused:
        return f"python {shell_word(refused[1])} --help: with status 2 Python says that arguments are refused, or that it finds no such script"
    return "grep -il error /tmp/ray/session_latest/logs/*" if _RAY.search(text) else ""


def _missing(text: str) -> str:
    path = _first(_NO_SUCH, text)
    folder = path.rpartition("/")[0]
    if not folder:
        return ""
    said = f"ls -ld {shell_word(folder)}"
    return (
        said
        if path.startswith("/")
        else f"{said}, where the run was started; mkdir -p makes a folder to write to"
    )


def _variable(text: str) -> str:
    found = _SET_VARIABLE.search(text)
    return f"export {found[1]}={found[3] or found[4]}" if found else ""


def _features(text: str) -> str:
    """Return what a layer was given beside what it was made for."""
    product, channels = _PRODUCT.search(text), _CHANNELS.search(text)
    if product and product[1] != product[2]:
        return f"the input has {product[1]} features, and the layer's weight takes {product[2]}: give it what it was made for, or make it with in_features={product[1]}"
    return f"the input has {channels[2]} channels, and the layer takes {channels[1]}" if channels else ""


def _memory(text: str) -> str:
    """Return what a GPU's memory lacks by the numbers of torch's message, older or newer: others hold it, torch keeps it in pieces, or it never had as much."""
    total, allocated, kept, own = _held(text)
    free, wanted = _gib(text, "", " (?:is )?free"), _gib(text, "Tried to allocate ", "")
    others = total - free - own if " free" in text else 0.0
    if own and wanted <= total and others > max(_OTHERS_HOLD_GIB, _MUCH * total):
        return f"nvidia-smi shows who holds {others:.1f} of the {total:.1f} GiB of that GPU; this process has {own:.1f}"
    if wanted > total > 0:
        return f"that line asks for one tensor of {wanted:.1f} GiB, and the whole GPU has {total:.1f}: print its shape, and make it in parts"
    if allocated and "non-PyTorch" in text and own - allocated - kept > _MUCH * total:
        return f"{own - allocated - kept:.1f} GiB of this process are not torch's: export XLA_PYTHON_CLIENT_PREALLOCATE=false where it uses JAX, too; CuPy keeps a pool"
    in_pieces = kept > _MUCH * total > 0 and wanted <= free + kept
    return "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" if in_pieces else ""


def _held(text: str) -> tuple[float, float, float, float]:
    """Return what a GPU has in GiB, what torch gave to tensors and keeps beside it, and what its process holds."""
    total = _gib(text, r"capac\w+ of ", "") or _gib(text, "", " total capacity")
    allocated = _gib(text, "", " (?:already|is) allocated")
    kept = _gib(text, "", " is reserved") or max(0.0, _gib(text, "", " (?:reserved|cached)") - allocated)
    return total, allocated, kept, _gib(text, "this process has ", "") or allocated + kept


def filled_by_itself(text: str) -> str:
    """Return how much of a GPU's memory a process holds that ran out of it, "" where that is not nearly all."""
    total, *_, own = _held(text)
    return f"{own:.1f} of {total:.1f} GiB" if own > _NEARLY_ALL * total > 0 else ""


def _gib(text: str, before: str, after: str) -> float:
    """Return the first size in GiB between two patterns, 0 where there is none."""
    found = re.search(rf"{before}\b([\d.]+) ([KMG])iB{after}", text)
    return float(found[1]) / _UNITS_PER_GIB[found[2]] if found else 0.0


def _waiting(text: str) -> str:
    """Return what ranks wait in, where that differs: they went other ways before, or are of several groups."""
    waits = {rank: f"{kind} {number}" for rank, number, kind in _WAITS.findall(text)}
    shown = ", ".join(f"rank {rank} waits in {wait}" for rank, wait in waits.items())
    differ = len(set(waits.values())) > 1
    return f"{shown}: alike within one group, unless one went another way before" if differ else ""


def _shadowed(text: str) -> str:
    module = _first(_OF_MODULE, text)
    package = package_of_module(module)
    if package and package.replace("-", "_") != module.lower():
        return f"python -m pip install --force-reinstall {package}, which {module} is of; a package {module} is another one"
    return f"python -c 'import {module}; print({module}.__file__)'" if module else ""


def _fitting(text: str) -> str:
    if "rotobuf" in text or "Descriptors" in text or "MessageFactory" in text:
        return f"python -m pip install {'--upgrade protobuf' if 'Gencode' in text else _OLD_PROTOBUF}"
    return "python -m pip install 'numpy<2'" if _NEW_NUMPY.search(text) else ""


_MAKERS: dict[str, Callable[[str], str]] = {
    "S00": lambda text: _shadowed(text) or _variable(text) or _features(text),
    "S20": _memory,
    "S54": _waiting,
    "S76": lambda _text: "df -h . /tmp",
    "S90": _rename,
    "S92": _missing,
    "S97": _ended,
    "S98": _option,
    "S99": _ended,
    "S104": _fitting,
}
"""By code: what makes a command of what a log says, where neither words nor one name do."""
