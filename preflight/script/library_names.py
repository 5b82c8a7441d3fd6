"""What libraries' names mean: which classes are models, trainers, configurations, optimizers. Tables."""

from functools import lru_cache

from preflight import regex as re

TORCH_DTYPES = {
    "float16": "float16",
    "half": "float16",
    "bfloat16": "bfloat16",
    "float32": "float32",
    "float": "float32",
    "float64": "float64",
    "double": "float64",
    "float8_e4m3fn": "float8",
    "float8_e5m2": "float8",
    "int8": "int8",
    "uint8": "uint8",
    "int64": "int64",
    "long": "int64",
}

TENSOR_TYPES = {
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
}
"""Types of tensors by their old names, which `.type(...)` and `set_default_tensor_type` take."""

TRAINER_ROOTS = frozenset({"transformers", "trl", "sentence_transformers", "optimum"})
MODEL_ROOTS = frozenset(
    {
        *("transformers", "diffusers", "peft", "trl", "optimum", "timm", "torchvision"),
        *("sentence_transformers", "liger_kernel"),
    }
)
KNOWN_ROOTS = frozenset(
    {
        *("builtins", "os", "sys", "math", "json", "logging", "random", "time", "copy", "pathlib"),
        "functools",
        *("torch", "transformers", "accelerate", "peft", "trl", "diffusers", "datasets", "evaluate", "numpy"),
        *("wandb", "tqdm", "bitsandbytes", "torchvision", "huggingface_hub", "tensorboard", "gc", "warnings"),
        *("PIL", "safetensors", "packaging", "typing", "dataclasses", "contextlib", "itertools", "torchinfo"),
        *("value", "matplotlib", "pandas", "sklearn", "scipy", "tokenizers", "mlflow", "rich", "psutil"),
    }
)
"""Libraries whose functions do not change the dtype of a model behind the script's back, or are modelled."""

QUIET_ROOTS = frozenset(
    {
        "absl", "addict", "aim", "albumentations", "attr", "attrs", "audiomentations", "av", "beartype",
        "boto3", "bs4", "chz", "clearml", "click", "cloudpickle", "colorama", "comet_ml", "configargparse",
        "cv2", "dacite", "datasets", "decord", "decouple", "diffusers", "dill", "dotenv", "draccus",
        "easydict", "einops", "ema_pytorch", "emoji", "environs", "evaluate", "filelock", "fire", "fsspec",
        "ftfy", "fvcore", "g2p_en", "gin", "git", "GPUtil", "gym", "gymnasium", "h5py", "humanize", "hydra",
        "hydra_zen", "imageio", "imgaug", "inflect", "iopath", "IPython", "jaxtyping", "jieba", "jiwer",
        "joblib", "jsonargparse", "jsonlines", "jsonschema", "kornia", "librosa", "lightning",
        "lion_pytorch", "lmdb", "loguru", "lxml", "marshmallow", "matplotlib", "ml_collections", "mlflow",
        "msgspec", "munch", "neptune", "networkx", "nibabel", "nltk", "numpy", "omegaconf", "orjson",
        "packaging", "pandas", "peft", "PIL", "plotly", "polars", "prettytable", "psutil", "pyarrow",
        "pycocotools", "pydantic", "pydicom", "pyloudnorm", "pynvml", "pypinyin", "pyrallis",
        "pytorch_lightning", "regex", "requests", "resampy", "rich", "rouge_score", "ruamel", "s3fs",
        "sacrebleu", "sacred", "safetensors", "schedulefree", "scipy", "seaborn", "sentencepiece",
        "seqeval", "setproctitle", "shapely", "simple_parsing", "SimpleITK", "simplejson", "six", "skimage",
        "sklearn", "soundfile", "spacy", "statsmodels", "submitit", "swanlab", "tabulate", "tap",
        "tensorboard", "tensorboard_logger", "tensorboardX", "termcolor", "thop", "tiktoken", "tokenizers",
        "toml", "tomli", "torchaudio", "torchdata", "torchinfo", "torchmetrics", "tqdm", "trl", "typer",
        "typing_extensions", "tyro", "ujson", "unidecode", "visdom", "wandb", "webdataset", "yacs", "yaml",
        "zarr",
    }
)  # fmt: skip
"""Libraries of training scripts that create no CUDA context, neither when imported nor by themselves."""

_NOT_A_MODEL = re.compile(
    r"Tokenizer|Processor|FeatureExtractor|ImageProcessor|Scheduler|Config|Collator|Dataset|Callback|Pipeline"
    r"|Criteria|Streamer|Args|Arguments|Mixin|Output|Loader|Logger|EMAModel"
)
_MODEL = re.compile(
    r"Model|For[A-Z]\w+|LMHead|UNet|Autoencoder|Transformer|Encoder|Decoder|ControlNet|Whisper|CLIP|T5"
    r"|BERT|Bert|Llama|GPT|Net$|Adapter$|VQ|Prior$|AttnProcsLayers$"
)

TRL_CONFIG = re.compile(
    r"^(SFT|DPO|ORPO|KTO|CPO|GRPO|RLOO|PPO|Reward|BCO|GKD|NashMD|OnlineDPO|XPO|PRM)\w*Config$"
)
_TRAINER = re.compile(r"^(?=[A-Z])\w*Trainer$")
_TRL_TRAINER = re.compile(r"(SFT|DPO|ORPO|KTO|CPO|GRPO|RLOO|BCO|GKD|Seq2Seq)Trainer$")
_ARGUMENTS = re.compile(r"(Training)?Arguments$")
_OPTIMIZER = re.compile(
    r"^[A-Z]\w*(Adam|AdamW|SGD|Adafactor|Lion|Lamb|LAMB|RMSprop)(W|\d+bit|ScheduleFree)?$"
    r"|^(AdamW?|SGD|RAdam)ScheduleFree$|^(Deep|Fused|CPU)\w*Adam$"
)
_OPTIMIZERS = frozenset(
    {
        *("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "SparseAdam", "SGD", "Adagrad", "Adadelta", "RMSprop"),
        *("ASGD", "Rprop", "LBFGS", "Adafactor", "Adam8bit", "AdamW8bit", "PagedAdamW8bit", "PagedAdamW"),
        *("Lion", "Lion8bit", "PagedLion8bit", "FusedAdam", "FusedLAMB", "DeepSpeedCPUAdam", "Prodigy"),
        *("LAMB", "ZeroRedundancyOptimizer"),
        *("PagedAdamW32bit", "PagedAdam8bit", "Lamb", "Muon", "DAdaptAdam", "SophiaG"),
    }
)
ADAM_LIKE = frozenset({"Adam", "AdamW", "NAdam", "RAdam", "Adamax", "SparseAdam"})
"""Optimizers of torch whose eps of 1e-8 rounds to zero in float16."""

MODEL_METHODS = frozenset(
    {
        *("to", "half", "float", "bfloat16", "double", "cuda", "cpu", "type", "parameters"),
        "named_parameters",
        *("train", "eval", "requires_grad_", "state_dict", "load_state_dict", "modules", "named_modules"),
        *("children", "named_children", "apply", "zero_grad", "gradient_checkpointing_enable", "forward"),
        *("gradient_checkpointing_disable", "enable_gradient_checkpointing", "enable_input_require_grads"),
        *("save_pretrained", "push_to_hub", "generate", "add_adapter", "merge_and_unload", "__call__"),
        *("update_parameters", "print_trainable_parameters", "resize_token_embeddings"),
        *("get_input_embeddings", "get_output_embeddings", "get_classifier", "get_encoder"),
        *("get_decoder", "get_base_model", "register_buffer", "no_sync"),
        *("set_adapter", "load_adapter", "tie_weights", "num_parameters", "get_submodule", "buffers"),
        *("freeze_feature_encoder", "parallelize", "compile", "from_pretrained", "trainable_parameters"),
        *("enable_xformers_memory_efficient_attention", "set_attn_processor", "get_nb_trainable_parameters"),
    }
)

MODULE_API = frozenset(
    {
        *("forward", "train", "eval", "parameters", "named_parameters", "state_dict"),
        *("load_state_dict", "modules", "named_modules", "children", "named_children", "buffers"),
        *("named_buffers", "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type"),
        *("zero_grad", "requires_grad_", "apply", "register_buffer", "no_sync", "join", "module"),
        *("training", "extra_repr", "share_memory", "add_module", "register_module", "compile"),
        *("get_parameter", "get_submodule", "get_buffer", "register_parameter"),
        *("register_forward_hook", "to_empty", "xpu", "ipu", "mtia", "get_extra_state"),
        *("set_extra_state", "set_submodule", "device_ids", "device_mesh", "output_device"),
        *("process_group", "gather", "scatter", "to_kwargs", "join_hook", "join_device"),
        *("join_process_group", "will_sync_module_buffers", "require_backward_grad_sync"),
        *("require_forward_param_sync"),
    }
)
"""What torch.nn.Module and DistributedDataParallel have themselves."""

GONE: dict[str, tuple[str, tuple[int, ...], str]] = {
    "transformers.AdamW": ("transformers", (4, 50), "torch.optim.AdamW"),
    "transformers.optimization.AdamW": ("transformers", (4, 50), "torch.optim.AdamW"),
    "transformers.AutoModelWithLMHead": (
        "transformers",
        (5,),
        "AutoModelForCausalLM, ...ForMaskedLM, ...ForSeq2SeqLM",
    ),
    "transformers.AutoModelForVision2Seq": ("transformers", (5,), "AutoModelForImageTextToText"),
    "transformers.TextDataset": ("transformers", (5,), "load_dataset() of datasets"),
    "transformers.LineByLineTextDataset": ("transformers", (5,), "load_dataset() of datasets"),
    "peft.prepare_model_for_int8_training": ("peft", (0, 10), "prepare_model_for_kbit_training"),
    "torch._six.inf": ("torch", (2,), "from torch import inf"),
    "torch._six.container_abcs": ("torch", (2,), "import collections.abc as container_abcs"),
    "torch._six.string_classes": ("torch", (2,), "string_classes = (str, bytes)"),
    "torch._six.int_classes": ("torch", (2,), "int_classes = int"),
    "torch._six": ("torch", (2,), "the types of Python itself"),
}
"""Names that a library has no longer: of which, since when, and what replaces each."""

MODEL_MAKERS = frozenset(
    {
        *("from_pretrained", "from_config", "from_single_file", "from_pretrained_model"),
        *("from_unet", "from_transformer"),
    }
)
"""Class methods that make a model; the last two, of diffusers, copy weights into one of float32."""

TRAINS = re.compile(r"train|fit|tune|learn|^(?:main|run|sft|dpo|ppo|grpo)$")
"""How scripts call the command that trains, where they have several."""


@lru_cache(maxsize=256)
def root_and_last(name: str) -> tuple[str, str]:
    """Return a dotted name's library and its last part."""
    return name.split(".", 1)[0], name.rsplit(".", 1)[-1]


def is_model_class(name: str) -> bool:
    """Whether a library's class is a model to train or use."""
    root, last = root_and_last(name)
    if root not in MODEL_ROOTS or not last[:1].isupper():
        return False
    return bool(_MODEL.search(last)) and not _NOT_A_MODEL.search(last)


def is_trainer_class(name: str) -> bool:
    """Whether a library's class is a Trainer in the manner of transformers."""
    root, last = root_and_last(name)
    return is_named_trainer(name) and (root in TRAINER_ROOTS or bool(_TRL_TRAINER.search(last)))


def is_named_trainer(name: str) -> bool:
    """Whether a class is called a trainer, of whatever library."""
    return name.endswith("Trainer") and bool(_TRAINER.match(root_and_last(name)[1]))


def is_arguments_class(name: str) -> bool:
    """Whether a library's class is TrainingArguments or one of its descendants."""
    root, last = root_and_last(name)
    return root in TRAINER_ROOTS and (bool(_ARGUMENTS.search(last)) or is_trl_config(name))


def is_trl_config(name: str) -> bool:
    """Whether a library's class is a TRL configuration, whose bf16 is on by default."""
    root, last = root_and_last(name)
    return root == "trl" and bool(TRL_CONFIG.match(last))


def is_optimizer_class(name: str) -> bool:
    """Whether a library's class is an optimizer."""
    root, last = root_and_last(name)
    return last in _OPTIMIZERS or (root not in ("torch", "builtins") and bool(_OPTIMIZER.match(last)))
