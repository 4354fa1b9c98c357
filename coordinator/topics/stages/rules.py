"""Stages: opened by the operator or by reports, closed on quorum and quiet, or on the deadline."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from fleetledger.coordinator.core.decision import Decision, record, together
from fleetledger.coordinator.core.entry import COORDINATOR, OPERATOR
from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.core.rules import PrivacyRules, StageRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError, QuestionError
from fleetledger.coordinator.live.snapshot import StageWait
from fleetledger.coordinator.topics.classes.entries import ClassNamed
from fleetledger.coordinator.topics.classes.rules import check_new_name
from fleetledger.coordinator.topics.lineages.background import check_classes
from fleetledger.coordinator.topics.lineages.capacity import check_capacity
from fleetledger.coordinator.topics.lineages.rules import end_adapting
from fleetledger.coordinator.topics.stages.commands import CloseStage, StageCommand
from fleetledger.coordinator.topics.stages.entries import StageClosed, StageOpened
from fleetledger.coordinator.topics.stages.masking import check_masks
from fleetledger.coordinator.topics.stages.name_checks import doubts_about
from fleetledger.coordinator.topics.stages.state import Stage
from fleetledger.methods.registry import descriptor
from fleetledger.runtime.count_words import agree, count_of
from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.requirements import Requirement
from fleetledger.schemas.values import ClassName, DeviceId

CanLearn = Callable[[Capabilities, str, Iterable[Requirement]], bool]
"""Whether a device with these capabilities can run the learning phase of the named method, which
requires what is not fleetledger's own."""


_LOOK_NS = 5 * NANOSECONDS
"""How long it counts who is away for too long."""


class Stages:
    """Decides when a stage opens and closes."""

    def __init__(
        self,
        rules: StageRules,
        state: State,
        live: Live,
        can_learn: CanLearn,
        privacy: PrivacyRules = PrivacyRules(),  # noqa: B008 - frozen
    ) -> None:
        self._rules = rules
        self._privacy = privacy
        self._state = state
        self._live = live
        self._can_learn = can_learn
        self._counted_at = (-1, -1)
        """The stage whose answers were counted last, and the size of the ledger then."""
        self._counted = (0, 0)
        self._away: list[DeviceId] = []
        """Devices that are away for too long, as they were seen last."""
        self._away_at, self._away_until = -1, -1

    def carry_out(self, command: StageCommand) -> tuple[Decision, str]:
        """Return what a command decides and a sentence for the operator."""
        if isinstance(command, CloseStage):
            return self.close(actor=OPERATOR), "the stage is closed"
        names = command.class_names
        decision = self.open(names, actor=OPERATOR)
        if command.asks:
            self._ask_about(names)
        stage = (self._state.stages.current or 0) + 1
        untold = self._untold(names)
        lacks = f"; no device has told of samples of {some(untold)} yet" if untold else ""
        return decision, f"stage {stage} is open for {', '.join(names)}{lacks}"

    def _ask_about(self, names: tuple[ClassName, ...]) -> None:
        """Raise `QuestionError` where names look mistyped, or devices are missing in a stage."""
        doubts = doubts_about(self._state, names) + self.unfinished()
        if doubts:
            raise QuestionError("\n".join(doubts))

    def open(
        self, class_names: tuple[ClassName, ...], *, actor: str, reason: str | None = None
    ) -> Decision:
        """Register new names and open a stage; raise `CommandError` if that makes no sense.

        Names of classes that the fleet knows are of classes that return: networks train their new
        images, too. Sums count these in any stage.
        """
        state = self._state
        if state.lineages.current is None:
            raise CommandError(
                "stage: nothing to learn with; first `fleetledger model import-backbone FILE "
                "--preprocessing FILE`, or `model import-network` for a method that trains"
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
        self._check_returning(class_names)
        self._check_first_weights(class_names)
        new_names = tuple(name for name in class_names if not state.classes.knows(name))
        for name in new_names:
            check_new_name(name)
        check_capacity(state, new_names, class_names)
        closing = self._close_current("the next stage was opened")
        named = together(
            record(ClassNamed(name=name, index=state.classes.next_index + i), actor=actor)
            for i, name in enumerate(new_names)
        )
        stage = (state.stages.current or 0) + 1
        privacy = self._privacy.told
        if privacy is not None and privacy.masks is not None:
            check_masks(state)
        opened = StageOpened(
            stage=stage, class_names=class_names, reason=reason or actor, privacy=privacy
        )
        return closing + end_adapting(state) + named + record(opened, actor=actor)

    def _check_returning(self, class_names: tuple[ClassName, ...]) -> None:
        lineage = self._state.lineages.current
        assert lineage is not None
        known = [name for name in class_names if self._state.classes.knows(name)]
        if known and descriptor(lineage.method).disjoint:
            (stage,) = self._state.class_stages((known[0],))
            raise CommandError(
                f"class_names: {str(known[0])!r} came with stage {stage}, and {lineage.method!r} "
                "learns a class in one stage; leave it out, or lead with another method"
            )

    def lacking(self) -> tuple[ClassName, ...]:
        """Return the classes of a network's first weights that no stage has named yet."""
        lineage = self._state.lineages.current
        names = () if lineage is None else lineage.class_names
        return tuple(name for name in names if not self._state.classes.knows(name))

    def _check_first_weights(self, class_names: tuple[ClassName, ...]) -> None:
        lacking = [name for name in self.lacking() if name not in class_names]
        if lacking:
            raise CommandError(
                f"class_names: the network began with weights that know {', '.join(lacking)}; open "
                "the stage for them first, or for them too"
            )

    def close(self, *, actor: str) -> Decision:
        """Close the open stage now; raise `CommandError` if none is open."""
        decision = self._close_current("a word of the operator", actor=actor)
        if not decision.entries:
            raise CommandError("stage: none is open; `fleetledger coordinator stages` lists them")
        return decision

    def unfinished(self) -> list[str]:
        """Return what an open stage still waits for, a sentence; nothing where it does not."""
        number = self._state.stages.open
        if number is None:
            return []
        answered, expected = self.answered_and_expected(number)
        if self._state.lineages.in_rounds:
            return [f"stage {number} is still trained; the next stage closes it as it is"]
        if answered >= expected:
            return []
        missing = self.missing(number)
        return [
            f"stage {number} is open, and {expected - answered} of "
            f"{count_of(expected, 'device')} {agree(expected - answered, 'has', 'have')} not "
            f"answered yet: {some(missing)}; the next stage closes it"
        ]

    def finish(self, reason: str) -> Decision:
        """Close the open stage of a network, whose rounds are done."""
        return self._close_current(reason)

    def due(self, now_ns: int) -> Decision:
        """Close the current stage if it has what it waits for; rounds close theirs themselves."""
        number = self._state.stages.open
        if number is None or self._state.lineages.in_rounds:
            return Decision()
        stage = self._state.stages.by_number[number]
        reason = self._reason_to_close(number, stage, now_ns)
        if reason and self._gathers(number, stage, now_ns):
            return Decision()
        return self._close_current(reason) if reason else Decision()

    def wait(self) -> StageWait | None:
        """Return what closes the open stage; None where none is open, or where rounds decide it."""
        number, rules = self._state.stages.open, self._rules
        if number is None or self._state.lineages.in_rounds:
            return None
        answered, expected = self.answered_and_expected(number)
        needed = math.ceil(rules.quorum * expected)
        last = self._state.contributions.last_answer_ns.get(number)
        quiet_ns = None
        if last is not None and answered >= needed:
            quiet_ns = last + round(rules.quiet_seconds * NANOSECONDS)
        opened_ns = self._state.stages.by_number[number].opened_ns
        return StageWait(
            answered=answered,
            expected=expected,
            needed=needed,
            quiet_seconds=rules.quiet_seconds,
            quiet_ns=quiet_ns,
            latest_ns=opened_ns + round(rules.deadline_seconds * NANOSECONDS),
            away_seconds=rules.away_seconds,
        )

    def answered_and_expected(self, number: int) -> tuple[int, int]:
        """Count the devices that answered, of those that are able to (or not yet heard of)."""
        at = (number, self._state.size)
        if self._counted_at != at:  # asked with every tick, and the state alone decides it
            self._counted_at, self._counted = at, self._count(number)
        return self._counted

    def _count(self, number: int) -> tuple[int, int]:
        invited = [device for device in self._state.devices.admitted if self._invited(device)]
        if not self._state.lineages.in_rounds:
            given = self._state.contributions
            return sum(given.of(device).answered(number) for device in invited), len(invited)
        of_stage = {
            item.opened.number
            for item in self._state.rounds.by_number.values()
            if item.opened.stage == number
        }
        answered = sum(
            not of_stage.isdisjoint(self._state.rounds.of(device).answers) for device in invited
        )
        return answered, len(invited)

    def invited(self) -> int:
        """Count the devices that are able to learn (or not yet heard of)."""
        return sum(self._invited(device) for device in self._state.devices.admitted)

    def _invited(self, device: DeviceId) -> bool:
        lineage = self._state.lineages.current
        if self._state.keys.of(device).revoked:
            return False
        known = self._state.devices.admitted[device]
        capabilities = known.capabilities
        if known.silent or not known.led:
            return False
        if capabilities is None or lineage is None:
            return True
        return self._can_learn(capabilities, lineage.method, lineage.requires)

    def _reason_to_close(self, number: int, stage: Stage, now_ns: int) -> str:
        age = (now_ns - stage.opened_ns) / NANOSECONDS
        if age >= self._rules.deadline_seconds:
            return f"deadline of {self._rules.deadline_seconds:g} s"
        last = self._state.contributions.last_answer_ns.get(number)
        if last is None:
            return ""
        quiet = (now_ns - last) / NANOSECONDS
        if quiet < self._rules.quiet_seconds or self._waits_for_cohorts(number):
            return ""
        answered, expected = self.answered_and_expected(number)
        if waiting := self._state.cohorts.waiting(number):
            answered += len(waiting.keys() & set(self.missing(number)))
        if answered >= math.ceil(self._rules.quorum * expected):
            return f"quorum and {self._rules.quiet_seconds:g} s of quiet"
        gone = self._long_away(number, now_ns)
        if not gone or answered < math.ceil(self._rules.quorum * (expected - len(gone))):
            return ""
        return (
            f"quorum and {self._rules.quiet_seconds:g} s of quiet, without {some(gone)}, away for "
            "long"
        )

    def missing(self, number: int) -> list[DeviceId]:
        """Return the devices that a stage waits for, in the order of their admission."""
        return [
            name
            for name in self._state.devices.admitted
            if self._invited(name) and not self._state.contributions.of(name).answered(number)
        ]

    def _waits_for_cohorts(self, number: int) -> bool:
        """Whether a stage waits for the sum of a cohort, or for one that may still be formed."""
        cohorts = self._state.cohorts
        if any(cohorts.busy(number)):
            return True
        waiting = cohorts.waiting(number)
        if not waiting:
            return False
        # Who is left alone with a part waits for the next stage, and the stage not for it.
        return len({*waiting, *self.missing(number)}) >= self._privacy.least

    def _long_away(self, number: int, now_ns: int) -> list[DeviceId]:
        """Return the devices that a stage waits for and that are away for too long."""
        longest = self._rules.away_seconds
        if longest is None:
            return []
        if self._away_until > now_ns and self._away_at == number:
            return self._away  # of a large fleet it takes long to see
        self._away_at, self._away_until = number, now_ns + _LOOK_NS
        self._away = [
            name
            for name in self.missing(number)
            if self._live.seen(name).boot is None
            and now_ns - self._away_since(name, now_ns) >= longest * NANOSECONDS
        ]
        return self._away

    def _away_since(self, device: DeviceId, now_ns: int) -> int:
        """Return since when a device is away, as far as this run of the coordinator knows."""
        away_ns, started_ns = self._live.seen(device).away_ns, self._live.started_ns
        if away_ns is not None:
            return away_ns
        admitted_ns = self._state.devices.admitted[device].admitted_ns
        return max(now_ns if started_ns is None else started_ns, admitted_ns)

    def _gathers(self, number: int, stage: Stage, now_ns: int) -> bool:
        """Whether devices that have not answered may not have come back yet after a start.

        What passed while nobody could answer is no silence of theirs.
        """
        started = self._live.started_ns
        if started is None or stage.opened_ns >= started:
            return False
        answered, expected = self.answered_and_expected(number)
        return answered < expected and (now_ns - started < self._rules.gather_seconds * NANOSECONDS)

    def _close_current(self, reason: str, *, actor: str = COORDINATOR) -> Decision:
        number = self._state.stages.current
        if number is None or self._state.stages.by_number[number].closed_index is not None:
            return Decision()
        answered, expected = self.answered_and_expected(number)
        body = StageClosed(
            stage=number,
            reason=reason,
            answered=answered,
            expected=expected,
            without_samples=self._without_samples(number),
        )
        return record(body, actor=actor)

    def _without_samples(self, number: int) -> tuple[ClassName, ...]:
        """Return the classes of a stage that are in no sum; of networks nobody knows."""
        if self._state.lineages.in_rounds:
            return ()
        learned = set(self._state.contributions.learned_names())
        names = self._state.stages.by_number[number].class_names
        return tuple(name for name in names if self._state.classes.resolve(name) not in learned)

    def _untold(self, names: tuple[ClassName, ...]) -> list[ClassName]:
        """Return the new classes of which no device has told that it has samples.

        Devices tell of class folders from their first assignment on.
        """
        if self._state.stages.current is None:
            return []
        told = {
            name
            for device in self._state.devices.admitted
            for name in (
                *self._live.seen(device).waiting_classes,
                *self._state.stages.reports_of(device).named,
            )
        }
        return [name for name in names if name not in told and not self._state.classes.knows(name)]
