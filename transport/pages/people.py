"""Somebody who uses the pages of a program, and what they may."""

from __future__ import annotations

import getpass
import re
from dataclasses import dataclass
from enum import Enum

from fleetledger.transport.errors import PersonError


class Role(str, Enum):
    """What somebody may do."""

    VIEWER = "viewer"
    """See everything."""
    OPERATOR = "operator"
    """See everything, and act."""


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass(frozen=True)
class Person:
    """A person, or a program, that was let in."""

    name: str
    role: Role

    def __post_init__(self) -> None:
        """Raise `PersonError` for a name that could not stand in an entry."""
        if not _NAME.fullmatch(self.name):
            raise PersonError(
                f"name: {self.name!r} is not allowed; it is 1 to 64 of A-Z, a-z, 0-9 and ._@-, "
                "beginning with a letter or digit"
            )

    @property
    def acts(self) -> bool:
        """Whether they may act."""
        return self.role is Role.OPERATOR


def own_name() -> str:
    """Return the name of whoever started this program, as it may stand in entries."""
    try:
        return Person(getpass.getuser(), Role.VIEWER).name
    except (OSError, KeyError, PersonError):
        return "someone"
