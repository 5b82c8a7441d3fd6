"""Variables of the environment that change a launch, without those that look like secrets."""

import os
import re

_LAUNCH_NAMES = re.compile(
    r"(CUDA|NCCL|GLOO|ACCELERATE|PET|TORCH|TORCHELASTIC|PYTORCH|OMP|MKL|HF|TRANSFORMERS|NVIDIA|UCX|FI|SLURM|GPULAUNCH"
    r"|FSDP|DEEPSPEED|XLA|TOKENIZERS|WANDB|KUBERNETES_SERVICE|NVTE|TRITON|BITSANDBYTES|CUBLAS|CUDNN)_\w+"
    r"|RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|ROLE_RANK|MASTER_ADDR|MASTER_PORT"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|PYTHONHOME|PYTHONSTARTUP|VIRTUAL_ENV|CONDA_PREFIX|TMPDIR|PATH"
    r"|(HTTP|HTTPS|ALL|NO)_PROXY|(http|https|all|no)_proxy"
)
_SECRET_NAME = re.compile(
    r"TOKEN(?!IZERS)|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|_KEY$|AUTH|COOKIE", re.IGNORECASE
)
_SECRET_VALUE = re.compile(
    r"://[^/\s]*@|\b(hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA)\w{8,}|^[0-9a-fA-F]{32,}$|\beyJ[\w-]{10,}\."
)


def launch_environ() -> dict[str, str]:
    """Return the variables that a launch of this user would inherit, without what looks like a secret."""
    return {
        name: value
        for name, value in os.environ.items()
        if _LAUNCH_NAMES.fullmatch(name) and not _SECRET_NAME.search(name) and not _SECRET_VALUE.search(value)
    }
