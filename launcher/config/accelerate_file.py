"""A user's accelerate config file as fields of a job; what it means is in engines/accelerate_settings.py."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from launcher.config.deepspeed_file import parse_section
from launcher.config.yaml_tree import ConfigIssues
from launcher.engines import accelerate_settings
from launcher.engines.accelerate_config import find_deepspeed_file, with_deepspeed_file
from launcher.engines.base import RUN_DIR
from launcher.engines.command_line.parsed_command import OptionUse, ParsedCommand, Request
from launcher.errors import ConfigError
from launcher.local.home import expand_home
from preflight.job import DeepSpeedConfig

DEEPSPEED_FILE = "deepspeed.json"  # what a DeepSpeed config file is called in the run directory of every host


def read_accelerate_file(path: Path) -> accelerate_settings.AccelerateSettings:
    """Return what the file says. Raises ConfigError where it is not YAML, and CommandRefused for its keys."""
    from launcher.config.yaml_reader import read_file  # noqa: PLC0415 - runs without such a file need no yaml

    read_file(path, ConfigIssues())  # with bounds, and with the line of a mistake
    return read_settings_text(path.read_text(encoding="utf-8-sig"), str(path))


def read_settings_text(text: str, source: str) -> accelerate_settings.AccelerateSettings:
    """Return what the text of a config file says, as `read_accelerate_file` does."""
    from launcher.config.yaml_bounds import YamlLimitExceeded, load_values  # noqa: PLC0415 - as above
    from launcher.config.yaml_reader import parse_text  # noqa: PLC0415

    parse_text(text, source, ConfigIssues())
    try:
        return accelerate_settings.read_settings(load_values(text) or {}, source)
    except YamlLimitExceeded as error:
        raise ConfigError(f"{source}:{error.line}: {error}") from None


def find_local_default(environ: Mapping[str, str]) -> Path | None:
    """Return accelerate's default config file of this machine, None where there is none."""
    paths = (expand_home(path) for path in accelerate_settings.default_config_paths(environ))
    return next((path for path in paths if path.is_file()), None)


def read_accelerate_fields(
    name: str | Path | None,
    kept: Iterable[OptionUse] = (),
    *,
    folder: Path = Path(),
    given: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the fields of a job for a config file and options of `accelerate launch`; {} without both.

    A relative `name` is looked for in `folder`, then in the working directory. `given` are fields that have a
    value already: what the file asks for does not replace them. A DeepSpeed config file travels with the
    launch; one that is not local must be on every host. Raises ConfigError and CommandRefused.
    """
    path = None if name is None else _find(folder, name)
    read = accelerate_settings.AccelerateSettings() if path is None else read_accelerate_file(path)
    settings = accelerate_settings.with_options(read, kept)
    config = settings.config
    if path is None and not config:
        return {}
    given = given or {}
    requested = {
        key: value for key, value in _requested(settings.request).items() if given.get(key, "auto") == "auto"
    }
    notes = [f"{one.key} {one.value} of {settings.source}: {one.reason}" for one in settings.replaced]
    found: dict[str, Any] = {**requested, "accelerate_config": config}
    named = find_deepspeed_file(config)
    if named:
        here = next((one for one in (_beside(folder, named), expand_home(named)) if one.is_file()), None)
        if here is not None:
            text = _read_json(here)
            found["launcher_files"] = ((DEEPSPEED_FILE, text),)
            found["deepspeed"] = DeepSpeedConfig(named, text)
            found["accelerate_config"] = with_deepspeed_file(config, f"{RUN_DIR}/{DEEPSPEED_FILE}")
        else:
            notes.append(f"{named} is not a local file; every host must have it")
    elif (said := parse_section(config, settings.source)) is not None:
        found["deepspeed"] = said
    found["launcher_notes"] = tuple(notes)
    return found


def add_file_request(parsed: ParsedCommand, folder: Path) -> ParsedCommand:
    """Return a command with what the config file that it names asks for, where its options say nothing.

    Raises ConfigError for a file that cannot be read, CommandRefused for one that contradicts the options.
    """
    if not parsed.request.config_file:
        return parsed
    from launcher.engines.command_line.request import check_counts  # noqa: PLC0415 - as parse_command of a command

    theirs = read_accelerate_file(_find(folder, parsed.request.config_file)).request
    plain = Request()
    more = {
        one.name: getattr(theirs, one.name)
        for one in fields(Request)
        if getattr(parsed.request, one.name) == getattr(plain, one.name)
    }
    return replace(parsed, request=check_counts(replace(parsed.request, **more)))


def _requested(request: Request) -> dict[str, Any]:
    """Return the fields of a job that a config file decides where nothing else does."""
    requested = {
        "gpus": "none" if request.on_cpu else request.gpus,
        "precision": request.precision,
        "main_port": request.main_port,
    }
    return {name: value for name, value in requested.items() if value is not None}


def _find(folder: Path, name: str | Path) -> Path:
    places = tuple(dict.fromkeys((_beside(folder, name), expand_home(str(name)))))
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise ConfigError(
            f"{' and '.join(map(str, places))}: no such accelerate config file", "correct the path"
        )
    return found


def _beside(folder: Path, name: str | Path) -> Path:
    return folder / expand_home(str(name))


def _read_json(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
        json.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: the DeepSpeed config is not JSON: {error}", "correct the file") from None
    return text
