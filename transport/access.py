"""Who may do what on which topic: one table, from which every broker gets its rules.

The MQTT user name of a device is its device id; the coordinator's is `coordinator`. The rules go
by user name and never by client id, which a client is free to choose.

    user          publishes                            receives
    a device      up/<itself>/#                        down/<itself>/#, all/#
                  proxy/up/<itself>/#                  proxy/down/<itself>/#
    coordinator   up/#, down/#, all/#                  up/#, down/#, all/#
    proxy         as a device, and proxy/down/#        as a device, and proxy/up/#

What devices say to the proxy is thus kept from the coordinator, and what it answers too.
"""

from __future__ import annotations

import secrets
from typing import Literal

from schemas.envelope import COORDINATOR, PROXY
from schemas.topics import ROOT
from transport.filters import covers

Action = Literal["publish", "receive"]

_COORDINATOR_FILTERS = tuple(f"{ROOT}/+/{branch}/#" for branch in ("up", "down", "all"))
_DEVICE_FILTERS: dict[Action, tuple[str, ...]] = {
    "publish": (f"{ROOT}/+/up/%u/#", f"{ROOT}/+/proxy/up/%u/#"),
    "receive": (f"{ROOT}/+/down/%u/#", f"{ROOT}/+/all/#", f"{ROOT}/+/proxy/down/%u/#"),
}
_PROXY_FILTERS: dict[Action, str] = {
    "publish": f"{ROOT}/+/proxy/down/#",
    "receive": f"{ROOT}/+/proxy/up/#",
}
_VERBS: tuple[tuple[Action, str], ...] = (("publish", "write"), ("receive", "read"))
"""Mosquitto's words."""


def allowed_filters(user: str, action: Action) -> tuple[str, ...]:
    """Return the filters under which `user` may publish or receive."""
    if user == COORDINATOR:
        return _COORDINATOR_FILTERS
    own = tuple(pattern.replace("%u", user) for pattern in _DEVICE_FILTERS[action])
    return (*own, _PROXY_FILTERS[action]) if user == PROXY else own


def is_allowed(user: str, action: Action, topic_or_filter: str) -> bool:
    """Say whether `user` may do `action` on the whole of `topic_or_filter`."""
    return any(covers(allowed, topic_or_filter) for allowed in allowed_filters(user, action))


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


def mosquitto_access_file() -> str:
    """Return the rules as the text of a Mosquitto `acl_file`."""
    # Patterns hold for every user, and would give the coordinator a place on the proxy's branch.
    lines = [f"user {COORDINATOR}", f"topic deny {ROOT}/+/proxy/#"]
    lines += [f"topic readwrite {allowed}" for allowed in _COORDINATOR_FILTERS]
    lines += ["", f"user {PROXY}"]
    lines += [f"topic {verb} {_PROXY_FILTERS[action]}" for action, verb in _VERBS]
    lines += [""]
    for action, verb in _VERBS:
        lines += [f"pattern {verb} {pattern}" for pattern in _DEVICE_FILTERS[action]]
    return "\n".join(lines) + "\n"
