"""GPUs: present, enough, whole, and covered by the installed torch."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from preflight.checks.finding import Problem, Severity
from preflight.checks.install import install_command
from preflight.checks.message_text import quote_path
from preflight.checks.registry import host_check
from preflight.checks.unread_facts import judge_each_gpu, name_of, report_required, report_unreadable
from preflight.checks.versions import parse_release
from preflight.checks.wheels import OLDEST, Wheel, find_wheel, runs_on
from preflight.decide.gpu_signs import find_gpu_leftovers, find_gpu_promises
from preflight.decide.usable_gpus import GpuSelection
from preflight.facts.gpu import Gpu, PciGpu, normalize_bus_id
from preflight.facts.host import HostFacts, PythonEnv
from preflight.facts.missing import Missing
from preflight.job import Expect, Job


@host_check("GPU001", gate=True, gpu_only=True)
def there_are_enough_gpus(gpus: tuple[Gpu, ...], use: GpuSelection, job: Job) -> Iterator[Problem]:
    """The host has as many GPUs as the launch wants of it.

    With fewer, accelerate maps several ranks to one GPU (by modulo) or a rank fails with "invalid device
    ordinal".

    Fix: ask for fewer with --gpus, or leave the host out.
    Source: accelerate state.py (device index = local rank modulo device count).
    """
    if not use.candidates:
        fix = "run CPU ranks with --gpus none, or leave this host out of --hosts"
        yield Problem("no GPU that the launch may use", fix)
    elif len(use.candidates) < use.needed:
        yield Problem(
            f"{use.needed} GPUs are wanted and {len(use.candidates)} of {len(gpus)} may be used",
            f"--gpus {len(use.candidates)} or fewer, as every host allows; or leave this host out of --hosts",
        )
    named = Counter(job.gpus if isinstance(job.gpus, tuple) else ())
    for word in (word for word, times in named.items() if times > 1):
        message = f"GPU {word} is listed twice: two ranks would share it"
        yield Problem(message, "list every GPU once under gpus:")


@host_check("GPU002", gpu_only=True)
def the_named_gpus_are_there(use: GpuSelection) -> Iterator[Problem]:
    """Every GPU that the run config or hosts.yaml names exists.

    An index or UUID that the driver does not list is a typing mistake, a moved card, or a card that died.

    Fix: `nvidia-smi -L` lists what the host has.
    Source: NVML device list.
    """
    names = _fold(use.not_found)
    if not names:
        return
    lone = len(use.not_found) == 1
    what = f"GPU {names} is named but the driver does not list it"
    yield Problem(
        what if lone else f"GPUs {names} are named but the driver does not list them",
        "nvidia-smi -L on the host shows its GPUs; correct gpus: in the run config or hosts.yaml",
        subject=f"gpu {names}" if lone else "",
    )


def _fold(words: tuple[int | str, ...]) -> str:
    """Return indices and UUIDs as text, neighbouring indices as a range: `4-7, GPU-1f2e`."""
    indices = sorted(word for word in words if isinstance(word, int))
    runs = [
        [index for _, index in run] for _, run in groupby(enumerate(indices), lambda pair: pair[1] - pair[0])
    ]
    ranges = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return ", ".join([*ranges, *(word for word in words if isinstance(word, str))])


@host_check("GPU003", gpu_only=True)
def no_gpu_is_lost(gpus: tuple[Gpu, ...]) -> Iterator[Problem]:
    """Every GPU answers the driver.

    A lost GPU has fallen off the bus or its firmware died; every call to it fails until the host is
    power-cycled (lost) or the GPU is reset (reset required). A GPU of which neither name nor temperature can
    be read (`ERR!` in nvidia-smi), or none of temperature, power and use, hangs in its firmware: the others
    work, and a rank on it does not start. Where power alone is an error, it is not known whether it works.

    Fix: root: `nvidia-smi --gpu-reset`, or a cold boot; ask the administrator.
    Source: NVML errors 15 (GPU is lost) and 16 (reset required); NVIDIA's Xid catalogue, Xid 79.
    """
    for gpu in gpus:
        facts = (getattr(gpu, name) for name in Gpu.__dataclass_fields__)
        codes = {fact.code for fact in facts if isinstance(fact, Missing)}
        if "gpu-lost" in codes:
            place = f", at {gpu.pci_bus_id}" if isinstance(gpu.pci_bus_id, str) else ""
            yield Problem(
                f"the GPU is lost: it no longer answers on the bus{place}",
                "ask the administrator to power-cycle the host (a warm reboot may not be enough)",
                gpu=gpu.index,
            )
        elif "reset-required" in codes:
            yield Problem(
                "the GPU needs a reset and takes no work until then",
                f"end its processes, then: sudo nvidia-smi --gpu-reset -i {gpu.index}",
                gpu=gpu.index,
            )
        elif _answers_nothing(gpu):
            yield Problem(
                "the GPU answers no question, not even that for its temperature",
                "sudo dmesg | grep -i xid (119 and 120 are its firmware); sudo nvidia-smi --gpu-reset -i "
                f"{gpu.index}, or ask the administrator to power-cycle the host",
                gpu=gpu.index,
            )
        elif isinstance(gpu.power_w, Missing) and gpu.power_w.code == "error":
            yield from report_unreadable(gpu, "power", gpu.power_w)


def _answers_nothing(gpu: Gpu) -> bool:
    """Whether the driver has an error for what it knows of every GPU that works."""
    name, *others = (
        isinstance(value, Missing) and value.code == "error"
        for value in (gpu.name, gpu.power_w, gpu.utilization_percent, gpu.temperature_c)
    )
    return all(others) or (name and others[-1])


@host_check("GPU004", Severity.CRITICAL, gpu_only=True)
def the_driver_lists_all_gpus_of_the_bus(
    gpus: tuple[Gpu, ...], pci_gpus: tuple[PciGpu, ...], expect: Expect, use: GpuSelection
) -> Iterator[Problem]:
    """The driver lists as many GPUs as the PCI bus shows and as the site expects.

    A GPU that failed while the host started is simply absent from nvidia-smi: seven of eight looks healthy to
    every tool that only asks the driver.

    Fix: look at the kernel log for the bus address; power-cycle; `expect: {gpus: N}` in hosts.yaml says N.
    Source: PCI class 03xx of vendor 10de in /sys/bus/pci; NVML device count.
    """
    bound = [
        pci for pci in pci_gpus if not isinstance(pci.driver, Missing) and pci.driver not in ("nvidia", "")
    ]
    visible = len(pci_gpus) - len(bound)
    severity = Severity.CRITICAL if len(use.candidates) < use.needed else Severity.WARNING
    if visible > len(gpus):
        listed = {normalize_bus_id(gpu.pci_bus_id) for gpu in gpus if not isinstance(gpu.pci_bus_id, Missing)}
        lacking = [p.bus_id for p in pci_gpus if p not in bound and normalize_bus_id(p.bus_id) not in listed]
        yield Problem(
            f"the bus shows {visible} NVIDIA GPUs, the driver lists {len(gpus)}; not listed: "
            f"{', '.join(lacking) or 'unknown'}",
            "sudo dmesg | grep -iE 'nvrm|xid' shows why; power-cycle the host",
            severity=severity,
        )
    for pci in bound:
        yield Problem(
            f"the GPU at {pci.bus_id} is bound to {pci.driver}, not to the NVIDIA driver",
            "ask the administrator (nouveau: blacklist it; vfio-pci: the GPU belongs to a virtual machine)",
            subject=pci.bus_id,
            severity=severity,
        )
    if expect.gpus is not None and len(gpus) != expect.gpus:
        yield Problem(
            f"hosts.yaml expects {expect.gpus} GPUs, the driver lists {len(gpus)}",
            "ask the administrator, or correct expect: {gpus: ...} in hosts.yaml",
            severity=Severity.CRITICAL if len(gpus) < expect.gpus else Severity.WARNING,
        )


@host_check("GPU005", gpu_only=True)
@judge_each_gpu("mig_enabled", "MIG mode")
def no_gpu_is_in_mig_mode(gpu: Gpu, split: object) -> Iterator[Problem]:
    """No GPU that the job uses is split by MIG.

    A GPU in MIG mode shows only its instances to CUDA, one per process, and without peer-to-peer: a rank that
    was promised the whole GPU gets a slice or nothing.

    Fix: root: `nvidia-smi -i N -mig 0` (ends what runs on it), or leave the GPU out.
    Source: NVML nvmlDeviceGetMigMode; NVIDIA MIG user guide.
    """
    if split:
        yield Problem(
            f"{name_of(gpu)} is in MIG mode; a rank needs a whole GPU",
            f"list the other GPUs under gpus:; when it is idle: sudo nvidia-smi -i {gpu.index} -mig 0",
        )


@host_check("GPU006", gate=True, gpu_only=True)
def torch_has_kernels_for_every_gpu(
    facts: HostFacts, gpus: tuple[Gpu, ...], python: PythonEnv, job: Job
) -> Iterator[Problem]:
    """The installed torch wheel holds kernels for every GPU's compute capability.

    torch only warns at start; the first kernel then fails with "no kernel image is available for execution on
    the device". Wheels from PyPI lost Pascal with CUDA 12.8 and Volta with CUDA 13.

    Fix: install the wheel that is named.
    Source: the release architecture lists of PyTorch (table in preflight/checks/wheels.py, with its issues).
    """
    build, version = python.torch_cuda, python.packages.get("torch", "")
    if isinstance(build, Missing) or not parse_release(build) or not version or not job.uses_torch:
        return  # ENV002 and ENV003 have said so
    wheel = find_wheel(version, build)
    if wheel is None:
        yield Problem(
            f"torch {version} for CUDA {build} is not in the table of official wheels, so its kernels "
            "are not known",
            f'{quote_path(python.executable)} -c "import torch; print(torch.cuda.get_arch_list())"',
            severity=Severity.INFO,
        )
        return
    for gpu in gpus:
        yield from _kernels(
            gpu, wheel, f"torch {version} for CUDA {build}", install_command(facts, python, ("torch",))
        )


def _kernels(gpu: Gpu, wheel: Wheel, torch: str, fix: str) -> Iterator[Problem]:
    if isinstance(gpu.capability, Missing):
        yield from report_required(gpu, "compute capability", gpu.capability)
        return
    if runs_on(wheel, gpu.capability):
        return
    major, minor = gpu.capability
    held = ", ".join(f"{a}.{b}" for a, b in wheel.kernels)
    yield Problem(
        f"{name_of(gpu)} has compute capability {major}.{minor}; {torch} holds kernels for {held}",
        fix if gpu.capability >= OLDEST else "leave this GPU out: no current torch wheel supports it",
        gpu=gpu.index,
    )


@host_check("GPU007", Severity.WARNING, gpu_only=True)
def gpus_of_a_host_are_alike(gpus: tuple[Gpu, ...], use: GpuSelection) -> Iterator[Problem]:
    """All GPUs that the job uses on this host are of one model, and those of a model are set up alike.

    Data-parallel ranks wait for the slowest, and the smallest memory decides the batch size. A GPU with a
    lower power limit than another of its model is slower; one without ECC hides the errors of its memory.

    Fix: list the GPUs of one model under `gpus:`; set the others up alike (root: `nvidia-smi -pl`, `-e`).
    Source: NVML names, memory, enforced power limits and ECC modes. Makers of GeForce boards choose the
    limits themselves, as 350 to 420 W for the RTX 3090.
    """
    models: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        if gpu.index in use.candidates and isinstance(gpu.name, str):
            models.setdefault(_model_of(gpu, gpu.name, gpus), []).append(gpu)
    if len(models) > 1:
        by_count = sorted(models.items(), key=lambda item: -len(item[1]))
        listed = ", ".join(f"{len(alike)}x {model}" for model, alike in by_count)
        model, indices = by_count[0][0], ",".join(str(gpu.index) for gpu in by_count[0][1])
        yield Problem(
            f"unlike GPUs: {listed}; the slowest one sets the pace",
            f"take those of one model with --gpus or gpus:, as --gpus '[{indices}]' ({model})",
        )
    for model, alike in models.items():
        if "..." not in model:
            yield from _unlike_settings(model, alike)


def _model_of(gpu: Gpu, name: str, gpus: tuple[Gpu, ...]) -> str:
    """Return the name of a GPU's model, with its memory where a table cut the name short.

    ECC takes a sixteenth of it on some boards, and one whose memory is unknown is taken for the largest.
    """
    most = max((each.total_mib or 0 for each in gpus if each.name == name), default=0)
    if not name.endswith("...") or not most:
        return name
    own = most if gpu.total_mib is None else gpu.total_mib
    return f"{name} with {(own if own < _ALIKE * most else most) / 1024:.0f} GiB"


def _unlike_settings(model: str, gpus: list[Gpu]) -> Iterator[Problem]:
    limits = {gpu.index: gpu.power_limit_w for gpu in gpus if isinstance(gpu.power_limit_w, float)}
    most = max(limits.values(), default=0.0)
    for index, watts in limits.items():
        if watts < (_ALIKE_BOARDS if "GeForce" in model else _ALIKE) * most:
            yield Problem(
                f"its power limit is {watts:g} W, that of another {model} {most:g} W: it sets the pace",
                f"sudo nvidia-smi -i {index} -pl {most:g}   (until a reboot)",
                gpu=index,
            )
    modes = {gpu.index: gpu.ecc.enabled for gpu in gpus if not isinstance(gpu.ecc, Missing)}
    for index, is_on in modes.items():
        if not is_on and any(modes.values()):
            yield Problem(
                f"ECC is off on it, and on on another {model}: errors of its memory stay unseen",
                f"sudo nvidia-smi -i {index} -e 1, then reboot",
                gpu=index,
            )


_ALIKE, _ALIKE_BOARDS = 0.9, 0.75
"""Of the most power or memory of a model: of NVIDIA's own boards, and of those of several makers."""


ON_THE_CPU = "to train on the CPU: --gpus none, or gpus: none in the run config"


@host_check("GPU008")
def a_launch_without_gpus_is_meant_so(facts: HostFacts, job: Job, expect: Expect) -> Iterator[Problem]:
    """Where `gpus: auto` leaves a launch on the CPU, nothing says that the host should have GPUs.

    A pod that came back without its GPU, or a container whose runtime passed none, has no trace of one. The
    training would start, and run a hundred times as long. An earlier launch that had GPUs on the host,
    `expect: {gpus: N}` of hosts.yaml, a scheduler's allocation and GPUs named in NVIDIA_VISIBLE_DEVICES stop
    the launch; what a host without GPUs may have as well, such as an installed driver or an image for GPUs,
    is a warning. Where the bus, a device file or the driver shows GPUs, "auto" means all of them, and other
    checks report what is wrong.

    Fix: `--gpus none` where the CPU is meant; else start the pod or container with its GPUs.
    Source: launches that this client remembers; hosts.yaml; variables of Slurm and of NVIDIA's container
    toolkit.
    """
    if not job.gpus_by_auto or job.gpus != "none":
        return
    fix = f"{ON_THE_CPU}; else give the host its GPUs back (a container: --gpus all), and see nvidia-smi"
    if promises := list(find_gpu_promises(facts, expect)):
        yield Problem(f"the host shows no GPU, so the ranks would run on the CPU: {'; '.join(promises)}", fix)
    elif leftovers := list(find_gpu_leftovers(facts)):
        yield Problem(
            f"the host shows no GPU, so the ranks run on the CPU: {'; '.join(leftovers)}",
            fix,
            severity=Severity.WARNING,
        )
