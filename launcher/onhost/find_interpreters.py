"""Streamed program: find the Python interpreters of a host, and the training packages that each one has.

Stdlib, >= 3.9. stdin: one line of JSON, {"also": [PATH, ...]}: what to look at besides the usual places.
Answers (answer.py) with {"found": [{"path", "python", "torch", "accelerate", "transformers"}, ...], "gpus":
whether the host shows an NVIDIA GPU}, those of "also" first, then in the order of ON_PATH and SEARCH_PATHS;
"" for a package that is absent. Each interpreter reports its packages' versions without importing them.
Environments that only a login shell would activate are found in their usual places.
"""

import glob
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterator, List, Optional, Sequence

from .answer import print_answer
from .procfs import read_text

MAX_INTERPRETERS = 60
PARALLEL = 4
TIMEOUT_S = 20.0
ON_PATH = ("python3", "python")
CONDAS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", "conda", ".conda")
SEARCH_PATHS = (
    *("~/.venv", "~/venv", "~/env", "~/venvs/*", "~/.venvs/*", "~/envs/*", "~/.virtualenvs/*"),
    *("~/%s%s" % (name, below) for name in CONDAS for below in ("", "/envs/*")),
    *("~/.pyenv/versions/*", "/opt/*", "/opt/*/envs/*", "/venv", "/venv/*", "/workspace/*"),
    *("~/*/.venv", "~/*/venv", "~/*/env", "/workspace/*/.venv", "/workspace/*/venv", "/usr/local"),
)
# Run with -I, so that no file of a working directory or of PYTHONPATH runs; it searches for packages where a
# training finds them.
QUERY = """
import json, os, site, sys
from importlib import metadata
path = [folder for folder in os.environ.get("PYTHONPATH", "").split(":") if os.path.isabs(folder)]
own = sys.prefix != sys.base_prefix
if own:
    with open(os.path.join(sys.prefix, "pyvenv.cfg")) as settings:
        own = "include-system-site-packages=true" not in settings.read().lower().replace(" ", "")
if not own and not os.environ.get("PYTHONNOUSERSITE"):
    path.append(site.getusersitepackages())
path += sys.path
def version(name):
    for found in metadata.distributions(name=name, path=path):
        return found.version
    return ""
names = ["torch", "accelerate", "transformers"]
print(json.dumps([sys.prefix, ".".join(map(str, sys.version_info[:3]))] + [version(name) for name in names]))
"""


def main() -> int:
    """Handle the request on stdin."""
    also = json.loads(sys.stdin.buffer.readline())["also"]
    print_answer({"found": list_found(list(list_candidates(also))[:MAX_INTERPRETERS]), "gpus": shows_gpus()})
    return 0


def shows_gpus(root: str = "/") -> bool:
    """Return whether a device file, the driver, the PCI bus or WSL2 shows an NVIDIA GPU, usable or not."""
    traces = ("dev/nvidia[0-9]*", "proc/driver/nvidia/gpus/*", "usr/lib/wsl/lib/libcuda.so*")
    if any(glob.glob(os.path.join(root, trace)) for trace in traces):
        return True
    cards = glob.glob(os.path.join(root, "sys/bus/pci/devices/*"))
    return any(
        read_text(card + "/vendor") == "0x10de" and read_text(card + "/class")[:4] == "0x03" for card in cards
    )


def list_candidates(also: Sequence[str] = ()) -> Iterator[str]:
    """Yield each path of an interpreter once."""
    seen = set()
    for path in (*filter(os.path.isabs, map(os.path.expanduser, also)), *_all_paths()):
        if path not in seen and os.path.isfile(path) and os.access(path, os.X_OK):
            seen.add(path)
            yield path


def _all_paths() -> Iterator[str]:
    for name in ON_PATH:
        yield shutil.which(name) or ""
    for place in (*SEARCH_PATHS, *_conda_environments()):
        for prefix in sorted(glob.glob(os.path.expanduser(place))):
            yield os.path.join(prefix, "bin/python")
            yield os.path.join(prefix, "bin/python3")


def _conda_environments() -> List[str]:
    """Return conda's own list of the environments that it has made, wherever they are."""
    try:
        with open(os.path.expanduser("~/.conda/environments.txt"), encoding="utf-8") as stream:
            return [glob.escape(line.strip()) for line in stream if line.startswith("/")]
    except (OSError, ValueError):
        return []


def list_found(paths: List[str]) -> List[Dict[str, Any]]:
    """Return the reports of the interpreters, one per environment."""
    with ThreadPoolExecutor(PARALLEL) as pool:
        answers = list(pool.map(query_interpreter, paths))
    found: Dict[str, Dict[str, Any]] = {}
    for path, answer in zip(paths, answers):  # noqa: B905 - 3.9 has no strict
        if answer is not None:
            prefix, python, torch, accelerate, transformers = answer
            row = {"path": path, "python": python, "torch": torch, "accelerate": accelerate}
            found.setdefault(prefix, {**row, "transformers": transformers})
    return list(found.values())


def query_interpreter(path: str) -> Optional[List[str]]:
    """Return [prefix, version, package versions...], None for a file that is not a working Python."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", QUERY],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=False,
        )
        answer = json.loads(done.stdout.decode().splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None
    return answer if isinstance(answer, list) and len(answer) == 5 else None


if __name__ == "__main__":
    sys.exit(main())
