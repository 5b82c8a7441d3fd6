"""What to do about a compiled library that does not load or fit this torch, CUDA or distribution. Pure."""

from preflight import regex as re
from preflight.diagnosis.fix_commands import quote_path
from preflight.frozen import dataclass

# An extension that was compiled, and what it lacks: a symbol of torch (at::, c10::, torch::), or a library.
# A word is tried from its start alone, or a line of `.so.so` takes the time of the cube of its length.
_UNLINKED = re.compile(r"(?<!\S)(\S+\.so)[\w.]*: undefined symbol: _?_Z\w*?(?:2at|3c10|5torch)\d")
_LACKING = re.compile(
    r"(lib(?:cudart|cublas\w*|cudnn\w*|cufft|cusparse|nvrtc)\.so\.[\d.]*\d|lib(?:c10|torch)\w*\.so): cannot open shared object"
)
_FFMPEG = re.compile(
    r"(lib(?:av(?:util|codec|format|filter|device)|sw(?:scale|resample))\.so[.\d]*): cannot open shared object"
)
_DAMAGED = re.compile(
    r"(?<!\S)[^\s/]{0,40}(/\S+\.so[\w.]*): (file too short|invalid ELF header|wrong ELF class|failed to map segment from shared object)"
)
_WINDOWS_LIBRARY = re.compile(
    r"(?:Could not find module|Error loading) ['\"]([^'\"$`%!&|;<>^\n]{1,300}\.(?:dll|pyd))['\"] \(?or one of its dependencies"
)
# A C library older than what was built against it: GLIBC is the host's or image's, the rest is libstdc++'s.
_OLD_LIBRARY = re.compile(
    r"(?<!\S)[^\s/]{0,40}(?P<file>/\S+): version `(?P<version>(?P<kind>GLIBC|GLIBCXX|CXXABI)_[\w.]+)' not found(?: \(required by (?P<by>[^)]{1,300})\))?"
)


# Python itself as a library, which lies beside the interpreter that an extension was built with.
_PYTHON = re.compile(r"(libpython3[\w.]*\.so[.\d]*): cannot open shared object")


@dataclass(frozen=True, slots=True)
class ModuleAdvice:
    """What is said of one missing module; an empty text leaves what the row says."""

    cause: str = ""
    fix: str = ""
    command: str = ""


def find_library_advice(text: str) -> ModuleAdvice:
    """Return what to do about the library that a message names; nothing where it names none."""
    damaged, absent, old = _DAMAGED.search(text), _WINDOWS_LIBRARY.search(text), _OLD_LIBRARY.search(text)
    if damaged:
        return ModuleAdvice(
            f"{damaged[1].rpartition('/')[2]} cannot be loaded on this host: {damaged[2]}",
            "copy or install it again, for this processor and distribution, with free space where it lies; a file system that is mounted noexec"
            " maps none (TMPDIR, and the caches of just-in-time builds, must lie elsewhere)",
            f"file {quote_path(damaged[1])}; findmnt -T {quote_path(damaged[1])}",
        )
    if python := _PYTHON.search(text):
        return ModuleAdvice(
            f"an extension was built against Python as a library, and {python[1]} is not where the loader looks",
            "let the loader find the lib directory of the environment whose Python has that version; where it has none, an environment of that version",
            'export LD_LIBRARY_PATH="$CONDA_PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"',
        )
    if absent:
        name = absent[1].replace("\\", "/").rpartition("/")[2]
        return ModuleAdvice(
            f"Windows cannot load {name}: it, or a library that it needs (of CUDA, or of Visual C++), is missing",
            "install the package's build for this torch and its CUDA, and Microsoft's Visual C++ Redistributable; dumpbin lists what the file needs",
            f'dumpbin /dependents "{name}"',
        )
    if old:
        return _of_old_library(old["kind"], old["version"], old["file"], old["by"] or "")
    return _of_extension(text)


def _of_extension(text: str) -> ModuleAdvice:
    """Return what to do about a compiled extension that does not fit the torch beside it."""
    unlinked, lacking, ffmpeg = _UNLINKED.search(text), _LACKING.search(text), _FFMPEG.search(text)
    if ffmpeg:
        return ModuleAdvice(
            f"the package that decodes audio or video finds no FFmpeg that it was built for ({ffmpeg[1]} and others)",
            "install FFmpeg with its shared libraries where the run's environment finds them, in a version that the package names",
            "conda install -c conda-forge ffmpeg",
        )
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
            f"python -c 'import torch; print(torch.version.cuda)' names torch's; {again}, for torchvision, torchaudio and torchcodec from torch's own --index-url",
        )
    return ModuleAdvice()


def _of_old_library(kind: str, version: str, file: str, needed_by: str) -> ModuleAdvice:
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
        'export LD_LIBRARY_PATH="$CONDA_PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"'
        if system
        else "conda install -c conda-forge libstdcxx-ng",
    )
