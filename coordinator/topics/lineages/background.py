"""The one name that no class has in a fleet whose networks give every pixel a class.

Pixels of no class are background: the first row of every head, which nobody registers. A class of
that name would be a second row of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.lineages.entries import Lineage
from fleetledger.schemas.models import BACKGROUND
from fleetledger.schemas.values import ClassName


def is_taken(state: State, name: ClassName) -> bool:
    """Whether the name is the background's of this fleet's network."""
    lineage = state.lineages.current
    return name == BACKGROUND and lineage is not None and lineage.segments


def check_classes(state: State, names: Iterable[ClassName]) -> None:
    """Raise `CommandError` where a class would have the name of the background."""
    if any(is_taken(state, name) for name in names):
        raise CommandError(
            f"class: {BACKGROUND!r} is what the fleet's network calls pixels of no class; give the "
            "class another name"
        )


def check_network(state: State, lineage: Lineage) -> None:
    """Raise `CommandError` where a network of pixels would find a class of that name."""
    if not lineage.segments:
        return
    if BACKGROUND in lineage.class_names:
        raise CommandError(
            f"first weights: they know a class {BACKGROUND!r}, and the network's first row is that "
            "already; write the file with the names of the other rows alone"
        )
    if BACKGROUND in state.classes.indices:
        raise CommandError(
            f"class: {BACKGROUND!r} is registered, and a network that gives every pixel a class "
            f"calls pixels of no class so; first `fleetledger class rename {BACKGROUND} NAME`"
        )
