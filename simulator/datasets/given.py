"""From what a program has to a data set: arrays, texts, pictures, tables and data sets of others.

No library is imported for it: what was given is known by its attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import InvalidValueError, shorten
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.arrays import LabelledArrays, LabelledTexts
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.datasets.labels import stratified_split
from fleetledger.simulator.datasets.samples import Domains, SampleSet
from fleetledger.simulator.errors import DatasetError

Foreign: TypeAlias = Any
"""What another library made, or a part of it."""
_LABEL, _SAMPLES = ("label", "labels", "y", "class"), ("x", "image", "img", "text", "array")
"""Names of columns that are taken where none is named."""


@dataclass(frozen=True)
class GivenSamples:
    """What is said of samples beside themselves, as `Split.of` takes it."""

    owners: Foreign = None
    domains: Foreign = None
    class_names: Sequence[str] | None = None
    kind: str | None = None


@dataclass(frozen=True)
class _Part:
    """Samples and classes of one part, as NumPy or a list has them."""

    x: Foreign
    y: NDArray[Any]
    names: Sequence[str] | None = None
    """Of the classes, where what was given says so; `y` indexes them."""


def split_of_given(
    given: GivenSamples, whole: Foreign, parts: tuple[Foreign, Foreign], cut: tuple[float, int]
) -> Split[SampleSet]:
    """Return the data set of `whole`, cut by a test share and a seed, or of its two `parts`."""
    if (whole is None) == (parts == (None, None)) or (None in parts and whole is None):
        raise DatasetError("split: give x and y, or train and test, both as (x, y)")
    if whole is not None:
        if _is_pair_of_parts(whole):
            return split_of_given(given, None, (whole["train"], whole["test"]), cut)
        samples = _labelled([_part(whole)], given, [given.owners], [given.domains])[0]
        train, test = stratified_split(samples.labels, *cut)
        return Split(samples.take(train), samples.take(test))
    both = [_part(part) for part in parts]
    owners, domains = (
        [None, None] if value is None else list(value) for value in (given.owners, given.domains)
    )
    return Split(*_labelled(both, given, owners, domains))


def _is_pair_of_parts(given: Foreign) -> bool:
    return isinstance(given, dict) and {"train", "test"} <= given.keys()


def _part(given: Foreign) -> _Part:
    """Return samples and classes of (x, y), a table, or a data set."""
    if isinstance(given, tuple) and len(given) == 2:
        x, y = given
        if isinstance(y, str):
            return _of_columns(x, y)
        return _Part(_plain(x), _classes(y))
    if hasattr(given, "column_names") or hasattr(given, "columns"):
        return _of_columns(given, None)
    if hasattr(given, "__getitem__") and hasattr(given, "__len__") and not _is_array(given):
        pairs = [given[index] for index in range(len(given))]
        if all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
            x, y = [_plain(pair[0]) for pair in pairs], [_plain(pair[1]) for pair in pairs]
            return _Part(x, _classes(y), getattr(given, "classes", None))
    raise DatasetError(
        f"split: {shorten(type(given).__name__)} has no samples with classes; give x and y, a "
        "table with a column of classes, or a data set whose items are (sample, class)"
    )


def _of_columns(table: Foreign, label: str | None) -> _Part:
    """Return a DataFrame, or a data set of Hugging Face, by its columns."""
    columns: list[Foreign] = list(getattr(table, "column_names", getattr(table, "columns", ())))
    label = label or next((name for name in _LABEL if name in columns), None)
    if label not in columns:
        raise DatasetError(
            f"y: no column {label or _LABEL[0]!r} among {list(map(str, columns))[:20]}; name that "
            "of the classes: Split.of(table, 'NAME')"
        )
    others = [name for name in columns if name != label]
    named = [name for name in _SAMPLES if name in others]
    chosen = others if not named else named[:1]
    feature = getattr(table, "features", {})
    names = getattr(feature[label], "names", None) if label in feature else None
    values = [list(table[name]) for name in chosen]
    if len(chosen) == 1:
        return _Part([_plain(value) for value in values[0]], _classes(list(table[label])), names)
    try:
        rows = np.stack([np.asarray(value, np.float32) for value in values], axis=1)
    except (ValueError, TypeError) as error:
        raise DatasetError(
            f"x: the columns {list(map(str, chosen))[:20]} are not all numbers ({error}); leave "
            "the others out, or call the one with the samples 'x'"
        ) from error
    return _Part(rows, _classes(list(table[label])), names)


def _is_array(value: Foreign) -> bool:
    return isinstance(value, np.ndarray) or hasattr(value, "detach")


def _plain(value: Foreign) -> Foreign:
    """Return an array of torch as NumPy's; all else as it is."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def _classes(given: Foreign) -> NDArray[Any]:
    found = np.asarray(_plain(given))
    if found.ndim != 1 or found.dtype.kind not in "iuUS":
        found = np.asarray(given, object)
        if found.ndim != 1 or not all(isinstance(name, str) for name in found):
            raise DatasetError(
                f"y: {np.asarray(given).dtype} of shape {np.shape(given)}; give a name or a number "
                "per sample"
            )
        found = found.astype(str)
    return found


def _labelled(
    parts: Sequence[_Part],
    given: GivenSamples,
    owners: Sequence[Foreign],
    domains: Sequence[Foreign],
) -> list[SampleSet]:
    """Return the parts with common numbers of classes, owners and domains."""
    class_names, labels = _numbered_classes(parts, given.class_names)
    owned = _numbered([None if each is None else _classes(each) for each in owners], "owners")[1]
    names, in_domains = _numbered(
        [None if each is None else _classes(each) for each in domains], "domains"
    )
    return [
        _samples(
            part,
            label,
            class_names,
            given.kind,
            owner,
            None if domain is None else Domains(names, domain),
        )
        for part, label, owner, domain in zip(parts, labels, owned, in_domains, strict=True)
    ]


def _numbered_classes(
    parts: Sequence[_Part], given: Sequence[str] | None
) -> tuple[tuple[ClassName, ...], list[NDArray[np.int64]]]:
    wanted = given if given is not None else parts[0].names
    texts = [part.y.dtype.kind not in "iu" for part in parts]
    if wanted is None or any(texts):
        names, numbers = _numbered([part.y for part in parts], "y")
        if wanted is not None and set(names) <= set(wanted):
            places = np.array([list(wanted).index(name) for name in names], np.int64)
            names, numbers = tuple(wanted), [places[each] for each in numbers if each is not None]
    else:
        names, numbers = tuple(wanted), [part.y.astype(np.int64) for part in parts]
    try:
        classes = tuple(ClassName(name) for name in names)
    except InvalidValueError as error:
        raise DatasetError(f"y: {error}; rename the class") from error
    return classes, [each for each in numbers if each is not None]


def _numbered(
    parts: Sequence[NDArray[Any] | None], what: str
) -> tuple[tuple[str, ...], list[NDArray[np.int64] | None]]:
    """Return the names in all parts, in their order, and what stands for them in each."""
    there = [part for part in parts if part is not None]
    if not there:
        return (), [None] * len(parts)
    if len(there) < len(parts):
        raise DatasetError(f"{what}: given for one part alone; give them for both, or for none")
    names, numbers = np.unique(np.concatenate(there), return_inverse=True)
    cuts = np.cumsum([len(part) for part in there])[:-1]
    split = np.split(numbers.reshape(-1).astype(np.int64), cuts)
    return tuple(str(name) for name in names), list(split)


def _samples(
    part: _Part,
    labels: NDArray[np.int64],
    names: tuple[ClassName, ...],
    kind: str | None,
    owners: NDArray[np.int64] | None,
    domains: Domains | None,
) -> SampleSet:
    values = part.x
    if isinstance(values, list | tuple) and all(isinstance(each, str) for each in values):
        return LabelledTexts(labels, names, tuple(values), owners=owners, domains=domains)
    if kind == "text":
        raise DatasetError("x: no texts, where kind is 'text'; give a list of str")
    array = _stacked(values)
    like_pictures = array.ndim == 3 or (array.ndim == 4 and array.shape[3] == 3)
    if kind == "pictures" or (kind is None and array.dtype == np.uint8 and like_pictures):
        return LabelledImages(array, labels, names, owners, domains)
    if array.dtype.kind not in "fiub":
        raise DatasetError(
            f"x: {array.dtype} of shape {array.shape}; give numbers, texts, or pictures"
        )
    with np.errstate(over="ignore"):
        floats = np.ascontiguousarray(array, np.float32)
    return LabelledArrays(labels, names, floats, owners=owners, domains=domains)


def _stacked(values: Foreign) -> NDArray[Any]:
    """Return samples (N, ...) of an array, or of a list of arrays or pictures."""
    if isinstance(values, np.ndarray):
        return values
    arrays = list(_arrays(values))
    shapes = {each.shape for each in arrays}
    if len(shapes) != 1:
        raise DatasetError(
            f"x: samples of {count_of(len(shapes), 'shape')} such as {sorted(shapes)[:3]}; bring "
            "them to one, or give pictures in folders (Split.folder)"
        )
    return np.stack(arrays)


def _arrays(values: Foreign) -> Iterator[NDArray[Any]]:
    for value in values:
        if isinstance(value, Image.Image):
            grey = value.mode in ("L", "1")
            yield np.asarray(value.convert("L" if grey else "RGB"))
        else:
            yield np.asarray(_plain(value))
