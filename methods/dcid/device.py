"""DCID on a device: share, train, distil, measure, as the order's phase says.

    share                 images of its own, without labels            `site`
    train, train-alone    DID (1), (2)                                 `training`
    distil                DCD (3), from its model after DID            `distilling`
    means                 sums of its anchors' features                `site`

Pure functions of bytes and pictures; an engine of `learning.training` runs in between.
"""

from __future__ import annotations

from learning.networks.pictures import Pictures
from learning.training.work import Trained
from methods.dcid import distilling, training
from methods.dcid.assignment import (
    DISTIL,
    MEANS,
    SHARE,
    TRAIN_ALONE,
    DcidAssignment,
    read_assignment,
)
from methods.dcid.memory import read_memory
from methods.dcid.site import (
    Site,
    begin_means,
    begin_sharing,
    finish_means,
    finish_sharing,
)
from methods.errors import MethodError
from methods.training_half import Answer, Begun, LocalData, Order
from schemas.rounds import TRAIN

__all__ = ["begin", "finish", "read_assignment"]


def begin(
    assignment: DcidAssignment,
    order: Order,
    data: LocalData,
    memory: bytes | None,
    pictures: Pictures | None,
) -> Begun | None:
    """Return what is to be done, or None where this site has nothing for the phase.

    `pictures` says how bytes become inputs. Raises `MethodError` for files that do not fit.
    """
    if pictures is None:
        raise MethodError(
            "data: features of a frozen backbone, and DCID trains whole networks on pictures; "
            "import the network without a backbone"
        )
    known = read_memory(memory, assignment.network).renamed(order.round.aliases)
    site = Site(assignment, order, data, known.present(data), pictures)
    phase = order.round.phase
    if phase == SHARE:
        return begin_sharing(site)
    if phase in (TRAIN, TRAIN_ALONE):
        return training.begin(site)
    if phase == DISTIL:
        return distilling.begin(site)
    if phase == MEANS:
        return begin_means(site)
    raise MethodError(f"phase: {phase!r} is none of DCID's; update the agent")


def finish(assignment: DcidAssignment, begun: Begun, trained: Trained | None) -> Answer:
    """Return the answer to a phase; raise `MethodError` where training left the numbers."""
    del assignment  # the site has it
    site: Site = begun.kept.site
    phase = site.order.round.phase
    if phase == SHARE:
        return finish_sharing(begun)
    if phase == MEANS:
        return finish_means(begun)
    assert trained is not None
    if phase == DISTIL:
        return distilling.finish(begun, trained)
    return training.finish(begun, trained)
