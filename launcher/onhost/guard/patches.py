"""Wrappers around functions of other libraries."""

import functools
from typing import Any, Callable

from .safe_call import SafeCaller

Look = Callable[[Any, Any], None]


def patch(
    owner: Any, name: str, safety: SafeCaller, before: Look | None = None, after: Look | None = None
) -> None:
    """Wrap a method so that the guard is called before or after each call of it."""
    original = getattr(owner, name)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not safety.is_active():
            return original(*args, **kwargs)
        if before is not None:
            safety.call("look before " + name, before, args, kwargs)
        result = original(*args, **kwargs)
        if after is not None:
            safety.call("look after " + name, after, args, kwargs)
        return result

    setattr(owner, name, functools.update_wrapper(wrapper, original))
