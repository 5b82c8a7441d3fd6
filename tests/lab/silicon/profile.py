"""A GPU profile: what a host's NVML would say, as YAML for people and as values for the simulated library."""

import functools
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml

HERE = Path(__file__).parent
PROFILES = HERE / "profiles"
BOARDS = HERE / "boards.yaml"
UUID_NAMESPACE = uuid.UUID("6f6e6520-6770-7520-7065-722072616e6b")

DeviceFiles: TypeAlias = Literal["nvidia", "dxg", "none"]
Values: TypeAlias = Mapping[str, str]


class ProfileError(ValueError):
    """A profile that cannot be read; the message names it and what is wrong."""


@dataclass(frozen=True, slots=True)
class ListedProcess:
    """A process that the driver lists but that is not alive here: a recording's, or a foreign namespace's."""

    pid: int
    kind: str = "C"
    used_mib: int | None = None
    name: str = ""
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class GpuProfile:
    """One GPU, or one MIG device of it. A key absent from `values` is not supported; "!N" fails with N."""

    values: Values
    processes: tuple[ListedProcess, ...] | None = ()  # None: the driver cannot list processes
    processes_error: int = 0
    calls: Values = field(default_factory=dict)
    migs: tuple["GpuProfile", ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """All that a simulated host's NVML says. `system` holds driver_version, nvml_version, cuda_version."""

    name: str
    system: Values
    gpus: tuple[GpuProfile, ...]
    about: str = ""
    calls: Values = field(default_factory=dict)
    missing: tuple[str, ...] = ()  # functions that this driver's library does not have
    device_files: DeviceFiles = "nvidia"
    driver_loaded: bool = True

    def with_gpu(self, index: int, **values: str | None) -> "Profile":
        """The same host with values of one GPU changed ("a__b" is the key "a.b"; None takes a key away)."""
        gpu = self.gpus[index]
        merged = {**gpu.values, **{k.replace("__", "."): v for k, v in values.items() if v is not None}}
        for key, value in values.items():
            if value is None:
                merged.pop(key.replace("__", "."), None)
        gpus = (*self.gpus[:index], replace(gpu, values=merged), *self.gpus[index + 1 :])
        return replace(self, gpus=gpus)


def scalar(value: object) -> str:
    """A YAML scalar as the state file writes it."""
    if isinstance(value, bool):
        return str(int(value))
    return str(value)


def flatten(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, str | None]]:
    """`{memory: {total_mib: 1}}` as `memory.total_mib`, "1"."""
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flatten(value, f"{name}.")
        else:
            yield name, None if value is None else scalar(value)


def _processes(entries: Any) -> tuple[tuple[ListedProcess, ...] | None, int]:
    if entries is None:
        return None, 0
    if isinstance(entries, str):
        return (), int(entries.lstrip("!"))
    return tuple(ListedProcess(**entry) for entry in entries), 0


SPECIAL = frozenset({"board", "processes", "calls", "mig_devices"})


def _gpu(entry: Mapping[str, Any], boards: Mapping[str, Any], seed: str) -> GpuProfile:
    board = boards[entry["board"]] if "board" in entry else {}
    values: dict[str, str] = {}
    for tree in (board, entry):
        for key, value in flatten({k: v for k, v in tree.items() if k not in SPECIAL}):
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
    prefix = "MIG" if "gpu_instance" in values else "GPU"
    values.setdefault("uuid", f"{prefix}-{uuid.uuid5(UUID_NAMESPACE, seed)}")
    processes, error = _processes(entry.get("processes", ()))
    migs = entry.get("mig_devices", ())
    return GpuProfile(
        values=values,
        processes=processes,
        processes_error=error,
        calls=dict(entry.get("calls", {})),
        migs=tuple(_gpu(mig, boards, f"{seed}/{at}") for at, mig in enumerate(migs)),
    )


@functools.cache
def known_boards() -> Mapping[str, Any]:
    """What all boards of a kind have in common; read once, for it is longer than any profile."""
    boards: Mapping[str, Any] = yaml.safe_load(BOARDS.read_text())
    return boards


def parse_profile(text: str, name: str, boards: Mapping[str, Any] | None = None) -> Profile:
    """Read a profile's YAML. Raises ProfileError."""
    try:
        tree = yaml.safe_load(text)
        known = boards if boards is not None else known_boards()
        gpus = []
        for index, entry in enumerate(tree["gpus"]):
            gpu = _gpu(entry, known, f"{name}/{index}")
            gpus.append(replace(gpu, values={"minor_number": str(index), **gpu.values}))
        return Profile(
            name=tree.get("name", name),
            about=tree.get("about", ""),
            system={key: scalar(value) for key, value in tree["system"].items()},
            gpus=tuple(gpus),
            calls=dict(tree.get("calls", {})),
            missing=tuple(tree.get("missing", ())),
            device_files=tree.get("device_files", "nvidia"),
            driver_loaded=tree.get("driver_loaded", True),
        )
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ProfileError(f"profile {name}: {type(error).__name__}: {error}") from error


def profile_names() -> tuple[str, ...]:
    """Names that `load_profile` knows."""
    return tuple(sorted(path.stem for path in PROFILES.glob("*.yaml")))


def load_profile(name_or_path: str | Path) -> Profile:
    """A profile by its name, or from a YAML file, or from a saved `nvidia-smi -q -x`. Raises ProfileError."""
    known = PROFILES / f"{name_or_path}.yaml"
    if known.exists():
        return parse_profile(known.read_text(), str(name_or_path))
    path = Path(name_or_path)
    if not path.exists():
        raise ProfileError(f"no profile {name_or_path!r}; known: {', '.join(profile_names())}")
    text = path.read_text()
    if text.lstrip().startswith("<"):
        from tests.lab.silicon.from_xml import profile_from_xml  # noqa: PLC0415 - it builds on this module

        return profile_from_xml(text, path.stem)
    return parse_profile(text, path.stem)


def _nest(values: Values) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *groups, last = key.split(".")
        at = tree
        for group in groups:
            at = at.setdefault(group, {})
        at[last] = int(value) if value.lstrip("-").isdigit() and str(int(value)) == value else value
    return tree


def _gpu_tree(gpu: GpuProfile) -> dict[str, Any]:
    tree = _nest(gpu.values)
    if gpu.processes is None:
        tree["processes"] = None
    elif gpu.processes_error:
        tree["processes"] = f"!{gpu.processes_error}"
    elif gpu.processes:
        tree["processes"] = [
            {
                key: value
                for key in ("pid", "kind", "used_mib", "name", "gpu_instance", "compute_instance")
                if (value := getattr(process, key)) is not None
            }
            for process in gpu.processes
        ]
    if gpu.calls:
        tree["calls"] = dict(gpu.calls)
    if gpu.migs:
        tree["mig_devices"] = [_gpu_tree(mig) for mig in gpu.migs]
    return tree


def profile_yaml(profile: Profile) -> str:
    """The YAML that `parse_profile` reads back into an equal profile."""
    tree: dict[str, Any] = {"name": profile.name}
    if profile.about:
        tree["about"] = profile.about
    tree["system"] = dict(profile.system)
    optional = {
        "calls": dict(profile.calls),
        "missing": list(profile.missing),
        "device_files": profile.device_files if profile.device_files != "nvidia" else "",
    }
    tree |= {key: value for key, value in optional.items() if value}
    if not profile.driver_loaded:
        tree["driver_loaded"] = False
    tree["gpus"] = [_gpu_tree(gpu) for gpu in profile.gpus]
    return yaml.safe_dump(tree, sort_keys=False, width=110, allow_unicode=True)
