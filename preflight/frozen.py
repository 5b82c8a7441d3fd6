"""Frozen dataclasses that cost little to define.

`dataclasses` writes and compiles six methods for every class when it is defined. With a hundred classes that
was most of what a command took to start. In this module five are the same functions for all, and `__init__`
is compiled when the first object is made. They do what `dataclasses` documents; its `fields`, `replace`,
`asdict` work.
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414, TID251 - type checkers know that one
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """As dataclasses.dataclass, which also makes all that is not frozen with slots and nothing else."""
        if cls is None and options == {"frozen": True, "slots": True}:
            return _record
        return dataclasses.dataclass(cls, **options)  # noqa: TID251


def _record(cls: type) -> Any:
    make: Callable[[type], Any] = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)  # noqa: TID251
    made = make(cls)
    compared = [field.name for field in dataclasses.fields(made) if field.compare]
    values = attrgetter(*compared) if compared else lambda _: ()

    def __init__(self: object, *args: Any, **named: Any) -> None:  # noqa: N807
        made.__init__ = _compile_init(made)
        made.__init__(self, *args, **named)

    def __eq__(self: object, other: object) -> bool:  # noqa: N807
        return values(self) == values(other) if other.__class__ is made else NotImplemented

    def __hash__(self: object) -> int:  # noqa: N807
        return hash(values(self))

    made.__init__, made.__eq__, made.__hash__ = __init__, __eq__, __hash__
    made.__repr__ = _repr
    made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
    made.__getstate__, made.__setstate__ = _getstate, _setstate
    return made


def _compile_init(made: type) -> Callable[..., None]:
    """Return `__init__(self, a, b=...)`, which sets each slot."""
    scope: dict[str, Any] = {"absent": dataclasses.MISSING}
    head, body = ["self"], [" pass"]
    for field in dataclasses.fields(made):
        name, given = field.name, field.name
        if not field.init:
            continue
        scope[f"set_{name}"] = getattr(
            made, name
        ).__set__  # its own slot, or one of the record that it extends
        if field.default is not dataclasses.MISSING:
            scope[f"default_{name}"] = field.default
            head.append(f"{name}=default_{name}")
        elif field.default_factory is not dataclasses.MISSING:
            scope[f"new_{name}"] = field.default_factory
            head.append(f"{name}=absent")
            given = f"new_{name}() if {name} is absent else {name}"
        else:
            head.append(name)
        body.append(f" set_{name}(self, {given})")
    if hasattr(made, "__post_init__"):
        body.append(" self.__post_init__()")
    exec(f"def __init__({', '.join(head)}):\n" + "\n".join(body), scope)  # noqa: S102 - names of our own fields
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    return init


def _repr(self: Any) -> str:
    shown = (
        f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr
    )
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _refuse_to_set(_: object, name: str, __: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
