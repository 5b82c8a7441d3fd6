"""A DeepSpeed config as a mapping. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from preflight.job import DeepSpeedConfig


def read_deepspeed(config: DeepSpeedConfig | None) -> dict[str, Any]:
    """Return the config as a mapping, {} where there is none or it does not hold a JSON object."""
    try:
        content = json.loads(config.text) if config is not None else {}
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def get_section(content: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return a section within sections, {} where it is absent."""
    found: Any = content
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def list_offload_devices(content: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return what optimizer and parameters are offloaded to: the device ("cpu", "nvme") and its directory."""
    blocks = (get_section(content, "zero_optimization", f"offload_{what}") for what in ("optimizer", "param"))
    return tuple((str(one.get("device") or ""), str(one.get("nvme_path") or "")) for one in blocks)


def find_offload_path(config: DeepSpeedConfig | None) -> str:
    """Return the directory that a DeepSpeed config offloads to, "" where it offloads to no disk."""
    paths = (path for device, path in list_offload_devices(read_deepspeed(config)) if device == "nvme")
    return next(filter(None, paths), "")
