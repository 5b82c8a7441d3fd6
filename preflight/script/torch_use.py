"""Whether a script does without torch, by everything that it and its own modules import."""

import sys

from preflight import regex as re
from preflight.script.source import Sources

_WITHOUT_TORCH = frozenset(
    {
        "absl", "boto3", "catboost", "chex", "click", "clu", "cupy", "cv2", "dask", "datasets", "dotenv",
        "einops", "equinox", "fire", "flax", "fsspec", "gin", "gym", "gymnasium", "h5py", "haiku",
        "huggingface_hub", "imageio", "jax", "jaxlib", "joblib", "jsonlines", "lightgbm", "lmdb", "loguru",
        "matplotlib", "ml_collections", "mpi4py", "networkx", "nltk", "numba", "numpy", "omegaconf", "optax",
        "orbax", "orjson", "packaging", "pandas", "penzai", "PIL", "plotly", "polars", "psutil", "pyarrow",
        "pydantic", "pynvml", "regex", "requests", "rich", "scipy", "seaborn", "sentencepiece", "six",
        "skimage", "sklearn", "statsmodels", "tabulate", "tensorflow", "tensorflow_datasets", "termcolor",
        "tiktoken", "tokenizers", "toml", "tomli", "tqdm", "typer", "typing_extensions", "ujson", "wandb",
        "xgboost", "yaml", "zarr", "zstandard",
    }
)  # fmt: skip
"""Libraries that do all their work where torch is not installed."""
_STARTS_OTHERS = frozenset({"imp", "importlib", "pkgutil", "runpy", "subprocess"})
"""Modules of Python itself by which a script reaches code that its imports do not name."""
_REACHES_OTHERS = re.compile(
    r"(?i:torch)|__import__|\b(?:exec|execv?l?p?e?|spawn[lv]p?e?|posix_spawnp?|system|popen)\("
)
"""Words with which it may use torch, or start what does."""


def does_without_torch(sources: Sources) -> bool:
    """Return whether all of a script was read, and nothing that it names or imports uses torch.

    A library that is not known may import torch, so it counts as one that does.
    """
    if sources.problems:
        return False
    for source in sources.files():
        if _REACHES_OTHERS.search(source.text):
            return False
        for name, level in sources.parser.imports(source.tree):
            root = name.partition(".")[0]
            known = root in _WITHOUT_TORCH or (root in sys.stdlib_module_names and root not in _STARTS_OTHERS)
            if (level or not known) and sources.find_import(name, level, source) is None:
                return False
    return True
