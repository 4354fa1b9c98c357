"""Who may do what on which topic: one table, from which every broker gets its rules.

The MQTT user name of a device is its device id; the coordinator's is `coordinator`. The rules go
by user name and never by client id, which a client is free to choose.

    user          publishes               receives
    a device      up/<itself>/#           down/<itself>/#, all/#
    coordinator   everything of a fleet   everything of a fleet
"""

from __future__ import annotations

from typing import Literal

from schemas.envelope import COORDINATOR
from schemas.topics import ROOT
from transport.filters import covers

Action = Literal["publish", "receive"]

_EVERYTHING = f"{ROOT}/#"
_DEVICE_FILTERS: dict[Action, tuple[str, ...]] = {
    "publish": (f"{ROOT}/+/up/%u/#",),
    "receive": (f"{ROOT}/+/down/%u/#", f"{ROOT}/+/all/#"),
}


def allowed_filters(user: str, action: Action) -> tuple[str, ...]:
    """Return the filters under which `user` may publish or receive."""
    if user == COORDINATOR:
        return (_EVERYTHING,)
    return tuple(pattern.replace("%u", user) for pattern in _DEVICE_FILTERS[action])


def is_allowed(user: str, action: Action, topic_or_filter: str) -> bool:
    """Say whether `user` may do `action` on the whole of `topic_or_filter`."""
    return any(covers(allowed, topic_or_filter) for allowed in allowed_filters(user, action))


def client_id_belongs_to(user: str, client_id: str) -> bool:
    """Say whether `client_id` is `user` itself or `user` and a dotted suffix.

    A client id opens a session with its queued messages, so a broker that lets one user take
    another's client id would hand these over.
    """
    return client_id == user or client_id.startswith(f"{user}.")


def mosquitto_access_file() -> str:
    """Return the rules as the text of a Mosquitto `acl_file`."""
    lines = [f"user {COORDINATOR}", f"topic readwrite {_EVERYTHING}", ""]
    verbs: tuple[tuple[Action, str], ...] = (("publish", "write"), ("receive", "read"))
    for action, verb in verbs:
        lines += [f"pattern {verb} {pattern}" for pattern in _DEVICE_FILTERS[action]]
    return "\n".join(lines) + "\n"
