"""What to type or to change for one cause in one log, where its lines say enough for that. Pure."""

from collections.abc import Callable, Iterable
from shlex import quote

from preflight import regex as re
from preflight.diagnosis.signatures.table import find_advice
from preflight.facts.package_names import find_package

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
    r"port[`'\": =]+(\d{2,5})\b|\]?:(\d{4,5})\b(?=.{0,40}(?:in use|EADDR|errno))|[Pp]ort `?(\d{2,5})|address \('[^']*', (\d{2,5})"
)
_REPO = re.compile(
    r"huggingface\.co/(?:api/)?(?:models/)?((?!(?:api|models|datasets|spaces|docs|settings)/)[\w.-]+(?:(?=/(?:resolve|revision)/)|/(?!(?:resolve|revision)/)[\w.-]*\w))|model ([\w.-]+/[\w.-]+) is restricted|looks like ([\w.-]+/[\w.-]+) is not the path to a directory"
)
_NEW_NUMPY = re.compile(
    r"_ARRAY_API|NumPy 1\.x|Numpy is not available|removed in the NumPy 2|version of numpy is 0x2"
)
_OLDEST_NUMPY = re.compile(r"[Nn]eeds NumPy (\d+\.\d+) or less")
_SCRIPT = re.compile(r"(?<![\w./-])([\w./-]+\.py): error: ")
_HOST_AND_PORT = re.compile(
    r"\(([\w.-]{2,80}), (\d{2,5})\)|\[?\b((?:\d{1,3}\.){3}\d{1,3}|[a-z][\w-]*(?:\.[\w-]+)*)\]?:(\d{4,5})\b(?!\])"
)
_SSH_TO = re.compile(r"connect to host (\S{1,80}) port (\d{1,5})")
_LOCAL = re.compile(r"['\"]((?:/|\.{1,2}/)[^'\"\n]{1,300})['\"]")
_RAY = re.compile(r"\bray\b|Actor|raylet|Worker exit type")
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
_UNITS_PER_GIB = {"G": 1.0, "M": 1024.0, "K": 1024.0**2}
_MUCH, _OTHERS_HOLD_GIB, _NEARLY_ALL = 0.2, 2.0, 0.9
"""Share of a GPU's memory, and GiB: more than CUDA takes for a process; a share that leaves others none."""
_BATCH = re.compile(r"world_size (\d{1,9}) != (\d{1,9}) \* (\d{1,9}) \* (\d{1,9})")
_DIVIDED = re.compile(r"\((\d{1,7})\).{0,60}(?:divisible by|multiple of).{0,80}?\(?\b(\d{1,7})\b\)?")
_MOST_DIVIDED = 1_000_000
_PACKAGE_FRAME = re.compile(r'File "\S*/(?:site|dist)-packages/(\w+)')
_PRODUCT = re.compile(r"shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)")
_CHANNELS = re.compile(r"expected input\[.{1,60}\] to have (\d+) channels, but got (\d+) channels")
_FILE = re.compile(r"(?<!File )['\"](/[^'\"\n]+)['\"]")


_WITH_NAME = {
    "S50": (_PORT, "ss -ltnp 'sport = :{0}' on the main host shows who holds port {0}"),
    "S49": (_HOST_AND_PORT, "nc -vz {0} {1}"),
    "S64": (_SSH_TO, "nc -vz {0} {1}"),
    "S83": (_LOCAL, "ls -ld {0}"),
    "S94": (_FILE, "ls -ld {0}; id"),
    "S138": (_PORT, "ss -ltnp 'sport = :{0}' on the server's host shows whether it listens"),
    "S76": (_FILE, "df -h {0}; df -i {0}"),
    "S78": (_JOB, "sacct -j {0} -X -o JobID,State%40,Elapsed,Timelimit names who cancelled it"),
    "S80": (_REPO, "hf auth login && hf download {0}"),
    "S81": (_REPO, "hf auth login && hf download {0}"),
    "S82": (_REPO, "hf download {0}"),
    "S92": (_NO_PARENT, "mkdir -p {0}"),
    "S98": (_SCRIPT, "python {0} --help"),
}
"""By code: what to type with the names that a pattern finds in a log, where no advice has a command."""


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


def find_command(code: str, text: str) -> str:
    """Return what to do, made from a cause's lines (joined); "" where they do not say enough."""
    said = find_advice(code, text)[2]
    pattern, command = _WITH_NAME.get(code, (None, ""))
    found = pattern.search(text) if pattern else None
    names = [quote_path(group) for group in found.groups() if group] if found else []
    make = _MAKERS.get(code)
    return said or (command.format(*names) if names else "") or (make(text) if make else "")


def find_place_command(code: str, places: Iterable[str]) -> str:
    """Return what to do about a cause raised at such places (file:function), "" where they do not say it."""
    where = "\n".join(places)
    return next((command for words, command in _AT_PLACE.get(code, ()) if re.search(words, where)), "")


def quote_path(path: str) -> str:
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
        return f"python {quote_path(refused[1])} --help: with status 2 Python says that arguments are refused, or that it finds no such script"
    return "grep -il error /tmp/ray/session_latest/logs/*" if _RAY.search(text) else ""


def _missing(text: str) -> str:
    path = _first(_NO_SUCH, text)
    folder = path.rpartition("/")[0]
    if not folder:
        return ""
    said = f"ls -ld {quote_path(folder)}"
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
    """Return the fix by torch's numbers: others hold the memory, it is in pieces, or the GPU is too small."""
    total, allocated, kept, own = _held(text)
    free, wanted = _gib(text, "", " (?:is )?free"), _gib(text, "Tried to allocate ", "")
    others = total - free - own if " free" in text else 0.0
    amd = "HIP" in text
    if own and wanted <= total and others > max(_OTHERS_HOLD_GIB, _MUCH * total):
        return f"{'rocm-smi --showpids' if amd else 'nvidia-smi'} shows who holds {others:.1f} of the {total:.1f} GiB of that GPU; this process has {own:.1f}"
    if wanted > total > 0:
        return f"that line asks for one tensor of {wanted:.1f} GiB, and the whole GPU has {total:.1f}: print its shape, and make it in parts"
    if allocated and "non-PyTorch" in text and own - allocated - kept > _MUCH * total:
        return f"{own - allocated - kept:.1f} GiB of this process are not torch's: export XLA_PYTHON_CLIENT_PREALLOCATE=false where it uses JAX, too; CuPy keeps a pool"
    in_pieces = kept > _MUCH * total > 0 and wanted <= free + kept
    if in_pieces and amd:
        return "export PYTORCH_HIP_ALLOC_CONF=garbage_collection_threshold:0.8,max_split_size_mb:512"
    return "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" if in_pieces else ""


def _held(text: str) -> tuple[float, float, float, float]:
    """Return in GiB what a GPU has, what torch gave to tensors, what it keeps, and what its process holds."""
    total = _gib(text, r"capac\w+ of ", "") or _gib(text, "", " total capacity")
    allocated = _gib(text, "", " (?:already|is) allocated")
    kept = _gib(text, "", " is reserved") or max(0.0, _gib(text, "", " (?:reserved|cached)") - allocated)
    return total, allocated, kept, _gib(text, "this process has ", "") or allocated + kept


def describe_own_memory(text: str) -> str:
    """Return how much of a GPU a process that ran out of memory holds, "" where that is not nearly all."""
    total, *_, own = _held(text)
    return f"{own:.1f} of {total:.1f} GiB" if own > _NEARLY_ALL * total > 0 else ""


def _gib(text: str, before: str, after: str) -> float:
    """Return the first size in GiB between two patterns, 0 where there is none."""
    found = re.search(rf"{before}\b([\d.]+) ([KMG])iB{after}", text)
    return float(found[1]) / _UNITS_PER_GIB[found[2]] if found else 0.0


def _reach(text: str) -> str:
    """Return what shows whether a host can be found, or be reached at a port."""
    found = _HOST_AND_PORT.search(text)
    host, port = [quote_path(group) for group in found.groups() if group] if found else ("", "")
    if found and re.search(r"gai error|be retrieved|be resolved|host not found", text):
        return f"getent hosts {host}"
    return f"nc -vz {host} {port}" if found else ""


def _crashed(text: str) -> str:
    """Return which package's frame is the innermost one of a stack that faulthandler wrote."""
    stack = text.partition("Current thread")[2] or text
    module = _first(_PACKAGE_FRAME, stack)
    return f"python -m pip show {find_package(module) or module} torch numpy" if module else ""


def _sizes(text: str) -> str:
    """Return sizes that fit a message's numbers: DeepSpeed's product, or one that another does not divide."""
    if product := _BATCH.search(text):
        total, micro, steps, ranks = map(int, product.groups())
        fits = f"train_batch_size {micro * steps * ranks} fits {ranks} ranks"
        each = micro * steps
        return fits + (f", {total} wants {total // each}" if each and total % each == 0 else "")
    divided = _DIVIDED.search(text)
    whole, part = (int(divided[1]), int(divided[2])) if divided else (0, 0)
    if not 1 < part <= whole <= _MOST_DIVIDED or whole % part == 0:
        return ""
    fitting = ", ".join(str(size) for size in range(1, min(whole, 2 * part) + 1) if whole % size == 0)
    return f"{whole} is a multiple of {fitting}; multiples of {part} beside it are {whole // part * part} and {(whole // part + 1) * part}"


def _shadowed(text: str) -> str:
    module = _first(_OF_MODULE, text)
    package = find_package(module)
    if package and package.replace("-", "_") != module.lower():
        return f"python -m pip install --force-reinstall {package}, which {module} is of; a package {module} is another one"
    return f"python -c 'import {module}; print({module}.__file__)'" if module else ""


def _fitting(text: str) -> str:
    if "rotobuf" in text or "Descriptors" in text or "MessageFactory" in text:
        return "python -m pip install " + ("-U protobuf" if "Gencode" in text else "'protobuf<=3.20.3'")
    if wanted := _OLDEST_NUMPY.search(text):
        return f"python -m pip install 'numpy=={wanted[1]}.*'"
    return "python -m pip install 'numpy<2'" if _NEW_NUMPY.search(text) else ""


_MAKERS: dict[str, Callable[[str], str]] = {
    "S00": lambda text: _shadowed(text) or _variable(text) or _features(text),
    "S20": _memory,
    "S50": lambda _text: "ss -ltnp",
    "S51": _reach,
    "S71": _crashed,
    "S76": lambda _text: "df -h . /tmp",
    "S90": _rename,
    "S92": _missing,
    "S97": _ended,
    "S98": _option,
    "S99": _ended,
    "S104": _fitting,
    "S112": _sizes,
}
"""By code: what makes a command of what a log says, where neither words nor one name do."""
