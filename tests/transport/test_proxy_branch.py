"""On the proxy's branch the proxy serves devices, and nobody else does."""

import pytest

from fleetledger.schemas.envelope import COORDINATOR, PROXY, Sender
from fleetledger.schemas.errors import EnvelopeError
from fleetledger.schemas.offers import BlockRequest
from fleetledger.schemas.topics import Branch, FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, Digest, FleetId
from fleetledger.transport.block_wire import BlockWire, Heard
from fleetledger.transport.interface import IncomingMessage

FLEET, DEVICE = FleetId("workshop"), DeviceId("bench-3")
REQUEST = BlockRequest(
    digest=Digest.of(b"gradients"), block_size=4096, section="data", indices=(0,)
)


def wire(name: DeviceId, branch: Branch, device: DeviceId | None = None) -> BlockWire:
    return BlockWire(FleetTopics(FLEET, branch), Sender(FLEET, name, BootId.fresh()), device)


@pytest.mark.parametrize("branch", ["", "proxy"])
@pytest.mark.parametrize("speaker", [COORDINATOR, PROXY])
def test_a_device_listens_to_the_one_whose_branch_it_is(branch: Branch, speaker: DeviceId) -> None:
    sent = wire(speaker, branch).request(DEVICE, REQUEST)
    message = IncomingMessage(sent.topic, sent.payload, qos=0, retained=False)
    reader = wire(DEVICE, branch, DEVICE)
    if (speaker == PROXY) == (branch == "proxy"):
        assert reader.read(message) == Heard(DEVICE, REQUEST)
    else:
        with pytest.raises(EnvelopeError, match="speaks on the topic"):
            reader.read(message)
