"""transformers with the list of its models from a file, which the first process that imports it writes.

To list them, its import reads all files of all models, three thousand of them, twice: a third of the time
that it takes beside the other shims.
"""

import marshal
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any


def turn_on(module: ModuleType) -> None:
    """List the models of the file SHIM_MODELS, right after transformers.utils.import_utils was imported."""
    listed: Callable[[Any], dict[Any, Any]] = module.create_import_structure_from_path

    def create_import_structure_from_path(path: Any) -> dict[Any, Any]:
        module.create_import_structure_from_path = listed  # type: ignore[attr-defined]  # which calls itself
        try:
            models = str(path).removesuffix("/__init__.py").endswith("/transformers/models")
            return _read_or_write(lambda: listed(path)) if models else listed(path)
        finally:
            module.create_import_structure_from_path = create_import_structure_from_path  # type: ignore[attr-defined]

    module.create_import_structure_from_path = create_import_structure_from_path  # type: ignore[attr-defined]


def _read_or_write(find: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
    kept = Path(os.environ["SHIM_MODELS"])
    with suppress(OSError):
        found: dict[Any, Any] = marshal.loads(kept.read_bytes())
        return found
    found = find()
    with suppress(OSError):
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_bytes(marshal.dumps(found))
        part.replace(kept)
    return found
