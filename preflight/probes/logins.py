"""Services that the user of a host is logged in to: that a key is on it, never what it says."""

import os
import re
from collections.abc import Mapping

from .files import read_text_or
from .request import find_hugging_face_home

_UNUSED = re.compile(r"(?i)offline|disabled|dryrun|true|1|yes|on")  # what says that the service is not called
_OFFLINE = re.compile(r"(?m)^ *(?:mode *= *(?:offline|disabled|dryrun)|disabled *= *true) *$")
GATED = re.compile(
    r"meta-llama/|google/(?:code|pali|med)?gemma(?!-4)|black-forest-labs/FLUX\.1-(?:dev|Kontext|Fill|Canny|Depth)"
    r"|stabilityai/stable-diffusion-3|bigcode/(?:starcoder|the-stack)|ILSVRC/imagenet-1k|mozilla-foundation/common_voice"
)
"""Repositories of Hugging Face's hub that only users who have accepted their terms may read."""


def find_logins(environ: Mapping[str, str], workdir: str) -> list[str]:
    """Return "wandb" and "huggingface" where the user needs no login, and gated repositories in the cache.

    Source: wandb/sdk/lib/apikey.py; huggingface_hub/utils/_auth.py and constants.py.
    """
    home, value = find_hugging_face_home(environ), environ.get
    server = re.split("[/:]", (value("WANDB_BASE_URL") or "").partition("://")[2])[0] or "wandb"
    folder = value("WANDB_CONFIG_DIR") or "~/.config/wandb"
    read = {  # what shows of each that it needs no login
        "wandb": value("WANDB_API_KEY")
        or value("WANDB_IDENTITY_TOKEN_FILE")
        or _UNUSED.fullmatch(value("WANDB_MODE") or value("WANDB_DISABLED") or "")
        or re.search(r"machine\s+\S*" + re.escape(server), _texts(value("NETRC") or "~/.netrc", "~/_netrc"))
        or _OFFLINE.search(_texts(folder + "/settings", workdir + "/wandb/settings")),
        "huggingface": value("HF_TOKEN")
        or value("HUGGING_FACE_HUB_TOKEN")
        or _UNUSED.fullmatch(value("HF_HUB_OFFLINE") or "")
        or _texts(value("HF_TOKEN_PATH") or home + "/token", "~/.huggingface/token").strip(),
    }
    hub = os.path.expanduser(value("HF_HUB_CACHE") or home + "/hub")
    cached = os.listdir(hub) if os.path.isdir(hub) else []
    names = (name.partition("--")[2].replace("--", "/") for name in cached)
    return [name for name, found in read.items() if found] + sorted(filter(GATED.match, names))


def _texts(*paths: str) -> str:
    return "\n".join(read_text_or(os.path.expanduser(path)) for path in paths)
