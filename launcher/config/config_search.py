"""Where run configs are looked for: by path, or by name in the usual folders."""

from pathlib import Path

from launcher.config.yaml_tree import find_nearest
from launcher.errors import ConfigError
from launcher.local.home import expand_home, user_config_dir
from launcher.local.project import FOLDER, SUFFIXES, list_folders_up
from preflight.checks.message_text import quote_path


def find_config(name_or_path: str) -> Path:
    """Return the file of a run config: a path, or a name looked for in the usual places.

    Raises ConfigError that lists where it was looked for, and the nearest name that exists.
    """
    if not name_or_path or "\0" in name_or_path:
        raise ConfigError("the name of a run config is empty", "name one with --config")
    if name_or_path.endswith(".py"):
        raise ConfigError(
            f"{name_or_path}: this is a script, and --config names a YAML file",
            f"gpulaunch run {name_or_path} runs it without one",
        )
    if Path(name_or_path).suffix not in ("", *SUFFIXES) and Path(name_or_path).is_file():
        raise ConfigError(
            f"{name_or_path}: --config names a YAML file",
            f"gpulaunch init {name_or_path} makes one of a batch script",
        )
    if "/" in name_or_path or name_or_path.endswith(SUFFIXES):
        path = expand_home(name_or_path)
        if "/" not in name_or_path and not path.exists():
            places = (folder / name_or_path for folder in search_path())
            path = next((place for place in places if place.is_file()), path)
        if path.is_dir():
            raise ConfigError(f"{name_or_path}: this is a directory", "name the YAML file in it")
        if not path.is_file():
            files = (f"{path}{suffix}" for suffix in SUFFIXES if not path.suffix)
            near = next((each for each in files if Path(each).is_file()), "")
            fix = f"did you mean {quote_path(near)}?" if near else "check the path given with --config"
            raise ConfigError(f"{name_or_path}: no such file", fix)
        return path
    for folder in search_path():
        for suffix in SUFFIXES:
            path = folder / f"{name_or_path}{suffix}"
            if path.is_file():
                return path
    looked = ", ".join(str(folder) for folder in search_path())
    beside = next((each for suffix in SUFFIXES if Path(each := f"{name_or_path}{suffix}").is_file()), "")
    near = beside or find_nearest(name_or_path, tuple(list_configs()))
    meant = f'did you mean "{near}"?' if near else "gpulaunch init SCRIPT writes one;"
    raise ConfigError(f'no run config "{name_or_path}" in {looked}', f"{meant} a path to a file works too")


def search_path() -> tuple[Path, ...]:
    """Return the folders that run configs are looked for in, first one first."""
    return (*list_config_folders(), user_config_dir(), templates_dir())


def list_config_folders() -> tuple[Path, ...]:
    """Return the folders of the working directory, and above it, that run configs are looked for in."""
    _, *above = (folder / FOLDER for folder in list_folders_up())
    return (Path(FOLDER), Path("configs"), *(folder for folder in above if folder.is_dir()))


def list_configs() -> dict[str, Path]:
    """Return every run config on the search path by name; the first of a name wins."""
    found: dict[str, Path] = {}
    for folder in search_path():
        for path in sorted(folder.glob("*.y*ml")):
            if path.suffix in SUFFIXES and path.stem != "hosts" and path.is_file():
                found.setdefault(path.stem, path)
    return found


def is_config_name(word: str) -> bool:
    """Return whether a word in a script's place can only mean a run config."""
    return word.endswith(SUFFIXES) or (not Path(word).exists() and word in list_configs())


def templates_dir() -> Path:
    """Return the folder of the packaged templates: inside the wheel, or beside the package in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "templates"
    return inside if inside.is_dir() else package.parent / "templates"
