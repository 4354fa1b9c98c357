"""Values from outside that a lineage needs: methods and networks, and which code of theirs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from fleetledger.runtime.count_words import agree
from fleetledger.runtime.registry import MODULES_VARIABLE, Origin
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import Digest

MAX_REQUIREMENTS = 8
_UNTOLD = re.compile(r"[^A-Za-z0-9._+!-]")
"""What no distribution and no version has, and a file beside them may."""


class Requirement(Strict):
    """A method or a network that is not fleetledger's own, and the distribution that has it."""

    kind: Literal["method", "network"]
    name: str = Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")
    distribution: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+!-]{0,99}$")
    """Name of the installed distribution, or of the file where a decorator stands."""
    version: str = Field(default="", pattern=r"^[A-Za-z0-9._+!-]{0,60}$")
    """Empty for a file that is not installed."""
    digest: Digest | None = None
    """Names its Python files and what they hold; None where it has none that can be read."""

    @classmethod
    def of(cls, kind: Literal["method", "network"], name: str, origin: Origin) -> Requirement:
        """Return what is needed for a value that comes from there."""
        return cls(
            kind=kind,
            name=name,
            distribution=_UNTOLD.sub("_", origin.distribution)[:100],
            version=_UNTOLD.sub("_", origin.version)[:60],
            digest=Digest(origin.digest) if origin.digest else None,
        )

    @property
    def whose(self) -> str:
        """Distribution and version, for people."""
        return f"{self.distribution} {self.version}".rstrip()

    @property
    def install(self) -> str:
        """Command that brings it to a machine, or the setting for a file."""
        if self.version:
            return f"pip install {self.distribution}=={self.version}"
        return f"{MODULES_VARIABLE}=FOLDER/{self.distribution}"

    @property
    def feature(self) -> str:
        """Name of the capability of a device that has it."""
        return feature_of(self.distribution, self.digest or "")

    def __str__(self) -> str:
        """Return what it is and whose, for people."""
        return f"{are_of((self,))} {self.whose}"


def are_of(requires: Sequence[Requirement]) -> str:
    """Return what these are, up to the distribution that has them, for people."""
    what = " and ".join(f"{each.kind} {each.name!r}" for each in requires)
    return f"{what} {agree(len(requires), 'is', 'are')} of"


def feature_of(distribution: str, digest: str) -> str:
    """Return the capability of a device that has a distribution, such as `my-lab@1a2b3c4d5e6f`."""
    return f"{code_of(distribution)}{digest[:12]}"


def code_of(distribution: str) -> str:
    """Return how the capability begins, whatever the code of the distribution is."""
    return f"{_UNTOLD.sub('_', distribution)[:27]}@"
