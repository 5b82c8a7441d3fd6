"""How a package gets into the training environment of one host: torch from the index that fits it."""

from collections.abc import Iterable, Mapping, Sequence

from preflight import regex as re
from preflight.checks.message_text import quote_path
from preflight.checks.versions import parse_release
from preflight.checks.wheels import OLDEST, find_wheel, find_wheel_index
from preflight.facts.gpu import Capability
from preflight.facts.host import HostFacts, Identity, PythonEnv
from preflight.facts.missing import Missing

_VENV = "~/gpulaunch-venv"
_ANY = (
    "a torch wheel for this host's driver and GPUs: https://pytorch.org/get-started/locally names the index"
)


def install_command(facts: HostFacts, python: PythonEnv, names: Sequence[str], *, gpus: bool = True) -> str:
    """Return what to type on the host; torch comes from the index for its driver, GPUs and machine.

    A system's Python that is managed from outside (PEP 668) refuses pip, and gets a virtual environment.
    """
    index = find_launch_index([facts]) if gpus and "torch" in names else None
    if index == "":
        return f"{_no_index(facts)}, then install {' and '.join(names)} with that"
    others = [name for name in names if index is None or name != "torch"]
    if python.managed and "accelerate" not in others:
        others.append("accelerate")
    of_index = [format_torch_install(python.packages, index)] if index is not None else []
    return format_pip_command(facts, python, *of_index, " ".join(others))


def format_pip_command(facts: HostFacts, python: PythonEnv, *wanted: str) -> str:
    """Return how pip installs on the host each of `wanted`, after what its interpreter lacks for that."""
    pip = f"{_VENV}/bin/python" if python.managed else quote_path(python.executable)
    steps = [*_preparation(facts, python), *(f"{pip} -m pip install {each}" for each in wanted if each)]
    note = f"   (then python: {_VENV}/bin/python for {facts.host} in hosts.yaml)"
    return " && ".join(steps) + note * python.managed


def _preparation(facts: HostFacts, python: PythonEnv) -> list[str]:
    """Return what has to be done before pip can run.

    Debian has ensurepip, which venv needs, in a package of its own; environments that uv makes have no pip.
    The new environment also finds what else the script imports, where it was.
    """
    program = quote_path(python.executable)
    if python.managed:
        package = f"python{'.'.join(python.version.split('.')[:2])}-venv"
        sudo = "" if isinstance(facts.identity, Identity) and facts.identity.uid == 0 else "sudo "
        get = [f"{sudo}apt-get update", f"{sudo}apt-get install -y {package}"]
        return [
            *(get if "ensurepip" in python.absent_installers else ()),
            f"{program} -m venv --system-site-packages {_VENV}",
        ]
    if "pip" not in python.absent_installers or "pip" in python.packages:
        return []
    if "ensurepip" not in python.absent_installers:
        return [f"{program} -m ensurepip"]
    return [f"curl -sS https://bootstrap.pypa.io/get-pip.py | {program}"]


def find_launch_index(hosts: Iterable[HostFacts]) -> str:
    """Return the index whose torch runs on all these hosts, "" when none does or a driver is not known."""
    drivers, known, machines = list[str](), list[Capability](), set[str]()
    for facts in hosts:
        drivers.append("" if isinstance(facts.driver, Missing) else facts.driver.version)
        known += [gpu.capability for gpu in facts.known_gpus if not isinstance(gpu.capability, Missing)]
        machines.add("" if isinstance(facts.identity, Missing) else facts.identity.machine)
    known = [capability for capability in known if capability >= OLDEST]  # older ones are to be left out
    oldest = min(drivers, key=parse_release, default="")
    return (
        find_wheel_index(known, oldest, machines.pop())
        if parse_release(oldest) and len(machines) == 1
        else ""
    )


def format_torch_install(packages: Mapping[str, str], index: str) -> str:
    """Return pip's words for torch, and for what was built with it: their own release where the index has it.

    Another release would not fit the other hosts. A reinstallation also replaces what torch only needs.
    """
    label = index.rpartition("/")[2]
    names = [name for name in ("torch", "torchvision", "torchaudio") if name in packages] or ["torch"]
    public = {name: packages.get(name, "").partition("+")[0] for name in names}
    cuda = f"{label[2:-1]}.{label[-1]}"
    if re.fullmatch(r"[\d.]+", public["torch"]) and find_wheel(public["torch"], cuda):
        return f"{' '.join(f'{name}=={public[name]}+{label}' for name in names)} --index-url {index}"
    again = "--force-reinstall " if "torch" in packages else ""
    return f"{again}{' '.join(names)} --index-url {index}"


def _no_index(facts: HostFacts) -> str:
    if isinstance(facts.driver, Missing) or not parse_release(facts.driver.version):
        return f"choose {_ANY}"
    driver = facts.driver.version
    return (
        f"no torch wheel fits driver {driver} and all GPUs of the host: name fewer (gpus:), or a newer driver"
    )
