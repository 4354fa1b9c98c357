"""What leaves a device that trains with FedHAF: `client_updates` around what it was sent.

An answer holds adapter and head, the running statistics of their normalisations among them, as
integers around the weights that were sent, with the head's new rows. The fleet's weights, and the
old model, are files of `methods.training.network_weights`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetledger.methods.fedhaf.assignment import FedHafAssignment
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.network_weights import Arrays, decode_weights, grown
from fleetledger.methods.training.update_forms import Upload
from fleetledger.schemas.values import ClassName


def received(
    assignment: FedHafAssignment,
    weights: bytes,
    known: Sequence[ClassName],
    names: Sequence[ClassName],
    round_of_stage: int,
) -> Arrays:
    """Return what devices begin with: the sent weights with the head's new rows.

    `known` are the rows that the weights have by now: a class may have been renamed since the file
    was written. With `reinit` the first round of a stage begins with the first weights.
    """
    settings = assignment.settings
    if settings.reinit and round_of_stage == 1:
        return dict(assignment.network.initial(settings.seed, names))
    arrays, _ = decode_weights(weights, assignment.network)
    return grown(arrays, known, names, settings.seed)


def frame_of(sent: Arrays, upload: Upload = "int32") -> UpdateFrame:
    """Return what answers look like, of devices that began with `sent`."""
    return UpdateFrame(sent, upload)
