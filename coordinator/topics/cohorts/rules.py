"""Masked cohorts: who is one, what is asked of members, when they are over.

The rules, in the order of a cohort's life:

- A device joins with what it has ready, once at a time; a later word takes an earlier one's place.
- Devices that joined for one stage, or one round, are a cohort when there are `cohort` of them, or
  when nobody else may come before long, or after `wait_seconds`, if they are at least `least`. So
  few that would be left over are taken in, too, or waited for.
- Each step goes on when all members that still take part have done what it asks. After
  `answer_seconds` those who have not are silent, for good. Once it opens nobody is.
- With fewer present than its threshold a cohort ends before anything was opened, and its members
  join anew. What opens waits for as long as it takes: whose shares were told must not be asked for
  the same numbers in another cohort.
- A cohort whose sum cannot be that of its members' samples ends, too. Nobody gives the same again:
  what was opened once is hidden in no other cohort.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleetledger.coordinator.core.decision import Decision, ask, record
from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.phrases import count_of, some
from fleetledger.coordinator.core.requests import PruneBlobs, TellOperator
from fleetledger.coordinator.core.rules import BoundRules, Rules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.work import SumCohort
from fleetledger.coordinator.topics.cohorts import entries
from fleetledger.coordinator.topics.cohorts.judging import member_of, owing
from fleetledger.coordinator.topics.cohorts.requests import sum_request
from fleetledger.coordinator.topics.cohorts.state import CohortProgress, Joined, Purpose
from fleetledger.coordinator.topics.contributions.state import MaskedPart
from fleetledger.coordinator.topics.stages.rules import Stages
from fleetledger.schemas.cohorts import MOST_MEMBERS, MaskedCohort, threshold_of
from fleetledger.schemas.values import DeviceId


class MaskedCohorts:
    """Decides when devices are a cohort, and when its steps are over."""

    def __init__(self, rules: Rules, state: State, live: Live, stages: Stages) -> None:
        self._rules = rules.privacy
        self._bounds = rules.bounds
        self._state = state
        self._live = live
        self._stages = stages
        self._looked = (-1, -1)
        """Size of the ledger, and second, when it was last seen who may be a cohort."""

    def due(self, now_ns: int) -> Decision:
        """Form cohorts, and let those that are open go on."""
        cohorts = self._state.cohorts
        if not cohorts.joined and not cohorts.of_device:
            return Decision()
        for cohort in cohorts.open:
            found = self._goes_on(cohort, now_ns)
            if found.entries or found.requests:
                return found
        return self._form(now_ns)

    def _goes_on(self, cohort: CohortProgress, now_ns: int) -> Decision:
        """Return what ends a cohort's step."""
        if over := self._is_over(cohort):
            return self._ended(cohort, over)
        if cohort.step == "opening":
            return self._opens(cohort)
        # While the coordinator was away nobody could answer.
        since_ns = max(cohort.began_ns, self._live.started_ns or 0)
        late = now_ns - since_ns >= self._rules.answer_seconds * NANOSECONDS
        owes = owing(self._state, cohort)
        if any(self._takes_part(device) for device in owes) and not late:
            return Decision()
        if cohort.step == "silent" and not owes:
            return self._opening(cohort.body.number, cohort.present)
        return self._silent(cohort, owes)

    def _is_over(self, cohort: CohortProgress) -> str:
        """Return why nothing needs a cohort's sum any more; empty where something does."""
        lineage, number = self._state.lineages.current, cohort.body.round
        if lineage is None or lineage.digest != cohort.body.lineage:
            return "what its words were made with leads no more"
        return "" if number is None or self._takes_answers(number) else f"round {number} is closed"

    def _silent(self, cohort: CohortProgress, more: Iterable[DeviceId]) -> Decision:
        """Go on without members; where nobody is missing, open at once."""
        number = cohort.body.number
        silent = tuple(sorted({*cohort.silent, *more}))
        present = tuple(device for device in cohort.body.devices if device not in silent)
        if len(present) < cohort.body.threshold:
            why = (
                f"{count_of(len(present), 'member')} of {len(cohort.body.members)} answered in "
                f"time, and {cohort.body.threshold} are needed; {some(silent)} did not"
            )
            return self._ended(cohort, why)
        body = entries.CohortSilent(number=number, silent=silent, present=present)
        decision = record(body) + self._pruned(number, set(more))
        return decision if silent else decision + self._opening(number, present)

    def _opening(self, number: int, present: tuple[DeviceId, ...]) -> Decision:
        return record(entries.CohortOpening(number=number, present=present))

    def _opens(self, cohort: CohortProgress) -> Decision:
        """Have the masks taken off once there are enough shares."""
        number = cohort.body.number
        if number in self._live.summing:
            return Decision()
        if cohort.opens():
            self._live.summing.add(number)
            return ask(self._sum(cohort))
        if cohort.owes():
            return Decision()
        lacking = [
            device
            for device in cohort.present
            if sum(device in shares for shares in cohort.shares.values()) < cohort.body.threshold
        ]
        why = f"all members told their shares, and those of {some(lacking)} are too few to open it"
        return self._ended(cohort, why)

    def _sum(self, cohort: CohortProgress) -> SumCohort:
        """Return what a worker needs to take the masks off."""
        number, lineage = cohort.body.round, self._state.lineages.current
        assert lineage is not None
        opened = None if number is None else self._state.rounds.by_number[number].opened
        return sum_request(cohort, self._state.contributions, lineage, opened)

    def summed(self, body: entries.CohortSummed | entries.CohortEnded) -> Decision:
        """Record what a worker made of a cohort, unless it is over by now."""
        self._live.summing.discard(body.number)
        cohort = self._state.cohorts.by_number.get(body.number)
        if cohort is None or not cohort.is_open:
            return Decision()
        if isinstance(body, entries.CohortEnded):
            return self._ended(cohort, body.reason)
        if fault := _beyond(self._bounds, body):
            return self._ended(cohort, fault)
        return record(body) + self._pruned(body.number, set(cohort.present))

    def not_summed(self, number: int, why: str) -> Decision:
        """End a cohort whose sum the ledger would not take."""
        self._live.summing.discard(number)
        return self._ended(self._state.cohorts.by_number[number], why)

    def _ended(self, cohort: CohortProgress, why: str) -> Decision:
        number, members = cohort.body.number, cohort.present
        opened = cohort.step == "opening"
        ended = entries.CohortEnded(
            number=number, reason=why[: entries.MAX_CAUSE], members=members, opened=opened
        )
        then = "what they gave is lost" if opened else "they join anew"
        told = ask(TellOperator(f"cohort {number} of {some(members)} ended: {why}; {then}"))
        return record(ended) + self._pruned(number, set(members)) + told

    def _pruned(self, number: int, devices: set[DeviceId]) -> Decision:
        """Delete what members gave behind masks, which nothing needs any more."""
        given: dict[DeviceId, MaskedPart] = self._state.contributions.masked.get(number, {})
        digests = tuple(part.payload for who, part in given.items() if who in devices)
        if self._rules.keep_masked or not digests:
            return Decision()
        body = entries.CohortPruned(number=number, digests=digests)
        return record(body) + ask(PruneBlobs(digests))

    def _form(self, now_ns: int) -> Decision:
        """Form the cohorts that are due, each of those that joined for the same."""
        looked = (self._state.size, now_ns // NANOSECONDS)
        if looked == self._looked:
            return Decision()  # it goes through the fleet
        self._looked = looked
        lineage = self._state.lineages.current
        ready: dict[Purpose, dict[DeviceId, Joined]] = {}
        for device, one in self._state.cohorts.joined.items():
            if lineage is not None and one.joining.lineage == lineage.digest:
                number = one.joining.round
                if self._takes_part(device) and (number is None or self._takes_answers(number)):
                    ready.setdefault(one.purpose, {})[device] = one
        for purpose, joined in ready.items():
            count = self._enough(purpose, joined, now_ns)
            if count:
                chosen = sorted(list(joined)[:count])
                return self._formed(purpose, {device: joined[device] for device in chosen})
        return Decision()

    def _takes_answers(self, number: int) -> bool:
        current = self._state.rounds.by_number.get(number)
        return current is not None and current.closed is None

    def _enough(self, purpose: Purpose, joined: dict[DeviceId, Joined], now_ns: int) -> int:
        """Return how many of those that joined are a cohort now; 0 for none."""
        rules, ready = self._rules, len(joined)
        if ready < rules.least:
            return 0
        first_ns = min(one.joined_ns for one in joined.values())
        waited = now_ns - first_ns >= rules.wait_seconds * NANOSECONDS
        to_come = self.to_come(purpose)
        if not waited and to_come is None:
            return rules.cohort if ready >= rules.cohort else 0
        expected = 0 if waited or to_come is None else len(to_come)
        if ready < rules.cohort:
            return 0 if expected else ready
        left = ready - rules.cohort + expected
        if left == 0 or left >= rules.least or ready + expected > MOST_MEMBERS:
            return rules.cohort
        return 0 if expected else ready  # what is left over would be too few for another one

    def to_come(self, purpose: Purpose) -> list[DeviceId] | None:
        """Return who may still join before long; None where nobody knows, as a stage is over."""
        stage, number, _ = purpose
        if number is not None:
            current = self._state.rounds.by_number[number]
            missing = sorted(current.cohort - current.heard)
        elif stage == self._state.stages.open:
            missing = self._stages.missing(stage)
        else:
            return None
        cohorts = self._state.cohorts
        return [
            device
            for device in missing
            if device not in cohorts.joined
            and not cohorts.is_in_open(device)
            and self._takes_part(device)
        ]

    def _formed(self, purpose: Purpose, joined: dict[DeviceId, Joined]) -> Decision:
        stage, number, lineage = purpose
        state = self._state
        body = MaskedCohort(
            number=state.cohorts.next_number,
            stage=stage,
            round=number,
            lineage=lineage,
            class_names=state.classes.accepted_names if number is None else (),
            threshold=threshold_of(len(joined)),
            members=tuple(member_of(state, device, one) for device, one in joined.items()),
        )
        return record(entries.CohortFormed(cohort=body))

    def _takes_part(self, device: DeviceId) -> bool:
        """Whether a device is admitted, led and not shut out."""
        known = self._state.devices.admitted.get(device)
        if known is None or not known.led or known.doubled is not None:
            return False
        return not self._state.keys.of(device).revoked


def _beyond(rules: BoundRules, body: entries.CohortSummed) -> str:
    """Return why a sum is more than its members may give together; empty where it is not."""
    most = rules.max_samples_per_class * len(body.members)
    for name, samples in body.samples.items():
        if samples > most:
            return (
                f"samples: {samples} of class {str(name)!r} exceed {most}, which "
                f"{count_of(len(body.members), 'member')} may give; the operator sets [bounds] "
                "max_samples_per_class"
            )
    return ""
