"""A core that leads masked cohorts of devices whose mathematics is played here."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.requests import PruneBlobs, Request, SendToDevice
from fleetledger.coordinator.core.rules import BoundRules, PrivacyRules, Rules, StageRules
from fleetledger.coordinator.core.work import SumCohort, TakePayload
from fleetledger.coordinator.models.cohort_sum import ended, summed_statistics
from fleetledger.coordinator.topics.cohorts.state import CohortProgress
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.lineages.entries import BackboneImported
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.learning.errors import LearningError
from fleetledger.learning.privacy.masks import SharedSecret, commitment, derived, mask, own_key
from fleetledger.learning.privacy.shares import split
from fleetledger.methods.fed3r.coordinator import COORDINATOR
from fleetledger.methods.fed3r.device import DEVICE
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.cohorts import (
    CohortAnswer,
    CohortJoin,
    CohortOrder,
    CohortReveal,
    Hex32,
    Joining,
    MaskedCohort,
)
from fleetledger.schemas.contributions import Contribution, PartKey
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from tests.coordinator.core.harness import BACKBONE, Bench, names, receipt
from tests.methods.samples import NAMES, WIDTH, make_samples

TOLD = COORDINATOR.assign({}, WIDTH)
LED = BACKBONE.model_copy(
    update={"method": "fed3r", "settings": TOLD.model_dump(mode="json"), "feature_width": WIDTH}
)
PRIVACY = PrivacyRules(masks=True, cohort=4, least=3, wait_seconds=50, answer_seconds=20)
SAMPLES = 40


def part_of(number: int, width: int = WIDTH) -> Any:
    """Statistics of one device, which are an unmasked part too."""
    samples = make_samples(number, SAMPLES)
    features = np.resize(samples.features, (SAMPLES, width))
    return DEVICE.finish(COORDINATOR.assign({}, width), features, samples.labels)


class Member:
    """A device in cohorts."""

    def __init__(self, number: int, lineage: BackboneImported = LED) -> None:
        self.name = DeviceId(f"dev-{number}")
        self.part = 0
        self.secret = bytes([number]) * 32
        self.lineage = lineage.digest
        self.told: Any = COORDINATOR.read_assignment(lineage.settings)
        self.made = part_of(number, lineage.feature_width)
        self.layout: tuple[ClassName, ...] = NAMES

    def join(self, stage: int = 1, **changes: object) -> CohortJoin:
        """Say that the part is ready; each join has a key of its own."""
        self.part += 1
        self.key = own_key(self.secret, str(self.part))
        public = Hex32(self.key.public_key().public_bytes_raw().hex())
        words = DEVICE.to_words(self.told, self.made.payload, self.layout)
        given: dict[str, object] = {
            "stage": stage,
            "part": self.part,
            "serial": self.part,
            "lineage": self.lineage,
            "mask_key": public,
            "commitment": Digest(commitment(words, self.secret)),
        }
        return CohortJoin(joining=Joining.model_validate(given | changes))

    def _secrets(self, cohort: MaskedCohort) -> dict[int, SharedSecret]:
        return {
            place: SharedSecret.of(self.key, member.joining.mask_key.raw, cohort.name)
            for place, member in enumerate(cohort.members)
            if member.device != self.name
        }

    def vector(self, cohort: MaskedCohort) -> Any:
        """The words without masks."""
        return DEVICE.to_words(self.told, self.made.payload, cohort.class_names)

    serve: Callable[[bytes], Offer] | None = None
    """Offers what is too large to be attached."""

    def words(
        self, cohort: MaskedCohort, *, negative: bool = False, wrong: bool = False
    ) -> tuple[Contribution, bytes]:
        """Return what it gives behind masks."""
        place, secrets = cohort.devices.index(self.name), self._secrets(cohort)
        own = derived(self.secret, f"own/{cohort.name}")
        vector = self.vector(cohort)
        if negative:
            vector = np.zeros_like(vector) - vector
        if wrong:
            vector[-1:] -= np.uint64(10**12)
        seeds = {other: secret.seed for other, secret in secrets.items()}
        payload = mask(vector, place, seeds, own).astype("<u8").tobytes()
        shares = split(own, cohort.threshold, len(cohort.members))
        self.own_share = shares[place].hex()
        sealed = {
            cohort.devices[other]: base64.b64encode(secret.seal(shares[other], self.name)).decode()
            for other, secret in secrets.items()
        }
        body = Contribution(
            key=PartKey(stage=cohort.stage, part=self.part),
            revision=0,
            payload_kind="masked",
            method="fed3r",
            lineage=self.lineage,
            payload=Digest.of(payload),
            payload_bytes=len(payload),
            offer=None if self.serve is None else self.serve(payload),
            samples={},
            cohort=CohortAnswer(number=cohort.number, shares=sealed),
        )
        return body, payload

    def seeds(self, order: CohortOrder) -> CohortReveal:
        """Tell what it had in common with the silent."""
        secrets, devices = self._secrets(order.cohort), order.cohort.devices
        told = {who: Hex32(secrets[devices.index(who)].seed.hex()) for who in order.silent}
        return CohortReveal(number=order.cohort.number, seeds=told)

    def shares(self, order: CohortOrder) -> CohortReveal:
        """Tell its share of each mask that it was sealed."""
        secrets, devices = self._secrets(order.cohort), order.cohort.devices
        told = {
            who: secrets[devices.index(who)].open(base64.b64decode(sealed), who).hex()
            for who, sealed in order.shares.items()
            if who != self.name
        } | {self.name: self.own_share}
        return CohortReveal(number=order.cohort.number, shares=told)


class CohortBench(Bench):
    """Devices that join cohorts, and a worker that sums them."""

    def __init__(
        self,
        devices: int = 4,
        privacy: PrivacyRules = PRIVACY,
        lineage: BackboneImported = LED,
        **bounds: float,
    ) -> None:
        stages = StageRules(deadline_seconds=1000.0, quiet_seconds=5.0, gather_seconds=0.0)
        limits = BoundRules.model_validate(bounds)
        super().__init__(Rules(privacy=privacy, stages=stages, bounds=limits))
        self.blobs: dict[Digest, bytes] = {}
        self.orders: dict[DeviceId, CohortOrder | None] = {}
        self.sums: list[SumCohort] = []
        self.members = {one.name: one for one in (Member(i + 1, lineage) for i in range(devices))}
        for name in self.members:
            self.command(AdmitDevice(device=name))
            self.born(name)
        self.command(ImportBackbone(backbone=lineage))
        self.command(OpenStage(class_names=names(*NAMES)))

    def handle(self, happening: inputs.Input) -> list[Request]:
        """Do as the shell: orders are kept as a broker does, sums wait for `work`."""
        requests = super().handle(happening)
        for request in requests:
            if isinstance(request, SendToDevice) and isinstance(request.body, Assignment):
                self.orders[request.device] = request.body.cohort
            elif isinstance(request, SumCohort):
                self.sums.append(request)
            elif isinstance(request, PruneBlobs):
                for digest in request.digests:
                    self.blobs.pop(digest, None)
        return requests

    def restart(self) -> None:
        """Begin anew with what the ledger holds."""
        super().restart()
        self.sums.clear()
        self.wait(0)

    def kinds(self, kind: str) -> list[Any]:
        """The bodies of a kind so far."""
        return [body for body, _, _ in self.entries if body.kind == kind]

    def join(self, *devices: str, **changes: object) -> list[Receipt]:
        """Let devices join, all where none is named."""
        return [
            receipt(self.message(name, self.members[DeviceId(name)].join(**changes)))
            for name in devices or tuple(self.members)
        ]

    def give_words(self, *devices: str, number: int = 1, **how: bool) -> list[Receipt]:
        """Let members give words; all that are asked where none is named."""
        cohort = self.cohort(number).body
        given = []
        for name in devices or cohort.devices:
            body, payload = self.members[DeviceId(name)].words(cohort, **how)
            given.append(self.give_payload(name, body, payload))
        return given

    def give_payload(self, device: str, body: Contribution, payload: bytes) -> Receipt:
        """Send words and let them be stored where they are wanted."""
        requests = self.message(device, body)
        taken = [one for one in requests if isinstance(one, TakePayload)]
        if not taken:
            return receipt(requests)
        self.blobs[body.payload] = payload
        return receipt(self.handle(inputs.PayloadOutcome(DeviceId(device), taken[0].contribution)))

    def cohort(self, number: int = 1) -> CohortProgress:
        """A cohort as the state has it."""
        return self.core.state.cohorts.by_number[number]

    def order(self, device: str) -> CohortOrder:
        """What a member was told last."""
        found = self.orders[DeviceId(device)]
        assert found is not None, device
        return found

    def reveal(self, *devices: str, number: int = 1) -> list[Receipt]:
        """Let present members tell what their order asks for."""
        given = []
        for name in devices or self.cohort(number).present:
            member, order = self.members[DeviceId(name)], self.order(name)
            body = member.seeds(order) if order.step == "silent" else member.shares(order)
            given.append(receipt(self.message(name, body)))
        return given

    def work(self) -> list[EntryBody]:
        """Have the masks taken off what waits for it."""
        made: list[EntryBody] = []
        for request in [self.sums.pop() for _ in range(len(self.sums))]:
            body: Any
            try:
                body, payload = summed_statistics(request, self.blobs.__getitem__)
                self.blobs[body.payload] = payload
            except (FleetledgerError, LearningError) as error:
                body = ended(request, error)
            self.handle(body)
            made.append(body)
        return made

    def through(self, number: int = 1) -> None:
        """Take a cohort in which everybody answers from its forming to its sum."""
        self.wait(0)
        self.give_words(number=number)
        self.wait(0)
        self.reveal(number=number)
        self.wait(0)
        self.work()

    def total(self, payloads: Iterable[bytes] | None = None) -> Digest:
        """The digest of the sum of what counts, or of some payloads."""
        counted = self.core.state.contributions.counted
        if payloads is None:
            payloads = [
                self.blobs[item.payload]
                for index, item in counted.items()
                if counted.is_counted(index)
            ]
        total: Any = COORDINATOR.aggregate_type.empty(TOLD)
        for payload in payloads:
            statistics = COORDINATOR.read(TOLD, payload)
            total += COORDINATOR.aggregate_type.of(TOLD, statistics, 1)
        digest: Digest = total.digest
        return digest
