"""The coordinator's core: one input in, one decision out, without I/O.

The shell's part of the bargain:

- call `handle`, then `apply` the decision's entries at once, so that the next input of the same
  group is judged by them; commit the group; only then carry out the requests;
- if the commit fails, commit the same group again until it succeeds, and hand in nothing before; or
  end the program, and make a new core by replaying the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fleetledger.coordinator.core import inputs, work
from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.decision import Decision, ask, made_by, record
from fleetledger.coordinator.core.devices import Devices
from fleetledger.coordinator.core.done_commands import CommandDone
from fleetledger.coordinator.core.entry import OPERATOR, NewEntry
from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.operator import Operator
from fleetledger.coordinator.core.requests import AnnounceCoordinator, AnswerOperator, Request
from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.core.state import KINDS, State
from fleetledger.coordinator.errors import CommandError, QuestionError
from fleetledger.coordinator.topics.clock.rules import Correcting
from fleetledger.coordinator.topics.cohorts.entries import CohortEnded, CohortSummed
from fleetledger.coordinator.topics.cohorts.rules import MaskedCohorts
from fleetledger.coordinator.topics.contributions.accepted_answers import AcceptedAnswers
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    ContributionsSetAside,
)
from fleetledger.coordinator.topics.contributions.rules import Intake
from fleetledger.coordinator.topics.daily.rules import Daily
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.devices.silence import Silence
from fleetledger.coordinator.topics.devices.twins import Twins
from fleetledger.coordinator.topics.keys.rules import KeyRules
from fleetledger.coordinator.topics.lineages.entries import BackboneImported, NetworkImported
from fleetledger.coordinator.topics.models.entries import ModelExported, ModelFailed, ModelSolved
from fleetledger.coordinator.topics.models.kinds import not_made
from fleetledger.coordinator.topics.models.rules import Models
from fleetledger.coordinator.topics.models.temperature import Temperature
from fleetledger.coordinator.topics.releases.rules import Releases, SignRelease, SignsNothing
from fleetledger.coordinator.topics.rollouts.rules import Rollouts
from fleetledger.coordinator.topics.rounds.adapters import Adapting
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.coordinator.topics.rounds.rules import TrainingRounds
from fleetledger.coordinator.topics.stages.opening import Opening
from fleetledger.coordinator.topics.stages.rules import CanLearn, Stages
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.envelope import PROXY, Envelope

_TimedRule = Callable[[int], Decision]
_PASSED_OVER_NS = 60 * NANOSECONDS
"""For how long what could not be recorded is not decided again."""
_REORDERS = frozenset(kind.body for kind in KINDS.values() if kind.reorders)
"""Entries after which the proxy has another order, or none."""


class Core:
    """Rooms of rules around one state."""

    def __init__(
        self,
        rules: Rules,
        can_learn: CanLearn,
        *,
        sign_release: SignRelease | None = None,
        state: State | None = None,
    ) -> None:
        """Decide on `state`, if something was committed before."""
        self.state = state or State()
        self.live = Live()
        self.daily = Daily(rules.daily, self.state)
        self.intake = Intake(rules, self.state, self.live, self.daily)
        self.stages = Stages(rules.stages, self.state, self.live, can_learn, rules.privacy)
        self.cohorts = MaskedCohorts(rules, self.state, self.live, self.stages)
        self.opening = Opening(rules.stages, self.state, self.stages)
        self.temperature = Temperature(self.state)
        self.rounds = TrainingRounds(rules, self.state, self.live, self.stages, can_learn)
        self.adapting = Adapting(rules.adapter, self.state, self.live, self.stages)
        self.releases = Releases(rules.release, self.state, sign_release or SignsNothing())
        self.models = Models(rules, self.state, self.live, self.releases)
        self.rollouts = Rollouts(rules, self.state, self.live)
        self.twins = Twins(rules.intake, self.state, self.live)
        self.devices = Devices(rules, self.state, self.live, self.models, self.intake, self.twins)
        self.enrolling = KeyRules(self.state)
        self.silence = Silence(rules.silence, self.state, self.live)
        self._timed: tuple[tuple[_TimedRule, bool], ...] = (
            (lambda now_ns: self.releases.due(self.live.calendar(now_ns)), False),
            (self.rollouts.due, False),
            (self.cohorts.due, True),
            (self.stages.due, False),
            (lambda _: self.temperature.due(), False),
            (self.rounds.due, True),
            # The model of a closed stage is asked for before the next stage opens.
            (self.models.due, True),
            (self.opening.due, True),
        )
        """What time alone may lead to, in order; whether a request alone keeps the others back."""
        self._looking = 0
        """The one of these that looked last."""
        self._passed_over: dict[int, int] = {}
        """Those whose decision could not be recorded, until when they do not look."""
        self.operator = Operator(
            self.state,
            correcting=Correcting(self.state, self.live),
            twins=self.twins,
            intake=self.intake,
            enrolling=self.enrolling,
            stages=self.stages,
            adapting=self.adapting,
            models=self.models,
            releases=self.releases,
            rollouts=self.rollouts,
            learning=rules.learning,
        )

    def handle(self, happening: inputs.Input, now_ns: int) -> Decision:
        """Decide about one input; `now_ns` is the wall clock in nanoseconds."""
        self.live.started_ns = self.live.started_ns or now_ns
        if self.live.beside and isinstance(happening, inputs.DeviceMessage | inputs.Tick):
            return self._held_back(happening)
        return self._decide(happening, now_ns)

    def _decide(self, happening: inputs.Input, now_ns: int) -> Decision:
        match happening:
            case inputs.PayloadOutcome():  # most are this one
                return self._payload(happening, now_ns)
            case inputs.CoordinatorConnected():
                reminded = self.devices.remind_all() + self.rounds.proxy.order()
                announced = ask(AnnounceCoordinator(self.state.size)) + self.silence.beat(now_ns)
                return announced + reminded
            case inputs.DeviceMessage() | inputs.FormerRunSpoke():
                return self._heard(happening, now_ns)
            case inputs.UnreadableMessage(device, text) | inputs.MessageRefused(device, text):
                return self.devices.refuse(device, text, now_ns)
            case inputs.MessageDeferred(device, envelope, seconds):
                return self.devices.defer(device, envelope, seconds)
            case inputs.EnrolmentProven() | inputs.RotationProven():
                return self.enrolling.proven(happening, self.live.calendar(now_ns))
            case inputs.HistoryDoubted(device, text):
                return self.devices.doubts(device, text)
            case inputs.OperatorCommand(ticket, command, actor):
                return made_by(actor, self._command(ticket, command, now_ns))
            case inputs.Tick():
                told = self.silence.due(now_ns) + self.devices.notify_more()
                return told + self._decide_due(now_ns)
            case _:
                return self._worked(happening)

    def _held_back(self, happening: inputs.DeviceMessage | inputs.Tick) -> Decision:
        """Take nothing in and decide nothing while another coordinator runs for this fleet."""
        if isinstance(happening, inputs.Tick):
            return Decision()
        return self.devices.defer_for(happening.device, happening.envelope, self.live.beside[:500])

    def _heard(
        self, message: inputs.DeviceMessage | inputs.FormerRunSpoke, now_ns: int
    ) -> Decision:
        if isinstance(message, inputs.FormerRunSpoke):
            return self.devices.former_run(message.device, message.envelope, now_ns)
        if message.device == PROXY:
            return self._from_proxy(message.envelope, now_ns)
        self.silence.heard(message.device, message.envelope, now_ns)
        decision = self.devices.message(message.device, message.envelope, now_ns)
        if not decision.entries:
            return decision
        made = (entry.body for entry in decision.entries if entry.device == message.device)
        fault = self.daily.fault(message.device, made, now_ns)
        if fault is None:
            return decision
        return self.devices.beyond_a_day(message.device, message.envelope, fault, now_ns)

    def _from_proxy(self, envelope: Envelope, now_ns: int) -> Decision:
        try:
            return self.rounds.proxy.message(envelope)
        except SchemaError as error:
            return self.devices.complain(PROXY, str(error), now_ns)

    def _payload(self, outcome: inputs.PayloadOutcome, now_ns: int) -> Decision:
        if outcome.ended == "stored" and self.state.keys.of(outcome.device).revoked:
            return Decision()  # it was shut out while the payload was on its way
        decision = self.intake.payload(outcome, now_ns)
        taken = (entry.body for entry in decision.entries)
        if not any(isinstance(body, ContributionAccepted) and body.late for body in taken):
            return decision
        return decision + self.rounds.retention.came_late(outcome.contribution)

    def _worked(self, result: work.WorkResult) -> Decision:
        """Decide about what a worker made, or could not make."""
        match result:
            case CohortSummed() | CohortEnded():
                return self.cohorts.summed(result)
            case ModelSolved():
                return self.models.solved(result)
            case ContributionsSetAside():
                return self.models.judged(result)
            case ModelExported():
                return self.models.exported(result)
            case ModelFailed():
                return self.models.not_made(result)
            case WeightsAveraged():
                return self.rounds.averaged(result)
            case work.RoundNotAveraged(number, reason):
                return self.rounds.not_averaged(number, reason)
            case BackboneImported():
                return self.rounds.frozen(result)
            case NetworkImported():
                return self.adapting.prepared(result)
            case work.AdapterNotPrepared(reason):
                return self.adapting.not_prepared(reason)

    def apply(self, entry: NewEntry, now_ns: int) -> tuple[Request, ...]:
        """Take in one decided entry; return what devices must be told because of it."""
        before = self.state.clock.set_back_ns
        self.state.apply(entry.body, entry.device, now_ns)
        if self.state.clock.set_back_ns != before:
            self.live.set_back(self.state.clock.set_back_ns - before)
        told = self.devices.notify_about(entry.body, entry.device).requests
        told += self.models.after(entry.body).requests
        if type(entry.body) in _REORDERS:
            told += self.rounds.proxy.order().requests
        return told

    def take_answers(self, run: AcceptedAnswers, now_ns: int) -> None:
        """Take in answers that `intake.answers` accepted; devices are told nothing of one."""
        self.state.take_answers(run, now_ns)

    def _decide_due(self, now_ns: int) -> Decision:
        for number, (rule, with_requests) in enumerate(self._timed):
            if self._passed_over.get(number, 0) > now_ns:
                continue
            self._looking = number
            found = rule(now_ns)
            # What depends on these entries is decided after they are applied, with the next tick.
            if found.entries or (with_requests and found.requests):
                return found
        return Decision()

    def not_recorded(self, happening: inputs.Input, reason: str, now_ns: int) -> Decision:
        """Decide about an input whose decision the ledger would not take; nothing came of it."""
        match happening:
            case inputs.DeviceMessage(device, envelope) if device != PROXY:
                return self.devices.not_recorded(device, envelope, reason, now_ns)
            case inputs.PayloadOutcome():
                refused = replace(happening, ended="unusable", reason=reason)
                return self.intake.payload(refused, now_ns)
            case inputs.OperatorCommand(ticket):
                return ask(AnswerOperator(ticket, False, reason))
            case ModelSolved():
                return self.models.not_made(not_made(reason, solved=happening))
            case ModelExported(version=version):
                made = self.state.models.by_version[version]
                learned = None if made.lineage is None else made.solved
                return self.models.not_made(not_made(reason, solved=learned))
            case WeightsAveraged(number=number):
                return self.rounds.not_averaged(number, reason)
            case BackboneImported() | NetworkImported():
                return self.adapting.not_prepared(reason)
            case CohortSummed(number=number):
                return self.cohorts.not_summed(number, reason)
            case inputs.Tick():
                self._passed_over[self._looking] = now_ns + _PASSED_OVER_NS
        return Decision()

    def _command(self, ticket: str, command: Command, now_ns: int) -> Decision:
        """Carry a command out, or repeat the answer that a crash kept from the inbox."""
        answer = self.state.done.answers.get(ticket)
        if answer is not None:
            return ask(AnswerOperator(ticket, True, answer))
        try:
            decision, text = self.operator.carry_out(command, now_ns)
        except CommandError as error:
            asks = isinstance(error, QuestionError)
            return ask(AnswerOperator(ticket, False, str(error), asks))
        if decision.entries and not isinstance(command, AdmitDevice):
            # Admitting twice changes nothing, and large fleets are admitted one by one.
            decision += record(CommandDone(ticket=ticket, text=text), actor=OPERATOR)
        return decision + ask(AnswerOperator(ticket, True, text))
