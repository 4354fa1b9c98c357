"""A value of dataclasses has one byte string, from which it comes back as it was, or none."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.coordinator.errors import SnapshotError
from fleetledger.coordinator.ledger.columns import Columns, Parts
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import ClassName, DeviceId


class Grown(Strict):
    """A model; of two kinds."""

    weight: float


class Fruit(Grown):
    """One with a name."""

    name: ClassName
    parts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Span:
    """Written by value."""

    start: int
    end: int | None


@dataclass
class Tree:
    """Written once."""

    kind: Literal["apple", "pear"]
    owner: DeviceId
    spans: list[Span] = field(default_factory=list)


@dataclass
class Garden:
    """All that can be said."""

    size: int = 0
    share: float | None = None
    by_number: dict[int, Tree] = field(default_factory=dict)
    newest: Tree | None = None
    names: set[ClassName] = field(default_factory=set)
    pairs: frozenset[tuple[str, ClassName | None]] = frozenset()
    grown: tuple[Grown, ...] = ()
    open: bool = False
    devices: dict[Fraction, int] = field(default_factory=dict)


COLUMNS = Columns(Garden, {})
IDS = st.sampled_from([DeviceId("a"), DeviceId("b-1"), DeviceId("C")])
CLASSES = st.sampled_from([ClassName("apple"), ClassName("Birne"), ClassName("été")])
NUMBERS = st.integers(-(2**63), 2**63)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SPANS = st.builds(Span, NUMBERS, st.none() | NUMBERS)
TREES = st.builds(Tree, st.sampled_from(["apple", "pear"]), IDS, st.lists(SPANS, max_size=3))
GARDENS = st.builds(
    Garden,
    NUMBERS,
    st.none() | FINITE,
    st.dictionaries(NUMBERS, TREES, max_size=4),
    st.none() | TREES,
    st.sets(CLASSES),
    st.frozensets(st.tuples(st.text(max_size=3), st.none() | CLASSES), max_size=3),
    st.lists(
        st.builds(Grown, weight=FINITE) | st.builds(Fruit, weight=FINITE, name=CLASSES), max_size=3
    ).map(tuple),
    st.booleans(),
    st.dictionaries(st.fractions() | st.just(Fraction(1, 10**40)), st.integers(0, 9), max_size=3),
)


@given(GARDENS)
def test_what_is_read_is_what_was_written_and_has_the_same_bytes(garden: Garden) -> None:
    data = COLUMNS.write(garden)
    again = COLUMNS.read(data)
    assert again == garden
    assert list(again.by_number) == list(garden.by_number)
    assert list(map(type, again.grown)) == list(map(type, garden.grown))
    assert COLUMNS.write(again) == data


def test_one_object_in_two_places_is_one_object_again() -> None:
    tree = Tree("apple", DeviceId("a"))
    again = COLUMNS.read(COLUMNS.write(Garden(by_number={1: tree, 2: tree}, newest=tree)))
    assert again.newest is again.by_number[1] is again.by_number[2]
    equal = Garden(by_number={1: tree, 2: Tree("apple", DeviceId("a"))}, newest=tree)
    assert COLUMNS.write(equal) != COLUMNS.write(again), "of which one may change without the other"


def test_equal_sets_have_equal_bytes_however_they_came_to_be() -> None:
    names = [ClassName(f"class-{number}") for number in range(50)]
    other = {ClassName("gone")}
    for name in reversed(names):
        other.add(name)
    other.remove(ClassName("gone"))
    assert COLUMNS.write(Garden(names=set(names))) == COLUMNS.write(Garden(names=other))


@pytest.mark.parametrize(
    "more",
    [
        {"size": True},
        {"size": "5"},
        {"share": float("nan")},
        {"share": float("inf")},
        {"by_number": {1: Span(1, 2)}},
        {"names": {"apple"}},
        {"names": ["apple"]},
        {"pairs": frozenset({("a", ClassName("b"), 1)})},
        {"newest": Tree("apple", "a")},  # type: ignore[arg-type]
        {"grown": (Span(1, 2),)},
    ],
    ids=str,
)
def test_what_the_types_do_not_say_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(SnapshotError):
        COLUMNS.write(Garden(**more))


@dataclass
class Ring:
    """Refers to its own kind."""

    others: list[Ring]


@dataclass
class Odd:
    """Its type says nothing of what it holds."""

    anything: Any


@dataclass
class Unsure:
    """Two types that JSON does not tell apart."""

    either: Span | Tree


@pytest.mark.parametrize("cls", [Ring, Odd, Unsure])
def test_a_type_that_cannot_be_said_is_refused_at_once_with_its_place(cls: type[Any]) -> None:
    with pytest.raises(SnapshotError, match=cls.__name__):
        Columns(cls, {})


@pytest.mark.parametrize("data", [b"", b"[]", b"[[0],[]]", b"nonsense", b'{"a":1}', b"[[0],[[1]]]"])
def test_bytes_of_something_else_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError, match="no Garden"):
        COLUMNS.read(data)
    whole = COLUMNS.write(Garden(size=7, newest=Tree("pear", DeviceId("a"))))
    for end in range(0, len(whole), 7):
        with pytest.raises(SnapshotError):
            COLUMNS.read(whole[:end])


@dataclass
class Owners:
    """A part that others hold."""

    ids: set[DeviceId] = field(default_factory=set)


@dataclass
class Orchard:
    """A part that holds another one, and objects of its own."""

    owners: Owners
    others: list[Owners] = field(default_factory=list)
    oldest: Tree | None = None
    trees: list[Tree] = field(default_factory=list)


@dataclass
class Estate:
    """All of it."""

    size: int
    owners: Owners
    orchard: Orchard
    best: list[Tree] = field(default_factory=list)


PARTS = Parts(Estate, {})


def estate() -> Estate:
    owners, tree = Owners({DeviceId("a")}), Tree("pear", DeviceId("a"))
    return Estate(7, owners, Orchard(owners, [owners], tree, [tree]))


def read_part(data: dict[str, bytes], name: str, met: dict[str, object]) -> Any:
    if name not in met:
        met[name] = PARTS.read(name, data[name], lambda other: read_part(data, other, met))
    return met[name]


def test_parts_are_read_alone_and_hold_each_other_again() -> None:
    whole = estate()
    data, met = PARTS.write(whole), dict[str, object]()
    assert list(data) == ["size", "owners", "orchard", "best"]
    assert read_part(data, "size", met) == 7
    assert list(met) == ["size"]
    orchard = read_part(data, "orchard", met)
    assert set(met) == {"size", "owners", "orchard"}
    assert orchard == whole.orchard
    assert orchard.owners is orchard.others[0] is read_part(data, "owners", met)
    assert orchard.oldest is orchard.trees[0]
    again = Estate(7, orchard.owners, orchard, read_part(data, "best", met))
    assert PARTS.write(again) == data


def test_what_reading_would_make_two_objects_of_is_refused() -> None:
    whole = estate()
    whole.best.append(whole.orchard.trees[0])
    with pytest.raises(SnapshotError, match=r"best: holds a .*Tree.* another part holds"):
        PARTS.write(whole)
    whole = estate()
    whole.orchard.others.append(Owners())
    with pytest.raises(SnapshotError, match="another object stands where owners is declared"):
        PARTS.write(whole)


def test_bytes_of_another_part_are_refused() -> None:
    data = PARTS.write(estate())
    data["owners"] = data["orchard"]
    with pytest.raises(SnapshotError, match="no owners"):
        read_part(data, "orchard", {})
