"""How a device enters the state, and how its key changes."""

from __future__ import annotations

from functools import lru_cache

from coordinator.core import entries
from coordinator.core.key_records import DeviceKeys, Invitation
from coordinator.core.records import Device, Doubled
from coordinator.core.state import State
from schemas.presence import Capabilities
from schemas.values import DeviceId


def device_admitted(
    state: State, body: entries.DeviceAdmitted, _device: DeviceId | None, _time_ns: int
) -> None:
    """Let a device take part."""
    state.devices.setdefault(body.device, Device(admitted_index=state.size))


def device_born(
    state: State, body: entries.DeviceBorn, device: DeviceId | None, _time_ns: int
) -> None:
    """Note a new run of a device; of one with a key, that the run before is over."""
    assert device is not None
    record = state.devices[device]
    if record.keys.key is not None and record.boot is not None:
        record.keys.former_boots.add(record.boot)
    record.boot, record.installation = body.boot, body.installation
    record.capabilities = _shared(body.capabilities)


def device_invited(
    state: State, body: entries.DeviceInvited, _device: DeviceId | None, _time_ns: int
) -> None:
    """Open an invitation, in place of an earlier one."""
    keys = state.devices[body.device].keys
    keys.invitation = Invitation(body.invitation, body.expires_ns)


def device_enrolled(
    state: State, body: entries.DeviceEnrolled, _device: DeviceId | None, _time_ns: int
) -> None:
    """Let one key speak for the device; the invitation is used up."""
    state.devices[body.device].keys = DeviceKeys(key=body.key)


def device_key_rotated(
    state: State, body: entries.DeviceKeyRotated, _device: DeviceId | None, _time_ns: int
) -> None:
    """Let another key speak for the device."""
    state.devices[body.device].keys.key = body.key


def device_key_revoked(
    state: State, body: entries.DeviceKeyRevoked, _device: DeviceId | None, _time_ns: int
) -> None:
    """Let nobody speak for the device."""
    state.devices[body.device].keys = DeviceKeys(revoked=True)


def device_doubled(
    state: State, body: entries.DeviceDoubled, _device: DeviceId | None, _time_ns: int
) -> None:
    """Freeze what a device gave; both installations are heard until the operator has chosen."""
    record = state.devices[body.device]
    record.doubled = Doubled(body.runs, body.installations)
    record.keys.former_boots.difference_update(body.runs)


def device_settled(
    state: State, body: entries.DeviceSettled, _device: DeviceId | None, _time_ns: int
) -> None:
    """Let one installation go on, and shut the other one out."""
    record = state.devices[body.device]
    doubled = record.doubled
    assert doubled is not None
    names = dict(zip(doubled.runs, doubled.installations, strict=True))
    record.doubled = None
    record.boot, record.installation = body.kept, names[body.kept]
    record.settled.update({body.kept: True, body.shut_out: False})
    record.shut_out.add(names[body.shut_out])
    record.shut_out.discard(names[body.kept])
    if record.keys.key is not None:
        record.keys.former_boots.add(body.shut_out)


@lru_cache(maxsize=256)
def _shared(capabilities: Capabilities) -> Capabilities:
    """Return one object for equal ones: a fleet has few kinds of device."""
    return capabilities
