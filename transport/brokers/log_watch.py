"""Whose password is misused, by what Mosquitto's log says of connections.

Mosquitto says of each session its client id and its user name, which the broker has checked by
password or certificate. Ours is the user name with a dot and more. So a session under a client id
of somebody else is an attempt to take a session's place, and one user with many sessions, or many
in a short time, is an attempt to fill the broker, or a device that is cut off again and again.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from fleetledger.schemas.envelope import COORDINATOR
from fleetledger.transport.access import PasswordMisuse, client_id_belongs_to

MOST_HELD = 8
"""Sessions of one user at a time: a device has two, and four while two installations run."""
MOST_HELD_BY_COORDINATOR = 100
MOST_OPENED = 100
"""Sessions of one user within `SPAN_SECONDS`."""
SPAN_SECONDS = 600.0
FORGET_SECONDS = 86_400.0
"""A user is named for so long after the last sign."""
_MOST_KNOWN = 20_000
_OPENED = re.compile(
    r"\S+: New (?:client|bridge) connected from \S+ as (?P<id>.*) "
    r"\(p\d+, c\d+, k\d+, u'(?P<user>[^']*)'\)\.",
    re.DOTALL,
)
_CLOSED = re.compile(
    r"\S+: Client (?P<id>.*?)"
    r"(?: closed its connection\.| disconnected.*| has exceeded timeout, disconnecting\.)",
    re.DOTALL,
)


@dataclass
class _User:
    open: set[str] = field(default_factory=set)
    times: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_OPENED * 10))
    misuse: PasswordMisuse | None = None


class LogWatch:
    """Reads lines of the log; lines of other kinds are passed over."""

    def __init__(self) -> None:
        self._users: OrderedDict[str, _User] = OrderedDict()
        self._owners: OrderedDict[str, str] = OrderedDict()
        """User of each client id that is connected."""

    def read(self, line: str, now_ns: int) -> PasswordMisuse | None:
        """Take a line; return what is known of a user of whom it is the first sign."""
        opened = _OPENED.fullmatch(line)
        if opened is None:
            closed = _CLOSED.fullmatch(line)
            if closed is not None:
                self._leave(closed["id"])
            return None
        return self._came(opened["user"], opened["id"], now_ns)

    def found(self, now_ns: int) -> tuple[PasswordMisuse, ...]:
        """Return what was seen within a day, by user."""
        oldest = now_ns - int(FORGET_SECONDS * 1e9)
        found = [known.misuse for known in self._users.values() if known.misuse is not None]
        return tuple(
            sorted((one for one in found if one.last_ns >= oldest), key=lambda one: one.user)
        )

    def _came(self, name: str, client_id: str, now_ns: int) -> PasswordMisuse | None:
        self._leave(client_id)
        user = self._users.setdefault(name, _User())
        self._users.move_to_end(name)
        self._owners[client_id] = name
        while len(self._owners) > _MOST_KNOWN:
            self._leave(next(iter(self._owners)))
        while len(self._users) > _MOST_KNOWN:
            self._users.popitem(last=False)
        user.open.add(client_id)
        user.times.append(now_ns / 1e9)
        while user.times[0] < now_ns / 1e9 - SPAN_SECONDS:
            user.times.popleft()
        before = user.misuse
        user.misuse = self._judged(name, user, client_id, now_ns)
        return user.misuse if before is None else None

    def _judged(self, name: str, user: _User, client_id: str, now_ns: int) -> PasswordMisuse | None:
        most = MOST_HELD_BY_COORDINATOR if name == COORDINATOR else MOST_HELD
        foreign = not client_id_belongs_to(name, client_id)
        held = len(user.open) if len(user.open) > most else 0
        opened = len(user.times) if len(user.times) > MOST_OPENED else 0
        if not (foreign or held or opened):
            return user.misuse
        known = user.misuse or PasswordMisuse(user=name[:200], since_ns=now_ns, last_ns=now_ns)
        return known.model_copy(
            update={
                "foreign": known.foreign + foreign,
                "client_id": client_id[:80] if foreign else known.client_id,
                "opened": max(known.opened, opened),
                "held": max(known.held, held),
                "last_ns": now_ns,
            }
        )

    def _leave(self, client_id: str) -> None:
        owner = self._owners.pop(client_id, None)
        if owner is not None and owner in self._users:
            self._users[owner].open.discard(client_id)
