"""What of a lineage is somebody's own: whether it is here, and else what is to be installed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from fleetledger.methods.registry import METHODS, descriptor
from fleetledger.runtime.errors import FleetledgerError, cut
from fleetledger.runtime.installed_version import installed_version
from fleetledger.runtime.registry import Origin, Registry
from fleetledger.schemas.requirements import Requirement, are_of
from fleetledger.schemas.values import Digest

MOST_CHARACTERS = 500
"""As many as a message carries."""


def requirements(method: str, network: str | None = None) -> tuple[Requirement, ...]:
    """Return what a method and its network need beside fleetledger; nothing for our own."""
    found = []
    if (origin := METHODS.origin(method)) is not None:
        found.append(Requirement.of("method", method, origin))
    if network is not None:
        networks = _networks()
        if network in networks and (origin := networks.origin(network)) is not None:
            found.append(Requirement.of("network", network, origin))
    return tuple(found)


def lacking(requires: Iterable[Requirement], then: str) -> str:
    """Return what is to be installed, and `then` to be done; empty where all is here."""
    told = defaultdict[str, list[Requirement]](list)
    for each in requires:
        if lacks := _lacking(each, then):
            told[f"{each.whose}{lacks}"].append(each)
    return cut(
        "; ".join(f"{are_of(items)} {text}" for text, items in told.items()), MOST_CHARACTERS
    )


def unable(method: str, requires: Iterable[Requirement], then: str) -> str:
    """Return why a method cannot be had here; empty where it can.

    `then` is what is to be done after a distribution was installed.
    """
    if lacks := lacking(requires, then):
        return lacks
    if method not in METHODS:
        return (
            f"method {method!r} is unknown to fleetledger {installed_version()} here; install the "
            f"coordinator's version and {then}"
        )
    try:
        descriptor(method)
    except FleetledgerError as error:
        return cut(str(error), MOST_CHARACTERS)
    return ""


def _lacking(needed: Requirement, then: str) -> str:
    """Return what is said of a requirement's distribution; empty where it is here."""
    here = _origin(needed)
    if here is None:
        return f", which is not installed here; install it ({needed.install}) and {then}"
    found = Requirement.of(needed.kind, needed.name, here)
    if found.digest == needed.digest:
        return ""
    codes = f"{_short(found.digest)} where the fleet's is {_short(needed.digest)}"
    return (
        f": {found.whose} here has other code ({codes}); install the fleet's "
        f"({needed.install}) and {then}"
    )


def _origin(needed: Requirement) -> Origin | None:
    """Return where this machine has it from; None where it has not."""
    table = METHODS if needed.kind == "method" else _networks()
    return table.origin(needed.name) if needed.name in table else None


def _networks() -> Registry[object]:
    from fleetledger.learning.networks.registry import NETWORKS  # noqa: PLC0415 - few need one of others

    return NETWORKS


def _short(digest: Digest | None) -> str:
    return "none" if digest is None else f"{digest[:6]}…"
