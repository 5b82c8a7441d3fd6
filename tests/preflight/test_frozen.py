"""A record class is what `dataclasses` would make of it, however late."""

import copy
import dataclasses
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any, ClassVar

import pytest

from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Late:
    """A record."""

    unit: ClassVar[str] = "MiB"
    name: str
    sizes: tuple[int, ...] = ()
    named: dict[str, int] = field(default_factory=dict, compare=False)
    secret: str = field(default="", repr=False)

    def first(self) -> int:
        return self.sizes[0]


@dataclasses.dataclass(frozen=True, slots=True)
class Plain:
    """A record."""

    unit: ClassVar[str] = "MiB"
    name: str
    sizes: tuple[int, ...] = ()
    named: dict[str, int] = field(default_factory=dict, compare=False)
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class NeverMade:
    """A record of which no object is made before its fields are looked at."""

    name: str


@dataclass(frozen=True, slots=True)
class Empty:
    """A record that says all by being there."""


@dataclass(frozen=True, slots=True)
class Longer(Late):
    """A record that extends another one."""

    own: int = 7


@dataclass(slots=True)
class Open:
    """A record that changes."""

    name: str
    found: list[int] = field(default_factory=list)


@dataclasses.dataclass(slots=True)
class PlainOpen:
    """A record that changes."""

    name: str
    found: list[int] = field(default_factory=list)


def test_a_record_that_is_not_frozen_changes_as_a_plain_one() -> None:
    late, plain = Open("a"), PlainOpen("a")
    late.name = plain.name = "b"
    late.found.append(1)
    plain.found.append(1)
    assert repr(late) == repr(plain).replace("PlainOpen", "Open")
    assert (late == Open("b", [1]), late == Open("b"), Open("a").found) == (True, False, [])
    assert dataclasses.asdict(late) == dataclasses.asdict(plain)
    assert (replace(late, name="c"), copy.copy(late)) == (Open("c", [1]), late)
    assert pickle.loads(pickle.dumps(late)) == late
    del late.name
    assert not hasattr(late, "name")
    with pytest.raises(AttributeError):
        late.other = 1  # type: ignore[attr-defined]
    for each in (late, plain):
        with pytest.raises(TypeError, match="unhashable"):
            hash(each)


def test_a_record_extends_another_one() -> None:
    made = Longer("a", (1,), own=8)
    assert (made.first(), made.own, replace(made, name="b").name) == (1, 8, "b")
    assert made == Longer("a", (1,), own=8) != Longer("a", (1,))
    assert made != Late("a", (1,))
    assert (hash(made), repr(made)) == (
        hash(Longer("a", (1,), own=8)),
        "Longer(name='a', sizes=(1,), named={}, own=8)",
    )
    assert pickle.loads(pickle.dumps(made)) == made
    with pytest.raises(FrozenInstanceError):
        made.own = 9  # type: ignore[misc]
    assert Late("a").sizes == ()


@pytest.mark.parametrize("record", [dataclass(frozen=True, slots=True), dataclass(slots=True)])
@pytest.mark.parametrize(
    "called", ["absent", "made", "set_class", "open_class", "new_items", "default_few", "name"]
)
def test_a_field_may_be_called_as_what_makes_a_record(record: Any, called: str) -> None:
    fields = {"items": list[int], called: int, "few": int, "last": int}
    given = {"__annotations__": fields, "items": dataclasses.field(default_factory=list), called: 1}
    odd = record(type("Odd", (), {**given, "few": 2, "last": 3}))
    first = odd()
    shared = odd.__init__
    made = next(each for each in iter(odd, None) if odd.__init__ is not shared)  # its own is compiled by now
    for each in (first, made):
        assert [getattr(each, name) for name in fields] == [[], 1, 2, 3]
        assert type(each).__name__ == "Odd"


@pytest.mark.parametrize("record", [dataclass, dataclasses.dataclass])
def test_methods_of_a_class_stay_and_objects_of_a_class_that_extends_it_are_alike(record: Any) -> None:
    @record(frozen=True, slots=True)
    class Named:
        name: str

        def __repr__(self) -> str:
            return self.name

    class Extended(Named):
        def __init__(self) -> None:
            super().__init__("a")  # type: ignore[call-arg]

    named: Any = Named
    assert (repr(named("a")), Extended() == Extended(), Extended() == named("a")) == ("a", True, False)


def test_a_record_may_have_no_field() -> None:
    assert (Empty(), repr(Empty()), hash(Empty())) == (Empty(), "Empty()", hash(()))


def test_fields_are_known_before_anything_is_made() -> None:
    assert [each.name for each in fields(NeverMade)] == ["name"]
    assert NeverMade.__match_args__ == ("name",)


def test_what_belongs_to_the_class_is_known_from_fields_in_quotes_too() -> None:
    @dataclass(frozen=True, slots=True)
    class Quoted:
        """A record with annotations in quotes."""

        unit: "ClassVar[str]" = "MiB"
        own: "int" = 7

    assert (Quoted().own, Quoted.unit) == (7, "MiB")
    assert [each.name for each in fields(Quoted)] == ["own"]


def test_a_default_that_all_objects_would_share_is_refused_when_the_fields_are_asked_for() -> None:
    @dataclass(frozen=True, slots=True)
    class Shared:
        """A record with a list."""

        names: list[str] = []  # noqa: RUF012 - what the test is about

    with pytest.raises(ValueError, match="mutable default"):
        fields(Shared)


def test_it_behaves_as_a_plain_one() -> None:
    late = Late("a", (1, 2), secret="s")
    plain: Any = Plain("a", (1, 2), secret="s")
    assert repr(late) == repr(plain).replace("Plain", "Late")
    assert (late == Late("a", (1, 2), {"x": 1}, "s"), late == Late("b"), late == plain) == (
        True,
        False,
        False,
    )
    assert hash(late) == hash(plain)
    assert dataclasses.asdict(late) == dataclasses.asdict(plain)
    assert replace(late, name="b") == Late("b", (1, 2), secret="s")
    assert (late.first(), late.unit, late.named) == (1, "MiB", {})
    assert Late("a").named is not Late("a").named
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'name'"):
        Late()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'size'"):
        Late("a", size=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("args", [(), ("a", 1), ("a", 1, 2, 3)])
@pytest.mark.parametrize("named", [{}, {"name": "a"}, {"size": 1}, {"hidden": 1}, {"size": 1, "name": "b"}])
def test_it_takes_the_arguments_of_a_plain_one_before_and_after_it_is_compiled(args: Any, named: Any) -> None:
    def result(kind: Any) -> object:
        try:
            made = kind(*args, **named)
        except TypeError as error:
            return str(error)
        return made.name, made.size, made.doubled

    class Few:
        name: str
        size: int = 2
        hidden: int = field(init=False, default=0)
        doubled: int = field(default=0)

        def __post_init__(self) -> None:
            self.doubled += 2 * self.size

    late, plain = dataclass(slots=True)(Few), dataclasses.dataclass(slots=True)(Few)
    assert [result(late) for _ in range(30)] == [result(plain)] * 30


def test_it_is_frozen_and_has_no_room_for_more() -> None:
    late: Any = Late("a")
    for name in ("name", "unheard_of"):
        with pytest.raises(FrozenInstanceError, match=name):
            setattr(late, name, 1)
        with pytest.raises(FrozenInstanceError, match=name):
            delattr(late, name)
    assert not hasattr(late, "__dict__")


def test_it_is_copied_and_pickled() -> None:
    late = Late("a", (1,), {"x": 2}, "s")
    for other in (copy.copy(late), copy.deepcopy(late), pickle.loads(pickle.dumps(late))):
        assert (other, other.named) == (late, {"x": 2})


def test_a_record_can_be_unpickled_where_none_was_made_yet() -> None:
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer))"
    sent = pickle.dumps(Late("a"))
    ended = subprocess.run(
        [sys.executable, "-c", program], input=sent, capture_output=True, timeout=60, check=True
    )
    assert ended.stdout.decode().strip() == repr(Late("a"))


def test_what_is_not_a_frozen_record_is_left_to_dataclasses() -> None:
    @dataclass(slots=True)
    class Open:
        name: str

    open_one = Open("a")
    open_one.name = "b"
    assert open_one == Open("b")
