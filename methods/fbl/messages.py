"""What leaves a device that learns with FBL, all of it for the coordinator.

| what | form |
| --- | --- |
| the weights | `methods.training.client_updates`, integers around the weights that were sent |
| how uncertain the fleet's model was, and whether a task began | `Observation` |

The fleet's weights and old models are files of `methods.training.network_weights`, whose names of
rows leave background out.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetledger.methods.fbl.assignment import FblAssignment
from fleetledger.methods.fbl.growth import grown
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.network_weights import Arrays, decode_weights
from fleetledger.schemas.values import ClassName


def received(
    assignment: FblAssignment,
    weights: bytes,
    known: Sequence[ClassName],
    names: Sequence[ClassName],
) -> Arrays:
    """Return what devices begin with: the sent weights with the head's new rows.

    `known` are the rows that the weights have by now: a class may have been renamed since the file
    was written.
    """
    arrays, _ = decode_weights(weights, assignment.network)
    settings = assignment.settings
    return grown(arrays, known, names, settings.growth, settings.seed)


def frame_of(assignment: FblAssignment, sent: Arrays) -> UpdateFrame:
    """Return what answers look like, of devices that began with `sent`."""
    return UpdateFrame(sent, assignment.settings.upload)


def registers_classes(known: Sequence[ClassName], names: Sequence[ClassName]) -> bool:
    """Return whether weights with rows `known` lack some of the classes that are trained.

    Then they are the last ones before these were registered: the old model of the task to come.
    """
    return not set(names) <= set(known)
