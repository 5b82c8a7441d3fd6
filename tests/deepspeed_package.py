"""The deepspeed that tests use, in its own directory: accelerate imports it in every rank that finds it."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

DIRECTORY = Path(sys.prefix, "deepspeed")
"""Where .ci/get-deepspeed installs it."""

needs_deepspeed = pytest.mark.skipif(
    not (DIRECTORY / "deepspeed").is_dir() and find_spec("deepspeed") is None,
    reason="deepspeed could not be installed here (.ci/get-deepspeed)",
)


def python_path() -> str:
    """Return a PYTHONPATH with which a process finds deepspeed."""
    return os.pathsep.join(filter(None, (str(DIRECTORY), os.environ.get("PYTHONPATH", ""))))
