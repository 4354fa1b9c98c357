"""The table of devices that an operator writes: CSV with a line of column names.

name          the device's id, unique in the fleet; the one column that must be there
data          folder of its samples; "none" for a device that only runs models
evaluation    folder of held-out samples
variant       what models run on there: reference, auto, fp16 or int8
tags          further tags, as `site=orchard-1 line=3`
any other     a tag of that name, left out where the field is empty
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.errors import ProvisionError
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import FleetledgerError, shorten
from fleetledger.runtime.user_text import decode_text
from fleetledger.schemas.tags import MAX_TAGS, TagName, TagValue
from fleetledger.schemas.values import DeviceId
from fleetledger.schemas.variants import VARIANT_CHOICES, VariantChoice

NAME, DATA, EVALUATION, VARIANT, TAGS = "name", "data", "evaluation", "variant", "tags"
NO_DATA = "none"
_OWN = (NAME, DATA, EVALUATION, VARIANT, TAGS)
_MOST_ERRORS = 20


@dataclass(frozen=True)
class TableRow:
    """A device of the table."""

    line: int
    """Where it stands; the line of names is 1."""
    device: DeviceId
    tags: Mapping[TagName, TagValue]
    data: str
    """Empty where the table does not say."""
    evaluation: str
    variant: VariantChoice | None = None


def read_table(file: Path) -> list[TableRow]:
    """Read a table of devices.

    Raises `ProvisionError` that names each wrong line, with what to do about it; nothing of a table
    with a wrong line is used.
    """
    try:
        text = decode_text(file.read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        raise ProvisionError(f"{file}: cannot be read: {error}; it must be UTF-8 text") from error
    reader = csv.reader(io.StringIO(text), strict=True)
    rows: list[TableRow] = []
    faults: list[str] = []
    try:
        columns = _columns(file, next(reader, []))
        for fields in reader:
            if not any(field.strip() for field in fields):
                continue
            try:
                rows.append(_row(reader.line_num, columns, fields))
            except FleetledgerError as error:
                faults.append(f"line {reader.line_num}: {error}")
    except csv.Error as error:
        faults.append(f"line {reader.line_num}: {error}; close the quotation marks")
    faults += _twice(rows)
    if faults:
        more = len(faults) - _MOST_ERRORS
        shown = [*faults[:_MOST_ERRORS], *([f"and {more} more"] if more > 0 else [])]
        raise ProvisionError(f"{file}: nothing was done:\n  " + "\n  ".join(shown))
    if not rows:
        raise ProvisionError(f"{file}: names no device; write one a line below the column names")
    return rows


def _columns(file: Path, header: list[str]) -> list[str]:
    columns = [column.strip().lower() for column in header]
    faults = []
    if NAME not in columns:
        faults.append(f"the first line has no column {NAME!r}; begin the table with column names")
    faults += [
        f"column {column!r} stands there twice; give one of them another name"
        for column in sorted({column for column in columns if columns.count(column) > 1})
    ]
    faults += [
        f"column {column!r}: a tag's name is {TagName.rule}; rename the column"
        for column in columns
        if column not in _OWN and not TagName.obeys_rule(column)
    ]
    if faults:
        raise ProvisionError(f"{file}: line 1: {'; '.join(faults)}")
    return columns


def _row(line: int, columns: list[str], fields: list[str]) -> TableRow:
    if len(fields) > len(columns):
        raise ProvisionError(
            f"{count_of(len(fields), 'field')} for {count_of(len(columns), 'column')}; put "
            "quotation marks around a field with a comma"
        )
    said = {column: field.strip() for column, field in zip(columns, fields, strict=False)}
    name = said.get(NAME, "")
    if not DeviceId.obeys_rule(name):
        raise ProvisionError(f"{NAME}: {shorten(name)}; give {DeviceId.rule}")
    tags = dict(_tags(said))
    if len(tags) > MAX_TAGS:
        raise ProvisionError(f"{TAGS}: {len(tags)} of at most {MAX_TAGS}; leave some out")
    folders = (said.get(DATA, ""), said.get(EVALUATION, ""))
    return TableRow(line, DeviceId(name), tags, *folders, _variant(said.get(VARIANT, "")))


def _variant(said: str) -> VariantChoice | None:
    if not said:
        return None
    for choice in VARIANT_CHOICES:
        if said == choice:
            return choice
    raise ProvisionError(
        f"{VARIANT}: {shorten(said)}; give one of {', '.join(VARIANT_CHOICES)}, or nothing"
    )


def _tags(said: Mapping[str, str]) -> Iterator[tuple[TagName, TagValue]]:
    pairs = [(column, field) for column, field in said.items() if column not in _OWN and field]
    for word in said.get(TAGS, "").split():
        name, equals, value = word.partition("=")
        if not equals:
            raise ProvisionError(f"{TAGS}: {shorten(word)}; write NAME=VALUE, with blanks between")
        pairs.append((name, value))
    for name, value in pairs:
        if not TagName.obeys_rule(name):
            raise ProvisionError(f"{TAGS}: {shorten(name)}: a name is {TagName.rule}")
        if not TagValue.obeys_rule(value):
            raise ProvisionError(f"{name}: {shorten(value)}: a tag's value is {TagValue.rule}")
        yield TagName(name), TagValue(value)


def _twice(rows: list[TableRow]) -> Iterator[str]:
    first: dict[DeviceId, int] = {}
    for row in rows:
        if row.device in first:
            yield (
                f"line {row.line}: {NAME}: {str(row.device)!r} stands in line {first[row.device]}, "
                "too; give one of them another name"
            )
        first.setdefault(row.device, row.line)
