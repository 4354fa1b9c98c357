"""Tags: names with values that tell devices apart, and the selection of devices by them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import Field
from typing_extensions import Self

from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import ValidatedText

MAX_TAGS = 32
"""Of one device, from each of owner and operator."""


class TagName(ValidatedText):
    """What a tag is about, such as `site`."""

    pattern = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")
    rule = "1 to 40 of a-z, 0-9, '_', '.' and '-', beginning with a letter or digit"


class TagValue(ValidatedText):
    """What a tag says of a device, such as `orchard-1`."""

    pattern = re.compile(r"[A-Za-z0-9_.:/+-]{1,100}")
    rule = "1 to 100 of A-Z, a-z, 0-9 and '_.:/+-'"


Tags = Annotated[dict[TagName, TagValue], Field(max_length=MAX_TAGS)]


class TagSelector(Strict):
    """Devices that have a tag, or have it with one value."""

    name: TagName
    """What the tag is about."""
    value: TagValue | None = None
    """What it says; None for anything."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `name` or `name=value`; raise `SchemaError` for anything else."""
        name, equals, value = text.partition("=")
        try:
            return cls(name=TagName(name), value=TagValue(value) if equals else None)
        except ValueError as error:
            raise SchemaError(f"tag: {text!r}: {error}; write name or name=value") from error

    def __str__(self) -> str:
        """Return it as people write it."""
        return self.name if self.value is None else f"{self.name}={self.value}"

    def fits(self, tags: Mapping[TagName, TagValue]) -> bool:
        """Whether a device with these tags is among them."""
        return self.name in tags and self.value in (None, tags[self.name])


def all_fit(selectors: Iterable[TagSelector], tags: Mapping[TagName, TagValue]) -> bool:
    """Whether a device with these tags is among those of every selector."""
    return all(selector.fits(tags) for selector in selectors)
