"""How a package gets into the training environment of one host: torch from the index that fits it."""

from collections.abc import Sequence

from preflight.checks.message_text import quote_path
from preflight.checks.versions import release
from preflight.checks.wheels import OLDEST, find_wheel_index
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
    index = _index(facts) if gpus and "torch" in names else None
    if index == "":
        return f"{_no_index(facts)}, then install {' and '.join(names)} with that"
    pip = (
        f"{_VENV}/bin/python -m pip install"
        if python.managed
        else f"{quote_path(python.executable)} -m pip install"
    )
    again = " --force-reinstall" if "torch" in names and "torch" in python.packages else ""
    steps = _preparation(facts, python)
    if index is not None:
        steps.append(f"{pip}{again} torch --index-url {index}")
    others = [name for name in names if index is None or name != "torch"]
    if python.managed and "accelerate" not in others:
        others.append("accelerate")
    if others:
        steps.append(f"{pip} {' '.join(others)}")
    command = " && ".join(steps)
    note = f"   (then python: {_VENV}/bin/python for {facts.host} in hosts.yaml)"
    return command + note if python.managed else command


def _preparation(facts: HostFacts, python: PythonEnv) -> list[str]:
    """Return what has to be done before pip can run.

    Debian has ensurepip, which venv needs, in a package of its own; environments that uv makes have no pip.
    """
    program = quote_path(python.executable)
    if python.managed:
        package = f"python{'.'.join(python.version.split('.')[:2])}-venv"
        sudo = "" if isinstance(facts.identity, Identity) and facts.identity.uid == 0 else "sudo "
        get = [f"{sudo}apt-get update", f"{sudo}apt-get install -y {package}"]
        return [*(get if "ensurepip" in python.absent_installers else ()), f"{program} -m venv {_VENV}"]
    if "pip" not in python.absent_installers or "pip" in python.packages:
        return []
    if "ensurepip" not in python.absent_installers:
        return [f"{program} -m ensurepip"]
    return [f"curl -sS https://bootstrap.pypa.io/get-pip.py | {program}"]


def _index(facts: HostFacts) -> str:
    """Return the index that fits, "" when none does or the driver is not known."""
    if isinstance(facts.driver, Missing) or not release(facts.driver.version):
        return ""
    known = [gpu.capability for gpu in facts.known_gpus if not isinstance(gpu.capability, Missing)]
    known = [capability for capability in known if capability >= OLDEST]  # older ones are to be left out
    machine = "" if isinstance(facts.identity, Missing) else facts.identity.machine
    return find_wheel_index(known, facts.driver.version, machine)


def _no_index(facts: HostFacts) -> str:
    if isinstance(facts.driver, Missing) or not release(facts.driver.version):
        return f"choose {_ANY}"
    driver = facts.driver.version
    return (
        f"no torch wheel fits driver {driver} and all GPUs of the host: name fewer (gpus:), or a newer driver"
    )
