"""Sums of cohorts: words are added modulo 2^64, the masks come off, the method checks the sum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fleetledger.coordinator.core.work import SumCohort
from fleetledger.coordinator.topics.cohorts.entries import MAX_CAUSE, CohortEnded, CohortSummed
from fleetledger.learning.errors import LearningError, RangeError
from fleetledger.learning.privacy.masks import Words, unmask
from fleetledger.learning.privacy.shares import joined
from fleetledger.methods.registry import statistics_coordinator
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.cohorts import places
from fleetledger.schemas.values import DeviceId, Digest

Read = Callable[[Digest], bytes]


def sum_of(request: SumCohort, read: Read) -> Words:
    """Return the sum of the words of all that are in it, without a mask.

    Raises `RangeError` for words of another number, and for shares that give no mask.
    """
    total: Words | None = None
    for given in request.words:
        words = np.frombuffer(read(given.payload), "<u8")
        if total is None:
            total = words.astype(np.uint64)
        elif len(words) != len(total):
            raise RangeError(
                f"words: {given.device} gave {len(words)}, and {request.words[0].device} "
                f"{len(total)}; members give equally many"
            )
        else:
            total += words
    assert total is not None  # a cohort has members
    own = [_own_mask(request, given.device) for given in request.words]
    unmask(total, own, _of_the_silent(request))
    return total


def _own_mask(request: SumCohort, device: DeviceId) -> bytes:
    """Return the seed of a member's own mask, of the shares that others told."""
    told = [who for who, shares in request.shares.items() if device in shares]
    enough = sorted(places(request.cohort, told))[: request.cohort.threshold]
    members = request.cohort.devices
    return joined(
        {place + 1: bytes.fromhex(request.shares[members[place]][device]) for place in enough}
    )


def _of_the_silent(request: SumCohort) -> dict[int, dict[int, bytes]]:
    """Return the seeds that silent members have in common with those in the sum, by places."""
    present = [given.device for given in request.words]
    at = dict(zip(request.cohort.devices, range(len(request.cohort.devices)), strict=True))
    return {
        at[silent]: {at[who]: bytes.fromhex(request.seeds[who][silent]) for who in present}
        for silent in request.silent
    }


def summed_statistics(request: SumCohort, read: Read) -> tuple[CohortSummed, bytes]:
    """Return what a cohort's sum counts as, with its payload; raise what is wrong with it."""
    cohort, members = request.cohort, tuple(given.device for given in request.words)
    side = statistics_coordinator(request.lineage.method)
    assignment = side.read_assignment(request.lineage.settings)
    made = side.from_words(assignment, sum_of(request, read), cohort.class_names, len(members))
    side.check_sum(assignment, [*map(read, request.undone), made.payload])
    body = CohortSummed(
        number=cohort.number,
        stage=cohort.stage,
        lineage=cohort.lineage,
        members=members,
        payload=made.digest,
        payload_bytes=len(made.payload),
        samples=dict(made.samples),
    )
    return body, made.payload


def ended(request: SumCohort, error: FleetledgerError | LearningError) -> CohortEnded:
    """Return the end of a cohort whose sum is none."""
    number = request.cohort.number
    reason = f"the sum is not that of its members' samples: {error}"[:MAX_CAUSE]
    return CohortEnded(number=number, reason=reason, members=request.cohort.devices)
