"""Which row an exception belongs to by the package of its class and the module that raised it. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from preflight import regex as re
from preflight.diagnosis.signatures.table import Signature, find_signature
from preflight.diagnosis.tracebacks import ParsedException

_ANY = frozenset[str]()
_READING_ERRORS = frozenset({
    "JSONDecodeError", "UnicodeDecodeError", "EOFError", "BadZipFile", "error", "IncompleteReadError",
})  # fmt: skip
_READS_MODELS = re.compile(
    r"/(?:torch/serialization|safetensors/|transformers/(?:tokenization|configuration_utils|modeling_utils|feature_extraction"
    r"|image_processing|processing_utils|trainer_callback|convert_slow|generation/configuration)|tokenizers/|peft/(?:config|utils/save_and_load|peft_model))"
)
# Readers of data sets, and what they raise where a file is not what they expect.
_READS_DATA = re.compile(
    r"/(?:PIL|imageio|skimage/io|decord|av|librosa|audioread|torchaudio|torchcodec|webdataset|h5py|pyarrow|fastparquet|zarr|nibabel|pydicom"
    r"|tifffile|torchvision/io|pandas/io|numpy/lib|streaming|tensorflow/python/lib/io|json)/|/(?:cv2|lmdb|pandas/_libs/parsers|sqlite3)|/(?:soundfile|tarfile|zipfile|gzip|lzma|bz2)(?:/__init__)?\.py"
)
_DATA_ERRORS = frozenset({
    "SyntaxError", "ReadError", "EOFError", "BadZipFile", "BadGzipFile", "LZMAError", "UnidentifiedImageError", "DecompressionBombError", "ArrowInvalid",
    "LibsndfileError", "LibsndfileException", "NoBackendError", "JSONDecodeError", "ParserError", "EmptyDataError", "InvalidDataError", "ImageFileError",
    "InvalidDicomError", "TiffFileError", "DECORDError", "error",
})  # fmt: skip
_BY_HAND = re.compile(r"trailing comma|enclosed in double quotes(?!: line 1 column 2 )")  # JSON of a person
_ANY_READERS_ERRORS = frozenset({"RuntimeError", "ValueError", "OSError"})
_READS_DATA_ONLY = re.compile(
    r"/(?:(?:cv2|decord|av|torchaudio|torchcodec|soundfile|tfrecord|lmdb)(?=[/.])|pandas/_libs/parsers|numpy/lib/(?:_?npyio|_?format))"
)
# It decodes what is not the path of a file (runtime/config.py), as one that this host lacks.
_DEEPSPEED_CONFIG = re.compile(r"/deepspeed/runtime/config\.py$")
# An assertion that a path exists; the first of the files that a pattern or a folder has, where it has none.
_LACKS_FILE = re.compile(
    r"AssertionError: assert [\w.]{1,60}\.(?:exists|isfile|isdir|is_file|is_dir)\(|(?:StopIteration\b|IndexError: list index out of range|ValueError: (?:max|min)\(\) .{0,40}empty)(?s:.*)"
    r"(?:\b(?:next|max|min)\(.{0,200}\b(?:walk|r?glob|iglob|iterdir|scandir|listdir)\(|\b(?:r?glob|iglob|listdir)\((?:(?!\)\[).){0,200}\)\[-?\d+\](?!.{0,200}\)\[))"
)
_DOWNLOADS = re.compile(r"/(?:requests|httpx2?|urllib3|aiohttp|huggingface_hub|wandb|mlflow|botocore)/")
# A library that makes an object of another one.
_CALLS_LIBRARIES = re.compile(
    r"/(?:transformers|trl|accelerate|peft|datasets|diffusers|lightning|lightning_fabric|pytorch_lightning|optimum|sentence_transformers|composer)/"
)
# These hand on what the script gave them.
_PASSES_ON = re.compile(r"^(?:_?from_\w+|\w*wrapper\w*|_?inner\w*)$")
# What an installed package names of another module while it is imported: no script has a say in it.
_IMPORTED = re.compile(r"/(?:site|dist)-packages/.{1,300}\.py:<module>$")
_LACKS = re.compile(r"module '[\w.]{1,120}' has no attribute '")
_REFUSED_ARGUMENT = re.compile(r"^(?:\w+\.)*__init__\(\) got an unexpected keyword argument")
# (code, types or any, the file of the innermost frame): what raised it is about one thing only.
_RAISED_IN: tuple[tuple[str, frozenset[str], re.Pattern[str]], ...] = (
    ("S85", frozenset({"RuntimeError"}), re.compile(_READS_MODELS.pattern + r"(?!.*:\w*(?:save|write|flatten))")),
    ("S88", frozenset({"KeyError"}), re.compile(r"/torch/distributed/(?:_shard/)?checkpoint/\w*planner\w*\.py:\w*load")),
    ("S84", frozenset({"AssertionError"}), re.compile(r"/torch/distributed/checkpoint/state_dict_loader\.py:local_step$")),
    ("S88", frozenset({"KeyError"}), re.compile(r"/megatron/(?:\w+/)*checkpointing\.py:\w*load\w*$")),
    ("S31", frozenset({"IndexError"}), re.compile(r"/(?:pytorch_lightning|lightning(?:_fabric)?)/[\w./]{1,120}:root_device$")),
    ("S88", frozenset({"CheckpointException"}), re.compile(r"/torch/distributed/(?:_shard/)?checkpoint/(?!.*:\w*(?:save|write|init))")),
    ("S85", frozenset({"RuntimeError", "ValueError", "KeyError"}), re.compile(r"/torch/distributed/(?:_shard/)?checkpoint/(?!.*:\w*(?:save|write|init))")),
    ("S87", frozenset({"KeyError"}), re.compile(r"/transformers/models/auto/")),
    ("S86", frozenset({"ValueError"}), re.compile(r"/transformers/convert_slow_tokenizer|/tokenizers/")),
    ("S86", frozenset({"TypeError"}), re.compile(r"/transformers/\S*tokenization_\w+\.py:__init__$|/sentencepiece/__init__\.py:LoadFromFile$")),
    ("S88", frozenset({"KeyError", "ValueError"}), re.compile(r"/torch/optim/(?:lr_scheduler|optimizer)\.py:load_state_dict$")),
    ("S68", _ANY, re.compile(r"/torch/_(?:inductor|dynamo)/(?!backends/registry\.py|exc\.py:unimplemented$|utils\.py:(?:get_fake_value|run_node)$)|/triton/(?:compiler|runtime|backends|language)/|/torch/utils/cpp_extension")),
    ("S46", frozenset({"AssertionError"}), re.compile(r"/deepspeed/runtime/zero/(?:stage3|partition|parameter_offload|utils)(?!.*:(?:__init__|\w*(?:config|swap)\w*)$)")),
    ("S112", _ANY, re.compile(r":_?(?:ensure_divisibility|divide)$|/deepspeed/runtime/pipe/topology\.py:__init__$")),
    ("S68", _ANY, re.compile(r"/pip-(?:install|req-build|wheel)-\w+/.{0,200}setup\.py:")),
    ("S91", _ANY, re.compile(r"/bitsandbytes/(?:cextension|cuda_setup|cuda_specs)")),
    ("S100", frozenset({"RuntimeError", "AssertionError"}), re.compile(r"/torch/cuda/__init__\.py:(?:_lazy_init|_lazy_new|init|set_device|current_device)$")),
    ("S49", frozenset({"RuntimeError", "ValueError"}), re.compile(r"/torch/distributed/(?:rendezvous|elastic/rendezvous/)")),
    ("S89", frozenset({"OSError", "FileNotFoundError"}), re.compile(r"/ctypes/__init__\.py:")),
    ("S90", frozenset({"TypeError"}), _CALLS_LIBRARIES),
    ("S98", frozenset({"ValueError"}), re.compile(r"/torch/distributed/(?:run|launch)\.py:")),
    ("S104", frozenset({"AttributeError"}), _IMPORTED),
    ("S81", frozenset({"ValueError"}), re.compile(r"/huggingface_hub/_login\.py:")),
    ("S106", frozenset({"TypeError", "AttributeError", "PicklingError"}), re.compile(r"/multiprocessing/reduction\.py:")),
    ("S97", frozenset({"EOFError"}), re.compile(r"/multiprocessing/connection\.py:_recv$")),
)  # fmt: skip

# Classes whose name says what failed only in the package that they are of.
_HUB = frozenset({
    "huggingface_hub", "transformers", "datasets", "diffusers", "evaluate", "peft", "sentence_transformers", "tokenizers",
})  # fmt: skip
_AWS = frozenset({"botocore", "boto3", "aiobotocore", "aioboto3", "s3fs"})
_OWNERS = {
    **dict.fromkeys(
        ("RepositoryNotFoundError", "RevisionNotFoundError", "EntryNotFoundError", "LocalEntryNotFoundError",
         "GatedRepoError", "HfHubHTTPError", "HFValidationError", "LocalTokenNotFoundError", "OfflineModeIsEnabled"),
        _HUB,
    ),
    **dict.fromkeys(("NoCredentialsError", "EndpointConnectionError"), _AWS),
    "DefaultCredentialsError": frozenset({"google"}),
    "ClientConnectorError": frozenset({"aiohttp"}),
    "UnpicklingError": frozenset({"_pickle", "pickle", "cloudpickle", "dill", "torch"}),
    "SafetensorError": frozenset({"safetensors", "safetensors_rust"}),
    "BadZipFile": frozenset({"zipfile"}),
}  # fmt: skip

# What its own allocator does not get on a GPU torch calls "CUDA out of memory".
_NO_MEMORY = "CUDA error: out of memory"
_PINS = re.compile(r"/pin_memory\.py:|:pin_memory$|\bpin_memory\(|\bcudaHost(?:Alloc|Register)", re.MULTILINE)
# Below torch's first line, where a Git LFS pointer has an unsupported operand.
_REFUSED_OBJECT = re.compile(r"\bUnsupported (?:global|class)|\ballowed global by default")
_LOADS_MODEL = re.compile(
    r"\b(?:restore_from|load_from_checkpoint|from_pretrained|load_(?:checkpoint|model|weights))\("
)
# What torch says of both, and of a file that is damaged.
_REFUSED_ALL, _CUT_OFF = (
    re.compile(r"Weights only load failed"),
    re.compile(r"\boperand\b|\binvalid\b|magic|truncated|ran out of input", re.IGNORECASE),
)
_PRINTS = re.compile(
    r"\bprint\(|\bstd(?:out|err)\.\w|/(?:(?:tqdm|rich|click|loguru)/[\w/]+|logging/__init__)\.py:"
)
# (codes by the words, what raised it, the code that it is then): where it came from says more than its words.
_ANOTHER_THING: tuple[tuple[frozenset[str], re.Pattern[str], str], ...] = (
    (frozenset({"S85"}), re.compile(r"(?<!/torch)/multiprocessing/(?:spawn|forkserver|popen_\w+)\.py"), "S106"),
    (frozenset({"S85"}), re.compile(r"/torch/distributed/distributed_c10d\.py:_tensor_to_object"), "S62"),
    (frozenset({"S88"}), re.compile(r"/multiprocess(?:ing)?/(?:queues|connection)\.py:"), "S106"),
    (frozenset({"S81", "S82"}), re.compile(r"/(?:wandb|mlflow|comet_ml|neptune|swanlab|clearml)/"), "S115"),
    (frozenset({"S82"}), re.compile(r"/\w*(?:vllm_client|reward|rollout|judge|serve)\w*\.py:(?!(?s:.*)(?:huggingface|\bhf\b|modelscope|https:))"), "S138"),
    (frozenset({"S51"}), re.compile(r"/(?:requests|httpx2?|httpcore|urllib3?|aiohttp|botocore|http)/|/asyncio/base_events\.py:|/concurrent/futures/thread\.py:"), "S82"),
    (frozenset({"S76"}), re.compile(r"/multiprocessing/(?:synchronize|heap|shared_memory)\.py"), "S60"),
    (frozenset({"S75", "S76"}), re.compile(r"-packages/(?:\w*inotify\w*|watchdog|watchfiles)[/.]"), "S122"),
    (frozenset({"S50"}), re.compile(r"(?:-packages|/lib(?:64)?/python3[^/]*|(?:[Pp]ython|conda|forge)[\d.]*(?:/envs/[^/]+)?/[Ll]ib|/bin)/(?:tensorboard|jupyter\w*|notebook|gradio|streamlit|visdom|flask|werkzeug|uvicorn|aim|bokeh|dash|prometheus_client|wsgiref|socketserver)(?:/|:|\.py:)"), "S121"),
    (frozenset({"S57", "S138"}), re.compile(r"/multiprocessing/(?:connection\.py:(?!(?:Socket)?Client\b)|managers\.py:(?!connect\b)|(?:resource_sharer|reductions?|popen_\w+)\.py)"), "S97"),
    (frozenset({"S92"}), re.compile(r"/multiprocessing/connection\.py:SocketClient\b[^\n]*\n[^\n]*No such file or directory\W*$"), "S97"),
    (frozenset({"S37"}), re.compile(r"^(?:[A-Za-z]:|/Users)/(?s:.*)have NCCL built in"), "S102"),
    (frozenset({"S89"}), re.compile(r"-packages/[^\n]{1,300}\.py:<module>\n(?:[^\n]{1,300}/__init__\.py:__getattr__\n)?module '[\w.]{1,120}' has no attribute '"), "S104"),
    (frozenset({"S49", "S52"}), re.compile(r"^(?!(?s:.*)torch/distributed/)(?s:.*)\bwait timeout after \d+ms, keys:"), "S54"),
    (frozenset({"S92"}), re.compile(r"/torch/distributed/checkpoint/(?s:.*)No such file or directory: '[^'\n]*\.metadata'"), "S84"),
    (frozenset({"S92"}), re.compile(r"/subprocess\.py:_execute_child\n.*No such file or directory: '[^/']+'"), "S110"),
)  # fmt: skip


def override_row(row: Signature, raised: ParsedException, source: str) -> Signature:
    """Return the row that an exception belongs to: what raised it overrules the row of its words.

    `source`: the lines above its message, which show the call.
    """
    ends = [f"{frame.path}:{frame.function}" for frame in raised.frames[-3:]]
    if row.code == "S85" and _REFUSED_OBJECT.search(raised.whole):
        return find_signature("S117") or row
    if row.code == "S85" and _REFUSED_ALL.match(raised.message) and not _CUT_OFF.search(raised.whole):
        return replace(find_signature("S117") or row, broad=True)
    if not ends:
        return row
    text = "\n".join([*ends, raised.message])
    other = next(
        (code for codes, place, code in _ANOTHER_THING if row.code in codes and place.search(text)), ""
    )
    if row.code == "S108" and _LOADS_MODEL.search("".join(f"{each}(\n" for each in [*ends, source])):
        other = "S85"
    if row.code == "S85" and _reads_data(raised) and not any(_READS_MODELS.search(each) for each in ends):
        other = "S108"
    if (
        row.code == "S20"
        and raised.message.startswith(_NO_MEMORY)
        and _PINS.search("\n".join([*ends, source]))
    ):
        other = "S127"
    if row.code == "S57" and raised.name == "BrokenPipeError" and _PRINTS.search(f"{ends[-1]}\n{source}"):
        other = "S72"
    found = find_signature(other)
    return replace(found, broad=True) if found is not None else row


def find_calling_library(chain: Sequence[ParsedException]) -> str:
    """Return the library that gave another one an argument that it does not take, "" where the script did."""
    for each in chain:
        found = _CALLS_LIBRARIES.search(each.frames[-1].path) if each.frames else None
        if found and not _PASSES_ON.match(each.frames[-1].function) and _REFUSED_ARGUMENT.match(each.message):
            return found[0].strip("/")
    return ""


def find_row_of_place(chain: Sequence[ParsedException], source: str) -> Signature | None:
    """Return the row of an exception that says little, but was raised where a library does one thing only.

    `source`: the lines above the message of the one that began the chain, which show its call.
    """
    for each in chain:
        if each.name in _READING_ERRORS and any(_READS_MODELS.search(frame.path) for frame in each.frames):
            return find_signature("S86" if any("/tokenization_" in at.path for at in each.frames) else "S85")
        if _LACKS_FILE.match(f"{each.text}\n{source}") or (
            each.type == "binascii.Error" and any(_DEEPSPEED_CONFIG.search(at.path) for at in each.frames)
        ):
            row = find_signature("S92")
            return row and replace(row, broad=True)
        if _reads_data(each):
            row = find_signature("S108")
            return row and replace(row, broad=True)
        if each.frames:
            at = each.frames[-1]
            for code, types, place in _RAISED_IN:
                if place is _CALLS_LIBRARIES and not find_calling_library([each]):
                    continue
                if place is _IMPORTED and not _LACKS.match(each.message):
                    continue
                if (not types or each.name in types) and place.search(f"{at.path}:{at.function}"):
                    row = find_signature(code)
                    return row and replace(row, broad=True)
    return None


def _reads_data(raised: ParsedException) -> bool:
    """Whether a reader of files raised an exception, and not one that reads what a server answers."""
    paths = [frame.path for frame in raised.frames]
    if raised.name in _DATA_ERRORS and not _BY_HAND.search(raised.message):
        return any(map(_READS_DATA.search, paths[-3:])) and not any(map(_DOWNLOADS.search, paths))
    return (
        raised.name in _ANY_READERS_ERRORS and bool(paths) and _READS_DATA_ONLY.search(paths[-1]) is not None
    )


def is_of_another_package(raised: ParsedException) -> bool:
    """Whether another package's class has a well-known name; Python prints no module of a script's own."""
    owners = _OWNERS.get(raised.name)
    return owners is not None and "." in raised.type and raised.type.partition(".")[0] not in owners


def get_lookup_text(raised: ParsedException) -> str:
    """Return type and message to look up in the table; for another package's class the message alone."""
    return f"Exception: {raised.message or raised.below}" if is_of_another_package(raised) else raised.text
