"""What the state knows of roots and releases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fleetledger.coordinator.topics.models import offers as model_offers
from fleetledger.coordinator.topics.models.state import ModelsState
from fleetledger.schemas.releases import SignedRelease
from fleetledger.schemas.roots import MAX_ROOTS, SignedRoot
from fleetledger.schemas.values import DeviceId


@dataclass(frozen=True)
class Released:
    """A version that was released, and the entry that made it desired."""

    version: int
    action: int
    group: model_offers.GroupOffer | None = None
    """The group of a rollout that is offered it."""


@dataclass
class Trust:
    """The fleet's root documents and its releases; both empty where models go out unsigned."""

    models: ModelsState = field(repr=False, compare=False)
    """A part before this one, to read from."""
    roots: list[SignedRoot] = field(default_factory=list)
    """The newest ones, oldest first, as many as devices are told."""
    last_number: int = 0
    """Of all releases."""
    releases: dict[int, SignedRelease] = field(default_factory=dict)
    """By the entry that made the version desired."""
    released: Released | None = None
    """What was released last for all devices."""
    released_by_device: dict[DeviceId, Released] = field(default_factory=dict)
    """What was released for single devices since."""
    offers: list[Released] = field(default_factory=list)
    """What was released for groups of rollouts since, oldest first."""

    @property
    def root(self) -> SignedRoot | None:
        """The newest root; with one, devices get models only with a release."""
        return self.roots[-1] if self.roots else None

    def apply(self, root: SignedRoot, *, anew: bool = False) -> None:
        """Add the next root, or begin with it; the oldest are told to nobody any more."""
        self.roots = [root] if anew else [*self.roots, root][-MAX_ROOTS:]

    def released_for(self, device: DeviceId) -> Released | None:
        """Return what was released last for a device; of a pinned one, for it alone."""
        if device in self.models.pinned:
            return self.released_by_device.get(device)
        return self._unpinned(device)

    def _unpinned(self, device: DeviceId) -> Released | None:
        own = self.released_by_device.get(device)
        offered = model_offers.newest_offer(
            self.offers, lambda group: self.models.is_offered(device, group)
        )
        if own is None or offered is None:
            return own or offered or self.released
        return max(own, offered, key=lambda item: item.action)

    def hold_still(self, devices: Iterable[DeviceId]) -> None:
        """Let devices that are pinned now be told what they were, until the pin is signed."""
        for device in devices:
            told = self._unpinned(device)
            if told is not None:
                self.released_by_device[device] = told

    def release_for(self, devices: Iterable[DeviceId], released: Released) -> None:
        """Let devices have it, but those that are pinned to something else."""
        for device in devices:
            pin = self.models.pinned.get(device)
            if pin is None or pin.action == released.action:
                self.released_by_device[device] = released

    def release_offer(self, released: Released) -> None:
        """Let the devices of a group have it."""
        self.offers = model_offers.after_offer(self.offers, released)

    def release_for_all(self, released: Released) -> None:
        """Let all devices have it but those for which something later was released, or spared."""
        self.released = released
        self.offers = model_offers.after_everybodys(self.offers, released)
        desired = self.models.desired
        spares = desired is not None and desired.action == released.action and desired.spares
        self.released_by_device = {
            name: item
            for name, item in self.released_by_device.items()
            if item.action > released.action
            or name in self.models.pinned
            or self._goes_on_with(name, item)
            or (spares and name in self.models.desired_by_device)
        }

    def _goes_on_with(self, device: DeviceId, released: Released) -> bool:
        """Whether this is what a device goes on with after a pin, and nothing newer is said."""
        after = self.models.unpinned.get(device)
        if after is None or after.action != released.action:
            return False
        return self.models.desired_for(device) is after

    def forget_others(self) -> None:
        """Keep the releases of what devices are told, or are to run."""
        told = [self.released, *self.released_by_device.values(), *self.offers]
        needed = {item.action for item in (*told, *self.models.all_desired) if item is not None}
        self.releases = {action: item for action, item in self.releases.items() if action in needed}

    def has_lost(self, action: int) -> bool:
        """Whether what an entry made desired was released by a key that is the fleet's no more."""
        release, root = self.releases.get(action), self.root
        if release is None or root is None:
            return False
        return not release.may_be_signed_by(root.document.release_keys)
