"""Values that validate themselves: once made, a `DeviceId` or a `Digest` is known to be good.

Each is a `str`, so it goes into JSON, SQLite and topics as it is, and pydantic accepts it as a
field type.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import unicodedata
from functools import lru_cache
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidatorFunctionWrapHandler
from pydantic.functional_validators import WrapValidator
from pydantic_core import CoreSchema, core_schema
from typing_extensions import Self

from fleetledger.runtime.errors import InvalidValueError


class ValidatedText(str):
    """A string with one rule, checked when it is made.

    Subclasses give `pattern` (the whole text must match, and it must be a regular expression of
    ECMAScript too, for the JSON Schema) and `rule` (the same in words).
    """

    __slots__ = ()
    pattern: ClassVar[re.Pattern[str]]
    rule: ClassVar[str]
    _has_pattern_only: ClassVar[bool] = True
    """Whether the pattern is the whole rule, and text is in its one form as it is."""

    def __init_subclass__(cls) -> None:
        """Note which rules a subclass brings."""
        own = ValidatedText
        cls._has_pattern_only = (
            cls.__new__ is own.__new__
            and cls.normalise.__func__ is own.normalise.__func__  # type: ignore[attr-defined]
            and cls.obeys_rule.__func__ is own.obeys_rule.__func__  # type: ignore[attr-defined]
        )

    def __new__(cls, value: object) -> Self:
        """Check `value` against the rule; raise `InvalidValueError` if it breaks it."""
        if type(value) is cls:
            return value
        if not isinstance(value, str):
            raise InvalidValueError(cls.__name__, value, f"give {cls.rule}")
        text = cls.normalise(value)
        if not cls.obeys_rule(text):
            raise InvalidValueError(cls.__name__, value, f"give {cls.rule}")
        return super().__new__(cls, text)

    @classmethod
    def known(cls, text: str) -> Self:
        """Return text that this program has checked before, without checking it again."""
        return super().__new__(cls, text)

    @classmethod
    def normalise(cls, value: str) -> str:
        """Bring the text into its one form; the identity unless a subclass says otherwise."""
        return value

    @classmethod
    def obeys_rule(cls, text: str) -> bool:
        """Tell whether the normalised `text` is allowed."""
        return cls.pattern.fullmatch(text) is not None

    @classmethod
    def _read(cls, value: object, read_text: ValidatorFunctionWrapHandler) -> Self:
        """Take a value that is known to be good as it is."""
        if type(value) is cls:
            return value
        if type(value) is str and cls._has_pattern_only and cls.pattern.fullmatch(value):
            return cls.known(value)  # what most are, without three calls
        return cls(read_text(value))

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(
            cls._read,
            core_schema.str_schema(strict=True),
            serialization=core_schema.to_string_ser_schema(),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {
            "type": "string",
            "title": cls.__name__,
            "description": cls.rule,
            "pattern": f"^{cls.pattern.pattern}$",
        }


class FleetId(ValidatedText):
    """Name of a fleet; one level of every topic."""

    pattern = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
    rule = "1 to 63 of a-z, 0-9 and '-', beginning with a letter or digit"


class DeviceId(ValidatedText):
    """Name of a device; also its MQTT user name and one level of its topics."""

    pattern = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
    rule = "1 to 64 of A-Z, a-z, 0-9, '_' and '-', beginning with a letter or digit"


class BootId(ValidatedText):
    """Random name of one run of a program: ties a death to its birth, scopes sequence numbers."""

    pattern = re.compile(r"[0-9a-f]{16}")
    rule = "16 lower-case hexadecimal digits"

    @classmethod
    def fresh(cls) -> Self:
        """Return a new random boot id."""
        return cls(secrets.token_hex(8))


class Digest(ValidatedText):
    """SHA-256 of some bytes, in lower-case hexadecimal."""

    pattern = re.compile(r"[0-9a-f]{64}")
    rule = "64 lower-case hexadecimal digits (a SHA-256)"

    @classmethod
    def of(cls, data: bytes | bytearray | memoryview) -> Self:
        """Return the digest of `data`."""
        return cls.known(hashlib.sha256(data).hexdigest())

    @property
    def short(self) -> str:
        """The first 12 digits, for people."""
        return self[:12]


class ClassName(ValidatedText):
    """Label of a class: Unicode NFC, visible, usable as a folder name.

    Control characters, line separators, marks that reorder text on a terminal and half surrogate
    pairs are refused; joiners, which some scripts need, are not.
    """

    pattern = re.compile(
        r"(?![.\s])[^/\\\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
        r"{1,100}(?<!\s)"
    )
    max_bytes: ClassVar[int] = 255
    """The longest file name, in UTF-8, of Linux file systems."""
    rule = (
        "1 to 100 characters (255 bytes in UTF-8) without '/', '\\' or control characters, "
        "not beginning with '.' and without space at either end"
    )

    @classmethod
    def normalise(cls, value: str) -> str:
        """Bring the name to NFC, so that é typed in two ways is one class."""
        return unicodedata.normalize("NFC", value)

    @classmethod
    def obeys_rule(cls, text: str) -> bool:
        """Tell whether `text` matches the pattern and fits a folder name."""
        return super().obeys_rule(text) and len(text.encode("utf-8")) <= cls.max_bytes

    @classmethod
    def _read(cls, value: object, read_text: ValidatorFunctionWrapHandler) -> Self:
        if type(value) is cls:
            return value
        text = read_text(value)
        return cls(text) if len(text) > cls.max_bytes else _class_name(cls, text)


_Name = TypeVar("_Name", bound=ClassName)


@lru_cache(maxsize=4096)
def _class_name(kind: type[_Name], text: str) -> _Name:
    """Remember short names: a fleet has few classes, and every message names them."""
    return kind(text)


_MANY_NAMES = 100
"""Of more names the first that is wrong is enough: pydantic goes on, and thousands take long."""


def _one_entry_per_class(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:  # noqa: ANN401 - pydantic's protocol
    if isinstance(value, dict) and len(value) > _MANY_NAMES:
        for name in value:
            ClassName(name)
    entries = validate(value)
    if len(entries) != len(value):
        raise ValueError("two names are one class after Unicode NFC; send one entry per class")
    return entries


Entry = TypeVar("Entry")
PerClass = Annotated[dict[ClassName, Entry], WrapValidator(_one_entry_per_class)]
"""One entry per class name; names that NFC makes equal are refused, not merged in silence."""
