"""Who may do what on which topic: one table, from which every broker gets its rules.

The MQTT user name of a device is its device id; the coordinator's is `coordinator`. The rules go
by user name and never by client id, which a client is free to choose. They name every leaf, so that
nobody makes topics of their own, whose retained messages the broker would keep.

    user          publishes                            receives
    a device      up/<itself>/LEAF                     down/<itself>/LEAF, all/state, all/blk
                  proxy/up/<itself>/LEAF               proxy/down/<itself>/LEAF
    coordinator   up, down, all/state, all/blk         up, down, all/state, all/blk
    proxy         as a device, and proxy/down          as a device, and proxy/up

What devices say to the proxy is thus kept from the coordinator, and what it answers too. The
coordinator writes in the name of devices where a bridge of a site speaks for them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.envelope import COORDINATOR, PROXY
from fleetledger.schemas.topics import (
    DOWN_LEAVES,
    PROXY_DOWN_LEAVES,
    PROXY_UP_LEAVES,
    ROOT,
    UP_LEAVES,
)
from fleetledger.transport.filters import covers

Action = Literal["publish", "receive"]

BROKER_LOG = "$SYS/broker/log/N"
"""Topic on which Mosquitto says who connects, where its configuration has `log_dest topic`."""
_ANY_FLEET = "+"


def _below(branch: str, who: str, leaves: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{branch}/{who}/{leaf}" for leaf in leaves)


_ALL = ("all/state", "all/blk/+")
_COORDINATOR = (*_below("up", "+", UP_LEAVES), *_below("down", "+", DOWN_LEAVES), *_ALL)
_DEVICE: dict[Action, tuple[str, ...]] = {
    "publish": (*_below("up", "%u", UP_LEAVES), *_below("proxy/up", "%u", PROXY_UP_LEAVES)),
    "receive": (
        *_below("down", "%u", DOWN_LEAVES),
        *_ALL,
        *_below("proxy/down", "%u", PROXY_DOWN_LEAVES),
    ),
}
_PROXY: dict[Action, tuple[str, ...]] = {
    "publish": _below("proxy/down", "+", PROXY_DOWN_LEAVES),
    "receive": _below("proxy/up", "+", PROXY_UP_LEAVES),
}
_VERBS: tuple[tuple[Action, str], ...] = (("publish", "write"), ("receive", "read"))
"""Mosquitto's words."""
_SHUT_OUT = "\nuser {}\ntopic deny #"


def allowed_filters(user: str, action: Action, fleet: str = _ANY_FLEET) -> tuple[str, ...]:
    """Return the filters under which `user` may publish or receive."""
    if user == COORDINATOR:
        log = (BROKER_LOG,) if action == "receive" else ()
        return (*_rooted(_COORDINATOR, fleet), *log)
    own = tuple(pattern.replace("%u", user) for pattern in _DEVICE[action])
    return _rooted((*own, *_PROXY[action]) if user == PROXY else own, fleet)


def is_allowed(user: str, action: Action, topic_or_filter: str) -> bool:
    """Say whether `user` may do `action` on the whole of `topic_or_filter`."""
    return any(covers(allowed, topic_or_filter) for allowed in allowed_filters(user, action))


def _rooted(filters: Iterable[str], fleet: str) -> tuple[str, ...]:
    return tuple(f"{ROOT}/{fleet}/{below}" for below in filters)


def fresh_client_id(user: str, role: str) -> str:
    """Return a client id that nobody else can compute: user, dot, role and 64 random bits.

    A broker ends a session when another client connects under its id, whatever that client's user
    name is. So an id lives as long as one run of a program and is told to nobody but the broker.
    """
    return f"{user}.{role}-{secrets.token_hex(8)}"


def client_id_belongs_to(user: str, client_id: str) -> bool:
    """Say whether `client_id` is `user` itself or `user` and a dotted suffix.

    The embedded broker lets in no other ids. Mosquitto takes any id and writes a line about it,
    by which the coordinator names the user (`transport.broker_watch`).
    """
    return client_id == user or client_id.startswith(f"{user}.")


def mosquitto_access_file(fleet: str = _ANY_FLEET, shut_out: Iterable[str] = ()) -> str:
    """Return the rules as the text of a Mosquitto `acl_file`.

    `fleet` is the only fleet that the broker serves. Users who are `shut_out` may do nothing, also
    those who are connected when the broker reads the file again.
    """
    # Patterns hold for every user, and would give the coordinator a place on the proxy's branch.
    lines = [f"user {COORDINATOR}", f"topic deny {ROOT}/+/proxy/#", f"topic read {BROKER_LOG}"]
    lines += [f"topic readwrite {allowed}" for allowed in _rooted(_COORDINATOR, fleet)]
    lines += ["", f"user {PROXY}"]
    for action, verb in _VERBS:
        lines += [f"topic {verb} {allowed}" for allowed in _rooted(_PROXY[action], fleet)]
    lines += [_SHUT_OUT.format(user) for user in shut_out]
    lines += [""]
    for action, verb in _VERBS:
        lines += [f"pattern {verb} {pattern}" for pattern in _rooted(_DEVICE[action], fleet)]
    return "\n".join(lines) + "\n"


def shuts_out(rules: str, user: str) -> bool:
    """Return whether the text of a Mosquitto `acl_file` lets a user do nothing."""
    return f"{_SHUT_OUT.format(user)}\n" in rules


class PasswordMisuse(Strict):
    """What was seen of a user whose password or certificate somebody else may have."""

    user: str = Field(max_length=200)
    foreign: int = 0
    """Sessions under client ids that are not the user's."""
    client_id: str = ""
    """The last of these ids, shortened."""
    opened: int = 0
    """Most sessions opened within ten minutes."""
    held: int = 0
    """Most sessions at a time."""
    since_ns: int
    last_ns: int
    """Of the first and the last sign, in nanoseconds since 1970."""

    @property
    def sentence(self) -> str:
        """What was seen, in words."""
        signs = []
        if self.foreign:
            times = "once" if self.foreign == 1 else f"{self.foreign} times"
            signs.append(f"{times} under the name of somebody else ({self.client_id})")
        if self.held:
            signs.append(f"with up to {count_of(self.held, 'session')} at a time")
        if self.opened:
            signs.append(f"up to {self.opened} times in ten minutes")
        return f"{self.user} connected to the broker {', '.join(signs)}"
