"""How entries about roots and releases change the state."""

from __future__ import annotations

from coordinator.core import entries
from coordinator.core.release_records import Released
from coordinator.core.state import State
from schemas.releases import SignedRelease
from schemas.values import DeviceId


def root_published(
    state: State, body: entries.RootPublished, _device: DeviceId | None, _time_ns: int
) -> None:
    """Take the next root."""
    state.trust.take(body.root, anew=body.anew)


def release_signed(
    state: State, body: entries.ReleaseSigned, _device: DeviceId | None, _time_ns: int
) -> None:
    """Take a release: devices are told of it, unless something later was released for them."""
    trust, action = state.trust, body.action
    trust.last_number = body.signed.release.number
    released = Released(body.signed.release.version, action)
    if body.signed.release.devices is None:
        trust.released = released
        desired = state.desired
        spared = desired is not None and desired.action == action and desired.spares
        trust.released_by_device = {
            name: item
            for name, item in trust.released_by_device.items()
            if item.action > action or (spared and name in state.desired_by_device)
        }
    else:
        trust.released_by_device.update(dict.fromkeys(body.signed.release.devices, released))
    _forget_others(state, {**trust.releases, action: body.signed})


def _forget_others(state: State, releases: dict[int, SignedRelease]) -> None:
    """Keep the releases of what devices are told, or are to run."""
    trust = state.trust
    told = [trust.released, *trust.released_by_device.values(), *state.all_desired]
    needed = {item.action for item in told if item is not None}
    trust.releases = {action: item for action, item in releases.items() if action in needed}
