"""Values that validate themselves: once made, a `DeviceId` or a `Digest` is known to be good.

Each is a `str`, so it goes into JSON, SQLite and topics as it is, and pydantic accepts it as a
field type.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import unicodedata
from typing import Any, ClassVar

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema
from typing_extensions import Self

from schemas.errors import InvalidValueError


class ValidatedText(str):
    """A string with one rule, checked when it is made.

    Subclasses give `pattern` (the whole text must match) and `rule` (the same in words).
    """

    __slots__ = ()
    pattern: ClassVar[re.Pattern[str]]
    rule: ClassVar[str]

    def __new__(cls, value: object) -> Self:
        """Check `value` against the rule; raise `InvalidValueError` if it breaks it."""
        if type(value) is cls:
            return value
        if not isinstance(value, str):
            raise InvalidValueError(cls.__name__, value, f"give {cls.rule}")
        text = cls.normalise(value)
        if not cls.pattern.fullmatch(text):
            raise InvalidValueError(cls.__name__, value, f"give {cls.rule}")
        return super().__new__(cls, text)

    @classmethod
    def normalise(cls, value: str) -> str:
        """Bring the text into its one form; the identity unless a subclass says otherwise."""
        return value

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            cls, core_schema.str_schema(strict=True), serialization=core_schema.to_string_ser_schema()
        )


class FleetId(ValidatedText):
    """Name of a fleet; one level of every topic."""

    pattern = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
    rule = "1 to 63 of a-z, 0-9 and '-', beginning with a letter or digit"


class DeviceId(ValidatedText):
    """Name of a device; also its MQTT user name and one level of its topics."""

    pattern = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
    rule = "1 to 64 of A-Z, a-z, 0-9, '_' and '-', beginning with a letter or digit"


class BootId(ValidatedText):
    """Random name of one run of a program: ties a death to its birth and scopes sequence numbers."""

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
        return cls(hashlib.sha256(data).hexdigest())

    @property
    def short(self) -> str:
        """The first 12 digits, for people."""
        return self[:12]


class ClassName(ValidatedText):
    """Label of a class: Unicode NFC, 1 to 100 printable characters, usable as a folder name."""

    pattern = re.compile(r"(?!\.)(?!\s)[^/\\\x00-\x1f\x7f]{1,100}(?<!\s)")
    rule = "1 to 100 characters without '/', '\\' or control characters, not beginning with '.'"

    @classmethod
    def normalise(cls, value: str) -> str:
        """Bring the name to NFC, so that é typed in two ways is one class."""
        return unicodedata.normalize("NFC", value)
