"""What to do about a module that Python does not find: one's own needs a path, a package needs pip. Pure."""

from collections.abc import Collection, Sequence

from preflight import regex as re
from preflight.diagnosis.fix_commands import quote_path
from preflight.diagnosis.native_libraries import ModuleAdvice, find_library_advice
from preflight.facts.package_names import BUILT_FROM_SOURCE, find_package

_TORCH = frozenset({"torch", "torchvision", "torchaudio"})
_MODULE = re.compile(r"No module named ['\"]?([\w.]+)|The ['\"`]?([\w-]+)['\"`]? distribution was not found")
_PIP_ADVICE = re.compile(r"`?pip3? install (?:-\S+ )*([\w\[\]<>=.,-]+)`?")
_REQUIRED = re.compile(
    r"(?<![\w.-])([A-Za-z][\w-]*(?:(?:[<>=!~]=|[<>])[\w.*]+,?)+)(?=`? is required\b|.{0,80}\bbut (?:found|you have|got)\b)"
)
"""A version that a package asks for, in the words of an error that names the installed one."""
_LACKED_NAME = re.compile(
    r"cannot import name ['\"](?P<name>\w{1,100})['\"] from ['\"](?P<of>[\w.]{1,200})['\"]"
    r"|module ['\"](?P<module>[\w.]{1,200})['\"] has no attribute ['\"](?P<attribute>\w{1,100})['\"]"
)
_NO_VERSION = re.compile(r"No matching distribution found for (\S+)")
_PREFIX = re.compile(r"^(?P<prefix>.*)/lib(?:64)?/python3[\d.]*/(?:site|dist)-packages/")
_SITE = re.compile(r"(?:site|dist)-packages/|/lib(?:64)?/python3|^<")


def find_module_advice(text: str, files: Sequence[str], own: Collection[str] = ()) -> ModuleAdvice:
    """Return what to do about the module that a message names.

    `files` are those of the traceback's frames; `own` names the modules that lie in the user's own directory.
    """
    if (built := find_library_advice(text)).cause:
        return built
    if "externally-managed-environment" in text:
        return ModuleAdvice(
            "pip refuses to install into the system's Python (PEP 668)",
            "make an environment of your own and name its interpreter (python: of hosts.yaml)",
            "python3 -m venv DIR",
        )
    lacks = _LACKED_NAME.search(text)
    holder = (lacks["of"] or lacks["module"]) if lacks else ""
    if lacks and find_package(_top(holder)) and not _own_root(_top(holder), files):
        return _other_version(holder, files, lacks["name"] or lacks["attribute"])
    if wanted := _NO_VERSION.search(text):
        return ModuleAdvice(
            f"pip finds no {wanted[1]} for this Python, platform and index",
            "take one of the versions that the message lists, another index (--index-url), or a Python for which that version has wheels",
            f"python -m pip index versions {quote_path(re.split('[<>=!~]', wanted[1])[0])}",
        )
    found = _MODULE.search(text)
    module = next((group for group in found.groups() if group), "") if found else ""
    return _absent_module(module, text, files, own)


def _absent_module(module: str, text: str, files: Sequence[str], own: Collection[str]) -> ModuleAdvice:
    """Return what to do about a module that Python does not find; "" is one that the message leaves out."""
    advised = _PIP_ADVICE.search(text)
    top = _top(module)
    root = _own_root(top, files)
    if top and (root or top in own):
        return _path_advice(module, root)
    if top and any("/pip-build-env-" in file for file in files):
        return ModuleAdvice(
            f"pip builds a package in an environment of its own, which lacks {top}",
            f"install {top} before, and build that package without such an environment",
            "python -m pip install --no-build-isolation PACKAGE",
        )
    if advised:
        return _package_advice(advised[1].rstrip(".,"), files)
    if required := _REQUIRED.search(text):
        return _package_advice(f"'{required[1].rstrip(',')}'", files)
    if top in BUILT_FROM_SOURCE:
        return _built_from_source(top, files)
    package = find_package(top) or find_package(module)
    if "." in module and find_package(top):
        return _other_version(module, files)
    if package:
        return _package_advice(package, files)
    if not top:
        return ModuleAdvice()
    return ModuleAdvice(
        f"Python on this host does not find the module {top}",
        f"if {top} is your own: start from the directory that holds it, name that in PYTHONPATH (env: of the run config), or"
        f" send it with --sync; if it is a package: install it with {_python(files)} -m pip, under the name that its own page gives",
    )


def _top(module: str) -> str:
    return module.partition(".")[0]


def _own_root(top: str, files: Sequence[str]) -> str:
    """Return the directory that holds the module, where the user's code has a frame in it or beside it."""
    for file in files:
        parts = file.split("/")
        if f"/{top}/examples/" in file:  # a clone of its repository, which holds the module deeper
            continue
        if top and not _SITE.search(file) and (top in parts[1:-1] or parts[-1] == f"{top}.py"):
            at = parts.index(top) if top in parts[1:-1] else len(parts) - 1
            return "/".join(parts[:at]) or "/"
    return ""


def _path_advice(module: str, root: str) -> ModuleAdvice:
    top = _top(module)
    return ModuleAdvice(
        f"the module {module} is the user's own, and Python on this host does not find it: not on its path, or not copied",
        f"start from the directory that holds {top}, put that into PYTHONPATH (env: of the run config), or copy the tree with --sync;"
        f" pip has no part in it",
        f"export PYTHONPATH={quote_path(root)}" if root and "." not in module else "gpulaunch run --sync ...",
    )


def _other_version(module: str, files: Sequence[str], name: str = "") -> ModuleAdvice:
    """Return what to do about a package's missing part: if all of it is missing, Python names the package."""
    top = _top(module)
    package = find_package(top).partition(" ")[0]
    part = " in ".join(word for word in (name, module if module != top else "") if word)
    return ModuleAdvice(
        f"the installed {package} has no {part}: it is of another version than the script was written for",
        "install the version that the script's requirements name, on all hosts; of a newer one the part may have moved or gone",
        f"{_python(files)} -m pip show {package}",
    )


def _built_from_source(module: str, files: Sequence[str]) -> ModuleAdvice:
    name, source, variables = BUILT_FROM_SOURCE[module]
    return ModuleAdvice(
        f"the module {module} comes with {name}, which is missing in the environment of this host; PyPI does not have it (a package of that name is another one)",
        "build it in that environment, for the torch that is in it, with a CUDA toolkit of torch's version (CUDA_HOME)",
        f"{variables}{_python(files)} -m pip install -v --no-build-isolation {source}",
    )


def _package_advice(package: str, files: Sequence[str]) -> ModuleAdvice:
    python = _python(files)
    name = package.split(maxsplit=1)[0].partition("=")[0].partition("[")[0]
    index = " --index-url URL" if name in _TORCH else ""
    fix = "install it in the interpreter that hosts.yaml names (python:), the same on all hosts"
    if index:
        fix += "; gpulaunch preflight HOST names the index URL for the host's driver and GPUs"
    if python.startswith("/usr/bin/"):
        fix += "; a system Python refuses pip (PEP 668): python3 -m venv DIR, and python: DIR/bin/python"
    return ModuleAdvice("", fix, f"{python} -m pip install {package}{index}")


def _python(files: Sequence[str]) -> str:
    """Return the interpreter whose packages a traceback shows, "python" where it shows none."""
    for file in files:
        found = _PREFIX.match(file)
        if found:
            prefix = found["prefix"]
            at_system = prefix in ("/usr", "/usr/local", "") or "/.local" in prefix
            return (
                "/usr/bin/python3"
                if at_system and prefix != "/usr/local"
                else quote_path(f"{prefix}/bin/python")
            )
    return "python"
