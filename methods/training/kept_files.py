"""Files of tensors that a device or a proxy keeps for itself, and lists of exemplars in them.

Of exemplars a file holds `digests` (n, 32), class by class with the best first; its metadata name
the classes, and say how many rows each has. The images themselves stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from fleetledger.methods.errors import MethodError
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import explain
from fleetledger.schemas.tensors import Expectation, Expected, UpTo, read_tensors
from fleetledger.schemas.values import ClassName, Digest

FactsT = TypeVar("FactsT", bound=Strict)
Arrays = dict[str, npt.NDArray[Any]]
Lists = Mapping[ClassName, tuple[Digest, ...]]

MOST_EXEMPLARS = 1_000_000
DIGESTS = "digests"
_DIGEST_BYTES = 32
DIGEST_ROWS = Expected("uint8", (UpTo(MOST_EXEMPLARS), _DIGEST_BYTES))
"""What `digests` has to be."""


class Listed(Strict):
    """One class, whose digests follow those of the class before."""

    name: ClassName
    count: int = Field(ge=1, le=MOST_EXEMPLARS)


def read_kept(
    what: str, data: bytes, expected: Expectation, facts: type[FactsT], most_bytes: int
) -> tuple[FactsT, Arrays]:
    """Return a file's metadata and tensors; raise `MethodError` that begins with `what`."""
    try:
        file = read_tensors(data, expected, most_bytes)
        return facts.model_validate(file.metadata), file.tensors
    except SchemaError as error:
        raise MethodError(f"{what}: {error}") from error
    except ValidationError as error:
        raise MethodError(f"{what}: {explain(error)}") from error


def digest_rows(digests: Sequence[Digest]) -> npt.NDArray[np.uint8]:
    """Return digests as rows (n, 32)."""
    data = b"".join(bytes.fromhex(digest) for digest in digests)
    return np.frombuffer(data, np.uint8).reshape(-1, _DIGEST_BYTES)


def digests_in(rows: npt.NDArray[Any]) -> tuple[Digest, ...]:
    """Return the digests of rows (n, 32)."""
    return tuple(Digest(bytes(row).hex()) for row in rows)


def listed(lists: Lists) -> tuple[tuple[Listed, ...], npt.NDArray[np.uint8]]:
    """Return the classes of lists, sorted, and their digests as rows."""
    ordered = sorted(lists.items())
    classes = tuple(Listed(name=name, count=len(digests)) for name, digests in ordered)
    return classes, digest_rows([digest for _, digests in ordered for digest in digests])


def lists_of(
    what: str, classes: Sequence[Listed], rows: npt.NDArray[Any]
) -> dict[ClassName, tuple[Digest, ...]]:
    """Return the lists of a memory; raise `MethodError` where its classes do not fit its rows."""
    digests, total = digests_in(rows), sum(item.count for item in classes)
    if len(digests) != total or len({item.name for item in classes}) < len(classes):
        raise MethodError(
            f"memory: {len(digests)} {what}, where its "
            f"{count_of(len(classes), 'class', 'classes')}, each named once, have {total}; remove "
            "the file, and the device begins anew"
        )
    places = iter(digests)
    return {item.name: tuple(next(places) for _ in range(item.count)) for item in classes}
