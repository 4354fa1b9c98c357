"""Stages: opened by the operator or by reports, closed on quorum and quiet, or on the deadline."""

from __future__ import annotations

import math
from collections.abc import Callable

from coordinator.core import entries
from coordinator.core.background import check_classes
from coordinator.core.decision import Decision, record, together
from coordinator.core.live import NANOSECONDS, Live
from coordinator.core.records import Device, Stage
from coordinator.core.room import check_room
from coordinator.core.rules import StageRules
from coordinator.core.state import State
from coordinator.core.wording import some
from coordinator.errors import CommandError
from schemas.class_names import fault_of
from schemas.presence import Capabilities
from schemas.values import ClassName

CanLearn = Callable[[Capabilities, str], bool]
"""Whether a device with these capabilities can run the learning phase of the named method."""


def check_new_name(name: ClassName) -> None:
    """Raise `CommandError` where a name that is new to the fleet hides something."""
    fault = fault_of(name)
    if fault:
        raise CommandError(f"class: {str(name)!a} {fault}")


class Stages:
    """Decides when a stage opens and closes."""

    def __init__(self, rules: StageRules, state: State, live: Live, can_learn: CanLearn) -> None:
        self._rules = rules
        self._state = state
        self._live = live
        self._can_learn = can_learn

    def open(
        self, class_names: tuple[ClassName, ...], *, actor: str, reason: str | None = None
    ) -> Decision:
        """Register new names and open a stage; raise `CommandError` if that makes no sense."""
        state = self._state
        if state.lineage is None:
            raise CommandError(
                "stage: nothing to learn with; first `fleetledger model import-backbone`, or "
                "`model import-network` for a method that trains"
            )
        if len(set(class_names)) != len(class_names):
            raise CommandError("class_names: a name is given twice; give each once")
        for name in class_names:
            if name in state.classes.aliases:
                meant = state.classes.resolve(name)
                raise CommandError(
                    f"class: {str(name)!r} is another name of {str(meant)!r}; open {str(meant)!r}"
                )
        check_classes(state, class_names)
        self._check_first_weights(class_names)
        new_names = tuple(name for name in class_names if not state.classes.knows(name))
        for name in new_names:
            check_new_name(name)
        check_room(state, new_names, class_names)
        closing = self._close_current("the next stage was opened")
        named = together(
            record(entries.ClassNamed(name=name, index=state.classes.next_index + i), actor=actor)
            for i, name in enumerate(new_names)
        )
        stage = (state.current_stage or 0) + 1
        opened = entries.StageOpened(stage=stage, class_names=class_names, reason=reason or actor)
        return closing + named + record(opened, actor=actor)

    def lacking(self) -> tuple[ClassName, ...]:
        """Return the classes of a network's first weights that no stage has named yet."""
        network = self._state.network
        if network is None:
            return ()
        return tuple(name for name in network.class_names if not self._state.classes.knows(name))

    def _check_first_weights(self, class_names: tuple[ClassName, ...]) -> None:
        lacking = [name for name in self.lacking() if name not in class_names]
        if lacking:
            raise CommandError(
                f"class_names: the network began with weights that know {', '.join(lacking)}; open "
                "the stage for them first, or for them too"
            )

    def close(self, *, actor: str) -> Decision:
        """Close the open stage now; raise `CommandError` if none is open."""
        decision = self._close_current("closed by the operator", actor=actor)
        if not decision.entries:
            raise CommandError("stage: none is open; `fleetledger coordinator stages` lists them")
        return decision

    def unfinished(self) -> list[str]:
        """Return what an open stage still waits for, a sentence; nothing where it does not."""
        number = self._state.open_stage
        if number is None:
            return []
        answered, expected = self.answered_and_expected(number)
        if self._state.network is not None:
            return [f"stage {number} is still trained; the next stage closes it as it is"]
        if answered >= expected:
            return []
        missing = [
            name
            for name, device in self._state.devices.items()
            if self._invited(device) and not device.answered(number)
        ]
        return [
            f"stage {number} is open, and {expected - answered} of {expected} devices have not "
            f"answered yet: {some(missing)}; the next stage closes it"
        ]

    def finish(self, reason: str) -> Decision:
        """Close the open stage of a network, whose rounds are done."""
        return self._close_current(reason)

    def look(self, now_ns: int) -> Decision:
        """Close the current stage if it has what it waits for; rounds close theirs themselves."""
        number = self._state.open_stage
        if number is None or self._state.network is not None:
            return Decision()
        stage = self._state.stages[number]
        reason = self._reason_to_close(number, stage, now_ns)
        if reason and self._gathers(number, stage, now_ns):
            return Decision()
        return self._close_current(reason) if reason else Decision()

    def answered_and_expected(self, number: int) -> tuple[int, int]:
        """Count the devices that answered, of those that are able to (or not yet heard of)."""
        invited = [device for device in self._state.devices.values() if self._invited(device)]
        if self._state.network is None:
            return sum(device.answered(number) for device in invited), len(invited)
        of_stage = {
            item.opened.number
            for item in self._state.rounds.values()
            if item.opened.stage == number
        }
        answered = sum(not of_stage.isdisjoint(device.answers) for device in invited)
        return answered, len(invited)

    def invited(self) -> int:
        """Count the devices that are able to learn (or not yet heard of)."""
        return sum(self._invited(device) for device in self._state.devices.values())

    def _invited(self, device: Device) -> bool:
        lineage = self._state.lineage
        if device.keys.revoked:
            return False
        if device.capabilities is None or lineage is None:
            return True
        return self._can_learn(device.capabilities, lineage.method)

    def _reason_to_close(self, number: int, stage: Stage, now_ns: int) -> str:
        age = (now_ns - stage.opened_ns) / NANOSECONDS
        if age >= self._rules.deadline_seconds:
            return f"deadline of {self._rules.deadline_seconds:g} s"
        if stage.last_answer_ns is None:
            return ""
        quiet = (now_ns - stage.last_answer_ns) / NANOSECONDS
        if quiet < self._rules.quiet_seconds:
            return ""
        answered, expected = self.answered_and_expected(number)
        if answered < math.ceil(self._rules.quorum * expected):
            return ""
        return f"quorum and {self._rules.quiet_seconds:g} s of quiet"

    def _gathers(self, number: int, stage: Stage, now_ns: int) -> bool:
        """Whether devices that have not answered may not have come back yet after a start.

        What passed while nobody could answer is no silence of theirs.
        """
        started = self._live.started_ns
        if started is None or stage.opened_ns >= started:
            return False
        answered, expected = self.answered_and_expected(number)
        return answered < expected and (now_ns - started < self._rules.gather_seconds * NANOSECONDS)

    def _close_current(self, reason: str, *, actor: str = entries.COORDINATOR) -> Decision:
        number = self._state.current_stage
        if number is None or self._state.stages[number].closed_index is not None:
            return Decision()
        answered, expected = self.answered_and_expected(number)
        body = entries.StageClosed(
            stage=number, reason=reason, answered=answered, expected=expected
        )
        return record(body, actor=actor)
