"""Jobs of masked cohorts: what needs the installation's secret, or the numbers of a part.

Every secret of a cohort follows from the installation's, from which of its joins it is, and from
the cohort; nothing of them is kept. Shares alone are drawn, and are written down with the words.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.cohort_checks import Oneself, check_formed, read_roster
from fleetledger.device_agent.core.inputs import Input
from fleetledger.device_agent.core.requests import WorkForCohort
from fleetledger.device_agent.errors import DamagedError
from fleetledger.device_agent.home.store.blobs import OffersPayloads
from fleetledger.learning.errors import LearningError
from fleetledger.learning.privacy import shares
from fleetledger.learning.privacy.masks import (
    SharedSecret,
    Words,
    commitment,
    derived,
    mask,
    own_key,
)
from fleetledger.methods.registry import statistics_device, training_device
from fleetledger.methods.training.words import answer_words
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.cohorts import (
    CohortAnswer,
    CohortOrder,
    CohortReveal,
    Hex32,
    Joining,
    MaskedCohort,
    sealed_bytes,
)
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.envelope import INLINE_LIMIT
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.rounds import RoundAnswer
from fleetledger.schemas.values import ClassName, DeviceId, Digest, FleetId

_X25519 = "join"


@dataclass(frozen=True)
class CohortSurroundings:
    """Who joins, and where its files lie."""

    fleet: FleetId
    device: DeviceId
    secret: Callable[[], bytes]
    """Returns the installation's secret; raises `StoreError`."""
    key: Callable[[], VerifyKey | None]
    """Returns the device's enrolled key; None where it has none."""
    read: Callable[[Digest], bytes]
    """Returns a file; raises `DamagedError`."""
    blobs: OffersPayloads


class CohortJobs:
    """Answers `WorkForCohort` for one device."""

    def __init__(self, around: CohortSurroundings) -> None:
        self._around = around

    def answer(self, request: WorkForCohort) -> tuple[Input, ...]:
        """Do what is asked and return the inputs that tell about it."""
        try:
            return (self._answer(request),)
        except DamagedError as error:
            failed = inputs.CohortJobFailed(request.job, str(error))
            return (inputs.FileDamaged(error.digest), failed)
        except (FleetledgerError, LearningError) as error:
            return (inputs.CohortJobFailed(request.job, str(error)),)
        except MemoryError:
            text = "memory: no room for the words of a cohort; ask the operator for fewer classes"
            return (inputs.CohortJobFailed(request.job, text),)

    def _answer(self, request: WorkForCohort) -> Input:
        match request.job.step:
            case "join":
                return self._join(request)
            case "mask":
                return self._mask(request)
            case "seeds":
                return self._seeds(request)
            case "shares":
                return self._shares(request)

    def _secret(self, request: WorkForCohort) -> bytes:
        """Return the secret of one join."""
        return derived(self._around.secret(), f"cohort/{request.job.serial}")

    def _join(self, request: WorkForCohort) -> Input:
        secret, part, key = self._secret(request), request.part, request.job.key
        words = self._words(request, request.assignment.class_names)
        public = own_key(secret, _X25519).public_key().public_bytes_raw()
        joining = Joining(
            stage=key.stage,
            part=key.part,
            round=part.round,
            lineage=part.lineage,
            mask_key=Hex32(public.hex()),
            commitment=Digest(commitment(words, derived(secret, "commitment"))),
            serial=request.job.serial,
            undoes=None if request.undone is None else request.undone.cohort,
        )
        return inputs.JoinPrepared(request.job, part, joining)

    def _words(self, request: WorkForCohort, names: tuple[ClassName, ...]) -> Words:
        """Return what is given, less what is taken out."""
        part, undone = request.part, request.undone
        words = None if part.payload is None else self._part_words(request, part.payload, names)
        if undone is not None and undone.payload is not None:
            before = self._part_words(request, undone.payload, names)
            words = before if words is None else words - before
            return np.negative(words) if part.payload is None else words
        assert words is not None, "what was never given is not taken out"
        return words

    def _part_words(
        self, request: WorkForCohort, payload: Digest, names: tuple[ClassName, ...]
    ) -> Words:
        asked, data = request.assignment, self._around.read(payload)
        if request.part.round is not None:
            told = training_device(asked.method).read_assignment(asked.settings)
            return answer_words(told, data, request.part.weight)
        side = statistics_device(asked.method)
        return side.to_words(side.read_assignment(asked.settings), data, names)

    def _mask(self, request: WorkForCohort) -> Input:
        order, masking, around = request.assignment.cohort, request.masking, self._around
        assert order is not None
        assert masking is not None
        own = Oneself(around.fleet, around.device, around.key())
        roster = None
        if request.trust.roster is not None:
            roster = read_roster(around.read(request.trust.roster), request.trust)
        try:
            check_formed(order, masking, own, request.trust, roster)
            pairs = self._pairs(request, order.cohort)
            words = self._words(request, order.cohort.class_names)
        except DamagedError:
            raise
        except (FleetledgerError, LearningError) as error:
            return inputs.CohortRefused(request.job, str(error))
        return self._masked(request, order, words, pairs)

    def _pairs(self, request: WorkForCohort, cohort: MaskedCohort) -> dict[DeviceId, SharedSecret]:
        """Return what this device has in common with each other member."""
        key = own_key(self._secret(request), _X25519)
        return {
            member.device: SharedSecret.of(key, member.joining.mask_key.raw, cohort.name)
            for member in cohort.members
            if member.device != self._around.device
        }

    def _masked(
        self,
        request: WorkForCohort,
        order: CohortOrder,
        words: Words,
        pairs: Mapping[DeviceId, SharedSecret],
    ) -> Input:
        cohort, device, part = order.cohort, self._around.device, request.part
        seed = derived(self._secret(request), f"own mask/{cohort.name}")
        place = cohort.devices.index(device)
        seeds = {at: pairs[of].seed for at, of in enumerate(cohort.devices) if of != device}
        payload = mask(words, place, seeds, seed).astype("<u8", copy=False).tobytes()
        parts = shares.split(seed, cohort.threshold, len(cohort.devices))
        sealed = {
            of: base64.b64encode(pairs[of].seal(parts[at], device)).decode("ascii")
            for at, of in enumerate(cohort.devices)
            if of != device
        }
        small = len(payload) <= INLINE_LIMIT
        offer = None if small else self._around.blobs.offer(payload)
        contribution = Contribution(
            key=request.job.key,
            revision=part.revision,
            payload_kind="masked",
            method=part.method,
            lineage=part.lineage,
            payload=Digest.of(payload) if offer is None else offer.digest,
            payload_bytes=len(payload),
            offer=offer,
            samples={},
            round=None if part.round is None else _hidden_answer(part.round, part.phase),
            cohort=CohortAnswer(number=cohort.number, shares=sealed),
        )
        return inputs.PartMasked(
            request.job,
            contribution,
            cohort.name,
            parts[place].hex(),
            payload if small else None,
        )

    def _seeds(self, request: WorkForCohort) -> Input:
        order = request.assignment.cohort
        assert order is not None
        pairs = self._pairs(request, order.cohort)
        seeds = {of: Hex32(pairs[of].seed.hex()) for of in request.job.silent}
        reveal = CohortReveal(number=order.cohort.number, seeds=seeds)
        return inputs.MasksTold(request.job, reveal, _present(order))

    def _shares(self, request: WorkForCohort) -> Input:
        order, masking = request.assignment.cohort, request.masking
        assert order is not None
        assert masking is not None
        pairs = self._pairs(request, order.cohort)
        told, untold = {self._around.device: masking.share}, []
        for of, sealed in sealed_bytes(order.shares).items():
            if of in masking.silent or of not in pairs:
                continue
            try:
                told[of] = pairs[of].open(sealed, of).hex()
            except LearningError as error:
                untold.append(str(error))
        reveal = CohortReveal(number=order.cohort.number, shares=told)
        trouble = f"cohort {order.cohort.number}: {untold[0]}" if untold else ""
        return inputs.MasksTold(request.job, reveal, _present(order), trouble)


def _present(order: CohortOrder) -> int:
    """Return how many devices are in the sum."""
    return len(order.cohort.members) - len(order.silent)


def _hidden_answer(number: int, phase: str) -> RoundAnswer:
    """Return what is said of an answer whose numbers are hidden: nothing."""
    return RoundAnswer(number=number, phase=phase, samples=1, steps=1, seconds=0)
