"""Contributions that were set aside, and the operator's word that they count."""

from __future__ import annotations

from fleetledger.coordinator.core.decision import Decision, record
from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.contributions.commands import CountIn
from fleetledger.coordinator.topics.contributions.entries import MAX_MOVED, ContributionsCountedIn


def count_in(state: State, command: CountIn) -> tuple[Decision, str]:
    """Let parts of a device count that were set aside; raise `CommandError` for none.

    They are not set aside again.
    """
    counted = state.contributions.counted
    found = sorted(
        index
        for index in counted.set_aside
        if counted[index].device == command.device and command.part in (None, counted[index].key)
    )
    if not found:
        raise CommandError(
            f"device: nothing of {str(command.device)!r} is set aside; `fleetledger coordinator "
            "status` names what is"
        )
    body = ContributionsCountedIn(
        device=command.device, indices=tuple(found[:MAX_MOVED]), reason=command.reason
    )
    said = count_of(len(body.indices), "contribution")
    return record(body, actor=OPERATOR), f"{said} of device {command.device} counted in"
