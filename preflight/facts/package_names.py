"""The package that brings a module, where that is known: pip takes packages."""

# Packages whose name on PyPI differs from their module's.
_PACKAGES = {
    "cv2": "opencv-python-headless", "PIL": "pillow", "sklearn": "scikit-learn", "yaml": "pyyaml",
    "skimage": "scikit-image", "bs4": "beautifulsoup4", "flash_attn": "flash-attn --no-build-isolation",
    "dateutil": "python-dateutil", "Levenshtein": "python-Levenshtein",
    "pkg_resources": "'setuptools<82'", "distutils": "setuptools",
    "pytorch_lightning": "pytorch-lightning", "open_clip": "open-clip-torch",
    "attr": "attrs", "git": "gitpython", "dotenv": "python-dotenv", "pynvml": "nvidia-ml-py",
    "sentence_transformers": "sentence-transformers", "hydra": "hydra-core", "faiss": "faiss-cpu",
}  # fmt: skip
# Modules of a namespace that several packages share, whose first word alone says nothing.
_OF_NAMESPACES = {
    "google.protobuf": "protobuf", "google.cloud.storage": "google-cloud-storage",
    "google.auth": "google-auth", "google.genai": "google-genai",
    "google.generativeai": "google-generativeai", "ruamel.yaml": "ruamel.yaml",
}  # fmt: skip
_APEX = ("NVIDIA's apex", "git+https://github.com/NVIDIA/apex.git", "APEX_CPP_EXT=1 APEX_CUDA_EXT=1 ")
_OF_APEX = (
    "apex", "amp_C", "apex_C", "syncbn", "xentropy_cuda", "fused_adam_cuda", "distributed_adam_cuda",
    "fused_layer_norm_cuda", "fused_weight_gradient_mlp_cuda", "scaled_masked_softmax_cuda",
    "scaled_upper_triang_masked_softmax_cuda",
)  # fmt: skip
# Modules of packages that PyPI lacks, or has something else by the name of: whose they are, what pip takes,
# what its build reads.
BUILT_FROM_SOURCE = {
    **dict.fromkeys(_OF_APEX, _APEX),
    "detectron2": ("Detectron2", "git+https://github.com/facebookresearch/detectron2.git", ""),
    "pytorch3d": ("PyTorch3D", "git+https://github.com/facebookresearch/pytorch3d.git", ""),
}
# Packages of their module's name. Of any other name pip is not advised: it may be the user's own, or the
# package of a stranger.
_SAME = frozenset({
    "accelerate", "aiohttp", "albumentations", "bitsandbytes", "causal_conv1d", "click", "colossalai",
    "datasets", "decord", "deepspeed", "diffusers", "einops", "evaluate", "fairscale", "fastapi", "fire",
    "fsspec", "ftfy", "gradio", "h5py", "huggingface_hub", "imageio", "jinja2", "joblib", "jsonlines",
    "kornia", "liger_kernel", "lightning", "lmdb", "loguru", "mamba_ssm", "matplotlib", "mlflow",
    "mmengine", "mpi4py", "nltk", "numba", "numpy", "omegaconf", "optimum", "packaging", "pandas",
    "peft", "polars", "protobuf", "psutil", "pyarrow", "pycocotools", "pydantic", "ray", "regex",
    "requests", "rich", "rouge_score", "sacrebleu", "safetensors", "scipy", "seaborn", "sentencepiece",
    "setuptools", "sglang", "soundfile", "spacy", "tensorboard", "tensorboardX", "tensorflow",
    "tiktoken", "timm", "tokenizers", "tomli", "torch", "torchao", "torchaudio", "torchcodec",
    "torchdata", "torchmetrics", "torchtext", "torchtune", "torchvision", "tqdm", "transformers",
    "triton", "trl", "typer", "unsloth", "verl", "vllm", "wandb", "webdataset", "xformers", "zstandard",
})  # fmt: skip


def find_package(module: str) -> str:
    """Return the name on PyPI of a module's package, "" where none is known for sure."""
    if module in _PACKAGES:
        return _PACKAGES[module]
    if "." in module:
        shared = (name for name in _OF_NAMESPACES if f"{module}.".startswith(f"{name}."))
        return next((_OF_NAMESPACES[name] for name in shared), "")
    return module.replace("_", "-") if module in _SAME else ""
