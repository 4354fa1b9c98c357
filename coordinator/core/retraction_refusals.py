"""What devices hear of parts that the operator retracted: a refusal, also after a receipt."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.core.records import Device, Retracted
from coordinator.core.requests import SendToDevice
from coordinator.core.state import State
from schemas.contributions import Contribution, PartKey
from schemas.receipts import RETRACTED, Receipt, Refused
from schemas.values import DeviceId


def retraction_of(known: Device, body: Contribution) -> Refused | None:
    """Return the refusal of a contribution that was retracted, by its part or by its payload."""
    found = known.retracted.get(body.key)
    if found is not None:
        return _refused(body.key, found)
    for key, retracted in known.retracted.items():
        if retracted.payload == body.payload:
            return _refused(key, retracted)
    return None


def told_of_retractions(state: State, device: DeviceId) -> Iterator[SendToDevice]:
    """Yield what tells a device of every part of its that was retracted."""
    for key in state.devices[device].retracted:
        yield told_of_retraction(state, device, key)


def told_of_retraction(state: State, device: DeviceId, key: PartKey) -> SendToDevice:
    """Return what tells a device that one part was retracted."""
    known = state.devices[device]
    receipt = Receipt(
        about="contribution",
        key=key,
        revision=known.parts[key].revision,
        payload=known.retracted[key].payload,
        answer=_refused(key, known.retracted[key]),
    )
    return SendToDevice(device, "rcpt", receipt)


def _refused(key: PartKey, retracted: Retracted) -> Refused:
    return Refused(
        reason=f"{RETRACTED}the operator took part {key.part} of stage {key.stage} out of the sum: "
        f"{retracted.reason}; its images are not to be given again",
        retracted=True,
    )
