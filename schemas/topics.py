"""Topics: `fleetledger/1/<fleet>/{up,down}/<device>/<leaf>` and `fleetledger/1/<fleet>/all/<leaf>`.

Blocks of a file that several devices fetch go once to `fleetledger/1/<fleet>/all/blk/<digest>`.

The device id is the MQTT user name, so a broker's access rule by user name (`%u`) keeps every
device to its own branch. Birth and death share one retained topic (`state`), because MQTT keeps
order per topic only.

A proxy, which some methods have beside the coordinator, speaks with devices on branches of its own:
`fleetledger/1/<fleet>/proxy/{up,down}/<device>/<leaf>`, which the coordinator need not be able to
read. With the coordinator it speaks as the device `proxy`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, get_args

from fleetledger.runtime.errors import InvalidValueError
from fleetledger.schemas.values import DeviceId, Digest, FleetId, ValidatedText

PROTOCOL_VERSION = 1
ROOT = f"fleetledger/{PROTOCOL_VERSION}"

UpLeaf = Literal["state", "msg", "hb", "req", "blk"]
DownLeaf = Literal["assignment", "desired", "rcpt", "ctl", "req", "blk"]
Branch = Literal["", "proxy"]
UP_LEAVES: tuple[str, ...] = get_args(UpLeaf)
DOWN_LEAVES: tuple[str, ...] = get_args(DownLeaf)
PROXY_UP_LEAVES: tuple[UpLeaf, ...] = ("msg", "req", "blk")
PROXY_DOWN_LEAVES: tuple[DownLeaf, ...] = ("rcpt", "req", "blk")
"""Leaves in use between devices and a proxy."""

_KEPT = 1 << 13
"""Topics that are kept ready: those of a thousand devices and more, in at most 2 MB."""
_UNCONFIRMED = frozenset({"hb", "req", "blk"})


def qos_of(leaf: str) -> Literal[0, 1]:
    """Return the quality of service on topics with this leaf: 0 for what is soon out of date."""
    return 0 if leaf in _UNCONFIRMED else 1


class Topic(ValidatedText):
    """A topic to publish on: no wildcards, no empty level, at most 200 characters."""

    pattern: ClassVar[re.Pattern[str]] = re.compile(r"(?=.{1,200}\Z)[^+#/\x00]+(/[^+#/\x00]+)*")
    rule: ClassVar[str] = "levels divided by '/', none empty, without '+' and '#'"


@dataclass(frozen=True)
class DeviceTopic:
    """What a topic says: whose branch, which direction, which leaf."""

    direction: Literal["up", "down"]
    device: DeviceId
    leaf: str


@dataclass(frozen=True)
class FleetTopics:
    """All topics of one fleet.

    The law: `parse(up(device, leaf)) == DeviceTopic("up", device, leaf)`, and likewise for `down`.
    """

    fleet: FleetId
    branch: Branch = ""
    """`proxy` for what devices and the proxy say to each other."""

    @property
    def coordinator_state(self) -> Topic:
        """Retained birth or death of the coordinator."""
        return Topic(f"{ROOT}/{self.fleet}/all/state")

    def shared_blocks(self, digest: Digest) -> Topic:
        """Topic of the blocks of one file, for every device that fetches it."""
        return _topic(f"{ROOT}/{self.fleet}/all/blk/{digest}")

    def shared_digest(self, topic: str) -> Digest | None:
        """Return whose blocks a topic carries to every device; None for any other topic."""
        before, _, digest = topic.rpartition("/")
        if before != f"{ROOT}/{self.fleet}/all/blk" or not Digest.pattern.fullmatch(digest):
            return None
        return Digest.known(digest)

    def up(self, device: DeviceId, leaf: UpLeaf) -> Topic:
        """Topic on which `device` sends."""
        return _topic(f"{self._root}/up/{device}/{leaf}")

    def down(self, device: DeviceId, leaf: DownLeaf) -> Topic:
        """Topic on which the coordinator sends to `device`."""
        return _topic(f"{self._root}/down/{device}/{leaf}")

    def from_every_device(self, *leaves: UpLeaf) -> tuple[str, ...]:
        """Return filters for what all devices send on the given leaves."""
        return tuple(f"{self._root}/up/+/{leaf}" for leaf in leaves)

    def to_device(self, device: DeviceId, *leaves: DownLeaf) -> tuple[str, ...]:
        """Return filters for what one device receives on the given leaves."""
        return tuple(str(self.down(device, leaf)) for leaf in leaves)

    def below(self, topic: str) -> str:
        """Return what follows the fleet in a topic, such as `up/dev-1/msg`.

        Raises `InvalidValueError` for a topic of another fleet.
        """
        prefix = f"{ROOT}/{self.fleet}/"
        if not topic.startswith(prefix):
            raise InvalidValueError("topic", topic, f"expected one below {prefix}")
        return topic[len(prefix) :]

    def parse(self, topic: str) -> DeviceTopic:
        """Read a device topic; raise `InvalidValueError` for anything else."""
        return _parsed(self._root, topic)

    @property
    def _root(self) -> str:
        own = f"{ROOT}/{self.fleet}"
        return f"{own}/{self.branch}" if self.branch else own


_topic = lru_cache(maxsize=_KEPT)(Topic)
"""Topics of devices, checked once each."""


@lru_cache(maxsize=_KEPT)
def _parsed(root: str, topic: str) -> DeviceTopic:
    levels = topic.split("/")
    branch = root.split("/")
    if len(levels) != len(branch) + 3 or levels[: len(branch)] != branch:
        raise InvalidValueError("topic", topic, f"expected {root}/up|down/…")
    direction, device, leaf = levels[-3:]
    if direction == "up" and leaf in UP_LEAVES:
        return DeviceTopic("up", DeviceId(device), leaf)
    if direction == "down" and leaf in DOWN_LEAVES:
        return DeviceTopic("down", DeviceId(device), leaf)
    leaves = f"up/<device>/({'|'.join(UP_LEAVES)}) or down/<device>/({'|'.join(DOWN_LEAVES)})"
    raise InvalidValueError("topic", topic, f"after {root} comes {leaves}")
