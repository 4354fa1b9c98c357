"""What leaves a device that trains with FedHAF: `methods.answers` around what it was sent.

An answer holds adapter and head, the running statistics of their normalisations among them, as
integers around the weights that were sent, with the head's new rows. The fleet's weights, and the
old model, are files of `methods.network_weights`.
"""

from __future__ import annotations

from collections.abc import Sequence

from methods.answer_forms import Upload
from methods.answers import AnswerFrame
from methods.fedhaf.assignment import FedHafAssignment
from methods.network_weights import Arrays, decode_weights, grown
from schemas.values import ClassName


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


def frame_of(sent: Arrays, upload: Upload = "int32") -> AnswerFrame:
    """Return what answers look like, of devices that began with `sent`."""
    return AnswerFrame(sent, upload)
