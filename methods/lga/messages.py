"""What leaves a device that learns with LGA, and for whom.

| what | for | form |
| --- | --- | --- |
| the weights | the coordinator | `methods.training.client_updates`: integers around what was sent |
| how uncertain the fleet's model was, and whether a task began | the coordinator | `Observation` |
| gradients of perturbed prototypes, and a number for each | the proxy | `gradient_sets` |

The fleet's weights and old models are files of `methods.training.network_weights`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetledger.methods.lga.assignment import LgaAssignment
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.network_weights import Arrays, decode_weights, grown
from fleetledger.schemas.values import ClassName


def received(
    assignment: LgaAssignment,
    weights: bytes,
    known: Sequence[ClassName],
    names: Sequence[ClassName],
) -> Arrays:
    """Return what devices begin with: the sent weights with the head's new rows.

    `known` are the rows that the weights have by now: a class may have been renamed since the file
    was written.
    """
    arrays, _ = decode_weights(weights, assignment.network)
    return grown(arrays, known, names, assignment.settings.seed)


def frame_of(assignment: LgaAssignment, sent: Arrays) -> UpdateFrame:
    """Return what answers look like, of devices that began with `sent`."""
    return UpdateFrame(sent, assignment.settings.upload)
