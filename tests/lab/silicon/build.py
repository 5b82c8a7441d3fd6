"""Compiles the simulated NVML and CUDA with the system's cc, once per content."""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

SOURCES = Path(__file__).parent / "csrc"
LIBRARY_NAME = "libnvidia-ml.so.1"
CUDA_NAME = "libcuda.so.1"
"""A copy of the same file, which exports both."""
FLAGS = (
    "-std=c11",
    "-O1",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-pthread",
    "-Wall",
    "-Wextra",
    "-Werror",
)


class BuildError(RuntimeError):
    """The C compiler refused the simulated library; its words are the message."""


def _key(missing: tuple[str, ...]) -> str:
    digest = hashlib.sha256(" ".join((*FLAGS, *missing)).encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()[:20]


def _version_script(missing: tuple[str, ...]) -> str:
    hidden = "".join(f"{name}; " for name in missing)
    return f"{{ global: nvml*; cu*; local: {hidden}*; }};\n"


def library(missing: Iterable[str] = (), cache: Path | None = None) -> Path:
    """A compiled library that lacks the functions in `missing`, as an older driver's does.

    Raises BuildError with the compiler's words.
    """
    names = tuple(sorted(set(missing)))
    root = cache or Path(tempfile.gettempdir()) / f"gpulaunch-silicon-{os.getuid()}"
    folder = root / _key(names)
    target = folder / LIBRARY_NAME
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        script = Path(scratch) / "exports.map"
        script.write_text(_version_script(names))
        made = Path(scratch) / LIBRARY_NAME
        sources = [str(path) for path in sorted(SOURCES.glob("*.c"))]
        link = (f"-Wl,--version-script={script}", f"-Wl,-soname,{LIBRARY_NAME}")
        argv = ("cc", *FLAGS, "-o", str(made), *sources, *link)
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(done.stderr)
        made.chmod(0o755)
        made.rename(target)  # in one step: two builders at once both end with a whole file
    return target
