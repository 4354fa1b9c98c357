"""A device under attack: real rules, store, block transfer, installer and models, and no broker.

It belongs to a fleet at root version 2, which no longer names the release key of version 1, and
runs model 2 by release 5; model 1 it ran by release 3. What the attacker sends is a desired model,
and what he serves are files.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.requests import (
    CheckActiveModel,
    FetchFile,
    InstallModel,
    ReadManifest,
    Request,
    WakeAt,
)
from fleetledger.device_agent.core.session import turn
from fleetledger.device_agent.core.state import (
    AgentRules,
    AgentState,
    DeviceIdentity,
    LedgerTrust,
    Pinned,
)
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.home.store.store import AgentStore
from fleetledger.device_agent.models.host import ModelHost
from fleetledger.device_agent.models.inference.installed_model import SessionSettings
from fleetledger.device_agent.models.installer import Installer
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.export.package import ExportedModel, SolvedHead, export_model
from fleetledger.schemas.models import DesiredModel, Manifest
from fleetledger.schemas.offers import BlockData, Offer
from fleetledger.schemas.presence import CoordinatorHeartbeat
from fleetledger.schemas.releases import SignedRelease
from fleetledger.schemas.rollouts import Share, place_of
from fleetledger.schemas.roots import RootDocument, SignedRoot
from fleetledger.schemas.values import BootId, DeviceId, Digest
from fleetledger.transport.block_receiver import BlockReceiver, FailedFetch
from fleetledger.transport.block_source import BlockSource
from tests.device_agent import making
from tests.device_agent import model_files as models
from tests.schemas import signing

DEVICE = DeviceId("dev-1")
NOW = 1_700_000_000_000_000_000
OLD_KEY, KEY = signing.SPARE, signing.RELEASE
"""The release keys of root versions 1 and 2."""
FIRST = signing.root(1, release_keys=(OLD_KEY.verify_key,))
SECOND = signing.root(2)
ROOTS = (FIRST, SECOND)
MOST_ROUNDS = 60
_PLACE = place_of("rollout-7", DEVICE)
WITHOUT = Share(salt="rollout-7", below=_PLACE)
"""A share that this device is just not in."""
WITH = Share(salt="rollout-7", below=_PLACE + 1)
_SALTS = (f"salt-{number}" for number in range(10**6))
LUCKY = next(salt for salt in _SALTS if place_of(salt, DEVICE) < _PLACE)
"""By which it would be in that share."""


@cache
def model(version: int) -> ExportedModel:
    """A real model; every version has weights of its own."""
    weights = models.head_weights() * (1 + version / 10)
    return export_model(
        models.lineage(), SolvedHead(version, "stsa", models.CLASSES, weights, 5, 6)
    )


def manifest_of(version: int) -> Manifest:
    return model(version).manifest


def release(number: int, version: int, by: Any = KEY, **changes: Any) -> SignedRelease:
    digest = manifest_of(version).digest
    return signing.release(number, by, **{"version": version, "manifest": digest} | changes)


def desired(
    signed: SignedRelease | None,
    version: int,
    *,
    roots: tuple[SignedRoot, ...] = ROOTS,
    action: int = 100,
    **changes: Any,
) -> DesiredModel:
    """Return what a coordinator would send about a version, with something changed."""
    body = models.desired_of(manifest_of(version), model(version), action)
    return body.model_copy(update={"release": signed, "roots": roots} | changes)


def files_of(version: int) -> dict[Digest, bytes]:
    data = [manifest_of(version).canonical_bytes(), *model(version).files.values()]
    return {Digest.of(item): item for item in data}


Serve = Callable[[Offer], Iterator[tuple[BlockData, bytes]]]


@dataclass
class Attack:
    """What the attacker sends and serves, and what the device's clock says."""

    sent: DesiredModel | dict[str, Any]
    """A message, or the JSON of one that cannot be built."""
    served: dict[Digest, bytes] = field(default_factory=dict)
    blocks: dict[Digest, list[tuple[BlockData, bytes]]] = field(default_factory=dict)
    """Blocks that are sent in place of the right ones, whatever is asked for."""
    now_ns: int = NOW
    heard_ns: int | None = None
    """The time that the coordinator has signed before."""
    later_ns: int = NOW
    """The clock by the time of the installation."""
    spoil: Callable[[Target], None] | None = None
    """Done to the device's own files before it installs."""


class Target:
    """The device; everything durable lies in `folder`."""

    def __init__(self, folder: Path, root: SignedRoot = FIRST) -> None:
        self.folder = folder
        self.blobs = BlobFolder(folder / "blobs", durable=False)
        self.slots = ModelSlots(folder / "slots")
        self.store = AgentStore(folder / "agent.db", durable=False)
        self.fetched: list[Offer] = []
        self.later_ns = NOW
        self._waiting: list[Request] = []
        self._clock = 0.0
        self._installer = Installer(
            self.blobs,
            self.slots,
            ModelHost(self.blobs, SessionSettings(("CPUExecutionProvider",))),
            lambda _: [np.zeros(making.GREY_8.shape, np.float32)],
            lambda: self.later_ns,
        )
        identity = DeviceIdentity(self.store.installation, BootId.fresh(), making.CAPABILITIES)
        rules = AgentRules(
            pinned=Pinned(DEVICE, root),
            trust=LedgerTrust(root.document.fleet, DEVICE, signing.key("coordinator").verify_key),
            fetch_tries=2,
            scan_seconds=1e9,
        )
        self.state = AgentState(rules, identity, self.store.load())
        slot = self.slots.active()
        active = None if slot is None else slot.model
        self._give(inputs.Started(active, self.blobs.digests(), NOW))
        self._give(inputs.AgentConnected())
        self._give(inputs.CoordinatorBorn(making.COORDINATOR, making.born(10_000)))
        self._give(inputs.Welcomed(making.COORDINATOR, making.welcome(identity.boot, next_part=0)))
        self._waiting.clear()

    @property
    def trusted(self) -> RootDocument:
        """The newest root that was taken."""
        assert self.state.records.root is not None
        return self.state.records.root.document

    @property
    def running(self) -> Digest | None:
        """The manifest in the active slot, as it lies on the disk."""
        slot = self.slots.active()
        return None if slot is None else slot.manifest

    def reason(self) -> str:
        """The reason of the last report about a model."""
        status = self.state.records.status
        return "" if status is None else status.reason

    def tell(self, attack: Attack) -> None:
        """Take what is sent, as far as it can be read."""
        if attack.heard_ns is not None:
            self.hear(attack.heard_ns)
        if isinstance(attack.sent, DesiredModel):
            event = inputs.DesiredArrived(making.COORDINATOR, attack.sent, attack.now_ns)
            self._give(event)

    def suffer(self, attack: Attack) -> None:
        """Take what is sent, and go on until nothing more comes of it."""
        body = attack.sent
        if isinstance(body, dict):
            body = DesiredModel.read(body)
        self.later_ns = attack.later_ns
        if attack.heard_ns is not None:
            self.hear(attack.heard_ns)
        self._give(inputs.DesiredArrived(making.COORDINATOR, body, attack.now_ns))
        for _ in range(MOST_ROUNDS):
            for request in self._waiting[:]:
                self._waiting.remove(request)
                self._carry_out(request, attack)
            self._clock += 30.0
            self._give(inputs.Ticked())

    def hear(self, time_ns: int) -> None:
        """Take the coordinator's word of what time it is."""
        beat = CoordinatorHeartbeat(ledger_size=10_000, time_ns=time_ns)
        self._give(inputs.CoordinatorBeat(making.COORDINATOR, beat))

    def close(self) -> None:
        self.store.close()

    def _give(self, event: inputs.Input) -> None:
        for request in turn(self.state, event, self._clock, self.store.commit):
            if not isinstance(request, WakeAt):
                self._waiting.append(request)

    def _carry_out(self, request: Request, attack: Attack) -> None:
        match request:
            case FetchFile(offer):
                self._fetch(offer, attack)
            case ReadManifest(wanted):
                self._give(self._installer.read(wanted))
            case InstallModel(wanted, check):
                if attack.spoil is not None:
                    attack.spoil(self)
                self._give(self._installer.install(wanted, check))
            case CheckActiveModel(active):
                failed = self._installer.check_active(active)
                assert failed is None

    def _fetch(self, offer: Offer, attack: Attack) -> None:
        """Fetch by the real receiver from what the attacker serves."""
        self.fetched.append(offer)
        receiver = BlockReceiver(offer, self.blobs.path(offer.digest), now=0.0, deadline=9.0)
        data = attack.served.get(offer.digest)
        source = None if data is None else BlockSource(data)
        for moment in range(10):
            for request in receiver.requests(float(moment)):
                for label, block in attack.blocks.get(offer.digest, ()):
                    receiver.receive(label, block, float(moment))
                if source is not None:
                    for label, block in source.answer(request):
                        receiver.receive(label, block, float(moment))
        assert receiver.outcome is not None
        if isinstance(receiver.outcome, FailedFetch):
            self._give(inputs.FetchFailed(offer.digest, receiver.outcome.reason))
        else:
            self._give(inputs.FetchFinished(offer.digest))


def make_victim(folder: Path) -> Path:
    """Make the folder of a device that has taken releases 3 and 5, at root version 2."""
    target = Target(folder)
    for number, version, action in ((3, 1, 10), (5, 2, 20)):
        sent = desired(release(number, version), version, action=action)
        target.suffer(Attack(sent, files_of(version)))
        assert target.running == manifest_of(version).digest, target.reason()
    target.close()
    return folder


def copy_victim(made: Path, folder: Path) -> Target:
    shutil.copytree(made, folder, symlinks=True)
    return Target(folder)
