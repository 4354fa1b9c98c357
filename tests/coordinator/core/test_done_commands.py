"""Of commands that were carried out the last answers are known, however many there were."""

from __future__ import annotations

from fleetledger.coordinator.core.done_commands import KEPT_ANSWERS, CommandDone
from fleetledger.coordinator.core.state import State


def test_the_newest_answers_are_kept() -> None:
    state = State()
    for number in range(KEPT_ANSWERS + 3):
        state.apply(CommandDone(ticket=f"ticket-{number}", text="done"), None, 0)
    answers = list(state.done.answers)
    assert answers == [f"ticket-{number}" for number in range(3, KEPT_ANSWERS + 3)]
