"""Phase `means` at a site: sums of its anchors' features at length 1 under the general model.

So a class's mean over all sites is known to the coordinator, and no anchor's feature is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from learning.errors import LearningError
from learning.numerics.nearest_mean import unit_sums
from methods.dcid.holdings import herded
from methods.dcid.messages import means_frame
from methods.dcid.site import Site
from methods.device_answers import answer_of
from methods.errors import MethodError
from methods.training_half import Answer, Begun


@dataclass(frozen=True, eq=False)
class _Kept:
    """What `finish` has to know."""

    site: Site
    rows: list[int]


def begin(site: Site) -> Begun | None:
    """Return what is measured, or None without an anchor; raise `MethodError`.

    Classes of which there are images and no anchors get theirs here: a base session that was
    trained elsewhere has no rounds.
    """
    without = sorted(set(site.data.class_names) & set(site.names) - set(site.memory.anchors))
    count = site.assignment.settings.anchors_per_class
    chosen = herded(site.data, without, site.features(site.sent), count)
    site = replace(site, memory=site.memory.with_anchors(chosen))
    anchors = {
        (name, digest)
        for name, digests in site.memory.anchors.items()
        if name in site.names
        for digest in digests[:count]
    }
    named = zip(site.data.class_names, site.data.digests, strict=True)
    places = {of: row for row, of in enumerate(named) if of in anchors}
    rows = sorted(places.values())
    return Begun(None, site.counted(rows), trains=False, kept=_Kept(site, rows)) if rows else None


def finish(begun: Begun) -> Answer:
    """Return sums and numbers by class; raise `MethodError` where features are not finite."""
    kept: _Kept = begun.kept
    site, rows = kept.site, kept.rows
    labels = np.array([site.names.index(site.data.class_names[row]) for row in rows], np.int64)
    try:
        sums, counts = unit_sums(site.features(site.sent)(rows), labels, len(site.names))
    except LearningError as error:
        raise MethodError(f"means: {error}") from error
    payload = means_frame(site.assignment, len(site.names)).encode(sums, counts)
    return answer_of(begun, payload, site.memory)
