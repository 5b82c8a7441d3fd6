"""Which GPUs each official PyTorch Linux x86-64 wheel holds kernels for.

A table, so that nothing imports torch to find out. Sources: pytorch/pytorch issues 146265, 147607, 164471,
172352, 172663, 175253, 182849 (release architecture lists), 160162 and 168065 (aarch64), pytorch's
.ci/aarch64_linux/aarch64_ci_build.sh, torch/cuda/__init__.py PYTORCH_RELEASES_CODE_CC. A
version without a row is unknown, and reported as unknown.
"""

from collections.abc import Iterable

from preflight.checks.minimum_drivers import find_minimum_driver
from preflight.checks.versions import compare, parse_release
from preflight.facts.gpu import Capability
from preflight.frozen import dataclass

_FULL = ((5, 0), (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (9, 0))
_VOLTA_UP = ((7, 0), (7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0))
_TURING_UP = ((7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0))


@dataclass(frozen=True, slots=True)
class Wheel:
    """One build of torch: the capabilities it was compiled for; `ptx` lets newer GPUs compile the rest."""

    first: tuple[int, int]  # torch releases, both inclusive
    last: tuple[int, int]
    cuda: str
    kernels: tuple[Capability, ...]
    ptx: bool = False


WHEELS: tuple[Wheel, ...] = (
    Wheel((2, 3), (2, 6), "11.8", ((3, 7), *_FULL)),
    Wheel((2, 3), (2, 5), "12.1", _FULL),
    Wheel((2, 4), (2, 6), "12.4", _FULL),
    Wheel((2, 6), (2, 14), "12.6", _FULL),
    Wheel((2, 7), (2, 7), "11.8", _FULL),
    Wheel((2, 7), (2, 7), "12.8", _TURING_UP, ptx=True),
    Wheel((2, 8), (2, 10), "12.8", _VOLTA_UP),
    Wheel((2, 8), (2, 8), "12.9", _VOLTA_UP, ptx=True),
    Wheel((2, 11), (2, 11), "12.8", _TURING_UP),
    Wheel((2, 9), (2, 14), "13.0", _TURING_UP, ptx=True),
    Wheel((2, 12), (2, 14), "13.2", _TURING_UP, ptx=True),
)

_OWN_MINOR_ONLY: frozenset[Capability] = frozenset({(5, 3), (6, 2), (7, 2), (8, 7), (10, 1)})
"""Jetson and similar: kernels for them run on no other GPU, and other kernels do not run on them."""


def find_wheel(torch_version: str, cuda: str) -> Wheel | None:
    """Return the row of this build, None when the table lacks it (a source build, a newer release)."""
    version = parse_release(torch_version)[:2]
    if len(version) < 2 or "+git" in torch_version or ".dev" in torch_version:
        return None
    build = ".".join(str(part) for part in parse_release(cuda)[:2])
    rows = [w for w in WHEELS if w.cuda == build and w.first <= (version[0], version[1]) <= w.last]
    return rows[0] if rows else None


def runs_on(wheel: Wheel, gpu: Capability) -> bool:
    """Whether a compiled kernel of the wheel, or its PTX, runs on a GPU of this capability.

    A kernel for X.Y runs on X.Z with Z >= Y, never on another major: 8.6 runs on 8.9, 7.5 not on 7.0.
    """
    if gpu in _OWN_MINOR_ONLY:
        return gpu in wheel.kernels
    compiled = any(
        major == gpu[0] and minor <= gpu[1] and (major, minor) not in _OWN_MINOR_ONLY
        for major, minor in wheel.kernels
    )
    return compiled or (wheel.ptx and gpu > max(wheel.kernels))


@dataclass(frozen=True, slots=True)
class Index:
    """A pip index of PyTorch's own: the kernels of the newest torch on it, by machine."""

    name: str
    cuda: str
    kernels: dict[str, tuple[Capability, ...]]
    ptx: bool = False


OLDEST: Capability = (5, 0)  # no torch of today has kernels for GPUs before
_ARM = ((8, 0), (9, 0))
INDEXES: tuple[Index, ...] = (
    # The first that fits is named: newest CUDA first, then what still gets new releases of torch.
    Index("cu130", "13.0", {"x86_64": _TURING_UP, "aarch64": (*_ARM, (10, 0), (11, 0), (12, 0))}, ptx=True),
    Index("cu126", "12.6", {"x86_64": _FULL, "aarch64": _ARM}),
    Index("cu128", "12.8", {"x86_64": _TURING_UP, "aarch64": (*_ARM, (10, 0), (12, 0))}),  # up to torch 2.11
    Index("cu118", "11.8", {"x86_64": _FULL}),  # up to torch 2.7
)
_INDEX_URL = "https://download.pytorch.org/whl/"


def find_wheel_index(gpus: Iterable[Capability], driver: str, machine: str) -> str:
    """Return the pip index whose torch runs on all these GPUs with this driver, "" when there is none.

    On aarch64 PyPI's own torch is a CPU build, so that an index must always be named for it.
    """
    wanted = tuple(gpus)
    for index in INDEXES:
        kernels = index.kernels.get(machine or "x86_64", ())
        wheel = Wheel((0, 0), (0, 0), index.cuda, kernels, index.ptx)
        floor = parse_release(find_minimum_driver(index.cuda))
        if (
            kernels
            and compare(parse_release(driver), floor) >= 0
            and all(runs_on(wheel, gpu) for gpu in wanted)
        ):
            return _INDEX_URL + index.name
    return ""
