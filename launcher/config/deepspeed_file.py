"""The DeepSpeed config of a launch: named by arguments or accelerate's file, or held by the script itself."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.local.home import expand_home
from launcher.local.small_files import read_small_text
from preflight import regex as re
from preflight.decide.script_args import read_option_values
from preflight.job import DeepSpeedConfig

_OPTIONS = ("--deepspeed", "--deepspeed_config", "--deepspeed-config", "--ds_config", "--ds-config")
_LARGEST = 1_000_000
_GIVES_CONFIG = re.compile(r"\b(?:initialize|DeepSpeedPlugin|HfDeepSpeedConfig)\(|\bdeepspeed *=")
"""How a script gives DeepSpeed its config: to read one is to import and run the reader of scripts."""


def read_argument_config(args: tuple[str, ...], folder: Path) -> DeepSpeedConfig | None:
    """Return the config that arguments of the script name, None where they name no local file.

    A relative name is looked for in `folder`: the directory of the command, whose tree lies on the hosts.
    """
    for option, name in read_option_values(args):
        if option in _OPTIONS and name and not name.startswith("-"):
            text = read_small_text(folder / expand_home(name), _LARGEST)
            if text is not None:
                return DeepSpeedConfig(name, text)
    return None


def read_script_config(script: Path, name: str, args: tuple[str, ...]) -> DeepSpeedConfig | None:
    """Return the config that a local script holds or names itself, None where reading it shows none."""
    text = read_small_text(script, _LARGEST) or ""
    if not _GIVES_CONFIG.search(text):
        return None
    from preflight.script.deepspeed_config import find_script_config  # noqa: PLC0415 - a third of our modules

    found = find_script_config(text, name, args)
    if found is None or not found.file:
        return None if found is None else found.config
    content = read_small_text(expand_home(found.file), _LARGEST)
    return None if content is None else DeepSpeedConfig(found.file, content)


def parse_section(config: Mapping[str, Any], source: str) -> DeepSpeedConfig | None:
    """Return what keys of accelerate's `deepspeed_config` say, as a DeepSpeed config; None without them."""
    section = config.get("deepspeed_config")
    if config.get("distributed_type") != "DEEPSPEED" or not isinstance(section, Mapping):
        return None
    zero: dict[str, Any] = {"stage": section.get("zero_stage", 2)}
    for what in ("optimizer", "param"):
        device = section.get(f"offload_{what}_device")
        if device not in (None, "none"):
            path = section.get(f"offload_{what}_nvme_path")
            zero[f"offload_{what}"] = {"device": device, **({"nvme_path": path} if path else {})}
    return DeepSpeedConfig(source or "accelerate's options", json.dumps({"zero_optimization": zero}))
