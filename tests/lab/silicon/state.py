"""Writes a profile as the flat state that the simulated library reads, and lays out its directory."""

import functools
import io
import marshal
import shutil
import zipfile
from collections.abc import Iterator
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from tests.environment import first_lines
from tests.lab.silicon.build import CUDA_NAME, LIBRARY_NAME, library
from tests.lab.silicon.profile import GpuProfile, ListedProcess, Profile, Values

HERE = Path(__file__).parent
UNCHECKED = (1).to_bytes(4, "little") + bytes(8)
"""In the head of a compiled module (PEP 552): known by a hash, which is not compared."""
MOUNT_POINT = "/run/gpulaunch-silicon"
"""Where the library looks when SILICON_STATE does not name another directory."""


def _clean(value: str) -> str:
    return value.replace("\n", " ").replace("\r", " ")


def _process(process: ListedProcess) -> str:
    def number(value: int | None) -> str:
        return "-" if value is None else str(value)

    instances = f"{number(process.gpu_instance)} {number(process.compute_instance)}"
    return f"{process.pid} {process.kind} {number(process.used_mib)} {instances} {process.name}"


def _section(title: str, values: Values, calls: Values) -> Iterator[str]:
    yield f"[{title}]"
    yield from (f"{key}={_clean(value)}" for key, value in values.items())
    yield from (f"call.{function}={_clean(rule)}" for function, rule in calls.items())


def _device(title: str, gpu: GpuProfile) -> Iterator[str]:
    yield from _section(title, gpu.values, gpu.calls)
    if gpu.processes_error:
        yield f"processes=!{gpu.processes_error}"
    elif gpu.processes is not None:
        yield f"processes={len(gpu.processes)}"
        for at, process in enumerate(gpu.processes):
            yield f"process.{at}={_clean(_process(process))}"


def state_text(profile: Profile) -> str:
    """The state file: a section per device, key=value lines."""
    system = {**profile.system, "device_files": profile.device_files}
    lines = list(_section("system", system, profile.calls))
    for index, gpu in enumerate(profile.gpus):
        lines += _device(f"gpu {index}", gpu)
        for at, mig in enumerate(gpu.migs):
            lines += _device(f"mig {index} {at}", mig)
    return "\n".join(lines) + "\n"


def write_state(profile: Profile, directory: Path) -> None:
    """(Re)write the state in place: what a host's driver says from the next nvmlInit on."""
    target = directory / "state"
    if not profile.driver_loaded:
        target.unlink(missing_ok=True)
        return
    fresh = directory / ".state.new"
    fresh.write_text(state_text(profile))
    fresh.chmod(0o644)
    fresh.rename(target)


@functools.cache
def _smi_program() -> bytes:
    """The stand-in and what it imports as one executable file, so that it runs where no checkout is.

    Under the Python of the tests, and as it has compiled it: python3 may be a script that chooses a Python.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for package in ("tests", "tests/lab", "tests/lab/silicon"):
            archive.writestr(f"{package}/__init__.py", "")
        for module in ("compute.py", "smi_rows.py", "smi_query.py", "smi_text.py", "nvidia_smi.py"):
            text = (HERE / module).read_text()
            archive.writestr(f"tests/lab/silicon/{module}", text)
            code = compile(text, module, "exec", dont_inherit=True)
            compiled = MAGIC_NUMBER + UNCHECKED + marshal.dumps(code)
            archive.writestr(f"tests/lab/silicon/{module}c", compiled)
        start = "import sys\nfrom tests.lab.silicon.nvidia_smi import main\nsys.exit(main(sys.argv[1:]))\n"
        archive.writestr("__main__.py", start)
    return first_lines("-IS").encode() + packed.getvalue()


def stage(profile: Profile, directory: Path) -> Path:
    """Lay out `directory`: state, registry/, lib/libnvidia-ml.so.1, bin/nvidia-smi, bin/compute.

    A driver that lacks `cuInit` has no libcuda.so.1.
    """
    for part in ("registry", "lib", "bin"):
        (directory / part).mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)
    (directory / "registry").chmod(0o1777)  # any user of the host may open a GPU
    (directory / "registry" / ".lock").touch(mode=0o644)
    write_state(profile, directory)
    shutil.copy2(library(profile.missing), directory / "lib" / LIBRARY_NAME)
    (directory / "lib" / CUDA_NAME).unlink(missing_ok=True)
    if "cuInit" not in profile.missing:
        shutil.copy2(directory / "lib" / LIBRARY_NAME, directory / "lib" / CUDA_NAME)
    programs = {"nvidia-smi": _smi_program(), "compute": (HERE / "compute.py").read_bytes()}
    for name, content in programs.items():
        target = directory / "bin" / name
        target.write_bytes(content)
        target.chmod(0o755)
    return directory
