"""What the coordinator knows only while it runs; none of it decides the model."""

from __future__ import annotations

from dataclasses import dataclass, field

from schemas.contributions import PartKey
from schemas.presence import Heartbeat
from schemas.values import BootId, ClassName, DeviceId

NANOSECONDS = 1_000_000_000
Pending = tuple[PartKey, int]
_RETURNS_OF_TWINS = 3
"""A birth that was late looks like a return or two; machines that take turns go on."""
_FORGERIES_PER_MINUTE = 6
"""How often a device is told of messages in its name that were not believed."""


@dataclass
class LiveDevice:
    """A device as it is now."""

    boot: BootId | None = None
    """The boot that is connected; None when the device is away."""
    born: set[BootId] = field(default_factory=set)
    """Boots whose births were answered since the coordinator started."""
    installations: set[BootId] = field(default_factory=set)
    """Installations that were born under this name since the coordinator started."""
    returns: int = 0
    """How often one of them was born again after another one."""
    heartbeat: Heartbeat | None = None
    seen_size: int | None = None
    """Entries of the ledger up to which its history was proven to this device."""
    waiting_classes: dict[ClassName, int] = field(default_factory=dict)
    pending: set[Pending] = field(default_factory=set)
    """Parts whose payload is on its way into the store."""
    refusals_ns: list[int] = field(default_factory=list)
    """When this device was refused something during the last minute."""
    forgeries_ns: list[int] = field(default_factory=list)
    """When it was told during the last minute that a message in its name was not believed."""

    def takes_turns(self, former: BootId | None, now: BootId) -> bool:
        """Note a birth; say, once, that two installations have taken turns under one name."""
        if former is None or former == now:
            self.installations.add(now)
            return False
        returned = now in self.installations
        self.installations |= {former, now}
        self.returns += returned
        return returned and self.returns == _RETURNS_OF_TWINS

    def may_refuse(self, now_ns: int, per_minute: int) -> bool:
        """Whether one more refusal may be sent; notes it if so."""
        return _has_room(self.refusals_ns, now_ns, per_minute)

    def may_tell_forgery(self, now_ns: int) -> bool:
        """Whether it may be told of one more message that was not believed; notes it if so."""
        return _has_room(self.forgeries_ns, now_ns, _FORGERIES_PER_MINUTE)


def _has_room(times_ns: list[int], now_ns: int, per_minute: int) -> bool:
    """Whether there were fewer than so many within the last minute; adds this one if so."""
    while times_ns and now_ns - times_ns[0] > 60 * NANOSECONDS:
        del times_ns[0]
    if len(times_ns) >= per_minute:
        return False
    times_ns.append(now_ns)
    return True


@dataclass
class Live:
    """Devices present, and whether a worker is making a model."""

    devices: dict[DeviceId, LiveDevice] = field(default_factory=dict)
    making_model: bool = False
    since_ns: int | None = None
    """When the rules of rounds first looked."""
    last_model_ns: int | None = None
    """When the last making of a model began."""

    def device(self, device: DeviceId) -> LiveDevice:
        """Return what is known of a device now, beginning with nothing."""
        known = self.devices.get(device)
        return self.devices.setdefault(device, LiveDevice()) if known is None else known

    def forget_requests(self) -> None:
        """Forget what was asked of the shell, because a failed commit kept it from being done."""
        self.making_model = False
        for device in self.devices.values():
            device.pending.clear()
