"""Facts of an earlier answer that a host need not send again.

The host decides: it gets what is known, as a key, and leaves out what still holds, for the reasons in
`preflight/probes/earlier_facts.py`. A host that leaves out what was not known to it has sent no facts.
"""

from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from typing import Any, TypeAlias

from launcher.config.inventory import HostEntry
from preflight.facts.gpu import Capability, Gpu
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import encode
from preflight.facts.missing import Fact, Missing
from preflight.frozen import dataclass

GPUS = "gpus"
PACKAGES = "packages"


@dataclass(frozen=True, slots=True)
class Packages:
    """The fields of PythonEnv that are as their stamp is."""

    packages: dict[str, str]
    torch_cuda: Fact[str]
    nccl: Fact[str]


@dataclass(frozen=True, slots=True)
class FixedGpu:
    """The fields of a Gpu that are the same while the driver is loaded."""

    minor: Fact[int]
    name: Fact[str]
    pci_bus_id: Fact[str]
    capability: Fact[Capability]
    temperature_slowdown_c: Fact[int]
    clock_sm_max_mhz: Fact[int]


@dataclass(frozen=True, slots=True)
class EarlierFacts:
    """What one host's earlier answers held, under what it holds, and when each part was read."""

    boot_id: str
    nvidia_module: str
    driver: str
    packages_stamp: str = ""
    packages: Packages | None = None
    gpus: dict[str, FixedGpu] = field(default_factory=dict)  # by UUID
    read_unix: dict[str, float] = field(default_factory=dict)  # by part: GPUS, PACKAGES

    def key(self) -> dict[str, Any]:
        """Return what the host compares: the `known` of its agent's request."""
        return {
            "boot_id": self.boot_id,
            "nvidia_module": self.nvidia_module,
            "driver": self.driver,
            "packages": self.packages_stamp,
            "gpus": list(self.gpus),
        }


EarlierOf: TypeAlias = Callable[[HostEntry], EarlierFacts | None]  # None where nothing is known


def select_young_part(earlier: EarlierFacts, max_age_s: float, now_unix: float) -> EarlierFacts | None:
    """Return the parts that are at most `max_age_s` old, and not of the future; None without any."""
    ages = {part: now_unix - read for part, read in earlier.read_unix.items()}
    young = {part for part, age in ages.items() if 0 <= age <= max_age_s}
    if GPUS not in young:
        earlier = replace(earlier, gpus={})
    if PACKAGES not in young:
        earlier = replace(earlier, packages_stamp="", packages=None)
    return earlier if earlier.gpus or earlier.packages is not None else None


def fill_in(answer: Any, earlier: EarlierFacts | None, now_unix: float) -> None:
    """Put what a host has left out into the JSON of its answer, and the age of it as `reused`.

    Only where the answer is of the same boot and driver; whatever it says of `reused` itself is dropped.
    """
    if not isinstance(answer, dict):
        return
    answer.pop("reused", None)
    if earlier is None or _get(answer, "identity", "boot_id") != earlier.boot_id:
        return
    filled = [
        part for part, fill in ((GPUS, _fill_gpus), (PACKAGES, _fill_packages)) if fill(answer, earlier)
    ]
    if filled:
        answer["reused"] = {part: round(max(0.0, now_unix - earlier.read_unix[part]), 1) for part in filled}


def _fill_gpus(answer: dict[str, Any], earlier: EarlierFacts) -> bool:
    gpus = answer.get("gpus")
    if _get(answer, "driver", "version") != earlier.driver or not isinstance(gpus, list):
        return False
    filled = False
    for gpu in gpus:
        uuid = gpu.get("uuid") if isinstance(gpu, dict) else None
        fixed = earlier.gpus.get(uuid) if isinstance(uuid, str) else None
        if fixed is not None and "name" not in gpu:
            gpu.update({name: value for name, value in encode(fixed).items() if name not in gpu})
            filled = True
    return filled


def _fill_packages(answer: dict[str, Any], earlier: EarlierFacts) -> bool:
    python, known = answer.get("python"), earlier.packages
    if not isinstance(python, dict) or "packages" in python or known is None:
        return False
    if not earlier.packages_stamp or python.get("packages_stamp") != earlier.packages_stamp:
        return False
    python.update(encode(known))
    return True


def _get(answer: Mapping[str, Any], *keys: str) -> Any:
    found: Any = answer
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def select_reusable_parts(
    facts: HostFacts, before: EarlierFacts | None, now_unix: float
) -> EarlierFacts | None:
    """Return what of an answer may be used again; what it has reused keeps the time at which it was read."""
    if isinstance(facts.identity, Missing) or not facts.identity.boot_id:
        return None
    read = {
        part: before.read_unix[part] if before is not None and part in facts.reused else now_unix
        for part in (GPUS, PACKAGES)
    }
    python = None if isinstance(facts.python, Missing) else facts.python
    now = facts.identity.boot_id, facts.identity.nvidia_module
    is_same = before is not None and (before.boot_id, before.nvidia_module) == now
    if isinstance(facts.gpus, Missing) and before and is_same and GPUS in before.read_unix:
        gpus, driver = before.gpus, before.driver  # a launch on CPUs asks for none: they still hold
        read[GPUS] = before.read_unix[GPUS]
    else:
        known = (gpu for gpu in facts.known_gpus if isinstance(gpu.uuid, str) and _is_whole(gpu))
        names = [each.name for each in fields(FixedGpu)]
        gpus = {str(gpu.uuid): FixedGpu(**{name: getattr(gpu, name) for name in names}) for gpu in known}
        driver = "" if isinstance(facts.driver, Missing) else facts.driver.version
    stamp = "" if python is None else python.packages_stamp
    return EarlierFacts(
        boot_id=facts.identity.boot_id,
        nvidia_module=facts.identity.nvidia_module,
        driver=driver,
        packages_stamp=stamp,
        packages=Packages(python.packages, python.torch_cuda, python.nccl) if python and stamp else None,
        gpus=gpus,
        read_unix=read,
    )


def _is_whole(gpu: Gpu) -> bool:
    """Return whether what was not read is what this GPU does not have: a timeout may be over next time."""
    values = (getattr(gpu, each.name) for each in fields(FixedGpu))
    return all(not isinstance(value, Missing) or value.code == "not-supported" for value in values)
