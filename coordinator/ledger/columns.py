"""Bytes for a value that is made of dataclasses, in one piece or by its fields, and it again.

Values are written by column: all values of one field together, of all objects that have the field.
So a value costs as much as it does in a list comprehension, and not a call. What is written is
JSON of lists; nothing in it names code, and reading it makes objects of the declared types alone.

- A dataclass that may change is written once, and where it is met again by its number: what was
  one object is one object again. Frozen ones, models and text are written by value.
- Dicts keep their order; sets have one order.
- `read` makes dataclasses by their constructors, or, where a constructor does more than to take
  fields or is slow, by setting their fields.
- `Parts` writes each field of one dataclass apart, so that a reader reads what it needs. A field
  that may change is mentioned where another field holds it. No other object is in two of them.

The laws: `read(write(x)) == x`, and equal values, with the same objects in the same places, have
equal bytes. What cannot be said in this way (a type that is not declared, a number that is not
finite, a subclass) is refused with an `SnapshotError`, never left out.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import sys
import types
import typing
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import chain, islice, repeat
from operator import attrgetter
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from fleetledger.coordinator.errors import SnapshotError
from fleetledger.schemas.values import ValidatedText

_MANY_BYTES = 1 << 20
_RARELY = (50_000, 20, 100)
"""Objects that are made before the youngest are searched for cycles, and so on (`gc`)."""
_SCALARS = (int, str, float, bool, type(None))
Values = Sequence[Any]
Numbers = dict[Any, int]
"""Keys of what was met, by the order in which it was met."""


class _Met:
    """What was met so far of each type, in one writing: keys by their numbers."""

    def __init__(self, whole: object = None) -> None:
        self.numbers: dict[object, Numbers] = {}
        self.whole = whole
        """Value of which this writes a part; None where it writes all."""

    def number(self, owner: object, keys: list[Any]) -> tuple[list[int], int]:
        """Return the number of each key of a type, and the first number that is new."""
        known = self.numbers.setdefault(owner, {})
        before = len(known)
        return [known.setdefault(key, len(known)) for key in keys], before


class _Made:
    """What was made so far of each type, in one reading, in the order of numbers."""

    def __init__(self, part: Callable[[str], object] | None = None) -> None:
        self._known: dict[object, list[Any]] = {}
        self.part = part
        """Returns another part by its name; None where all is read."""

    def of(self, owner: object) -> list[Any]:
        """Return what was made of a type, to add to."""
        return self._known.setdefault(owner, [])


class _Codec(Protocol):
    """Writes and reads the values of one type, all of a column at a time."""

    def write(self, values: Values, met: _Met) -> Any:  # noqa: ANN401 - JSON
        """Return JSON of them; raise `SnapshotError`."""

    def read(self, data: Any, made: _Made) -> list[Any]:  # noqa: ANN401 - JSON
        """Return them; raises whatever it meets where `data` is not what `write` gave."""


@dataclasses.dataclass(frozen=True)
class _Scalars:
    """Numbers, text and None, which are JSON as they are."""

    allowed: frozenset[type]

    def write(self, values: Values, _met: _Met) -> list[Any]:
        _refuse_others(values, self.allowed)
        if float in self.allowed and not all(map(math.isfinite, filter(None, values))):
            raise SnapshotError("a number that is not finite")
        return list(values)

    def read(self, data: list[Any], _made: _Made) -> list[Any]:
        _refuse_others(data, self.allowed)
        return data


class _Fractions:
    """Exact fractions: all numerators, then all denominators."""

    def write(self, values: Values, _met: _Met) -> list[Any]:
        _refuse_others(values, {Fraction})
        return [[value.numerator for value in values], [value.denominator for value in values]]

    def read(self, data: list[Any], _made: _Made) -> list[Any]:
        return list(map(Fraction, *data))


@dataclasses.dataclass(frozen=True)
class _Texts:
    """Text of one class, each one once."""

    cls: type[ValidatedText]

    def write(self, values: Values, met: _Met) -> list[Any]:
        _refuse_others(values, {self.cls})
        numbers, before = met.number(self.cls, list(values))
        return [list(islice(met.numbers[self.cls], before, None)), numbers]

    def read(self, data: list[Any], made: _Made) -> list[Any]:
        new, numbers = data
        known = made.of(self.cls)
        known += map(self.cls.known, new)
        return [known[number] for number in numbers]


@dataclasses.dataclass(frozen=True)
class _Models:
    """Models of pydantic, which never change: each one once, as their own JSON."""

    classes: tuple[type[BaseModel], ...]

    def write(self, values: Values, met: _Met) -> list[Any]:
        _refuse_others(values, self.classes)
        texts = {id(value): value for value in values}
        keys = {
            number: (
                type(value).__qualname__,
                value.__pydantic_serializer__.to_json(value).decode(),
            )
            for number, value in texts.items()
        }
        numbers, before = met.number(self, [keys[id(value)] for value in values])
        return [list(islice(met.numbers[self], before, None)), numbers]

    def read(self, data: list[Any], made: _Made) -> list[Any]:
        new, numbers = data
        for cls in self.classes:
            cls.model_rebuild()  # a reader that is taken before does not become the built one
        readers = {cls.__qualname__: cls.__pydantic_validator__ for cls in self.classes}
        known = made.of(self)
        known += (readers[name].validate_json(text) for name, text in new)
        return [known[number] for number in numbers]


class _Objects:
    """Dataclasses, a column for each field; those that may change once, then by their number."""

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls
        self.names = [item.name for item in dataclasses.fields(cls)]
        self.columns: list[_Codec] = []
        """Filled when all types are known."""
        self._changes = _changes(cls)
        self._plain = (
            self._changes
            and not hasattr(cls, "__post_init__")
            and all(item.init and not item.kw_only for item in dataclasses.fields(cls))
        )
        """Whether its constructor only sets fields; of frozen ones it takes longer to."""

    def write(self, values: Values, met: _Met) -> list[Any]:
        _refuse_others(values, {self.cls})
        if not self._changes:
            return [len(values), self._fields(values, met)]
        numbers, before = met.number(self.cls, list(map(id, values)))
        new = {
            number: value for number, value in zip(numbers, values, strict=True) if number >= before
        }
        return [numbers, self._fields(list(new.values()), met)]

    def _fields(self, values: Values, met: _Met) -> list[Any]:
        return [
            column.write(list(map(attrgetter(name), values)), met)
            for name, column in zip(self.names, self.columns, strict=True)
        ]

    def read(self, data: list[Any], made: _Made) -> list[Any]:
        numbers, fields = data
        columns = [
            column.read(found, made) for column, found in zip(self.columns, fields, strict=True)
        ]
        new = self._made(columns)
        if not self._changes:
            return new
        known = made.of(self.cls)
        known += new
        return [known[number] for number in numbers]

    def _made(self, columns: list[list[Any]]) -> list[Any]:
        if self._plain:
            return list(map(self.cls, *columns))
        made: list[Any] = [object.__new__(self.cls) for _ in columns[0]]
        for name, column in zip(self.names, columns, strict=True):
            if len(column) != len(made):
                raise SnapshotError(f"{self.cls.__name__}.{name}: {len(column)} for {len(made)}")
            deque(map(object.__setattr__, made, repeat(name), column), maxlen=0)
        return made


@dataclasses.dataclass(frozen=True)
class _Mentions:
    """A part, where another part holds it: how often."""

    name: str

    def write(self, values: Values, met: _Met) -> int:
        part = getattr(met.whole, self.name)
        if any(value is not part for value in values):
            raise SnapshotError(f"another object stands where {self.name} is declared")
        return len(values)

    def read(self, data: int, made: _Made) -> list[Any]:
        assert made.part is not None, "parts alone have mentions"
        return [made.part(self.name)] * data if data else []


@dataclasses.dataclass(frozen=True)
class _Several:
    """Lists, sets and tuples of any length."""

    cls: type[Any]
    items: _Codec
    ordered: bool = True

    def write(self, values: Values, met: _Met) -> list[Any]:
        _refuse_others(values, {self.cls})
        if not self.ordered:
            values = [sorted(value, key=repr) for value in values]
        flat = list(chain.from_iterable(values))
        return [list(map(len, values)), self.items.write(flat, met)]

    def read(self, data: list[Any], made: _Made) -> list[Any]:
        lengths, items = data
        rest = iter(self.items.read(items, made))
        if self.cls is frozenset:
            return [frozenset(islice(rest, n)) if n else _NONE for n in lengths]
        return [self.cls(islice(rest, length)) for length in lengths]


_NONE: frozenset[Any] = frozenset()
"""The one that is empty: a hundred thousand devices have one each."""


@dataclasses.dataclass(frozen=True)
class _Rows:
    """Tuples of one length, a column for each place."""

    columns: tuple[_Codec, ...]

    def write(self, values: Values, met: _Met) -> list[Any]:
        _refuse_others(values, {tuple})
        if any(len(value) != len(self.columns) for value in values):
            raise SnapshotError(f"a tuple of another length than {len(self.columns)}")
        places = zip(*values, strict=True) if values else ((),) * len(self.columns)
        found = zip(self.columns, places, strict=True)
        return [column.write(place, met) for column, place in found]

    def read(self, data: list[Any], made: _Made) -> list[Any]:
        found = zip(self.columns, data, strict=True)
        return list(zip(*(column.read(place, made) for column, place in found), strict=True))


@dataclasses.dataclass(frozen=True)
class _Dicts:
    """Dicts in their order: how many each has, all keys, all values."""

    keys: _Codec
    values: _Codec
    frozen: bool = False
    """Whether nobody changes them, so that all that are empty may be one."""

    def write(self, values: Values, met: _Met) -> list[Any]:
        _refuse_others(values, {dict})
        keys = self.keys.write(list(chain.from_iterable(values)), met)
        items = list(chain.from_iterable(value.values() for value in values))
        return [list(map(len, values)), keys, self.values.write(items, met)]

    def read(self, data: list[Any], made: _Made) -> list[Any]:
        lengths, keys, values = data
        rest = zip(self.keys.read(keys, made), self.values.read(values, made), strict=True)
        empty: dict[Any, Any] = {}
        if self.frozen:
            return [dict(islice(rest, length)) if length else empty for length in lengths]
        return [dict(islice(rest, length)) if length else {} for length in lengths]


@dataclasses.dataclass(frozen=True)
class _Optional:
    """Values of a type, or None: which places have one, and these."""

    some: _Codec

    def write(self, values: Values, met: _Met) -> list[Any]:
        there = [value for value in values if value is not None]
        if len(there) == len(values):
            return [None, self.some.write(there, met)]
        places = [place for place, value in enumerate(values) if value is not None]
        return [[len(values), places], self.some.write(there, met)]

    def read(self, data: list[Any], made: _Made) -> list[Any]:
        which, there = data
        some = self.some.read(there, made)
        if which is None:
            return some
        found = [None] * which[0]
        for place, value in zip(which[1], some, strict=True):
            found[place] = value
        return found


Root = TypeVar("Root")
_UNREADABLE = (ValueError, TypeError, LookupError, ValidationError, SnapshotError)


class Columns(Generic[Root]):
    """Writes and reads values of one dataclass and of all that its fields may hold."""

    def __init__(self, root: type[Root], names: Mapping[str, Any]) -> None:
        """Look at all types once; `names` are those that hints use and their modules do not import.

        Raises `SnapshotError` for a type that cannot be written.
        """
        self._root = root
        self._codec = _Types(names).codec_of(root, root.__name__)

    def write(self, value: Root) -> bytes:
        """Return the one byte string of a value; raise `SnapshotError`."""
        return to_json(self._codec.write([value], _Met()))

    def read(self, data: bytes) -> Root:
        """Return the value of its bytes; raise `SnapshotError` where they are not of one."""
        return typing.cast("Root", _read(self._codec, data, _Made(), self._root.__name__))


class Parts(Generic[Root]):
    """Writes and reads each field of one dataclass apart, and all that these may hold."""

    def __init__(self, root: type[Root], names: Mapping[str, Any]) -> None:
        """Look at all types once, as `Columns` does."""
        hints = _hints(root, names)
        kinds = {
            item.name: hints[item.name] for item in dataclasses.fields(typing.cast("Any", root))
        }
        changing = {kind: name for name, kind in kinds.items() if _changes(kind)}
        types = _Types(names, changing)
        self._codecs = {
            name: types.part(kind, f"{root.__name__}.{name}") for name, kind in kinds.items()
        }
        self.objects = types.objects
        """Every dataclass that a part may hold."""

    def write(self, value: Root) -> dict[str, bytes]:
        """Return the bytes of each field; raise `SnapshotError`."""
        seen: dict[object, set[int]] = {}
        found = {}
        for name, codec in self._codecs.items():
            met = _Met(value)
            found[name] = to_json(codec.write([getattr(value, name)], met))
            for cls in met.numbers.keys() & self.objects.keys():
                before, new = seen.setdefault(cls, set()), met.numbers[cls].keys()
                if not before.isdisjoint(new):
                    raise SnapshotError(f"{name}: holds a {cls} that another part holds, too")
                before.update(new)
        return found

    def read(self, name: str, data: bytes, part: Callable[[str], object]) -> object:
        """Return the value of a field of its bytes; raise `SnapshotError`.

        `part` returns that of another field, which this one holds.
        """
        return _read(self._codecs[name], data, _Made(part), name)


def _read(codec: _Codec, data: bytes, made: _Made, name: str) -> object:
    try:
        with without_collecting(len(data)):
            (value,) = codec.read(from_json(data), made)
    except _UNREADABLE as error:
        raise SnapshotError(f"no {name}: {error}") from error
    return value


def _changes(kind: Any) -> bool:  # noqa: ANN401 - any hint
    """Return whether a hint is a dataclass whose objects may change."""
    params = getattr(kind, "__dataclass_params__", None)
    return params is not None and not params.frozen


def _hints(cls: type[Any], names: Mapping[str, Any]) -> dict[str, Any]:
    module = vars(sys.modules[cls.__module__])
    return typing.get_type_hints(cls, {**names, **module}, include_extras=True)


class _Types:
    """What writes the values of each type; every dataclass is looked at once."""

    def __init__(self, names: Mapping[str, Any], parts: Mapping[Any, str] | None = None) -> None:
        self._names = names
        self._parts = parts or {}
        self.objects: dict[type[Any], _Objects] = {}

    def part(self, hint: Any, place: str) -> _Codec:  # noqa: ANN401 - any hint
        """Return what writes a part itself, and not where it is mentioned."""
        return self._dataclass(hint) if hint in self._parts else self.codec_of(hint, place)

    def codec_of(self, hint: Any, place: str) -> _Codec:  # noqa: ANN401 - any hint
        """Return what writes the values of a hint; `place` names it where it cannot be written."""
        origin, inside = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self.codec_of(inside[0], place)
        if origin is Literal:
            return _Scalars(frozenset(map(type, inside)))
        if origin in (typing.Union, types.UnionType):
            return self._union(inside, place)
        if origin is not None:
            return self._container(origin, inside, place)
        if hint in self._parts:
            return _Mentions(self._parts[hint])
        if hint in _SCALARS:
            return _Scalars(frozenset({hint, int} if hint is float else {hint}))
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return self._dataclass(hint)
        if hint is Fraction:
            return _Fractions()
        if isinstance(hint, type) and issubclass(hint, ValidatedText):
            return _Texts(hint)
        if isinstance(hint, type) and issubclass(hint, BaseModel):
            return _Models(tuple(_with_subclasses(hint)))
        raise SnapshotError(f"{place}: values of {hint} cannot be written")

    def _union(self, kinds: tuple[Any, ...], place: str) -> _Codec:
        some = [kind for kind in kinds if kind is not type(None)]
        found = [self.codec_of(kind, place) for kind in some]
        if all(isinstance(codec, _Scalars) for codec in found):
            allowed = (codec.allowed for codec in found if isinstance(codec, _Scalars))
            none = {type(None)} if len(some) < len(kinds) else set()
            return _Scalars(frozenset().union(*allowed, none))
        if len(found) > 1:
            if not all(isinstance(codec, _Models) for codec in found):
                raise SnapshotError(f"{place}: values of {kinds} cannot be told apart")
            models = (codec.classes for codec in found if isinstance(codec, _Models))
            found = [_Models(tuple(dict.fromkeys(chain.from_iterable(models))))]
        return _Optional(found[0]) if len(some) < len(kinds) else found[0]

    def _container(self, origin: Any, inside: tuple[Any, ...], place: str) -> _Codec:  # noqa: ANN401
        codecs = [self.codec_of(kind, place) for kind in inside if kind is not Ellipsis]
        if origin is tuple and Ellipsis not in inside:
            return _Rows(tuple(codecs))
        if origin in (list, tuple):
            return _Several(origin, codecs[0])
        if origin in (set, frozenset):
            return _Several(origin, codecs[0], ordered=False)
        if origin in (dict, Mapping):
            keys, values = codecs
            return _Dicts(keys, values, frozen=origin is Mapping)
        raise SnapshotError(f"{place}: values of {origin} cannot be written")

    def _dataclass(self, cls: type[Any]) -> _Codec:
        if cls in self.objects:
            found = self.objects[cls]
            if not found.columns:
                raise SnapshotError(f"{cls.__name__}: holds others of its own kind")
            return found
        made = self.objects[cls] = _Objects(cls)
        if not made.names:
            raise SnapshotError(f"{cls.__name__}: has no fields, so that none can be counted")
        hints = _hints(cls, self._names)
        made.columns = [self.codec_of(hints[name], f"{cls.__name__}.{name}") for name in made.names]
        return made


def _with_subclasses(cls: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield cls
    for below in cls.__subclasses__():
        yield from _with_subclasses(below)


def _refuse_others(values: Values, allowed: Any) -> None:  # noqa: ANN401 - what has `in`
    others = [found for found in set(map(type, values)) if found not in allowed]
    if others:
        named = ", ".join(sorted(found.__name__ for found in others))
        raise SnapshotError(f"values of {named} stand where {allowed} are declared")


@contextmanager
def without_collecting(size: int = 0) -> Iterator[None]:
    """Look for no cycles meanwhile: millions of objects are made, and none of them is garbage.

    No later search goes through what was made of `size` bytes where these are many, and searches
    are rarer where there are so many objects. What nothing refers to is let go at once, as ever.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
        if size >= _MANY_BYTES:
            gc.freeze()
            gc.set_threshold(*_RARELY)
    finally:
        if was:
            gc.enable()
