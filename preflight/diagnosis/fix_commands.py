"""What to type or to change for one cause in one log, where its lines say enough for that. Pure."""

import re
from collections.abc import Callable

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
_ARGUMENT = re.compile(r"unexpected keyword argument ['\"]?(\w+)")
_PORT = re.compile(
    r"port[`'\": ]+(\d{2,5})\b|\]?:(\d{4,5})\b(?=.{0,40}(?:in use|EADDR|errno))|[Pp]ort `?(\d{2,5})"
)
_REPO = re.compile(
    r"huggingface\.co/(?:api/models/)?((?!docs/|settings/)[\w.-]+/[\w.-]*\w)|model ([\w.-]+/[\w.-]+) is restricted"
)
_NEW_NUMPY = re.compile(
    r"_ARRAY_API|NumPy 1\.x|Numpy is not available|removed in the NumPy 2|version of numpy is 0x2"
)
_OLD_PROTOBUF = "'protobuf<=3.20.3'"
_LACKING = (
    (re.compile(r"Python\.h: No such"), "sudo apt install python3-dev"),
    (re.compile(r"[Nn]inja"), "python -m pip install ninja"),
    (re.compile(r"CUDA_HOME|'\S*nvcc'|CUDA version|MissingCUDA"), "install the CUDA toolkit of torch's CUDA version, and set CUDA_HOME"),
    (re.compile(r"C(?:\+\+)? compiler|CxxCompiler|No such file or directory: '\S*(?:gcc|g\+\+|clang)'|Compiler: \S+ is not found"), "sudo apt install g++"),
    (re.compile(r"Triton Error|_inductor|_dynamo|inductor|[Tt]riton"), "TORCHDYNAMO_DISABLE=1 python train.py"),
)  # fmt: skip
_SCRIPT = re.compile(r"([\w./-]+\.py): error: ")
_HOST_AND_PORT = re.compile(
    r"\(([\w.-]{2,80}), (\d{2,5})\)|\[?\b((?:\d{1,3}\.){3}\d{1,3}|[a-z][\w-]*(?:\.[\w-]+)*)\]?:(\d{4,5})\b(?!\])"
)
_INFINIBAND = re.compile(r"NET/IB|\bibv?_|mlx5|IBV_WC|InfiniBand")
_TRACKER = re.compile(r"\b[Ww]andb\b")
_COMPOSED = re.compile(r"\b(?:hydra|omegaconf)\.errors\.")
_RAY = re.compile(r"\bray\b|Actor|raylet")
_POD = re.compile(r"\bPod: ([a-z0-9-]+)\.([\w-]+) exited")
_QUOTA = re.compile(r"[Qq]uota|\[Errno 122\]|os error 122")
_OF_MODULE = re.compile(r"AttributeError: (?:partially initialized )?module '([A-Za-z]\w*)' has no attribute")
_OF_SCHEDULERS = (
    (re.compile(r"[Cc]redential|[Mm]unge"), "munge -n | ssh NODE unmunge; ssh NODE date"),
    (
        re.compile(r"kubectl|\bpods?\b|kubelet|Error from server|Insufficient \w+(?:\.com/gpu)?$"),
        "kubectl describe pod POD",
    ),
    (re.compile(r"mpirun|mpiexec|MPI_Init|orted|prte|PMIX|PMI\b"), "which mpirun, on every host"),
    (re.compile(r"\bqsub\b|\bPBS\b|pbs_"), "qstat -xf JOB"),
    (
        re.compile(r"\b(?:srun|sbatch|salloc|slurmstepd)\b"),
        "sinfo -o '%P %l %D %G %N %T' lists partitions, limits and GPUs",
    ),
)
"""(words of a log, what to type), the first that fits."""
_OF_CONTAINERS = (
    (
        re.compile(r"registry-1\.docker\.io/v2/[\w-]+\.[\w.-]+/"),
        "--container-image=REGISTRY#IMAGE: pyxis separates a registry by #",
    ),
    (
        re.compile(r"returned error code: 40[13]"),
        "the registry's login belongs into ~/.config/enroot/.credentials",
    ),
    (re.compile(r"kubelet|ErrImagePull|ImagePullBackOff|Back-off pulling"), "kubectl describe pod POD"),
    (re.compile(r"[Dd]ocker daemon"), "docker info"),
    (re.compile(r"\.sif\b"), "apptainer inspect IMAGE.sif"),
)
_FILE = re.compile(r"(?<!File )['\"](/[^'\"]+)['\"]")


def command_for(code: str, text: str) -> str:
    """Return what to do, made from a cause's lines (joined); "" where they do not say enough."""
    make = _MAKERS.get(code)
    return make(text) if make else ""


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return next((group for group in found.groups() if group), "") if found else ""


def _of_words(table: tuple[tuple[re.Pattern[str], str], ...], text: str) -> str:
    return next((what for words, what in table if words.search(text)), "")


def _rename(text: str) -> str:
    name = _first(_ARGUMENT, text)
    if name in _RENAMED:
        new = _RENAMED[name]
        return f"write {new}{'' if '=' in new else '='} instead of {name}="
    if name in _OLDER:
        return f"write {_OLDER[name]}= instead of {name}=, or install the version that the script was written for"
    return f"take {name}= out of the call" if name else ""


def _port(text: str) -> str:
    port = _first(_PORT, text)
    return f"ss -ltnp 'sport = :{port}' on the main host shows who holds port {port}" if port else ""


def _download(text: str) -> str:
    if _TRACKER.search(text):
        return "wandb login"
    repo = _first(_REPO, text)
    return f"hf auth login && hf download {repo}" if repo else ""


def _fetch(text: str) -> str:
    if _TRACKER.search(text):
        return "export WANDB_MODE=offline"
    repo = _first(_REPO, text)
    return f"hf download {repo}" if repo else ""


def _disk(text: str) -> str:
    path = _first(_FILE, text)
    return f"df -h {path}" if path else ""


def _toolchain(text: str) -> str:
    """Return how to get what a build lacks; a kernel that was built and does not start is none of a compiler's."""
    return _of_words(_LACKING, text)


def _usage(text: str) -> str:
    if _COMPOSED.search(text):
        return "python SCRIPT --cfg job shows the config; KEY=VALUE sets what it lacks"
    if "--local-rank" in text or "--local_rank" in text:
        return (
            'read LOCAL_RANK from the environment, or add_argument("--local-rank", "--local_rank", type=int)'
        )
    script = _first(_SCRIPT, text)
    return f"python {script} --help" if script else ""


def _reachable(text: str) -> str:
    found = _HOST_AND_PORT.search(text)
    return f"nc -vz {' '.join(group for group in found.groups() if group)}" if found else ""


def _network(text: str) -> str:
    if "gloo" in text or "Gloo" in text:
        return "ip -br addr names the interfaces: GLOO_SOCKET_IFNAME=IF on every host"
    return (
        "ibstat shows the links; NCCL_IB_DISABLE=1 takes the network without them"
        if _INFINIBAND.search(text)
        else ""
    )


def _launch(text: str) -> str:
    return _of_words(_OF_SCHEDULERS, text)


def _container(text: str) -> str:
    return _of_words(_OF_CONTAINERS, text)


def _ended(text: str) -> str:
    pod = _POD.search(text)
    if pod:
        return f"kubectl logs -n {pod[1]} {pod[2]} --previous"
    return "grep -il error /tmp/ray/session_latest/logs/*" if _RAY.search(text) else ""


def _quota(text: str) -> str:
    return "quota -s" if _QUOTA.search(text) else _disk(text) or "df -h . /tmp"


def _attention(text: str) -> str:
    unlike = "undefined symbol" in text or "cannot open shared object" in text
    return (
        "python -m pip install --force-reinstall --no-deps --no-build-isolation flash-attn" if unlike else ""
    )


def _shadowed(text: str) -> str:
    module = _first(_OF_MODULE, text)
    return f"python -c 'import {module}; print({module}.__file__)'" if module else ""


def _fitting(text: str) -> str:
    if "torchvision" in text or "custom C++ ops" in text:
        return "python -m pip install --force-reinstall torch torchvision --index-url URL"
    if "rotobuf" in text or "Descriptors" in text or "MessageFactory" in text:
        return f"python -m pip install {'--upgrade protobuf' if 'Gencode' in text else _OLD_PROTOBUF}"
    return "python -m pip install 'numpy<2'" if _NEW_NUMPY.search(text) else ""


_MAKERS: dict[str, Callable[[str], str]] = {
    "S65": lambda _: "unset PYTHONHOME PYTHONPATH",
    "S91": lambda _: "python -m pip install -U bitsandbytes",
    "S90": _rename,
    "S104": _fitting,
    "S68": _toolchain,
    "S50": _port,
    "S80": _download,
    "S81": _download,
    "S82": _fetch,
    "S76": _quota,
    "S00": _shadowed,
    "S16": _attention,
    "S44": _launch,
    "S51": _reachable,
    "S67": _network,
    "S79": lambda _: "lscpu | grep -E 'Model name|avx'",
    "S97": _ended,
    "S98": _usage,
    "S99": _ended,
    "S108": lambda _: "find DIR -type f -size 0 lists empty files",
    "S111": _container,
    "S75": lambda _: "ulimit -n 65536",
    "S60": lambda _: "docker run --ipc=host ...",
    "S70": lambda _: "sudo dmesg -T | grep -i -E 'killed process|oom'",
    "S71": lambda _: "python -X faulthandler train.py",
    "S38": lambda _: "CUDA_LAUNCH_BLOCKING=1 python train.py",
    "S26": lambda _: "gradient_checkpointing_kwargs={'use_reentrant': False}",
    "S61": lambda _: "DistributedDataParallelKwargs(find_unused_parameters=True)",
}
