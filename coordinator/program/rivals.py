"""Other coordinators of the same fleet: a copied home, a restored backup, another fleet's name.

The broker gives a coordinator its own births back, and those of any other one. So:

- A birth or a heartbeat of another run may come late, of a run that is over. This one names it as
  heard in a birth of its own, and counts it as alive once a birth of it names this run in turn:
  nobody could name it who had not heard it.
- What the broker had kept counts for nothing: whoever is alive answers to our own birth.
- A run is gone when its death comes, which the broker tells where the connection is lost. With a
  new connection of our own all are asked again.

While there is another one, nothing is taken in and nothing is decided, on both sides: devices keep
what they have until one is left.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.log_lines import about
from fleetledger.schemas import presence
from fleetledger.schemas.envelope import Envelope, decode
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.values import BootId, FleetId
from fleetledger.transport.interface import IncomingMessage

log = logging.getLogger("coordinator")


@dataclass
class Rivals:
    """Which other coordinators of this fleet are alive."""

    fleet: FleetId
    boot: BootId
    key: VerifyKey | None
    heard: set[BootId] = field(default_factory=set)
    """Other runs that did not name this one so far."""
    alive: set[BootId] = field(default_factory=set)
    """Other runs that named this one."""
    copies: set[BootId] = field(default_factory=set)
    """Runs whose words this coordinator's own key signed."""
    echoed: bool = False
    """Whether the broker has given this one's own words back on this connection."""

    @property
    def names(self) -> tuple[BootId, ...]:
        """The other runs that are alive, as a birth names them."""
        return tuple(sorted(self.alive))[: presence.MAX_BESIDE]

    @property
    def asked(self) -> tuple[BootId, ...]:
        """The runs that are to name this one if they are alive, as a birth names them."""
        return tuple(sorted(self.heard))[: presence.MAX_BESIDE]

    def forget(self) -> None:
        """Ask all anew: deaths may have been told while there was no connection."""
        self.heard.clear()
        self.alive.clear()
        self.copies.clear()
        self.echoed = False

    @property
    def unheard(self) -> str:
        """Return that the broker does not carry the fleet's messages; empty where it does."""
        if self.echoed:
            return ""
        return (
            f"the broker takes the connection, and carries nothing of fleet {self.fleet}: what "
            "this coordinator says there does not come back. It is another fleet's broker, or its "
            "access rules are another fleet's: look at `host` and `port` of [broker] in "
            "coordinator.toml; `fleetledger coordinator broker-config --out DIR` writes the rules"
        )

    @property
    def text(self) -> str:
        """Return which coordinators there are, and the way out; empty where this one is alone."""
        if not self.alive:
            return ""
        others = " and ".join(self.names)
        same = self.copies >= self.alive
        how = (
            "its key is this one's: a copy of this home, or a restored backup"
            if same
            else "its key is another one: another fleet has this one's name"
        )
        return (
            f"coordinator: another one runs for fleet {self.fleet} at this broker. This one is run "
            f"{self.boot}, the other {others}; {how}. Nothing is taken in or sent out until one is "
            "left: stop the one that should not run"
        )

    def observe(self, message: IncomingMessage) -> bool:
        """Take what came on the topic of coordinators; return whether to announce this one anew."""
        try:
            envelope = decode(message.payload)
        except SchemaError:
            return False
        header = envelope.header
        self.echoed = self.echoed or header.boot == self.boot
        if message.retained or header.boot == self.boot or header.fleet != self.fleet:
            return False
        match header.kind:
            case presence.CoordinatorDeath.kind:
                return self._gone(header.boot)
            case presence.CoordinatorBirth.kind | presence.CoordinatorHeartbeat.kind:
                return self._lives(envelope, message.topic)
            case _:
                return False

    def _lives(self, envelope: Envelope, topic: str) -> bool:
        boot = envelope.header.boot
        if boot in self.alive:
            return False
        if not self._names_this_one(envelope):
            self.heard.add(boot)
            return True
        self.heard.discard(boot)
        self.alive.add(boot)
        if self._is_copy(envelope, topic):
            self.copies.add(boot)
        log.error("%s", self.text, extra=about("coordinator.doubled", other=str(boot)))
        return True

    def _names_this_one(self, envelope: Envelope) -> bool:
        if envelope.header.kind != presence.CoordinatorBirth.kind:
            return False
        try:
            birth = envelope.read(presence.CoordinatorBirth)
        except SchemaError:
            return False
        return self.boot in (*birth.heard, *birth.beside)

    def _gone(self, boot: BootId) -> bool:
        """Forget a run; its death stands in place of our birth at the broker."""
        self.heard.discard(boot)
        if boot in self.alive:
            self.alive.discard(boot)
            if not self.alive:
                log.warning("no other coordinator is left", extra=about("coordinator.alone"))
        return True

    def _is_copy(self, envelope: Envelope, topic: str) -> bool:
        if self.key is None:
            return False
        try:
            envelope.check_signature(self.key, topic)
        except SchemaError:
            return False
        return True
