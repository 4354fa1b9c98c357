"""Lists of exemplars by class, when classes are renamed or merged."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, zip_longest

from fleetledger.schemas.values import ClassName, Digest

Digests = tuple[Digest, ...]


def renamed_lists(
    lists: Mapping[ClassName, Digests], aliases: Mapping[ClassName, ClassName]
) -> dict[ClassName, Digests]:
    """Return lists, the best exemplars first, under the names that classes have now.

    Of merged classes the lists alternate, so that cutting leaves the best of both.
    """
    found: dict[ClassName, Digests] = {}
    for name, digests in lists.items():
        now = aliases.get(name, name)
        found[now] = _alternating(found[now], digests) if now in found else digests
    return found


def _alternating(one: Digests, other: Digests) -> Digests:
    both = chain.from_iterable(zip_longest(one, other))
    return tuple(dict.fromkeys(digest for digest in both if digest is not None))
