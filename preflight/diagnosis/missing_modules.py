"""What to do about a module that Python does not find: one's own is a matter of paths, a package one of pip. Pure."""

import re
from collections.abc import Collection, Sequence

from preflight.diagnosis.fix_commands import shell_word
from preflight.facts.package_names import package_of_module
from preflight.frozen import dataclass

_TORCH = frozenset({"torch", "torchvision", "torchaudio"})
_MODULE = re.compile(r"No module named ['\"]?([\w.]+)|The ['\"`]?([\w-]+)['\"`]? distribution was not found")
_PIP_ADVICE = re.compile(r"`?pip3? install ([\w\[\]<>=.,-]+)`?")
_REQUIRED = re.compile(
    r"(?<![\w.-])([A-Za-z][\w-]*(?:(?:[<>=!~]=|[<>])[\w.*]+,?)+)(?=`? is required\b|.{0,80}\bbut (?:found|you have|got)\b)"
)
"""A version that a package asks for, in the words of an error that names the installed one."""
# An extension that was compiled, and what it lacks: a symbol of torch (at::, c10::, torch::), or a library.
# A word is tried from its start alone, or a line of `.so.so` takes the time of the cube of its length.
_UNLINKED = re.compile(r"(?<!\S)(\S+\.so)[\w.]*: undefined symbol: _?_Z\w*?(?:2at|3c10|5torch)\d")
_LACKING = re.compile(
    r"(lib(?:cudart|cublas\w*|cudnn\w*|cufft|cusparse|nvrtc)\.so\.[\d.]*\d|lib(?:c10|torch)\w*\.so): cannot open shared object"
)
_DAMAGED = re.compile(
    r"(?<!\S)[^\s/]{0,40}(/\S+\.so[\w.]*): (file too short|invalid ELF header|wrong ELF class|failed to map segment from shared object)"
)
_NO_VERSION = re.compile(r"No matching distribution found for (\S+)")
# A C library that is older than what was built against it: GLIBC is the host's or the image's, the others are libstdc++'s.
_OLD_LIBRARY = re.compile(
    r"(?<!\S)[^\s/]{0,40}(?P<file>/\S+): version `(?P<version>(?P<kind>GLIBC|GLIBCXX|CXXABI)_[\w.]+)' not found(?: \(required by (?P<by>[^)]{1,300})\))?"
)
_PREFIX = re.compile(r"^(?P<prefix>.*)/lib(?:64)?/python3[\d.]*/(?:site|dist)-packages/")
_SITE = re.compile(r"(?:site|dist)-packages/|/lib(?:64)?/python3|^<")


@dataclass(frozen=True, slots=True)
class ModuleAdvice:
    """What is said of one missing module; an empty text leaves what the row says."""

    cause: str = ""
    fix: str = ""
    command: str = ""


def module_advice(text: str, files: Sequence[str], own: Collection[str] = ()) -> ModuleAdvice:
    """Return what to do about the module that a message names.

    `files` are those of the traceback's frames; `own` names the modules that lie in the user's own directory.
    """
    built = _build_advice(text)
    if built.cause:
        return built
    damaged = _DAMAGED.search(text)
    if damaged:
        return ModuleAdvice(
            f"{damaged[1].rpartition('/')[2]} cannot be loaded on this host: {damaged[2]}",
            "copy or install it again, for this processor and distribution, with free space where it lies; a file system that is mounted noexec"
            " maps none (TMPDIR, and the caches of just-in-time builds, must lie elsewhere)",
            f"file {shell_word(damaged[1])}; findmnt -T {shell_word(damaged[1])}",
        )
    if "externally-managed-environment" in text:
        return ModuleAdvice(
            "pip refuses to install into the system's Python (PEP 668)",
            "make an environment of your own and name its interpreter (python: of hosts.yaml)",
            "python3 -m venv DIR",
        )
    wanted = _NO_VERSION.search(text)
    if wanted:
        return ModuleAdvice(
            f"pip finds no {wanted[1]} for this Python, platform and index",
            "take one of the versions that the message lists, another index (--index-url), or a Python for which that version has wheels",
            f"python -m pip index versions {shell_word(re.split('[<>=!~]', wanted[1])[0])}",
        )
    old = _OLD_LIBRARY.search(text)
    if old:
        return _library_advice(old["kind"], old["version"], old["file"], old["by"] or "")
    advised = _PIP_ADVICE.search(text)
    found = _MODULE.search(text)
    module = next((group for group in found.groups() if group), "") if found else ""
    top = module.partition(".")[0]
    root = _own_root(top, files)
    if top and (root or top in own):
        return _path_advice(module, root)
    if advised:
        return _package_advice(advised[1].rstrip(".,"), files)
    if required := _REQUIRED.search(text):
        return _package_advice(f"'{required[1].rstrip(',')}'", files)
    package = package_of_module(top) or package_of_module(module)
    if "." in module and package_of_module(top):
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


def _build_advice(text: str) -> ModuleAdvice:
    """Return what to do about a compiled extension that does not fit the torch beside it."""
    unlinked, lacking = _UNLINKED.search(text), _LACKING.search(text)
    again = "build or install it again in this environment: python -m pip install --force-reinstall --no-cache-dir --no-build-isolation PACKAGE"
    if unlinked:
        name = unlinked[1].rpartition("/")[2]
        return ModuleAdvice(f"{name} was built for another torch than the one that is installed", again)
    if lacking and lacking[1].startswith(("libc10", "libtorch")):
        return ModuleAdvice(
            f"an extension of torch was loaded without torch: {lacking[1]} lies in torch's own directory",
            "import torch before it; build the extension again where that does not help",
        )
    if lacking:
        return ModuleAdvice(
            f"a package was built for the CUDA of {lacking[1]}, and the torch of this environment brings another one",
            f"python -c 'import torch; print(torch.version.cuda)' names torch's; {again}",
        )
    return ModuleAdvice()


def _library_advice(kind: str, version: str, file: str, needed_by: str) -> ModuleAdvice:
    """Return what to do about a C library that is too old for a file that needs it; pip installs neither."""
    name = needed_by.rpartition("/")[2] or "a file"
    if kind == "GLIBC" and "/.singularity.d/" in needed_by:
        return ModuleAdvice(
            f"the image's C library is older than {version}, for which the driver's libraries of the host were built that --nv brings in",
            "an image of a distribution as new as the host's; where the host has nvidia-container-cli, --nvccli takes its libraries instead",
            "apptainer exec IMAGE.sif ldd --version",
        )
    if kind == "GLIBC":
        return ModuleAdvice(
            f"the C library of this host is older than {version}, for which {name} was built, and pip cannot replace it",
            "make the environment on this host and not on a newer one, run in a container of a newer distribution, or install an"
            " older version of that package, whose wheels fit",
            "ldd --version",
        )
    system = file.startswith(("/lib", "/usr/lib"))
    return ModuleAdvice(
        f"the libstdc++ that Python loaded ({file}) lacks {version}, for which {name} was built",
        "let the environment's own libstdc++ be found before the system's; where it is older itself, install a newer one into the environment",
        'export LD_LIBRARY_PATH="$CONDA_PREFIX/lib"'
        if system
        else "conda install -c conda-forge libstdcxx-ng",
    )


def _own_root(top: str, files: Sequence[str]) -> str:
    """Return the directory that holds the module, where a frame of the user's own code lies in it or beside it."""
    for file in files:
        parts = file.split("/")
        if top and not _SITE.search(file) and (top in parts[1:-1] or parts[-1] == f"{top}.py"):
            at = parts.index(top) if top in parts[1:-1] else len(parts) - 1
            return "/".join(parts[:at]) or "/"
    return ""


def _path_advice(module: str, root: str) -> ModuleAdvice:
    top = module.partition(".")[0]
    return ModuleAdvice(
        f"the module {module} is the user's own, and Python on this host does not find it: not on its path, or not copied",
        f"start from the directory that holds {top}, put that into PYTHONPATH (env: of the run config), or copy the tree with --sync;"
        f" pip has no part in it",
        f"export PYTHONPATH={shell_word(root)}" if root and "." not in module else "gpulaunch run --sync ...",
    )


def _other_version(module: str, files: Sequence[str]) -> ModuleAdvice:
    """Return what to do about a part of an installed package: Python names the package itself where it finds none."""
    top = module.partition(".")[0]
    package = package_of_module(top).partition(" ")[0]
    return ModuleAdvice(
        f"the installed {package} has no {module}: it is of another version than the script was written for",
        "install the version that the script's requirements name, on all hosts; of a newer one the part may have moved or gone",
        f"{_python(files)} -m pip show {package}",
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
                else shell_word(f"{prefix}/bin/python")
            )
        if file.startswith("/usr/lib/python3"):
            return "/usr/bin/python3"
    return "python"
