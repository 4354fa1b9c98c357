"""Whose keys the fleet believes, what they let out, what waits for a signature."""

from __future__ import annotations

from collections import Counter

from fleetledger.coordinator.core.phrases import natural
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.sources import Asked, Sources, count_of
from fleetledger.coordinator.errors import KeyFileError
from fleetledger.coordinator.ledger.keys import public_key
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.topics.releases import views as release_views
from fleetledger.coordinator.topics.releases.views import ReleaseRow, WaitingRelease
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.keys import VerifyKey
from fleetledger.transport.pages.words import moment, plural

SHOWN = 40


class EnrolledKeyLine(Strict):
    """A key, and what it may sign."""

    name: str
    key_hash: str
    signs: str


class RootNow(Strict):
    """The newest root."""

    version: int
    index: int
    threshold: int
    expires_ns: int | None
    expired: bool
    keys: tuple[EnrolledKeyLine, ...]


class DeviceKeyLine(Strict):
    """The key of a device."""

    device: str
    state: str
    key_hash: str
    index: int
    expires_ns: int | None


class TrustPage(PageModel):
    """Roots, releases and keys."""

    root: RootNow | None
    coordinator_key: str
    waiting: tuple[WaitingRelease, ...]
    releases: tuple[ReleaseRow, ...]
    key_states: dict[str, int]
    """Devices by the state of their key; `none` where nobody invited them."""
    keys: tuple[DeviceKeyLine, ...]
    more_keys: int | None


def read(sources: Sources, asked: Asked) -> TrustPage:
    """Return what the fleet believes."""
    ledger, place = sources.ledger, count_of(asked.query.get("keys")) or 0
    root = _root(ledger, sources.now_ns)
    waiting = tuple(release_views.waiting(ledger))
    states = _states(sources.state)
    keys = _keys(sources.state, place)
    return TrustPage(
        title=_title(root, waiting, states),
        root=root,
        coordinator_key=_own_key(sources),
        waiting=waiting,
        releases=tuple(release_views.releases(ledger, SHOWN)),
        key_states=states,
        keys=keys[:SHOWN],
        more_keys=place + SHOWN if len(keys) > SHOWN else None,
    )


def _title(
    root: RootNow | None, waiting: tuple[WaitingRelease, ...], states: dict[str, int]
) -> str:
    if waiting:
        versions = ", ".join(sorted({str(push.version) for push in waiting}))
        return f"Model {versions} waits for a signature before devices install it."
    if root is not None and root.expired:
        return f"The root expired on {moment(root.expires_ns)}: nothing new is installed by it."
    devices, enrolled = sum(states.values()), states.get("enrolled", 0)
    keyed = f"{enrolled} of {plural(devices, 'device')} {'has' if enrolled == 1 else 'have'} a key"
    if root is None:
        return f"{keyed}; models go out without a release key."
    return f"Models go out with a release key of root {root.version}, and {keyed}."


def _root(ledger: LedgerReader, now_ns: int) -> RootNow | None:
    found = release_views.root_entry(ledger)
    if found is None:
        return None
    index, document = found[0], found[1].document
    keys = (
        *(_key_line(key, "the next root") for key in document.root_keys),
        *(_key_line(key, "releases of models") for key in document.release_keys),
        *(_key_line(key, "receipts and checkpoints") for key in document.coordinator_keys),
    )
    expires = document.expires_ns
    return RootNow(
        version=document.version,
        index=index,
        threshold=document.threshold,
        expires_ns=expires,
        expired=expires is not None and expires <= now_ns,
        keys=keys,
    )


def _key_line(key: VerifyKey, signs: str) -> EnrolledKeyLine:
    return EnrolledKeyLine(name=key.name, key_hash=key.key_hash.hex(), signs=signs)


def _own_key(sources: Sources) -> str:
    try:
        return str(public_key(sources.home) or "")
    except KeyFileError:
        return ""


def _states(state: State) -> dict[str, int]:
    found = Counter(state.keys.of(name).state for name in state.devices.admitted)
    return dict(sorted(found.items()))


def _keys(state: State, place: int) -> tuple[DeviceKeyLine, ...]:
    found = sorted(
        state.keys.by_device.items(),
        key=lambda one: (one[1].state == "enrolled", natural(one[0])),
    )
    return tuple(
        DeviceKeyLine(
            device=name,
            state=keys.state,
            key_hash=keys.text if keys.state == "enrolled" else "",
            index=keys.changed_index,
            expires_ns=None if keys.invitation is None else keys.invitation.expires_ns,
        )
        for name, keys in found[place : place + SHOWN + 1]
    )
