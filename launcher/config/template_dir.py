"""Where the packaged run configs and their training scripts are."""

from pathlib import Path


def templates_dir() -> Path:
    """Return the folder of the packaged templates: inside the wheel, or beside the package in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "templates"
    return inside if inside.is_dir() else package.parent / "templates"
