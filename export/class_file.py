"""Reads the names of a model's classes, in the order of its scores.

One a line, a list in JSON, or `class_names` in TOML.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fleetledger.export.errors import ClassFileError
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError, cut
from fleetledger.runtime.user_text import decode_text, lines_of
from fleetledger.schemas.canonical import parse_json
from fleetledger.schemas.class_names import fault_of, look_alike
from fleetledger.schemas.contributions import MAX_CLASSES
from fleetledger.schemas.values import ClassName

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MAX_BYTES = 4 * 1024**2
_YAML = frozenset({".yaml", ".yml"})
_FIELD = "class_names"
_FORMS = (
    "give a text file with one name a line, a JSON list, or TOML with "
    f'{_FIELD} = ["cat", "dog"], in the order of the scores'
)


def load_class_names(path: Path) -> tuple[ClassName, ...]:
    """Return the names in a file; raise `ClassFileError` naming file, line, value and way out.

    A file that ends in `.json` holds a list of texts, one that ends in `.toml` has the same as
    `class_names`; any other one has a name in each line. YAML is refused: its lines are no names.
    """
    names = _names(path)
    if not 1 <= len(names) <= MAX_CLASSES:
        raise ClassFileError(
            f"{path}: {count_of(len(names), 'name')}; give 1 to {MAX_CLASSES}, one a line"
        )
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
        text = decode_text(data)
        if path.suffix == ".json":
            return _listed(path, parse_json(text.encode("utf-8")))
        if path.suffix == ".toml":
            return _listed(path, _in_toml(path, text))
        if path.suffix in _YAML:
            raise ClassFileError(f"{path}: is YAML; {_FORMS}")
        return list(lines_of(text))
    except (SchemaError, UnicodeDecodeError) as error:
        raise ClassFileError(f"{path}: {error}; write it as UTF-8 text, one name a line") from error


def _in_toml(path: Path, text: str) -> object:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ClassFileError(f"{path}: is no TOML: {error}; {_FORMS}") from error
    if _FIELD not in content:
        other = (
            " and describes a preprocessing; that is --preprocessing" if "mode" in content else ""
        )
        raise ClassFileError(f"{path}: has no {_FIELD}{other}; {_FORMS}")
    return content[_FIELD]


def _listed(path: Path, value: object) -> list[object]:
    if not isinstance(value, list):
        raise ClassFileError(
            f"{path}: holds {cut(json.dumps(value, ensure_ascii=False), 60)}, no list; give one of "
            'names in the order of the scores, such as ["cat", "dog"]'
        )
    return value
