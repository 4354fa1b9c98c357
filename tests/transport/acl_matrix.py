"""Who is tried against what, and what should come of it: the whole matrix of access.

The rules are told here again in the plainest way, apart from the table that brokers are given.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from fleetledger.schemas.envelope import COORDINATOR, PROXY
from fleetledger.schemas.topics import DOWN_LEAVES, UP_LEAVES, Branch, FleetTopics
from fleetledger.schemas.values import DeviceId, Digest, FleetId
from fleetledger.transport.brokers.folder import BrokerFolder, write_broker_folder
from tests.transport.standalone import free_port
from tests.transport.worlds import A, B

DEVICES = (A, B, DeviceId("dev-c"))
USERS = (*DEVICES, COORDINATOR, PROXY)
FLEET = FleetId("mill")
DIGEST = Digest.of(b"a model")
ORDINARY = FleetTopics(FLEET)


UNUSED = (
    "up/dev-a/of-its-own",
    "up/dev-a/msg/deeper",
    "down/dev-a/msg",
    "all/of-its-own",
    "all/blk",
    f"all/blk/{DIGEST}/deeper",
)
"""Topics below everybody's own branches that nobody uses."""
PROXY_LEAVES = {"up": ("msg", "req", "blk"), "down": ("rcpt", "req", "blk")}


def all_topics() -> list[str]:
    """Return every topic of a fleet of the three devices, some unused ones, and another fleet's."""
    found = [str(ORDINARY.coordinator_state), str(ORDINARY.shared_blocks(DIGEST))]
    found += [f"fleetledger/1/{FLEET}/{below}" for below in UNUSED]
    found.append(str(FleetTopics(FleetId("other")).up(A, "msg")))
    for branch in get_args(Branch):
        topics = FleetTopics(FLEET, branch)
        for device in DEVICES:
            found += [str(topics.up(device, leaf)) for leaf in UP_LEAVES]  # type: ignore[arg-type]
            found += [str(topics.down(device, leaf)) for leaf in DOWN_LEAVES]  # type: ignore[arg-type]
    return found


def _is_used(topic: str) -> bool:
    _, _, fleet, *below = topic.split("/")
    if fleet != FLEET or "/".join(below) in UNUSED:
        return False
    return below[0] != "proxy" or below[-1] in PROXY_LEAVES[below[1]]


def may_publish(user: str, topic: str) -> bool:
    """Say whether `user` may publish on `topic` of the fleet."""
    if not _is_used(topic):
        return False
    match topic.split("/")[3:]:
        case ["all", *_]:
            return user == COORDINATOR
        case ["up", device, _]:
            return user in (device, COORDINATOR)
        case ["down", _, _]:
            return user == COORDINATOR
        case ["proxy", "up", device, _]:
            return user == device
        case ["proxy", "down", _, _]:
            return user == PROXY
    raise AssertionError(topic)


def may_receive(user: str, topic: str) -> bool:
    """Say whether `user` may be given what was published on `topic`."""
    if not _is_used(topic):
        return False
    match topic.split("/")[3:]:
        case ["all", *_]:
            return True
        case ["up", _, _]:
            return user == COORDINATOR
        case ["down", device, _]:
            return user in (device, COORDINATOR)
        case ["proxy", "up", _, _]:
            return user == PROXY
        case ["proxy", "down", device, _]:
            return user == device
    raise AssertionError(topic)


def deliveries() -> Iterator[tuple[str, str, str]]:
    """Yield who must be given what: reader, topic, publisher; everything else is a leak."""
    for topic in all_topics():
        for publisher in filter(lambda user: may_publish(user, topic), USERS):
            for reader in filter(lambda user: may_receive(user, topic), USERS):
                yield reader, topic, publisher


def matrix_folder(folder: Path) -> int:
    """Write the folder of a Mosquitto for the three devices, and return its port."""
    port = free_port("127.0.0.1")
    write_broker_folder(BrokerFolder(folder, folder, port, FLEET, DEVICES))
    return port
