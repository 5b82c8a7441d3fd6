"""What shows that a host has, or should have, NVIDIA GPUs, and whether a launch is one on GPUs. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from preflight import regex as re
from preflight.facts.host import HostFacts, Identity, ScriptFacts, System
from preflight.facts.missing import Missing, MissingCode
from preflight.facts.script import ScriptAnalysis
from preflight.job import Expect, Job

# Only a driver whose module is loaded answers so, or hangs.
_DRIVER_RUNS: frozenset[MissingCode] = frozenset(
    {"no-devices", "timeout", "no-permission", "library-mismatch", "gpu-lost", "reset-required"}
)
_NVIDIA_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
"""Set by the platforms that start containers: UUIDs or numbers, `void` where they give none."""
_ALL = "all"  # what CUDA's images bake in, so containers on machines without GPUs have it, too
_ALLOCATED = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS")
_NO_GPUS = frozenset({"", "void", "none", "-1", "NoDevFiles"})
_ASKS_WHETHER = re.compile(r"\bis_available\(|\bdevice_count\(|[\"']gloo[\"']")
_NCCL = re.compile(r"^[^#\n]*[\"']nccl[\"']", re.MULTILINE)


def resolve_gpus(job: Job, hosts: Iterable[HostFacts]) -> Job:
    """Return `job` with gpus "auto" settled: "all" when any of the hosts has a GPU, else "none".

    A host whose GPUs cannot be used although its bus, device files or driver show some counts as having them:
    what is wrong with them must be reported, not hidden by training on the CPU.
    """
    if job.gpus != "auto":
        return job
    has_gpus = any(_has_gpus(facts) for facts in hosts)
    return replace(job, gpus="all" if has_gpus else "none", gpus_by_auto=True)


def _has_gpus(facts: HostFacts) -> bool:
    if not isinstance(facts.gpus, Missing):
        return bool(facts.gpus)
    if any(find_gpu_hardware(facts)):
        return True
    return isinstance(facts.pci_gpus, Missing) and facts.gpus.code != "no-library"


def find_gpu_hardware(facts: HostFacts) -> Iterator[str]:
    """Yield what shows that the host has an NVIDIA GPU, or had one since it was started."""
    on_bus = () if isinstance(facts.pci_gpus, Missing) else facts.pci_gpus
    if on_bus:
        yield f"the PCI bus shows {len(on_bus)} NVIDIA GPU{'s' * (len(on_bus) != 1)}"
    if isinstance(facts.identity, Identity):
        if facts.identity.gpu_device_files:
            yield f"{', '.join(facts.identity.gpu_device_files)} exist"
        if facts.identity.nvidia_module:
            yield f"the kernel module nvidia {facts.identity.nvidia_module} is loaded"
    elif isinstance(facts.system, System) and "nvidia" in facts.system.modules:
        yield "the kernel module nvidia is loaded"
    if isinstance(facts.gpus, Missing) and facts.gpus.code in _DRIVER_RUNS:
        yield "a driver runs"


def find_gpu_promises(facts: HostFacts, expect: Expect) -> Iterator[str]:
    """Yield who says that the host has GPUs for this launch."""
    if facts.earlier_gpus:
        yield facts.earlier_gpus
    if expect.gpus:
        yield f"hosts.yaml expects {expect.gpus}"
    environ = {} if isinstance(facts.environ, Missing) else facts.environ
    for name in (_NVIDIA_VISIBLE, *_ALLOCATED):
        if environ.get(name, "") not in _NO_GPUS | ({_ALL} if name == _NVIDIA_VISIBLE else set()):
            yield f"{name}={environ[name]}"


def find_gpu_leftovers(facts: HostFacts) -> Iterator[str]:
    """Yield what GPUs alone need, and a host without any may have as well."""
    environ = {} if isinstance(facts.environ, Missing) else facts.environ
    given = environ.get(_NVIDIA_VISIBLE, "")
    if given and given in _NO_GPUS:
        yield f"{_NVIDIA_VISIBLE}={given}: the container was started without GPUs"
    if given == _ALL:
        yield f"{_NVIDIA_VISIBLE}={given}: the container's image is one for GPUs"
    if isinstance(facts.gpus, Missing) and facts.gpus.code in ("not-loaded", "error"):
        yield f"a driver is installed and does not answer: {facts.gpus.reason}"


def find_gpu_demand(facts: HostFacts, script: ScriptAnalysis | None) -> str:
    """Return where a script takes a GPU without asking whether there is one, "" where it is not seen to."""
    if script is None or not isinstance(facts.script, ScriptFacts) or isinstance(facts.script.text, Missing):
        return ""
    text = facts.script.text
    if _ASKS_WHETHER.search(text):
        return ""
    for site in script.precision:
        if site.binding and site.value in ("fp16", "fp8"):
            return f"{site.place}: {site.call} with {site.value}"
    if "cuda" in script.places_device:
        return script.places_device
    found = _NCCL.search(text)
    line = 0 if found is None else text.count("\n", 0, found.start()) + 1
    return f"{script.path}:{line}: {text.splitlines()[line - 1].strip()}" if line else ""
