"""Devices that are summed behind masks, and a coordinator that is made by hand, and may lie."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from fleetledger.device_agent.core import inputs, requests
from fleetledger.device_agent.core.records import OutboxKey
from fleetledger.device_agent.errors import DamagedError
from fleetledger.device_agent.program.cohort_jobs import CohortJobs, CohortSurroundings
from fleetledger.learning.privacy.masks import Words, unmask
from fleetledger.learning.privacy.shares import joined
from fleetledger.methods.fed3r.coordinator import COORDINATOR
from fleetledger.methods.fed3r.device import DEVICE
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.cohorts import (
    CohortJoin,
    CohortMember,
    CohortOrder,
    CohortReveal,
    MaskedCohort,
    threshold_of,
)
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.keys import KeyName, SigningKey, VerifyKey
from fleetledger.schemas.message import Message
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.privacy import Masks, Privacy
from fleetledger.schemas.receipts import Accepted, Answer, Receipt, Refused
from fleetledger.schemas.values import ClassName, DeviceId, Digest, FleetId
from fleetledger.transport.block_source import BlockSource
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

FLEET = FleetId("harbour")
CLASSES = tuple(map(ClassName, ("cat", "dog", "eel")))
WIDTH = 5
TOLD = COORDINATOR.assign({}, WIDTH)
MASKED = Privacy(masks=Masks(least=3, most=16))


def features_of(content: Digest) -> np.ndarray:
    """What a backbone makes of an image."""
    seed = int.from_bytes(hashlib.sha256(content.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).integers(-127, 128, WIDTH).astype(np.float32)


class Files:
    """A blob folder in memory, which outlives the agent."""

    def __init__(self) -> None:
        self.held: dict[Digest, bytes] = {}

    def offer(self, data: bytes) -> Offer:
        offer = BlockSource(data).offer
        self.held[offer.digest] = data
        return offer

    def read(self, digest: Digest) -> bytes:
        if digest not in self.held:
            raise DamagedError(digest, f"file {digest.short}: is gone")
        return self.held[digest]


class MaskedDevice(Driven):
    """An agent whose parts are of Fed3R and whose jobs for cohorts are the real ones."""

    def __init__(self, path: Path, name: str, **rules: Any) -> None:
        self.name = DeviceId(name)
        self.files = Files()
        self.key: SigningKey | None = SigningKey.fresh(KeyName(f"harbour/device/{name}"))
        self.secret = hashlib.sha256(name.encode()).digest()
        self.jobs = CohortJobs(
            CohortSurroundings(
                FLEET,
                self.name,
                secret=lambda: self.secret,
                key=lambda: None if self.key is None else self.key.verify_key,
                read=self.files.read,
                blobs=self.files,
            )
        )
        super().__init__(path, **rules)

    def kill(self) -> None:
        """End it, and start it again with what lies on its disk."""
        self.here = frozenset({*self.files.held, making.digest("frozen")})
        self.requests.clear()
        super().kill()
        self.connect()

    def work(self, stop: str = "") -> None:
        """Do all jobs, but for one of the step `stop`."""
        while True:
            asked = [
                request
                for request in self.requests
                if isinstance(request, requests.ComputePart | requests.WorkForCohort)
                and not (isinstance(request, requests.WorkForCohort) and request.job.step == stop)
            ]
            if not asked:
                return
            self.requests.remove(asked[0])
            if isinstance(asked[0], requests.ComputePart):
                self._count(asked[0])
                continue
            for answer in self.jobs.answer(asked[0]):
                self.give(answer)

    def _count(self, request: requests.ComputePart) -> None:
        assert request.job.masked, "numbers would leave as they are"
        labels = [image.class_name for image in request.images]
        features = np.stack([features_of(image.digest) for image in request.images])
        offer = self.files.offer(DEVICE.finish(TOLD, features, labels).payload)
        made = Contribution(
            key=request.job.key,
            revision=request.job.revision,
            payload_kind="statistics",
            method="fed3r",
            lineage=request.job.lineage,
            payload=offer.digest,
            payload_bytes=offer.size,
            offer=offer,
            samples=dict(Counter(labels)),
        )
        used = frozenset(image.digest for image in request.images)
        self.give(inputs.PartComputed(request.job, made, used))

    def said(self) -> list[Message]:
        """Return and forget what it sent, with what went with it."""
        return self.sent(Contribution, CohortJoin, CohortReveal)


@dataclass
class HandMade:
    """A coordinator that takes what devices send, and does with it what a test says."""

    devices: dict[DeviceId, MaskedDevice]
    privacy: Privacy | None = MASKED
    action: int = 1
    joins: dict[DeviceId, CohortJoin] = field(default_factory=dict)
    words: dict[DeviceId, tuple[Contribution, Words]] = field(default_factory=dict)
    seeds: dict[DeviceId, dict[DeviceId, str]] = field(default_factory=dict)
    shares: dict[DeviceId, dict[DeviceId, str]] = field(default_factory=dict)
    plain: list[Contribution] = field(default_factory=list)
    """What came as it is."""
    cohorts: int = 0

    def assignment(self, order: CohortOrder | None = None) -> Assignment:
        self.action += 1
        base = making.assignment(*CLASSES, action=self.action)
        return base.model_copy(
            update={
                "method": "fed3r",
                "settings": TOLD.model_dump(mode="json"),
                "privacy": self.privacy,
                "cohort": order,
            }
        )

    def assign(self, *names: DeviceId, order: CohortOrder | None = None) -> None:
        """Give devices, or all, their assignment, and let them do what it asks for."""
        for name in names or self.devices:
            device, given = self.devices[name], self.assignment(order)
            device.give(inputs.Assigned(making.COORDINATOR, given))
            for offer in given.offers:
                device.give(inputs.FetchFinished(offer.digest))
            device.scan()
            device.work()
        self.hear(*names)

    def hear(self, *names: DeviceId, answer: Answer | None = None) -> None:
        """Take what devices have sent, and answer it; the first of it with `answer`."""
        for name in names or self.devices:
            device = self.devices[name]
            while said := device.said():
                for body in said:
                    self._take(device, body, answer)
                    answer = None
                device.work()

    def _take(self, device: MaskedDevice, body: Message, answer: Answer | None) -> None:
        answer = answer or Accepted(ledger_index=self.action)
        taken = not isinstance(answer, Refused)
        if isinstance(body, CohortJoin):
            if taken:
                self.joins[device.name] = body
            key = making.part_key(body.joining.stage, body.joining.part)
            device.receipt(Receipt(about="cohort-join", key=key, answer=answer))
        elif isinstance(body, CohortReveal):
            found = self.seeds if body.seeds else self.shares
            found.setdefault(device.name, {}).update(body.seeds or body.shares)
            key = making.part_key(1 if body.seeds else 2, body.number)
            device.receipt(Receipt(about="cohort-reveal", key=key, answer=answer))
        elif isinstance(body, Contribution):
            if body.cohort is None:
                self.plain.append(body)
            elif taken:
                stored = device.store.payload(OutboxKey("contribution", body.key))
                data = stored or device.files.read(body.payload)
                assert Digest.of(data) == body.payload
                self.words[device.name] = (body, np.frombuffer(data, "<u8").copy())
            receipt = Receipt(
                about="contribution",
                key=body.key,
                revision=body.revision,
                payload=body.payload,
                answer=answer,
            )
            device.receipt(receipt)

    def form(self, *names: DeviceId, **changes: Any) -> MaskedCohort:
        """Return a cohort of devices that have joined."""
        self.cohorts += 1
        chosen = sorted(names or self.joins)
        said = {name: self.joins[name].joining for name in chosen}
        first = said[chosen[0]]
        members = tuple(self.member(name) for name in chosen)
        values: dict[str, Any] = {
            "number": self.cohorts,
            "stage": first.stage,
            "round": first.round,
            "lineage": first.lineage,
            "class_names": CLASSES,
            "threshold": threshold_of(len(members)),
            "members": members,
        }
        self.words, self.seeds, self.shares, self.joins = {}, {}, {}, {}
        return MaskedCohort.model_validate({**values, **changes})

    def member(self, name: DeviceId) -> CohortMember:
        """Return the member that a device is by its word and its key."""
        joining, device = self.joins[name].joining, self.devices[name]
        key: VerifyKey | None = None if device.key is None else device.key.verify_key
        signature = None
        if device.key is not None:  # the program signs what is sent
            signature = joining.signature(FLEET, name, device.key)
        return CohortMember(device=name, joining=joining, key=key, signature=signature)

    def ask(
        self, cohort: MaskedCohort, step: str, *silent: DeviceId, to: Sequence[DeviceId] = ()
    ) -> None:
        """Have present members, or some of them, do a step."""
        for name in to or cohort.devices:
            if name in silent:
                continue
            shares = {}
            if step == "opening":
                shares = {
                    of: body.cohort.shares[name]
                    for of, (body, _) in self.words.items()
                    if of != name and of not in silent and body.cohort is not None
                }
            order = CohortOrder(cohort=cohort, step=step, silent=tuple(silent), shares=shares)
            self.assign(name, order=order)

    def sum_of(self, cohort: MaskedCohort, *silent: DeviceId) -> bytes:
        """Return the payload of the sum, with the masks taken off."""
        present = [name for name in cohort.devices if name not in silent]
        total = reduce(np.add, [self.words[name][1] for name in present])
        place = {name: at for at, name in enumerate(cohort.devices)}
        own = []
        for of in present:
            told = {place[who] + 1: shares[of] for who, shares in self.shares.items()}
            enough = dict(sorted(told.items())[: cohort.threshold])
            own.append(joined({at: bytes.fromhex(text) for at, text in enough.items()}))
        missing = {
            place[of]: {place[who]: bytes.fromhex(self.seeds[who][of]) for who in present}
            for of in silent
        }
        unmask(total, own, missing)
        made = COORDINATOR.from_words(TOLD, total, cohort.class_names, len(present))
        return made.payload


def pooled(*contents: str) -> Digest:
    """Return the digest of the sums of images, `class/content`, without masks."""
    pairs = [item.split("/") for item in contents]
    features = np.stack([features_of(making.digest(content)) for _, content in pairs])
    payload = DEVICE.finish(TOLD, features, [label for label, _ in pairs]).payload
    return aggregate(payload)


def aggregate(*payloads: bytes) -> Digest:
    """Return the digest of all payloads' sum."""
    kind = COORDINATOR.aggregate_type
    parts = [kind.of(TOLD, COORDINATOR.read(TOLD, payload), 1) for payload in payloads]
    return reduce(lambda one, other: one + other, parts).digest
