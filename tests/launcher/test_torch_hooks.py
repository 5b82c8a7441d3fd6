"""Hooks of the guard stay out of a compiler's graph; hooks after an import share a module."""

import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from launcher.onhost.guard.torch_hooks import _hidden_from_compiler
from launcher.onhost.rank.import_hooks import hook_imports


def _torch(*, traced: bool, callback: object) -> Any:
    """Return what the guard asks torch of its compiler."""

    def hide(function: Any) -> Any:
        return lambda *args: function("hidden", *args)

    frames = SimpleNamespace(get_eval_frame_callback=lambda: callback)
    return SimpleNamespace(
        _disable_dynamo=hide,
        _C=SimpleNamespace(_dynamo=SimpleNamespace(eval_frame=frames)),
        compiler=SimpleNamespace(is_dynamo_compiling=lambda: traced),
    )


@pytest.mark.parametrize(
    ("torch", "how"),
    [
        (_torch(traced=False, callback=None), ()),
        (_torch(traced=True, callback=None), ("hidden",)),
        (_torch(traced=False, callback=print), ("hidden",)),
        (_torch(traced=False, callback=False), ("hidden",)),  # graphs that were made before are run
        (
            SimpleNamespace(**{**vars(_torch(traced=False, callback=None)), "_C": None}),
            ("hidden",),
        ),  # torch 2.1
        (SimpleNamespace(), ()),  # before torch 2.0, which has no compiler
    ],
)
def test_a_hook_is_hidden_where_a_compiler_is_at_work(torch: Any, how: tuple[str, ...]) -> None:
    seen: list[object] = []
    _hidden_from_compiler(torch, lambda *args: seen.extend(args))(1, 2)
    assert seen == [*how, 1, 2]


def test_a_module_that_two_watch_is_imported_and_told_to_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "watched_by_two.py").write_text("done = True")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    told: list[object] = []
    hook_imports({"watched_by_two": lambda module: told.append(("guard", module.done))}, print)
    hook_imports({"watched_by_two": lambda module: told.append(("rank", module.done))}, print)
    module = import_module("watched_by_two")
    assert told == [("guard", True), ("rank", True)]
    assert module.__spec__
    assert "exec_module" not in vars(module.__spec__.loader)
