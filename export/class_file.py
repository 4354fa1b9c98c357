"""Reads the names of a model's classes: one a line, or a JSON list, in the order of its scores."""

from __future__ import annotations

import json
from pathlib import Path

from export.errors import ClassFileError
from schemas.canonical import parse_json
from schemas.class_names import fault_of, look_alike
from schemas.contributions import MAX_CLASSES
from schemas.errors import SchemaError, cut
from schemas.user_text import decode_text, lines_of
from schemas.values import ClassName

_MAX_BYTES = 4 * 1024**2


def load_class_names(path: Path) -> tuple[ClassName, ...]:
    """Return the names in a file; raise `ClassFileError` naming file, line, value and way out.

    A file that ends in `.json` holds a list of texts; any other one has a name in each line.
    """
    names = _names(path)
    if not 1 <= len(names) <= MAX_CLASSES:
        raise ClassFileError(f"{path}: {len(names)} names; give 1 to {MAX_CLASSES}, one a line")
    found: dict[ClassName, int] = {}
    for place, text in enumerate(names, start=1):
        name = _name(path, place, text)
        if name in found:
            raise ClassFileError(
                f"{path}: name {place}, {str(name)!r}, stands at {found[name]} already; each score "
                "has a name of its own"
            )
        found[name] = place
    beyond = [name for name in found if not name.isascii()]
    for name in beyond:
        alike = look_alike(name, found)
        if alike is not None:
            raise ClassFileError(
                f"{path}: name {found[name]}, {str(name)!a}, looks like {alike!a}; type it in the "
                "letters of one script"
            )
    return tuple(found)


def _name(path: Path, place: int, text: object) -> ClassName:
    if not isinstance(text, str):
        raise ClassFileError(
            f"{path}: name {place} is {cut(json.dumps(text, ensure_ascii=False), 60)}; the list "
            'has texts alone, each a name in quotation marks, such as ["cat", "dog"]'
        )
    if not text.strip():
        raise ClassFileError(
            f"{path}: line {place} is {text!r}; write the name of that score there, or remove it"
        )
    try:
        name = ClassName(text)
    except (SchemaError, ValueError) as error:
        raise ClassFileError(f"{path}: name {place}: {error}") from error
    fault = fault_of(name)
    if fault:
        raise ClassFileError(f"{path}: name {place}, {str(name)!r}, {fault}")
    return name


def _names(path: Path) -> list[object]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ClassFileError(
            f"{path}: cannot be read: {error.strerror}; give a text file with one name a line"
        ) from error
    if len(data) > _MAX_BYTES:
        raise ClassFileError(
            f"{path}: {len(data)} bytes exceed {_MAX_BYTES}; give the names, not the model"
        )
    try:
        if path.suffix == ".json":
            return _listed(path, parse_json(decode_text(data).encode("utf-8")))
        return list(lines_of(decode_text(data)))
    except (SchemaError, UnicodeDecodeError) as error:
        raise ClassFileError(f"{path}: {error}; write it as UTF-8 text, one name a line") from error


def _listed(path: Path, value: object) -> list[object]:
    if not isinstance(value, list):
        raise ClassFileError(
            f"{path}: holds {cut(json.dumps(value, ensure_ascii=False), 60)}, no list; give one of "
            'names in the order of the scores, such as ["cat", "dog"]'
        )
    return value
