"""Report of a command as JSON or as tab-separated values; each room draws its own tables.

A `Report` is the one value that a command makes. Its JSON follows the schema in `docs/json`; as
tab-separated values it is the lines of its `lines_field`, or one line of its own fields.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Literal, Union

from pydantic import BaseModel

from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.strict import Strict

OUTPUT_VARIABLE = "FLEETLEDGER_OUTPUT"
"""Environment variable that takes the place of what standard output would decide."""
OutputForm = Literal["table", "tsv", "json"]
_JSON = json.JSONEncoder(ensure_ascii=False)


@dataclass(frozen=True)
class Column:
    """A column of the table for people, declared on a field: `Annotated[str, Column("device")]`."""

    head: str
    text: Callable[[Any], object] = str
    """Returns the cell of a value that is not None."""
    of: str = ""
    """The attribute that is shown instead, or a method that takes the report."""
    last: bool = False
    """Whether it stands behind those of the other fields."""
    sparse: bool = False
    """Whether it is left out where no line has anything in it."""
    only: str = ""
    """Field of the report; the column is left out where that is false."""


@dataclass(frozen=True)
class ShownTable:
    """A title, the heads of columns, and the cells of each line."""

    title: str
    heads: tuple[str, ...]
    rows: list[tuple[object, ...]]


class Report(Strict):
    """What a command shows. Fields of lines declare the columns of its tables."""

    lines_field: ClassVar[str | None] = None
    """The field whose items are the lines of its tab-separated values."""
    titles: ClassVar[Mapping[str, str]] = {}
    """Titles of the tables that people see, by the field that holds the lines."""

    def above(self) -> Iterable[str]:
        """Return the sentences above the tables."""
        return ()

    def below(self) -> Iterable[str]:
        """Return the sentences below the tables."""
        return ()

    def tables(self) -> Iterator[ShownTable]:
        """Return the tables; one without lines is shown only where it is the `lines_field`."""
        for name, title in self.titles.items():
            lines = getattr(self, name)
            if lines or name == self.lines_field:
                yield _table(self, name, title, lines)


class VersionReport(Report):
    """What `version` shows."""

    fleetledger: str | None
    """Version that is installed; null where it runs from a source folder."""
    python: str


def _table(report: Report, name: str, title: str, lines: Sequence[Any]) -> ShownTable:
    (line,) = filter(_has_fields, typing.get_args(_hints(type(report))[name]))
    told = [
        (field, column)
        for field, hint in typing.get_type_hints(line, include_extras=True).items()
        for column in getattr(hint, "__metadata__", ())
        if isinstance(column, Column) and (not column.only or getattr(report, column.only))
    ]
    told.sort(key=lambda item: item[1].last)
    cells = [[_told(one, field, column, report) for one in lines] for field, column in told]
    kept = [at for at, (_, column) in enumerate(told) if not column.sparse or any(cells[at])]
    rows = [tuple(cells[at][row] for at in kept) for row in range(len(lines))]
    return ShownTable(title, tuple(told[at][1].head for at in kept), rows)


def _told(line: object, field: str, column: Column, report: Report) -> object:
    value = getattr(line, column.of or field)
    if callable(value):
        value = value(report)
    return None if value is None else column.text(value)


def output_form(*, as_json: bool = False) -> OutputForm:
    """Return how to print: a table on a terminal, else tab-separated values, unless told otherwise.

    Raises `SchemaError` where the environment variable names no form.
    """
    if as_json:
        return "json"
    told = os.environ.get(OUTPUT_VARIABLE, "")
    for form in typing.get_args(OutputForm):
        if told == form:
            return typing.cast("OutputForm", form)
    if told:
        raise SchemaError(f"{OUTPUT_VARIABLE}: {told!r} is not one of table, tsv, json")
    return "table" if sys.stdout.isatty() else "tsv"


def write_plain(report: Report, form: Literal["tsv", "json"]) -> None:
    """Write a report to standard output, for programs."""
    text = as_json(report) if form == "json" else as_tsv(report)
    sys.stdout.write(text)
    sys.stdout.flush()


def as_json(report: Report) -> str:
    """Return the report as JSON, indented, with a newline at its end."""
    return json.dumps(report.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"


def as_tsv(report: Report, *, head: bool = True) -> str:
    """Return a line of names, then one line of as many values for each item, separated by tabs.

    A field that is a model gives a column for each of its fields, such as `health.celsius`. What
    is a list stands as its items with commas between them, or as JSON where they are no texts.
    """
    names, field = tsv_columns(type(report)), report.lines_field
    values = report.model_dump(mode="json", include=None if field is None else {field})
    items = [values] if field is None else values[field]
    known: dict[str, Sequence[Any]] = {"": items}
    columns = [_cells(_column(name, known)) for name in names]
    rows = map("\t".join, zip(*columns, strict=True))
    return "".join(f"{row}\n" for row in chain(["\t".join(names)] if head else [], rows))


def tsv_columns(report: type[Report]) -> list[str]:
    """Return the names of the columns of a kind of report."""
    if report.lines_field is None:
        return list(_columns(report))
    (line,) = filter(_has_fields, typing.get_args(_hints(report)[report.lines_field]))
    return list(_columns(line))


def _columns(model: type, before: str = "") -> Iterator[str]:
    for name, hint in _hints(model).items():
        inner = [item for item in _options(hint) if _has_fields(item)]
        if len(inner) == 1:
            yield from _columns(inner[0], f"{before}{name}.")
        else:
            yield before + name


def _hints(model: type) -> dict[str, Any]:
    """Return the fields of a pydantic model or a dataclass, with their types."""
    hints = typing.get_type_hints(model)
    if issubclass(model, BaseModel):
        return {name: hints[name] for name in model.model_fields}
    return {field.name: hints[field.name] for field in dataclasses.fields(model)}  # type: ignore[arg-type]


def _options(hint: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any type hint
    if typing.get_origin(hint) in {Union, types.UnionType}:
        return typing.get_args(hint)
    return (hint,)


def _has_fields(item: Any) -> bool:  # noqa: ANN401 - any type hint
    if not isinstance(item, type):
        return False
    return dataclasses.is_dataclass(item) or issubclass(item, BaseModel)


def _column(name: str, known: dict[str, Sequence[Any]]) -> Sequence[Any]:
    """Return the values of a column; `known` has those that are of the same fields."""
    if name not in known:
        before, _, step = name.rpartition(".")
        items = _column(before, known)
        known[name] = [None if item is None else item[step] for item in items]
    return known[name]


def _cells(column: Sequence[Any]) -> list[str]:
    """Return the cells of a column; nearly all are of one type, and plain as a whole."""
    types_met = set(map(type, column)) - {type(None)}
    if types_met == {int}:
        return ["" if one is None else str(one) for one in column]
    if types_met <= {str}:
        texts = ["" if one is None else one for one in column]
        return texts if "".join(texts).isprintable() else list(map(_plain, texts))
    return ["" if one is None else _cell(one) for one in column]


def _cell(value: Any) -> str:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        return _plain(value)
    if isinstance(value, list) and all(isinstance(item, str) and "," not in item for item in value):
        return _plain(", ".join(value))
    return str(value) if type(value) is int else _JSON.encode(value)


def _plain(text: str) -> str:
    """Return a text without what ends a cell or a line, or steers a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
