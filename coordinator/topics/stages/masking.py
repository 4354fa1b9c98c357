"""Masks where they can be: a method that gives sums of integers."""

from __future__ import annotations

from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError
from fleetledger.methods.errors import MethodError
from fleetledger.methods.registry import descriptor, statistics_coordinator, training_coordinator
from fleetledger.schemas.cohorts import MAX_LAYOUT_CLASSES


def check_masks(state: State) -> None:
    """Raise `CommandError` where what the fleet learns cannot be summed behind masks."""
    lineage = state.lineages.current
    assert lineage is not None  # a stage is opened with one
    side = training_coordinator if descriptor(lineage.method).trains else statistics_coordinator
    try:
        side(lineage.method).read_assignment(lineage.settings).masked_form()
    except MethodError as error:
        raise CommandError(str(error)) from error
    if len(state.classes.accepted_names) > MAX_LAYOUT_CLASSES:
        raise CommandError(
            f"masks: {count_of(len(state.classes.accepted_names), 'class name')}; there may be "
            f"{MAX_LAYOUT_CLASSES}, so set [privacy] masks = false"
        )
