"""Phase `share` at a site: up to q of its images of each new class, without their labels.

Which images, and their order in the file, follow from the round's seed and the site's name. The
owner has allowed it, or this phase is never begun (`publish_images` of the device's own settings).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from methods.dcid.holdings import rows_by_class
from methods.dcid.images import encode_images
from methods.dcid.site import Site
from methods.device_answers import answer_of
from methods.training_half import Answer, Begun


@dataclass(frozen=True, eq=False)
class _Kept:
    """What `finish` has to know."""

    site: Site
    rows: list[int]


def begin(site: Site) -> Begun | None:
    """Return what is shared, or None without images of the session's classes."""
    new = set(site.order.stage_class_names)
    drawn = site.chance.shuffled(0, len(site.data)).tolist()
    places = {row: place for place, row in enumerate(drawn)}
    count = site.assignment.settings.shared_per_class
    rows = [
        row
        for name, own in rows_by_class(site.data).items()
        if name in new
        for row in sorted(own, key=places.__getitem__)[:count]
    ]
    rows.sort(key=places.__getitem__)
    return Begun(None, site.counted(rows), trains=False, kept=_Kept(site, rows)) if rows else None


def finish(begun: Begun) -> Answer:
    """Return the images."""
    kept: _Kept = begun.kept
    site, rows = kept.site, kept.rows
    images = encode_images(np.asarray(site.data.inputs[rows], np.uint8))
    return answer_of(begun, images, site.memory)
