"""The request, as the probes read it."""

import os
from typing import NamedTuple

from .earlier_facts import Known, read_known
from .fact import Json

_DEADLINE_S = 20.0  # when the request names none
_ROLES = ("workdir", "output", "hf_cache", "tmp", "script", "run_dir", "offload")


class ProbeRequest(NamedTuple):
    """The request, read once; `agent.py` says what its fields mean."""

    host: str
    ports: tuple[int, ...]
    pids: tuple[int, ...]
    free_ports: int
    seed: str
    paths: dict[str, str]
    script: str
    modules: tuple[str, ...] | None
    python_path: str
    skip: frozenset[str]
    deadline_s: float
    pynvml: bytes | None
    library_path: str | None = None
    known: Known | None = None  # from an earlier answer, where it still holds


def read_request(request: Json, pynvml: bytes | None) -> ProbeRequest:
    """Return `request` with defaults filled in; raises ValueError, TypeError or AttributeError."""
    return ProbeRequest(
        host=str(request.get("host", "")),
        ports=tuple(int(port) for port in request.get("ports") or ()),
        pids=tuple(int(pid) for pid in request.get("pids") or ()),
        free_ports=int(request.get("free_ports") or 0),
        seed=str(request.get("seed", "")),
        paths={str(role): str(path) for role, path in (request.get("paths") or {}).items()},
        script=str(request.get("script") or ""),
        python_path=str(request.get("python_path") or ""),
        library_path=None if request.get("library_path") is None else str(request["library_path"]),
        modules=None if request.get("modules") is None else tuple(map(str, request["modules"])),
        skip=frozenset(request.get("skip") or ()) | (frozenset() if request.get("script") else {"script"}),
        deadline_s=float(request.get("deadline_s") or _DEADLINE_S),
        pynvml=pynvml,
        known=read_known(request.get("known") or {}),
    )


def asked_paths(ask: ProbeRequest) -> dict[str, str]:
    """Return {role: path} with the defaults of the roles that have one."""
    paths = {role: path for role, path in ask.paths.items() if role in _ROLES}
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface"
    )
    state = os.environ.get("XDG_STATE_HOME", "")
    # As launcher/onhost/supervisor/run_dir.py has it.
    state = state if os.path.isabs(state) else "~/.local/state"
    defaults = {
        "hf_cache": home,
        "tmp": os.environ.get("TMPDIR") or "/tmp",  # noqa: S108 - asked about, not used
        "run_dir": os.path.join(state, "gpulaunch", "runs"),
    }
    return {role: path or defaults.get(role, "") for role, path in paths.items() if path or role in defaults}


def resolve(path: str) -> str:
    """Return `path` made absolute from the home directory, without touching the file system."""
    home = os.path.expanduser("~")
    return os.path.normpath(os.path.join(home, os.path.expanduser(os.path.expandvars(path))))
