"""Contributions, withdrawals, 'nothing', transitions, comparisons: counted once, with a receipt.

The rules, in the order in which they are asked:

- A device that is not admitted, or was retired, keeps what it has until it is.
- Where the stage, the method, the frozen model or a class is not the fleet's yet, or not again,
  the device is put off. A payload of a kind that the method has not, or beyond the limits, is
  refused, with the way out.
- What another installation gives waits where parts of an earlier one are held, until the operator
  has said whether these stay.
- What the operator retracted is refused for good, under whatever revision or number it comes.
- A revision that is held gets its receipt again; an older one was superseded; the same revision
  with another payload is refused, because it would make the ledger depend on the order.
- A payload is taken in, checked by the method and stored before the entry is written.
- When the payload is in, all rules are asked again, since the world may have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from fleetledger.coordinator.core.decision import Decision, ask, record, record_for
from fleetledger.coordinator.core.entry import OPERATOR, EntryBody
from fleetledger.coordinator.core.inputs import PayloadOutcome
from fleetledger.coordinator.core.live import NOTHING_PENDING, Live
from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.core.requests import SendToDevice, TellOperator
from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.work import TakePayload
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.cohorts.entries import SEEDS, SHARES
from fleetledger.coordinator.topics.cohorts.judging import judge_join, judge_reveal, judge_words
from fleetledger.coordinator.topics.contributions import budget, entries
from fleetledger.coordinator.topics.contributions.accepted_answers import (
    AcceptedAnswers,
    StoredAnswer,
)
from fleetledger.coordinator.topics.contributions.bounds import Bounds
from fleetledger.coordinator.topics.contributions.commands import SettleEarlier
from fleetledger.coordinator.topics.contributions.refusals import retraction_of
from fleetledger.coordinator.topics.contributions.state import KnownPart
from fleetledger.coordinator.topics.daily.rules import Daily
from fleetledger.coordinator.topics.daily.state import DAY_NS
from fleetledger.coordinator.topics.devices.rules import check_admitted, not_admitted
from fleetledger.coordinator.topics.rollouts.entries import ModelCompared
from fleetledger.coordinator.topics.rounds import budget as round_budget
from fleetledger.coordinator.topics.rounds.entries import MAX_REFUSAL
from fleetledger.coordinator.topics.stages.entries import TransitionReported
from fleetledger.methods.registry import descriptor
from fleetledger.schemas.cohorts import CohortJoin, CohortReveal
from fleetledger.schemas.contributions import Contribution, Nothing, PartKey, Withdrawal
from fleetledger.schemas.receipts import Accepted, Answer, Later, Receipt, Refused
from fleetledger.schemas.reports import Transition
from fleetledger.schemas.rollouts import ModelComparison
from fleetledger.schemas.rounds import RoundAnswer
from fleetledger.schemas.values import DeviceId

DeviceBody: TypeAlias = (
    "Contribution | Withdrawal | Nothing | Transition | ModelComparison | CohortJoin | CohortReveal"
)
"""What gets a receipt."""


class Intake:
    """Decides about everything that a device gives."""

    def __init__(self, rules: Rules, state: State, live: Live, daily: Daily) -> None:
        self._rules = rules.intake
        self._fleet = rules.fleet
        self._daily = daily
        self._bounds = Bounds(rules.bounds, state)
        self._state = state
        self._live = live

    def contribution(
        self, device: DeviceId, body: Contribution, attachment: bytes, now_ns: int
    ) -> Decision:
        """Decide about a contribution whose payload is attached or offered."""
        answer = self._judge(device, body)
        if answer is not None:
            return self._answer(device, body, answer, now_ns)
        if body.round is None:
            fault = self._daily.payload_fault(device, body.payload_bytes, now_ns)
            if fault is not None:
                told = self.told_of_a_day(device, fault, now_ns)
                return told + self.not_today(device, body, fault, now_ns)
        live = self._live.device(device)
        pending = live.pending
        if (body.key, body.revision) in pending:
            return Decision()
        if len(pending) >= self._rules.max_pending_per_device:
            return self._answer(
                device, body, self._later("other payloads are on their way"), now_ns
            )
        live.pending = pending | {(body.key, body.revision)}
        assert self._state.lineages.current is not None
        opened = (
            self._state.rounds.by_number[body.round.number].opened
            if body.round is not None
            else None
        )
        lineage, cohort = self._state.lineages.current, None
        if body.cohort is not None:
            cohort = self._state.cohorts.by_number[body.cohort.number].body
        return ask(TakePayload(device, body, attachment, lineage, opened, cohort))

    def payload(self, outcome: PayloadOutcome, now_ns: int) -> Decision:
        """Write the entry of a stored payload, if the rules still allow it, or refuse it.

        The device sends again what could not be fetched. One that does not wait gets no receipt,
        unless it is refused.
        """
        device, body = outcome.device, outcome.contribution
        live = self._live.device(device)
        live.pending = (live.pending - {(body.key, body.revision)}) or NOTHING_PENDING
        answer: Answer | None
        match outcome.ended:
            case "stored":
                answer = self._judge(device, body)
            case "unusable":
                answer = Refused(reason=outcome.reason[:500])
            case "missing":
                answer = self._later(outcome.reason)
        if answer is not None:
            return self._answer(device, body, answer, now_ns)
        entry = entries.ContributionAccepted(
            part=body.part,
            replaces=None if body.round or body.cohort else self._replaces(device, body),
            late=body.round is not None
            and body.cohort is None
            and not self._state.rounds.counts(device, body.round.number),
            installation=self._state.devices.admitted[device].installation,
        )
        taken = record_for(device, entry)
        if not outcome.waits:
            return taken
        return taken + self._answer(device, body, accepted_at(self._state.size), now_ns)

    def answers(self, stored: Sequence[StoredAnswer]) -> AcceptedAnswers | None:
        """Return the entries that `payload` makes of answers to one round, decided together.

        None where one of them may come to something else: then each is decided alone. Of those
        that say the same one is judged; what else depends on the device is asked of all of them.
        """
        state, devices = self._state, [answer.device for answer in stored]
        likes = {id(answer.like): answer for answer in stored}.values()
        number = stored[0].like.key.part
        asked = state.rounds.by_number.get(number)
        if asked is None or asked.closed is not None or asked.opened.buffering is not None:
            return None
        if any(one.like.key.part != number or _is_unusual(one.like) for one in likes):
            return None
        if len(set(devices)) < len(devices) or round_budget.spends(state):
            return None
        if not asked.cohort.issuperset(devices) or not asked.observers.isdisjoint(devices):
            return None
        if any(number in state.rounds.of(device).answers for device in devices):
            return None
        known = [state.devices.admitted.get(device) for device in devices]
        admitted = [device for device in known if device is not None and device.doubled is None]
        if len(admitted) < len(devices) or any(map(self._is_special, devices)):
            return None
        if any(self._judge(one.device, one.like) is not None for one in likes):
            return None
        self._live.touched.update(devices)
        return AcceptedAnswers(stored, [device.installation for device in admitted])

    def _is_special(self, device: DeviceId) -> bool:
        """Return whether a device was shut out, or has payloads on their way."""
        return bool(self._live.seen(device).pending) or self._state.keys.of(device).revoked

    def withdrawal(self, device: DeviceId, body: Withdrawal, now_ns: int) -> Decision:
        """Take a part of a device out of the sum."""
        if device not in self._state.devices.admitted:
            return self._answer(device, body, self._not_admitted(device), now_ns)
        part = self._state.contributions.of(device).parts.get(body.key)
        if part is not None and part.revision >= body.revision:
            answer: Answer = (
                Accepted(ledger_index=part.index)
                if part.revision == body.revision and not part.held
                else _superseded(part)
            )
            return self._answer(device, body, answer, now_ns)
        if part is None or not self._is_own(device, part):
            reason = (
                f"key: no part {body.key.part} of stage {body.key.stage} is held of this device"
            )
            return self._answer(device, body, Refused(reason=reason), now_ns)
        if part.cohort is not None:
            reason = (
                f"key: part {body.key.part} of stage {body.key.stage} is in the sum of cohort "
                f"{part.cohort}; join another one whose words take it out"
            )
            return self._answer(device, body, Refused(reason=reason), now_ns)
        entry = entries.ContributionWithdrawn(
            withdrawal=body, replaces=part.index if part.held else None
        )
        accepted = accepted_at(self._state.size)
        return record_for(device, entry) + self._answer(device, body, accepted, now_ns)

    def cohort(self, device: DeviceId, body: CohortJoin | CohortReveal, now_ns: int) -> Decision:
        """Note that a device waits for a cohort, or what a member of one tells of others."""
        if device not in self._state.devices.admitted:
            return self._answer(device, body, self._not_admitted(device), now_ns)
        if isinstance(body, CohortReveal):
            found = judge_reveal(self._state, device, body)
        else:
            judged = judge_join(self._state, self._fleet, device, body)
            if judged is None:
                return Decision()
            found = judged
            earlier = self._earlier(device) if isinstance(found, EntryBody) else {}
            if earlier and body.joining.round is None:
                found = self._told_of_earlier(device, len(earlier))
            elif isinstance(found, EntryBody) and (beyond := self._beyond_budget(device, body)):
                found = Refused(reason=beyond)
        if isinstance(found, str):
            return self._answer(device, body, self._later(found), now_ns)
        if not isinstance(found, EntryBody):
            return self._answer(device, body, found, now_ns)
        accepted = accepted_at(self._state.size)
        return record_for(device, found) + self._answer(device, body, accepted, now_ns)

    def _beyond_budget(self, device: DeviceId, body: CohortJoin) -> str | None:
        """Say why a device has no privacy left for what it would give behind masks."""
        of = body.joining
        if of.round is not None:
            return round_budget.fault(self._state, device)
        return budget.fault(self._state, device, PartKey(stage=of.stage, part=of.part))

    def nothing(self, device: DeviceId, body: Nothing, now_ns: int) -> Decision:
        """Note that a device has nothing for a stage."""
        if device not in self._state.devices.admitted:
            return self._answer(device, body, self._not_admitted(device), now_ns)
        index = self._nothing_index(device, body)
        if index is not None:
            return self._answer(device, body, Accepted(ledger_index=index), now_ns)
        fault = self._over(body.stage)
        if fault is not None:
            return self._answer(device, body, Refused(reason=fault), now_ns)
        if body.round is not None and not self._asked(device, body.round):
            refused = Refused(reason=f"round: {body.round} did not ask this device")
            return self._answer(device, body, refused, now_ns)
        accepted = accepted_at(self._state.size)
        entry = entries.NothingReported(nothing=body)
        return record_for(device, entry) + self._answer(device, body, accepted, now_ns)

    def transition(self, device: DeviceId, body: Transition, now_ns: int) -> Decision:
        """Note what a device saw; the same report again gets the same receipt."""
        if device not in self._state.devices.admitted:
            return self._answer(device, body, self._not_admitted(device), now_ns)
        entry = TransitionReported(transition=body)
        key = PartKey(stage=body.stage, part=body.number)
        known = self._state.stages.reports_of(device).transitions.get(key)
        if known is not None and known.content == entry.content:
            return self._answer(device, body, Accepted(ledger_index=known.index), now_ns)
        fault = self._over(body.stage)
        if fault is not None:
            return self._answer(device, body, Refused(reason=fault), now_ns)
        accepted = accepted_at(self._state.size)
        return record_for(device, entry) + self._answer(device, body, accepted, now_ns)

    def _over(self, stage: int) -> str | None:
        """Say why nothing that is said of a stage is recorded; None where it is.

        A device that was away for a stage may still speak of the one before the newest.
        """
        newest = self._state.stages.current or 0
        if stage not in self._state.stages.by_number:
            return f"stage: {stage} was never opened; nothing was recorded"
        if stage < newest - 1:
            return f"stage: {stage} is over, {newest} is the newest; nothing was recorded"
        return None

    def comparison(self, device: DeviceId, body: ModelComparison, now_ns: int) -> Decision:
        """Note what a device measured, where it counts; the same again gets the same receipt."""
        if device not in self._state.devices.admitted:
            return self._answer(device, body, self._not_admitted(device), now_ns)
        entry = ModelCompared(comparison=body)
        known = self._state.rollouts.comparison(device, body.key)
        if known is not None and known.content == entry.content:
            return self._answer(device, body, Accepted(ledger_index=known.index), now_ns)
        fault = self._state.rollouts.comparison_fault(device, body)
        if fault is not None:
            return self._answer(device, body, Refused(reason=fault), now_ns)
        accepted = accepted_at(self._state.size)
        return record_for(device, entry) + self._answer(device, body, accepted, now_ns)

    def not_recorded(
        self, device: DeviceId, body: DeviceBody, reason: str, now_ns: int
    ) -> Decision:
        """Refuse a message that came to nothing the ledger takes; final."""
        return self._answer(device, body, Refused(reason=reason[:500]), now_ns)

    def not_now(self, device: DeviceId, body: DeviceBody, reason: str) -> Decision:
        """Ask a device to keep a message, and to send it again later."""
        return ask(SendToDevice(device, "rcpt", receipt_for(body, self._later(reason))))

    def not_today(self, device: DeviceId, body: DeviceBody, fault: str, now_ns: int) -> Decision:
        """Ask a device that adds more in a day than it may to send a message again."""
        later = Later(after_seconds=self._daily.seconds_left(now_ns), reason=fault)
        return self._answer(device, body, later, now_ns)

    def told_of_a_day(self, device: DeviceId, fault: str, now_ns: int) -> Decision:
        """Tell the operator of such a device, once a day."""
        live, day = self._live.device(device), now_ns // DAY_NS
        if live.told_of_day == day:
            return Decision()
        live.told_of_day = day
        return ask(TellOperator(f"device {device} {fault}"))

    def defer(self, device: DeviceId, body: DeviceBody, seconds: float) -> Decision:
        """Ask a device that has sent more than its quota to send a message again."""
        rules = self._rules
        reason = (
            f"quota: more than {count_of(rules.messages_per_minute, 'message')} or "
            f"{rules.mib_per_minute} MiB "
            f"of this device in a minute, or {rules.json_mib_per_minute} MiB of JSON to read; the "
            "operator sets all of them under [intake]"
        )
        later = Later(after_seconds=seconds, reason=reason)
        return ask(SendToDevice(device, "rcpt", receipt_for(body, later)))

    def _judge(self, device: DeviceId, body: Contribution) -> Answer | None:
        """Return the answer that can be given without the payload, or None to take it in."""
        if device not in self._state.devices.admitted:
            return self._not_admitted(device)
        if self._state.devices.admitted[device].doubled is not None:
            return self._later("two installations run under this name; the operator has to choose")
        if body.cohort is not None:
            return self._judge_masked(device, body)
        if body.round is not None:
            return self._judge_answer(device, body, body.round)
        retracted = retraction_of(self._state.contributions.of(device), body)
        if retracted is not None:
            return retracted
        part = self._state.contributions.of(device).parts.get(body.key)
        if part is not None and part.revision >= body.revision:
            if part.revision == body.revision and part.payload == body.payload:
                return Accepted(ledger_index=part.index)
            return _superseded(part)
        if waits := self._mends(body) or self._waits_for_earlier(device, body):
            return self._later(waits)
        reason = (
            self._fault(body)
            or self._bounds.fault(device, body)
            or budget.fault(self._state, device, body.key)
        )
        return Refused(reason=reason) if reason else None

    def _judge_masked(self, device: DeviceId, body: Contribution) -> Answer | None:
        """Judge words behind masks: one set per member and cohort, the first stands."""
        answer = judge_words(self._state, device, body)
        if answer is not None:
            return answer
        if waits := self._mends(body):
            return self._later(waits)
        reason = self._fault(body)
        if body.round is None:
            reason = reason or budget.fault(self._state, device, body.key)
        else:
            reason = reason or round_budget.fault(self._state, device)
        return Refused(reason=reason) if reason else None

    def _waits_for_earlier(self, device: DeviceId, body: Contribution) -> str:
        """Return why a part waits for a person; empty where it does not.

        What was given of the same images in other parts would count twice, and the one who
        replaced the hardware alone knows whether the images are the same. A part with the very
        payload of an earlier one takes its place.
        """
        earlier = self._earlier(device)
        if not earlier or any(part.payload == body.payload for part in earlier.values()):
            return ""
        return self._told_of_earlier(device, len(earlier))

    def _told_of_earlier(self, device: DeviceId, count: int) -> str:
        parts = count_of(count, "part")
        return (
            f"identity: another installation of {str(device)!r} gave {parts} that this one does "
            "not have; this one's wait until the operator says what becomes of them: "
            f"`fleetledger device replaced {device} keep`, or `drop`"
        )

    def _earlier(self, device: DeviceId) -> dict[PartKey, KnownPart]:
        installation = self._state.devices.admitted[device].installation
        return self._state.contributions.of(device).earlier(installation)

    def _is_own(self, device: DeviceId, part: KnownPart) -> bool:
        installation = self._state.devices.admitted[device].installation
        return not part.kept and part.installation in (None, installation)

    def settle_earlier(self, command: SettleEarlier) -> tuple[Decision, str]:
        """Let what earlier installations gave stay, or leave; raise `CommandError` for nothing."""
        device = command.device
        check_admitted(self._state, device)
        count = len(self._earlier(device))
        if not count:
            raise CommandError(
                f"device: nothing of earlier installations of {str(device)!r} waits for a word; "
                "`fleetledger coordinator status` names devices of which something does"
            )
        summed = sorted({part.cohort for part in self._earlier(device).values() if part.cohort})
        if summed and not command.kept:
            raise CommandError(
                f"device: what {str(device)!r} gave is in the sum of cohort {summed[0]}, and does "
                f"not leave it alone; `fleetledger ledger retract cohort-{summed[0]} --reason TEXT`"
            )
        installation = self._state.devices.admitted[device].installation
        body = entries.EarlierSettled(device=device, installation=installation, kept=command.kept)
        parts = count_of(count, "part")
        how = "stay in the sum" if command.kept else "left the sum"
        if count == 1:
            how = "stays in the sum" if command.kept else "left the sum"
        return record(body, actor=OPERATOR), f"{parts} of earlier installations of {device} {how}"

    def _judge_answer(
        self, device: DeviceId, body: Contribution, round_answer: RoundAnswer
    ) -> Answer | None:
        """Judge an answer to a round: one per device and round, the first stands."""
        number = round_answer.number
        known = self._state.rounds.of(device).answers.get(number)
        if known is not None:
            if known.payload == body.payload:
                return Accepted(ledger_index=known.index)
            return Refused(reason=f"round: this device has answered round {number} otherwise")
        leads = self._state.lineages
        if not (leads.in_rounds and body.lineage == leads.trained.digest):
            trained = f"network {leads.trained.digest.short}" if leads.in_rounds else "no network"
            return Refused(reason=f"lineage: {body.lineage.short} is not trained; {trained} is")
        current = self._state.rounds.by_number.get(number)
        if current is not None and device in current.observers:
            return Refused(reason=f"round: {number} asked this device to look, not to train")
        if current is None or device not in current.cohort:
            return Refused(reason=f"round: {number} did not ask this device; wait for a round")
        opened = current.opened
        if (opened.stage, opened.phase) != (body.key.stage, round_answer.phase):
            return Refused(
                reason=f"phase: stage {body.key.stage}, phase {round_answer.phase!r}; round "
                f"{number} is of stage {opened.stage}, phase {opened.phase!r}"
            )
        if round_answer.samples != sum(body.samples.values()):
            return Refused(reason="round.samples: differs from the sum over the classes")
        if waits := self._mends(body):
            return self._later(waits)
        reason = self._fault(body) or self._bounds.fault(device, body)
        reason = reason or round_budget.fault(self._state, device)
        return Refused(reason=reason) if reason else None

    def _asked(self, device: DeviceId, number: int) -> bool:
        current = self._state.rounds.by_number.get(number)
        return current is not None and (device in current.cohort or device in current.observers)

    def _nothing_index(self, device: DeviceId, body: Nothing) -> int | None:
        """Return the entry that says already what `body` says."""
        if body.round is None:
            return self._state.contributions.of(device).nothing.get(body.stage)
        answered = self._state.rounds.of(device).answers.get(body.round)
        return answered.index if answered is not None else None

    def _mends(self, body: Contribution) -> str:
        """Return why a contribution does not count yet; empty where nothing has to come first.

        A ledger that was restored from a backup may lack what the device was asked for.
        """
        lineage = self._state.lineages.current
        if body.key.stage not in self._state.stages.by_number or lineage is None:
            return f"stage: {body.key.stage} was never opened; it waits for an assignment"
        if body.method != lineage.method:
            return f"method: {body.method!r} is not the fleet's method {lineage.method!r}"
        if body.lineage != lineage.digest:
            return (
                f"lineage: features of frozen model {body.lineage.short} cannot be added to those "
                f"of {lineage.digest.short}; compute them again with the assigned model"
            )
        for name in body.samples:
            if not self._state.classes.knows(name):
                return f"samples: class {str(name)!r} is not registered; it is kept until it is"
        return ""

    def _fault(self, body: Contribution) -> str | None:
        """Return why a contribution can never count; None where it can."""
        lineage = self._state.lineages.current
        assert lineage is not None
        if body.round is None and lineage.in_rounds:
            return "round: missing; this fleet trains in rounds, so answer one"
        kind = descriptor(body.method).kind_of(body.round.phase if body.round is not None else "")
        if body.cohort is None and self._state.stages.masked(body.key.stage):
            return (
                f"cohort: missing; stage {body.key.stage} is summed behind masks, so join a cohort "
                "and give the part in it"
            )
        if body.cohort is None and body.payload_kind != kind:
            where = "" if body.round is None else f" in phase {body.round.phase!r}"
            return (
                f"payload_kind: {body.payload_kind!r}; with {body.method!r} devices give "
                f"{kind}{where}"
            )
        samples, most = sum(body.samples.values()), lineage.max_samples_per_part
        if most is not None and self._state.lineages.noise is not None:
            most += len(body.samples)  # noisy counts are one at least
        if most is not None and samples > most:
            return f"samples: {samples} exceed {most} of one part; send several parts"
        if body.payload_bytes > self._rules.max_payload_mib << 20:
            limit = self._rules.max_payload_mib
            return f"payload_bytes: {body.payload_bytes} exceed {limit} MiB; send smaller parts"
        return None

    def _replaces(self, device: DeviceId, body: Contribution) -> int | None:
        """Return the entry whose place a part takes: its former revision, or what equals it."""
        held = self._held_index(device, body.key)
        if held is not None:
            return held
        alike = (part for part in self._earlier(device).values() if part.payload == body.payload)
        return next((part.index for part in alike), None)

    def _held_index(self, device: DeviceId, key: PartKey) -> int | None:
        part = self._state.contributions.of(device).parts.get(key)
        return part.index if part is not None and part.held else None

    def _later(self, reason: str) -> Later:
        return Later(after_seconds=self._rules.retry_seconds, reason=reason[:500])

    def _not_admitted(self, device: DeviceId) -> Later:
        return self._later(not_admitted(self._state, device))

    def _answer(
        self,
        device: DeviceId,
        body: DeviceBody,
        answer: Answer,
        now_ns: int,
    ) -> Decision:
        if isinstance(answer, Refused) and isinstance(body, Contribution):
            self._note_refusal(device, body, answer.reason)
        stranger = device not in self._state.devices.admitted
        if (stranger or isinstance(answer, Refused)) and not self._live.device(device).may_refuse(
            now_ns, self._rules.refusals_per_minute
        ):
            return Decision()
        return ask(SendToDevice(device, "rcpt", receipt_for(body, answer)))

    def _note_refusal(self, device: DeviceId, body: Contribution, reason: str) -> None:
        """Keep why an answer to the open round was refused, until that round closes."""
        current = self._state.rounds.current
        if body.round is None or current is None or current.closed is not None:
            return
        if self._state.rounds.asks(device) is self._state.rounds.by_number.get(body.round.number):
            told = self._live.refused.setdefault(current.opened.number, {})
            told[device] = reason[:MAX_REFUSAL]


def accepted_at(index: int) -> Accepted:
    """Return the answer to what becomes an entry."""
    return Accepted.of_known(answer="accepted", ledger_index=index, proof=None, grown=None)


def _is_unusual(body: Contribution) -> bool:
    """Return whether more is said of an answer than others say of theirs, or it is masked."""
    told = body.round
    return told is None or told.observation is not None or body.cohort is not None


def receipt_for(body: DeviceBody, answer: Answer) -> Receipt:
    """Return the receipt that answers a message."""
    if isinstance(body, Nothing):
        key = PartKey(stage=body.stage, part=body.round or 0)
        return Receipt(about="nothing", key=key, answer=answer)
    if isinstance(body, Transition):
        key = PartKey(stage=body.stage, part=body.number)
        return Receipt(about="transition", key=key, answer=answer)
    if isinstance(body, ModelComparison):
        return Receipt(about="comparison", key=body.key, answer=answer)
    if isinstance(body, CohortJoin):
        key = PartKey(stage=body.joining.stage, part=body.joining.part)
        return Receipt(about="cohort-join", key=key, answer=answer)
    if isinstance(body, CohortReveal):
        key = PartKey(stage=SEEDS if body.seeds else SHARES, part=body.number)
        return Receipt(about="cohort-reveal", key=key, answer=answer)
    if isinstance(body, Withdrawal):
        return Receipt(about="withdrawal", key=body.key, revision=body.revision, answer=answer)
    return Receipt.of_known(
        about="contribution",
        key=body.key,
        revision=body.revision,
        payload=body.payload,
        answer=answer,
    )


def _superseded(part: KnownPart) -> Refused:
    state = "held" if part.held else "withdrawn"
    return Refused(
        reason=f"revision: revision {part.revision} of this part is {state} with other content; "
        "a change needs a higher revision"
    )
