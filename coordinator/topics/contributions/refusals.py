"""What devices hear of parts that the operator retracted: a refusal, also after a receipt."""

from __future__ import annotations

from collections.abc import Iterator

from fleetledger.coordinator.core.requests import SendToDevice
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.contributions.state import DeviceContributions, Retracted
from fleetledger.schemas.contributions import Contribution, PartKey
from fleetledger.schemas.receipts import RETRACTED, Receipt, Refused
from fleetledger.schemas.values import DeviceId


def retraction_of(given: DeviceContributions, body: Contribution) -> Refused | None:
    """Return the refusal of a contribution that was retracted, by its part or by its payload."""
    found = given.retracted.get(body.key)
    if found is not None:
        return _refused(body.key, found)
    for key, retracted in given.retracted.items():
        if retracted.payload == body.payload:
            return _refused(key, retracted)
    return None


def retraction_notices(state: State, device: DeviceId) -> Iterator[SendToDevice]:
    """Yield what tells a device of every part of its that was retracted."""
    for key in state.contributions.of(device).retracted:
        yield _told(state, device, key)


def newest_retraction_notice(state: State, device: DeviceId) -> SendToDevice:
    """Return what tells a device of the part that was retracted last."""
    return _told(state, device, next(reversed(state.contributions.of(device).retracted)))


def _told(state: State, device: DeviceId, key: PartKey) -> SendToDevice:
    """Return what tells a device that one part was retracted."""
    given = state.contributions.of(device)
    receipt = Receipt(
        about="contribution",
        key=key,
        revision=given.parts[key].revision,
        payload=given.retracted[key].payload,
        answer=_refused(key, given.retracted[key]),
    )
    return SendToDevice(device, "rcpt", receipt)


def _refused(key: PartKey, retracted: Retracted) -> Refused:
    return Refused(
        reason=f"{RETRACTED}the operator took part {key.part} of stage {key.stage} out of the sum: "
        f"{retracted.reason}; its images are not to be given again",
        retracted=True,
    )
