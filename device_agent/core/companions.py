"""Images that go together: the difference of two payloads tells no fewer than the minimum.

A coordinator keeps every revision of every part, and subtracts. What it can compute of exact sums
are combinations of them, and such a combination gives equal weight to images that were in the same
payloads under the same classes, and in the same groups. These are companions. So the law is: of
companions either all are in a payload under one class, or those in it and those left out are each
at least `least`.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.values import ClassName, Digest

_DIGITS = 16


def with_companions(
    images: Sequence[ImageToCount], told: Mapping[Digest, str], least: int
) -> tuple[ImageToCount, ...]:
    """Return the images that may go into one payload; the others wait on the device.

    `told` names the companions of each image that was in a payload. One that never was needs
    `least` - 1 others of its class that never were. Where fewer than `least` companions would stay
    out, some more of them do.
    """
    sizes = Counter(told.values()) if any(image.told for image in images) else Counter[str]()
    companions: dict[str, dict[ClassName, list[ImageToCount]]] = defaultdict(dict)
    for image in images:
        companions[image.told].setdefault(image.class_name, []).append(image)
    kept: set[Digest] = set()
    for name, classes in companions.items():
        groups = sorted((some for some in classes.values() if len(some) >= least), key=len)
        left = sizes[name] - sum(map(len, groups)) if name else 0
        while groups and 0 < left < least:
            largest = groups.pop()
            stay = largest[: len(largest) - least + left]
            groups += [stay] if len(stay) >= least else []
            left += len(largest) - (len(stay) if len(stay) >= least else 0)
        kept.update(image.digest for some in groups for image in some)
    return tuple(image for image in images if image.digest in kept)


def told_in(body: Contribution, before: str, class_name: ClassName, cell: int) -> str:
    """Return the name of an image's companions once it was in a payload.

    `before` names those until then; `cell` is the group of its class that it was summed in.
    """
    key = body.key
    line = f"{before}/{key.stage}/{key.part}/{body.revision}/{class_name}/{cell}"
    return hashlib.sha256(line.encode()).hexdigest()[:_DIGITS]
