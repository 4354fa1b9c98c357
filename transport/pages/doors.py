"""The ways in: a link that works once, then a session; a bearer token for a program."""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from fleetledger.transport.pages.grants import Grants
from fleetledger.transport.pages.people import Person

LINK_SECONDS = 24 * 3600.0
IDLE_SECONDS = 12 * 3600.0
"""A session that is not used for so long has ended."""
FAILURES = 10
"""Wrong secrets of one address within `FAILURE_SECONDS`, after which none is looked at."""
FAILURE_SECONDS = 60.0
_MOST_ADDRESSES = 1000


@dataclass
class Failures:
    """Wrong secrets of late, by the address that they came from."""

    now_ns: Callable[[], int]
    _times: OrderedDict[str, deque[int]] = field(default_factory=OrderedDict)

    def note(self, address: str) -> None:
        """Note a wrong secret."""
        times = self._times.setdefault(address, deque(maxlen=FAILURES))
        times.append(self.now_ns())
        self._times.move_to_end(address)
        while len(self._times) > _MOST_ADDRESSES:
            self._times.popitem(last=False)

    def too_many(self, address: str) -> bool:
        """Whether nothing more of this address is looked at for now."""
        times = self._times.get(address)
        if times is None:
            return False
        return len(times) == FAILURES and self.now_ns() - times[0] < FAILURE_SECONDS * 1e9


@dataclass(frozen=True)
class Came:
    """Who asks, where they said it rightly; `wrong` where they said something that is not so."""

    person: Person | None = None
    session: str | None = None
    wrong: bool = False


@dataclass(frozen=True)
class Doors:
    """The ways in of one program."""

    links: Grants
    sessions: Grants
    tokens: Grants
    failures: Failures
    cookie: str
    """Its name; the home is in it, since browsers share cookies between the ports of a host."""

    @classmethod
    def of(cls, home: Path, now_ns: Callable[[], int], program: str = "dashboard") -> Doors:
        """Return the ways into a program over `home`; its files there begin with its name."""
        home_hash = hashlib.sha256(str(home.resolve()).encode()).hexdigest()
        return cls(
            Grants(home / f"{program}-links.json", idle_seconds=LINK_SECONDS),
            Grants(home / f"{program}-sessions.json", idle_seconds=IDLE_SECONDS),
            Grants(home / f"{program}-tokens.json"),
            Failures(now_ns),
            f"fleetledger_{home_hash[:8]}",
        )

    def who(self, headers: Headers, now_ns: int) -> Came:
        """Return who asks, by a bearer token or a session."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            person = self.tokens.use(token.strip(), now_ns)
            return Came(person, wrong=person is None)
        session = cookie_parser(headers.get("cookie", "")).get(self.cookie)
        if not session:
            return Came()
        person = self.sessions.use(session, now_ns)
        return Came(person, session if person else None)
