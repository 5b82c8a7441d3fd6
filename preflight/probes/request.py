"""The request, as the probes read it."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from .earlier_facts import Known, read_known
from .fact import Json

_DEADLINE_S = 20.0  # when the request names none
_ROLES = ("workdir", "output", "hf_cache", "tmp", "script", "run_dir", "offload", "input")
LOGINS = {  # by service: what, once it is set, logs a user in or may; what may say that it is not called
    "wandb": (("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE"), ("WANDB_MODE", "WANDB_DISABLED")),
    "huggingface": (("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"), ("HF_HUB_OFFLINE",)),
    "comet_ml": (
        ("COMET_API_KEY", "COMET_CONFIG", "COMET_INI", "COMET_START_ONLINE"),
        ("COMET_MODE", "COMET_AUTO_LOG_DISABLE"),
    ),
    "neptune": (("NEPTUNE_API_TOKEN",), ("NEPTUNE_MODE",)),
    "swanlab": (("SWANLAB_API_KEY", "SWANLAB_CONFIG_DIR", "SWANLAB_SECRETS_DIR"), ("SWANLAB_MODE",)),
    "clearml": (
        ("CLEARML_API_ACCESS_KEY", "CLEARML_AUTH_TOKEN", "CLEARML_CONFIG_FILE"),
        ("CLEARML_OFFLINE_MODE", "CLEARML_IGNORE_MISSING_CONFIG"),
    ),
}
ENV_NAMES = (
    *("HF_HOME", "LD_LIBRARY_PATH", "PYTHONPATH", "TMPDIR", "XDG_CACHE_HOME"),
    *(
        "HF_HUB_CACHE",
        "HF_TOKEN_PATH",
        "WANDB_BASE_URL",
        "WANDB_CONFIG_DIR",
        "SWANLAB_ROOT",
        "SWANLAB_SAVE_DIR",
    ),
    *(name for _, modes in LOGINS.values() for name in modes),
)
"""Variables of a launch's own by which the probes find what it will use."""
SECRET_NAMES = tuple(name for keys, _ in LOGINS.values() for name in keys)
"""Those of which a request says that they are set, and not to what."""


class ProbeRequest(NamedTuple):
    """The request, read once; `main.py` says what its fields mean."""

    host: str
    ports: tuple[int, ...]
    pids: tuple[int, ...]
    free_ports: int
    seed: str
    paths: dict[str, str]
    script: str
    modules: tuple[str, ...] | None
    env: Mapping[str, str]
    skip: frozenset[str]
    deadline_s: float
    pynvml: bytes | None
    known: Known | None = None  # from an earlier answer, where it still holds


def read_request(request: Json, pynvml: bytes | None) -> ProbeRequest:
    """Return `request` with defaults filled in; raises ValueError, TypeError or AttributeError."""
    return ProbeRequest(
        host=str(request.get("host", "")),
        ports=tuple(int(port) for port in request.get("ports") or ()),
        pids=tuple(int(pid) for pid in request.get("pids") or ()),
        free_ports=int(request.get("free_ports") or 0),
        seed=str(request.get("seed", "")),
        paths={str(role): str(path) for role, path in (request.get("paths") or {}).items()},
        script=str(request.get("script") or ""),
        env={str(name): str(value) for name, value in (request.get("env") or {}).items()},
        modules=None if request.get("modules") is None else tuple(map(str, request["modules"])),
        skip=frozenset(request.get("skip") or ()) | (frozenset() if request.get("script") else {"script"}),
        deadline_s=float(request.get("deadline_s") or _DEADLINE_S),
        pynvml=pynvml,
        known=read_known(request.get("known") or {}),
    )


def list_paths(ask: ProbeRequest) -> dict[str, str]:
    """Return {role: path} with the defaults of the roles that have one; "input:0" is the first of a role."""
    paths = {role: path for role, path in ask.paths.items() if role.partition(":")[0] in _ROLES}
    environ = {**os.environ, **ask.env}
    state = os.environ.get("XDG_STATE_HOME", "")
    # As launcher/onhost/supervisor/run_dir.py has it.
    state = state if os.path.isabs(state) else "~/.local/state"
    defaults = {
        "hf_cache": find_hugging_face_home(environ),
        "tmp": environ.get("TMPDIR") or "/tmp",  # noqa: S108 - asked about, not used
        "run_dir": os.path.join(state, "gpulaunch", "runs"),
    }
    return {role: path or defaults.get(role, "") for role, path in paths.items() if path or role in defaults}


def find_hugging_face_home(environ: Mapping[str, str]) -> str:
    """Return the directory of Hugging Face's caches and of accelerate's default config, perhaps with a `~`.

    Source: huggingface_hub/constants.py, accelerate/commands/config/config_args.py (`cache_dir`).
    """
    return environ.get("HF_HOME") or os.path.join(environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")


def resolve_path(path: str) -> str:
    """Return `path` made absolute from the home directory, without touching the file system."""
    home = os.path.expanduser("~")
    return os.path.normpath(os.path.join(home, os.path.expanduser(os.path.expandvars(path))))
