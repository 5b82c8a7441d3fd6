"""The training environment's Python and its packages, read without importing any of them."""

import os
import re
import site
import sys
from collections.abc import Mapping
from importlib.machinery import PathFinder
from typing import Any

from .earlier_facts import stamp_packages
from .fact import Emit, Json, missing, read_fact
from .files import read_text, read_text_or
from .logins import find_logins
from .request import LOGINS, ProbeRequest, find_hugging_face_home, resolve_path
from .script_imports import list_absent_modules

_LONGEST_CONFIG = 1 << 16


def probe(ask: ProbeRequest, emit: Emit) -> None:
    """Emit facts.PythonEnv."""
    environ = {**os.environ, **ask.env}
    path = import_path(environ)
    stamp = stamp_packages(sys.executable, path)  # before the folders are read: a change since makes another
    answer: Json = {
        "executable": sys.executable,
        "version": "%d.%d.%d" % sys.version_info[:3],
        "packages_stamp": stamp,
        "managed": _is_managed(),
        "absent_installers": [name for name in ("pip", "ensurepip") if PathFinder.find_spec(name) is None],
        "accelerate_config": read_fact(lambda: default_accelerate_config(environ)),
        "absent_modules": read_fact(lambda: list_absent_modules(ask, path)),
        "login_services": list(LOGINS),
        "logins": read_fact(lambda: find_logins(environ, resolve_path(ask.paths.get("workdir", "")))),
    }
    if ask.known is None or not stamp or ask.known.packages != stamp:
        answer.update(_packages(path, stamp))
    emit("python", answer)


def _packages(path: list[str], stamp: str) -> Json:
    """Return the fields of facts.PythonEnv that depend on nothing but what is installed."""
    packages, folders, all_named = _installed_packages(path)
    return {
        "packages": packages,
        "torch_cuda": read_fact(lambda: _torch_cuda(packages, folders)),
        "nccl": read_fact(lambda: _nccl(packages)),
        "packages_stamp": stamp if all_named else "",
    }


def _is_managed() -> bool:
    """Say whether pip refuses to install into this interpreter (PEP 668): Debian's /usr/bin/python3."""
    if sys.prefix != sys.base_prefix:
        return False
    import sysconfig  # reads how Python was built

    return os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED"))


def default_accelerate_config(environ: Mapping[str, str]) -> str:
    """Return the text of the config file that `accelerate launch` reads when none is named; "" without one.

    Source: accelerate/commands/config/config_args.py (`cache_dir`, `default_config_file`).
    """
    home = os.path.expanduser(find_hugging_face_home(environ))
    for name in ("default_config.yaml", "default_config.json"):
        path = os.path.join(home, "accelerate", name)
        if os.path.isfile(path):
            return read_text(path, limit=_LONGEST_CONFIG)
    return ""


def import_path(environ: Mapping[str, str]) -> list[str]:
    """Return the folders that a training on this interpreter imports packages from, first wins.

    The agent's own interpreter has neither PYTHONPATH nor ~/.local (python -I), and a training has both. What
    PYTHONPATH names relative to a working directory is left out: which that will be is not known yet.
    """
    named = [folder for folder in environ.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(folder)]
    users = [site.getusersitepackages()] if _has_user_site(environ) else []
    return [*named, *users, *(folder for folder in sys.path if os.path.isabs(folder))]


def _has_user_site(environ: Mapping[str, str]) -> bool:
    """Say what `site` would without -I: a virtual environment has ~/.local only where it asks for it."""
    if environ.get("PYTHONNOUSERSITE") or (os.getuid(), os.getgid()) != (os.geteuid(), os.getegid()):
        return False
    if sys.prefix == sys.base_prefix:
        return True
    settings = read_text_or(sys.prefix + "/pyvenv.cfg")
    return re.search(r"(?im)^include-system-site-packages *= *true *$", settings) is not None


_METADATA = re.compile(r"(?P<name>.+?)(-(?P<version>[^-]+))?(-py[\d.]+)?\.(dist|egg)-info")


def _installed_packages(folders: list[str]) -> tuple[dict[str, str], dict[str, str], bool]:
    """Return {distribution: version} and {distribution: folder it lies in}, the first on the path winning.

    And whether every version was in a name: one that was read inside can change unseen.

    The metadata folder's name holds the version; importlib.metadata opens each folder for the same answer.
    """
    packages: dict[str, str] = {}
    where: dict[str, str] = {}
    all_named = True
    for folder in folders:
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            continue
        for entry in entries:
            match = _METADATA.fullmatch(entry)
            if match is None:
                continue
            name = re.sub(r"[-_.]+", "-", match["name"]).lower()
            version = match["version"] or _version_inside(folder + "/" + entry)
            all_named = all_named and match["version"] is not None
            if name not in packages and version:
                packages[name] = version
                where[name] = folder
    return packages, where, all_named


def _version_inside(path: str) -> str:
    """Return the version out of an old egg-info or a development install."""
    for name in ("/PKG-INFO", "/METADATA", ""):
        match = re.search(r"^Version: *(\S+)", read_text_or(path + name), re.MULTILINE)
        if match:
            return match.group(1)
    return ""


def _torch_cuda(packages: dict[str, str], folders: dict[str, str]) -> Any:
    """Return the CUDA build of the torch wheel: "12.8", "cpu", "rocm6.2"."""
    if "torch" not in packages:
        return missing("torch is not installed in %s" % sys.executable, "not-found")
    text = read_text_or(folders["torch"] + "/torch/version.py")
    cuda = re.search(r"^cuda\s*(?::[^=]*)?=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)
    if cuda:
        return cuda.group(1)
    hip = re.search(r"^hip\s*(?::[^=]*)?=\s*['\"](\d+\.\d+)", text, re.MULTILINE)
    if hip:
        return "rocm" + hip.group(1)
    local = packages["torch"].partition("+")[2]
    tag = re.match(r"cu(\d+)(\d)$", local)
    if tag:
        return "%s.%s" % tag.groups()
    if local.startswith(("cpu", "rocm")):
        return local.split(".")[0] if local.startswith("cpu") else ".".join(local.split(".")[:2])
    if text:
        return "cpu"
    return missing("torch %s does not say for which CUDA it was built" % packages["torch"], "not-found")


def _nccl(packages: dict[str, str]) -> Any:
    """Return the version of the NCCL wheel, the newest of several."""
    found = sorted(name for name in packages if re.fullmatch(r"nvidia-nccl-cu\d+", name))
    if found:
        return packages[found[-1]]
    return missing("no nvidia-nccl package: a CPU build, or NCCL is part of torch", "not-found")
