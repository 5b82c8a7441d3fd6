"""The version of this gpulaunch."""

from pathlib import Path


def read_version() -> str:
    """Return the installed version, or the checkout's when it is not installed."""
    from importlib.metadata import PackageNotFoundError  # noqa: PLC0415 - slow to import, rarely asked
    from importlib.metadata import version as installed  # noqa: PLC0415

    try:
        return installed("gpulaunch")
    except PackageNotFoundError:
        return _from_checkout()


def _from_checkout() -> str:
    import tomllib  # noqa: PLC0415

    project = Path(__file__).parents[1] / "pyproject.toml"
    if not project.is_file():
        return "unknown"
    return str(tomllib.loads(project.read_text())["project"]["version"])
