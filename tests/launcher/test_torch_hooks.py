"""Hooks of the guard stay out of a compiler's graph, and are called directly where none is at work."""

from types import SimpleNamespace
from typing import Any

import pytest

from launcher.onhost.guard.torch_hooks import _hidden_from_compiler


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
