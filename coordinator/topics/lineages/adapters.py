"""End of an adapter, trained or given up: the lineage beneath it leads again."""

from __future__ import annotations

from fleetledger.coordinator.core.decision import Decision, record
from fleetledger.coordinator.core.state import State


def end_adapting(state: State) -> Decision:
    """Let the frozen model lead again on top of which an adapter leads; nothing if none does.

    What devices gave for it counts as before, and so do its variants and its temperature.
    """
    beneath = state.lineages.beneath
    return Decision() if beneath is None else record(beneath)
