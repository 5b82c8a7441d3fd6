"""Services that the user of a host is logged in to: that a key is on it, never what it says."""

import glob
import os
import re
from collections.abc import Mapping

from .files import read_text_or
from .request import LOGINS, find_hugging_face_home

_USED = re.compile(r"(?i)|online|run|shared|cloud|a?sync|get|create|get_or_create|false|0|no?|off")
"""What a variable such as WANDB_MODE says of a service that is called; other words may keep it from that."""
_OFFLINE = re.compile(r"(?m)^ *(?:mode *= *(?:offline|disabled|dryrun)|disabled *= *true) *$")
_SETS = re.compile(r"(?im)api_key|password|\bmode\b")
GATED = re.compile(
    r"meta-llama/|google/(?:code|pali|med)?gemma(?!-4)|black-forest-labs/FLUX\.1-(?:dev|Kontext|Fill|Canny|Depth)"
    r"|stabilityai/stable-diffusion-3|bigcode/(?:starcoder|the-stack)|ILSVRC/imagenet-1k|mozilla-foundation/common_voice"
)
"""Repositories of Hugging Face's hub that only users who have accepted their terms may read."""


def find_logins(environ: Mapping[str, str], workdir: str) -> list[str]:
    """Return the services of LOGINS that need no login of the user, and gated repositories in the cache.

    Source: wandb/sdk/lib/apikey.py; huggingface_hub/utils/_auth.py and constants.py; comet_ml 3.58
    (config/config_class.py), neptune 1.14 (envs.py), swanlab 0.10 (sdk/internal/settings), clearml 2.1
    (backend_config/defs.py, backend_api/session/defs.py).
    """
    home, value = find_hugging_face_home(environ), environ.get
    server = re.split("[/:]", (value("WANDB_BASE_URL") or "").partition("://")[2])[0] or "wandb"
    folder = value("WANDB_CONFIG_DIR") or "~/.config/wandb"
    swanlab = value("SWANLAB_ROOT") or value("SWANLAB_SAVE_DIR") or "~/.swanlab"
    files = {  # what they hold of a user who needs no login
        "wandb": re.search(
            r"machine\s+\S*" + re.escape(server), _texts(value("NETRC") or "~/.netrc", "~/_netrc")
        )
        or _OFFLINE.search(_texts(folder + "/settings", workdir + "/wandb/settings")),
        "huggingface": _texts(value("HF_TOKEN_PATH") or home + "/token", "~/.huggingface/token").strip(),
        "comet_ml": _SETS.search(_texts("~/.comet.config", workdir + "/.comet.config", workdir + "/.env")),
        "swanlab": _SETS.search(
            _texts(swanlab + "/.netrc", swanlab + "/config.y*ml", "/etc/swanlab/*.y*ml", workdir + "/.env")
            + _texts(workdir + "/swanlab.y*ml", workdir + "/.swanlab/.netrc", workdir + "/.swanlab/*")
        ),
        "clearml": _texts("~/clearml.conf", "~/trains.conf").strip(),
    }
    found = [
        service
        for service, (keys, modes) in LOGINS.items()
        if any(map(value, keys))
        or not all(_USED.fullmatch(value(name) or "") for name in modes)
        or files.get(service)
    ]
    hub = os.path.expanduser(value("HF_HUB_CACHE") or home + "/hub")
    cached = os.listdir(hub) if os.path.isdir(hub) else []
    names = (name.partition("--")[2].replace("--", "/") for name in cached)
    return found + sorted(filter(GATED.match, names))


def _texts(*paths: str) -> str:
    """Return what files hold; a path that is of no file may be a pattern."""
    every = map(os.path.expanduser, paths)
    found = [[path] if os.path.exists(path) else glob.glob(path) for path in every]
    return "\n".join(read_text_or(path) for several in found for path in several)
