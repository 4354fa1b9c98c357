"""The shared set S at a site: on an accelerator it lies once for all sites of a process."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fleetledger.learning.training.resident import Residence, SampleArray
from fleetledger.methods.dcid.assignment import DcidAssignment
from fleetledger.methods.dcid.images import shared_images
from fleetledger.methods.dcid.site import Site
from fleetledger.methods.training.exchange import SHARED

_KEPT = 2


def shared_samples(site: Site) -> SampleArray:
    """Return the shared set S; raise `MethodError` where there is none."""
    extras, device = site.instruction.extras, site.engine.device
    if device == "cpu":
        return shared_images(site.assignment, extras)
    return _resident(site.assignment, extras.get(SHARED), device)


@lru_cache(_KEPT)
def _resident(assignment: DcidAssignment, shared: bytes | None, device: str) -> SampleArray:
    images = shared_images(assignment, {} if shared is None else {SHARED: shared})
    there = Residence.of(images[:1], len(images), images.__getitem__, device)
    return images if there is None else there.samples(np.arange(len(images)))
