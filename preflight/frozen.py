"""Dataclasses with slots, frozen or not, that cost little to define.

`dataclasses` writes and compiles six methods for every class when it is defined. With a hundred classes that
was most of what a command took to start. In this module five are the same functions for all, and `__init__`
is compiled when a class has had some objects. They do what `dataclasses` documents; its `fields`, `replace`,
`asdict` work: what they read of a class is found out when they first ask, which halves the rest.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable
from dataclasses import Field
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414, TID251 - type checkers know that one
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """As dataclasses.dataclass, which also makes all that has other options than `frozen` and `slots`."""
        if cls is None and options == {"frozen": True, "slots": True}:
            return partial(_record, common=_FROZEN)
        if cls is None and options == {"slots": True}:
            return partial(_record, common=_MUTABLE)
        return dataclasses.dataclass(cls, **options)  # noqa: TID251


def _record(cls: type, common: dict[str, Any]) -> Any:
    given = _inherited(cls)
    namespace = {name: value for name, value in cls.__dict__.items() if name not in _OF_OLD_CLASS}
    own = [name for name, kind in cls.__annotations__.items() if not _is_of_class(kind)]
    namespace["__slots__"] = tuple(name for name in own if name not in given)
    given |= {name: namespace.pop(name, dataclasses.MISSING) for name in own}
    namespace = common | namespace  # what a class defines itself stays
    namespace["__record__"] = given
    namespace["__qualname__"] = cls.__qualname__
    return type(cls)(cls.__name__, cls.__bases__, namespace)


def _record_of(cls: type) -> Any:
    """Return the class itself or the nearest one that it extends that is a record."""
    return next(each for each in cls.__mro__ if "__record__" in each.__dict__)


def _init_first(self: Any, *args: Any, **named: Any) -> None:
    made = _record_of(type(self))
    _count[made] += 1
    if _count[made] > _FEW or not _set_fields(self, made.__record__, [*reversed(args)], named.copy()):
        made.__init__ = _compile_init(made, made.__record__)
        made.__init__(self, *args, **named)
    elif hasattr(made, "__post_init__"):
        self.__post_init__()


def _set_fields(self: object, given: dict[str, Any], left: list[Any], named: dict[str, Any]) -> bool:
    """Set each slot, of values from the end of `left`; return False where the arguments do not fit."""
    for name, value in given.items():
        late = isinstance(value, Field)
        if late and not value.init:
            continue
        if left:
            taken = left.pop()
        elif name in named:
            taken = named.pop(name)
        elif late and value.default_factory is not dataclasses.MISSING:
            taken = value.default_factory()
        else:
            taken = value.default if late else value
        if taken is dataclasses.MISSING:
            return False
        object.__setattr__(self, name, taken)
    return not left and not named


def _eq_first(self: object, other: object) -> Any:
    return _compare(type(self)).__eq__(self, other)


def _hash_first(self: object) -> Any:
    return _compare(type(self)).__hash__(self)


def _compare(cls: type) -> Any:
    """Return the record with a comparison and a hash of its own fields."""
    made = _record_of(cls)
    given = made.__record__.items()
    compared = [name for name, value in given if not isinstance(value, Field) or value.compare]
    values = attrgetter(*compared) if compared else lambda _: ()

    def __eq__(self: object, other: object) -> bool:  # noqa: N807
        if self is other:
            return True
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    made.__eq__ = __eq__
    if made.__hash__ is not None:
        made.__hash__ = lambda self: hash(values(self))
    return made


class _Late:
    """What `dataclasses` reads of a class, found out when it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, _: object, cls: type) -> Any:
        made = _record_of(cls)
        own = made.__annotations__
        given = made.__record__.items()
        values = {name: value for name, value in given if name in own and value is not dataclasses.MISSING}
        values |= {"__annotations__": own, "__module__": made.__module__, "__doc__": "Holds the fields."}
        known = type(made)(made.__name__, made.__bases__, values)
        dataclasses.dataclass(init=False, repr=False, eq=False)(known)  # noqa: TID251
        for name in _LATE:
            setattr(made, name, getattr(known, name))
        return getattr(made, self._name)


def _inherited(cls: type) -> dict[str, Any]:
    """Return the fields of the records that a class extends: its default, its `field(...)` or MISSING."""
    given: dict[str, Any] = {}
    for base in cls.__mro__[-1:0:-1]:
        given |= base.__dict__.get("__record__", {})
    return given


def _is_of_class(kind: Any) -> bool:
    if isinstance(kind, str):
        return kind.startswith(("ClassVar", "typing.ClassVar"))
    return kind is ClassVar or getattr(kind, "__origin__", None) is ClassVar


def _compile_init(made: type, given: dict[str, Any]) -> Callable[..., None]:
    """Return `__init__(self, a, b=...)`, which sets each slot. No field has a name that it needs itself."""
    scope: dict[str, Any] = {"__absent__": dataclasses.MISSING}
    head, body = ["self"], [" pass"]
    is_frozen = "__setattr__" in made.__dict__
    if is_frozen and len(given) >= _MANY:
        # While it is an object of a class that is not frozen, setting a slot takes a third of the time.
        plain = {"__slots__": made.__dict__["__slots__"], "__setattr__": object.__setattr__}
        scope |= {"__open__": type(made.__name__, made.__bases__, plain), "__made__": made}
        scope["__set_class__"] = _set_class
        body = [" __set_class__(self, __open__)"]
    for name, value in given.items():
        late = isinstance(value, Field)
        if late and not value.init:
            continue
        default = value.default if late else value
        taken = name
        if default is not dataclasses.MISSING:
            scope[f"__default_{name}__"] = default
            head.append(f"{name}=__default_{name}__")
        elif late and value.default_factory is not dataclasses.MISSING:
            scope[f"__new_{name}__"] = value.default_factory
            head.append(f"{name}=__absent__")
            taken = f"__new_{name}__() if {name} is __absent__ else {name}"
        else:
            head.append(name)
        if is_frozen and len(given) < _MANY:
            # its own slot, or one of the record that it extends
            scope[f"__set_{name}__"] = getattr(made, name).__set__
            body.append(f" __set_{name}__(self, {taken})")
        else:
            body.append(f" self.{name} = {taken}")
    if is_frozen and len(given) >= _MANY:
        body.append(" self.__class__ = __made__")
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


def _refuse(_: object, name: str, *__: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to or delete field {name!r}")


_set_class = object.__dict__["__class__"].__set__
_FEW = 16  # objects made before `__init__` is compiled, which takes as long as fifty of them
_count = Counter[type]()
_MANY = 4  # fields from which on that is faster
_OF_OLD_CLASS = frozenset({"__dict__", "__weakref__"})
_LATE = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
_COMMON = {
    "__init__": _init_first,
    "__eq__": _eq_first,
    "__hash__": _hash_first,
    "__repr__": _repr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
} | {name: _Late(name) for name in _LATE}
_MUTABLE = _COMMON | {"__hash__": None}
_FROZEN = _COMMON | {"__setattr__": _refuse, "__delattr__": _refuse}
