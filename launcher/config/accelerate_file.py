"""A user's accelerate config file as fields of a job; what it means is in engines/accelerate_config.py."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from launcher.config import yaml_tree
from launcher.engines.accelerate_config import (
    AccelerateSettings,
    deepspeed_file,
    default_config_paths,
    read_settings,
    with_deepspeed_file,
    with_options,
)
from launcher.engines.base import RUN_DIR
from launcher.engines.command_line.records import OptionUse
from launcher.errors import ConfigError
from launcher.local.home import at_home

DEEPSPEED_FILE = "deepspeed.json"
"""What a DeepSpeed config file is called in the run directory of every host."""


def read_accelerate_file(path: Path) -> AccelerateSettings:
    """Return what the file says. Raises ConfigError where it is not YAML, and CommandRefused for its keys."""
    yaml_tree.read_file(path, yaml_tree.ConfigIssues())  # with bounds, and with the line of a mistake
    return read_settings(yaml.safe_load(path.read_text(encoding="utf-8-sig")) or {}, str(path))


def read_settings_text(text: str, source: str) -> AccelerateSettings:
    """Return what the text of a config file says, as `read_accelerate_file` does."""
    yaml_tree.parse_text(text, source, yaml_tree.ConfigIssues())
    return read_settings(yaml.safe_load(text) or {}, source)


def local_default(environ: Mapping[str, str]) -> Path | None:
    """Return accelerate's default config file of this machine, None where there is none."""
    paths = (at_home(path) for path in default_config_paths(environ))
    return next((path for path in paths if path.is_file()), None)


def accelerate_fields(
    path: Path | None, kept: Iterable[OptionUse] = (), *, folder: Path = Path()
) -> dict[str, Any]:
    """Return the fields of a job for a config file and options of `accelerate launch`; {} without both.

    `folder` is where paths in the file start from. A DeepSpeed config file that they name travels with the
    launch; one that is absent here must be on every host. Raises ConfigError and CommandRefused.
    """
    read = AccelerateSettings() if path is None else read_accelerate_file(path)
    settings = with_options(read, kept)
    config = settings.config
    if path is None and not config:
        return {}
    notes = [f"{one.key} {one.value} of {settings.source}: {one.reason}" for one in settings.replaced]
    fields: dict[str, Any] = {"accelerate_config": config}
    named = deepspeed_file(config)
    if named:
        here = folder / at_home(named)
        if here.is_file():
            fields["launcher_files"] = ((DEEPSPEED_FILE, _read_json(here)),)
            fields["accelerate_config"] = with_deepspeed_file(config, f"{RUN_DIR}/{DEEPSPEED_FILE}")
        else:
            notes.append(f"{named} is not here; every host must have it")
        notes.append(f"the precision is that of {named}")
    if notes:
        fields["launcher_notes"] = tuple(notes)
    return fields


def _read_json(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
        json.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: the DeepSpeed config is not JSON: {error}", "correct the file") from None
    return text
