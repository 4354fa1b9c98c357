"""Retraction: the operator takes out what a device gave.

- A part of statistics leaves the sum, for good: the sum, and the head that is solved of it, are
  those of a fleet in which the device never gave it. The device is told, and neither the part nor
  the same payload under another number is taken again.
- An answer to a round is in a mean that later rounds began with. It cannot be taken out of these:
  what descends from it is marked, the last model before it is named, and so is how many rounds
  would have to be run again.
"""

from __future__ import annotations

from collections.abc import Collection

from fleetledger.coordinator.core.decision import Decision, record, together
from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.core.phrases import count_of, natural, some
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.contributions import entries
from fleetledger.coordinator.topics.contributions.commands import CountIn, RetractContributions
from fleetledger.coordinator.topics.contributions.state import DeviceContributions
from fleetledger.coordinator.topics.devices.rules import check_admitted
from fleetledger.coordinator.topics.rounds.entries import DescentMarked
from fleetledger.schemas.cohorts import cohort_device, is_cohort
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.values import DeviceId


class Retracting:
    """Decides about retractions."""

    def __init__(self, state: State) -> None:
        self._state = state

    def gave(self, device: DeviceId) -> bool:
        """Return whether something of a device is in a sum or a mean."""
        known = self._state.contributions.of(device)
        held = any(known.parts[part.key].cohort is None for part in known.held_parts())
        return bool(held or self._state.rounds.of(device).averaged)

    def retract(self, command: RetractContributions) -> tuple[Decision, str]:
        """Return what a retraction decides, in words too; raise `CommandError` for nothing."""
        if is_cohort(command.device):
            return self._retract_cohort(command)
        if command.device not in self._state.devices.retired:
            check_admitted(self._state, command.device)
        return self._retract(command)

    def _retract_cohort(self, command: RetractContributions) -> tuple[Decision, str]:
        """Take the sum of a cohort out, and those that take something out of it again."""
        cohorts = self._state.cohorts.by_number.values()
        out = {command.device}
        for cohort in cohorts:  # later ones undo earlier ones
            if out & {cohort_device(number) for number in cohort.undoes}:
                out.add(cohort.body.device)
        decision, said = self._retract(command)
        for device in sorted(out - {command.device}, key=natural):
            if self.gave(device):
                more, words = self._retract(command.model_copy(update={"device": device}))
                decision, said = decision + more, f"{said}; with it {words}"
        return decision, said

    def _retract(self, command: RetractContributions) -> tuple[Decision, str]:
        known = self._state.contributions.of(command.device)
        parts = {
            held.key: held.payload
            for held in known.held_parts()
            if command.part in (None, held.key) and known.parts[held.key].cohort is None
        }
        rounds = self._rounds(command)
        if not parts and not rounds:
            raise CommandError(self.in_cohorts(command.device) or _nothing(command, known))
        decision, said = Decision(), []
        if parts:
            decision += together(self._taken_out(command, known, key) for key in parts)
            said.append(self._said_of_parts(command.device, parts.keys()))
        if rounds:
            marked = self._marked(command, rounds)
            decision += record(marked, actor=OPERATOR)
            said.append(_said_of_rounds(marked))
        return decision, ". ".join(said)

    def in_cohorts(self, device: DeviceId) -> str:
        """Return in which cohorts' sums a device is, with the way out; empty where in none."""
        cohorts = self._state.cohorts.by_number.values()
        found = [one.body.device for one in cohorts if one.step == "summed" and one.has(device)]
        if not found:
            return ""
        return (
            f"device: what {str(device)!r} gave is in the sum of {some(found)}, and does not leave "
            f"it alone; `fleetledger ledger retract {found[-1]} --reason TEXT` takes the whole sum "
            "out, and the device itself takes its own out in another cohort"
        )

    def _taken_out(
        self, command: RetractContributions, known: DeviceContributions, key: PartKey
    ) -> Decision:
        part = known.parts[key]
        assert part.payload is not None  # it is held
        body = entries.ContributionRetracted(
            device=command.device,
            key=key,
            revision=part.revision,
            payload=part.payload,
            reason=command.reason,
            replaces=part.index,
        )
        return record(body, actor=OPERATOR)

    def _said_of_parts(self, device: DeviceId, keys: Collection[PartKey]) -> str:
        given, lineage = self._state.contributions, self._state.lineages.current
        known = given.of(device).parts
        summed = (
            0
            if lineage is None
            else sum(given.counted.is_summed(known[key].index, lineage.digest) for key in keys)
        )
        parts, left = (
            f"{count_of(len(keys), 'contribution')} of device {device}",
            given.sum.parts - summed,
        )
        if left:
            others = "other" if left == 1 else "others"
            return f"{parts} left the sum; a model of the {left} {others} is solved anew"
        return (
            f"{parts} left the sum, and none is left to solve a model of: the models that there "
            "are still hold them"
        )

    def _rounds(self, command: RetractContributions) -> dict[int, int]:
        """Return the rounds whose mean has an answer of the device, with the mean's entry."""
        averaged = self._state.rounds.of(command.device).averaged
        part = command.part
        means = {at for number, at in averaged.items() if part is None or part.part == number}
        facts = self._state.rounds.facts.items()
        return {number: i for number, of in facts if (i := of.averaged_index) in means}

    def _marked(self, command: RetractContributions, rounds: dict[int, int]) -> DescentMarked:
        taint, first = self._state.rounds.taint, min(rounds.values())
        before, after = [], []
        for version, model in sorted(self._state.models.by_version.items()):
            if model.imported is not None:
                continue  # nothing of a device is in it
            if taint.descends(model.solved_index, first):
                after.append(version)
            elif model.solved_index < first and model.exported is not None:
                before.append(version)
        return DescentMarked(
            device=command.device,
            rounds=tuple(sorted(rounds)),
            first_index=first,
            last_version=before[-1] if before else None,
            versions=tuple(after),
            rounds_again=taint.means_after(first),
            reason=command.reason,
        )


def _nothing(command: RetractContributions, known: DeviceContributions) -> str:
    part = command.part
    if part is None:
        return f"device: nothing of {str(command.device)!r} is in a sum or a mean"
    if part in known.retracted:
        return (
            f"part: {part.stage}/{part.part} of {str(command.device)!r} is retracted already, by "
            f"entry {known.retracted[part].index}"
        )
    return (
        f"part: {part.stage}/{part.part} of {str(command.device)!r} is neither in the sum nor in "
        "the mean of a round"
    )


def _said_of_rounds(marked: DescentMarked) -> str:
    count, again = len(marked.rounds), marked.rounds_again
    before = (
        "there is no model from before it"
        if marked.last_version is None
        else f"model {marked.last_version} is the last from before it, and "
        f"`fleetledger model push {marked.last_version}` brings it back"
    )
    return (
        f"the mean{'s' if count > 1 else ''} of {count} round{'s' if count > 1 else ''} hold"
        f"{'' if count > 1 else 's'} answers of device {marked.device}, and what descends from "
        f"them is marked, not changed: models {list(marked.versions) or 'none'}; {before}; to be "
        f"without it, {again} round{'s' if again > 1 else ''} would have to be run again"
    )


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
    body = entries.ContributionsCountedIn(
        device=command.device, indices=tuple(found[: entries.MAX_MOVED]), reason=command.reason
    )
    said = count_of(len(body.indices), "contribution")
    return record(body, actor=OPERATOR), f"{said} of device {command.device} counted in"
