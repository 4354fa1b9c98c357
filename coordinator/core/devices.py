"""What devices say, each message to its rule, and what devices are told.

A message from a device that is not admitted never reaches the ledger. A body that breaks the
protocol is answered with a `Problem` that names field and value, so the owner can mend it.
"""

from __future__ import annotations

from itertools import islice
from typing import Literal

from fleetledger.coordinator.core import requests
from fleetledger.coordinator.core.assignments import action_for, assignment_for, round_assignment
from fleetledger.coordinator.core.decision import Decision, ask, record_for, together
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.kind import Notification
from fleetledger.coordinator.core.live import NOTHING_PENDING, Beat, Live
from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.core.state import KINDS, State
from fleetledger.coordinator.topics.contributions.refusals import (
    newest_retraction_notice,
    retraction_notices,
)
from fleetledger.coordinator.topics.contributions.rules import DeviceBody, Intake
from fleetledger.coordinator.topics.devices.entries import DeviceBorn
from fleetledger.coordinator.topics.devices.rules import not_admitted, note_problem
from fleetledger.coordinator.topics.devices.twins import Twins
from fleetledger.coordinator.topics.lineages.background import is_taken
from fleetledger.coordinator.topics.models.rules import Models
from fleetledger.coordinator.topics.releases.delivery import Delivery
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.class_names import fault_of
from fleetledger.schemas.cohorts import CohortJoin, CohortReveal, is_cohort
from fleetledger.schemas.contributions import Contribution, HeldPart, Nothing, Withdrawal
from fleetledger.schemas.envelope import Envelope
from fleetledger.schemas.health import DeviceHealth
from fleetledger.schemas.models import BACKGROUND, ModelStatus
from fleetledger.schemas.presence import MAX_HELD_PARTS, Birth, Death, Heartbeat, Welcome
from fleetledger.schemas.reports import Evaluation, Problem, Transition, WaitingClasses
from fleetledger.schemas.rollouts import ModelComparison
from fleetledger.schemas.values import BootId, DeviceId

_SILENCE = Decision()
_NOTIFIES = {kind.body: kind.notifies for kind in KINDS.values() if kind.notifies is not None}
"""What devices are told again, by the kind of entry; of most they are told nothing."""

_RETAINED = frozenset(("assignment", "desired", "offered", "released"))
"""Of what the broker keeps the newest for each device."""
_ALSO_TO_OTHERS = frozenset(("retirement", "retraction"))
"""What devices are told that do not take part, too."""
TOLD_AT_ONCE = 250
"""Devices that are told something with one input; of more, the rest with each tick."""

_ANSWERED_KINDS: dict[str, type[DeviceBody]] = {
    body.kind: body
    for body in (
        *(Contribution, Withdrawal, Nothing, Transition, ModelComparison),
        *(CohortJoin, CohortReveal),
    )
}
_ANSWERED = tuple(_ANSWERED_KINDS)


class Devices:
    """Decides about messages of devices."""

    def __init__(
        self,
        rules: Rules,
        state: State,
        live: Live,
        models: Models,
        intake: Intake,
        twins: Twins,
    ) -> None:
        self._rules = rules
        self._state = state
        self._live = live
        self._models = models
        self._delivery = Delivery(state)
        self._intake = intake
        self._twins = twins

    def message(self, device: DeviceId, envelope: Envelope, now_ns: int) -> Decision:
        """Decide about a message that arrived on one of the device's topics."""
        if envelope.header.sender != device:
            text = (
                f"sender: {envelope.header.sender!r} sent on the topic of {str(device)!r}; ignored"
            )
            return self.complain(device, text, now_ns)
        try:
            if device not in self._state.devices.admitted:
                return self._by_kind(device, envelope, now_ns)
            found = self._twins.heard(device, envelope, now_ns)
            if found.entries:
                # What it said is judged when it says it again: from here on the device is frozen.
                return found
            return found + self._unless_shut_out(device, envelope, now_ns)
        except SchemaError as error:
            return self.complain(device, str(error), now_ns)

    def former_run(self, device: DeviceId, envelope: Envelope, now_ns: int) -> Decision:
        """Judge whether a run that was ended lives on; what it says counts for nothing else."""
        try:
            found = self._twins.heard(device, envelope, now_ns)
        except SchemaError:
            return _SILENCE
        text = self._twins.shut_out(device, envelope.header.boot)
        if text and self._live.device(device).may_tell_forgery(now_ns):
            return found + self._twins.complain(device, envelope.header.boot, text)
        return found

    def _unless_shut_out(self, device: DeviceId, envelope: Envelope, now_ns: int) -> Decision:
        """Decide about a message, unless its installation was shut out, or has to wait."""
        header = envelope.header
        shut_out = self._twins.shut_out(device, header.boot)
        waits = "" if shut_out else self._twins.waits(device, header.boot, now_ns)
        if header.kind in _ANSWERED and (shut_out or waits):
            message = envelope.read(_ANSWERED_KINDS[header.kind])
            return self._intake.not_now(device, message, shut_out or waits)
        if not shut_out:
            return self._by_kind(device, envelope, now_ns)
        if header.kind == Death.kind or not self._live.device(device).may_tell_forgery(now_ns):
            return _SILENCE
        return self._twins.complain(device, header.boot, shut_out)

    def _by_kind(self, device: DeviceId, envelope: Envelope, now_ns: int) -> Decision:
        if envelope.header.kind in _ANSWERED:
            return self._answered(device, envelope, now_ns)
        if device not in self._state.devices.admitted:
            return self.complain(device, not_admitted(self._state, device), now_ns)
        match envelope.header.kind:
            case Birth.kind if self._twins.comes_late(device, envelope.header):
                return _SILENCE
            case Birth.kind:
                return self._born(device, envelope.header.boot, envelope.read(Birth), now_ns)
            case Death.kind:
                return self._died(device, envelope.header.boot, now_ns)
            case Heartbeat.kind:
                return self._alive(device, envelope.header.boot, envelope.read(Heartbeat))
            case DeviceHealth.kind:
                return self._healthy(device, envelope, now_ns)
            case ModelStatus.kind:
                status = envelope.read(ModelStatus)
                fault = self._models.fault(status.version, status.manifest)
                decision = self._models.status(device, status)
                return self.complain(device, fault, now_ns) if fault else decision
            case Evaluation.kind:
                evaluation = envelope.read(Evaluation)
                fault = self._models.fault(evaluation.version, evaluation.manifest)
                decision = self._models.evaluated(device, evaluation)
                return self.complain(device, fault, now_ns) if fault else decision
            case WaitingClasses.kind:
                return self._waiting(device, envelope.read(WaitingClasses), now_ns)
            case Problem.kind:
                return note_problem(device, envelope.read(Problem))
            case kind:
                raise SchemaError(f"kind: {kind!r} is not a message of devices; see docs/protocol")

    def _waiting(self, device: DeviceId, waiting: WaitingClasses, now_ns: int) -> Decision:
        """Note which classes wait for a stage; a name that cannot be one is told."""
        known = {
            name: images
            for name, images in waiting.classes.items()
            if not is_taken(self._state, name)
            and (self._state.classes.knows(name) or not fault_of(name))
        }
        self._live.device(device).waiting_classes = known
        if len(known) == len(waiting.classes):
            return Decision()
        for name in sorted(waiting.classes.keys() - known.keys()):
            if not is_taken(self._state, name):
                text = f"class: {str(name)!a} {fault_of(name)}"
                return self.complain(device, text, now_ns)
        text = (
            f"class: {BACKGROUND!r} is what the fleet's network calls pixels of no class, the "
            "value 0 of masks; give the class another name"
        )
        return self.complain(device, text, now_ns)

    def _answered(self, device: DeviceId, envelope: Envelope, now_ns: int) -> Decision:
        """Decide about what gets a receipt, also where the device is not admitted."""
        match envelope.header.kind:
            case Contribution.kind:
                body = envelope.read(Contribution)
                return self._intake.contribution(device, body, envelope.attachment, now_ns)
            case Withdrawal.kind:
                return self._intake.withdrawal(device, envelope.read(Withdrawal), now_ns)
            case Nothing.kind:
                return self._intake.nothing(device, envelope.read(Nothing), now_ns)
            case CohortJoin.kind:
                return self._intake.cohort(device, envelope.read(CohortJoin), now_ns)
            case CohortReveal.kind:
                return self._intake.cohort(device, envelope.read(CohortReveal), now_ns)
            case ModelComparison.kind:
                return self._intake.comparison(device, envelope.read(ModelComparison), now_ns)
            case _:
                return self._intake.transition(device, envelope.read(Transition), now_ns)

    def defer(self, device: DeviceId, envelope: Envelope, seconds: float) -> Decision:
        """Ask a device that has used up its quota to send a message again; nothing else is said."""
        body = _ANSWERED_KINDS.get(envelope.header.kind)
        if body is None:
            return _SILENCE
        try:
            return self._intake.defer(device, envelope.read(body), seconds)
        except SchemaError:
            return _SILENCE  # it is read, and refused, when there is room

    def not_recorded(
        self, device: DeviceId, envelope: Envelope, reason: str, now_ns: int
    ) -> Decision:
        """Refuse a message that came to nothing the ledger takes."""
        body = _ANSWERED_KINDS.get(envelope.header.kind)
        if body is None:
            return self.complain(device, reason, now_ns)
        try:
            return self._intake.not_recorded(device, envelope.read(body), reason, now_ns)
        except SchemaError as error:
            return self.complain(device, str(error), now_ns)

    def beyond_a_day(
        self, device: DeviceId, envelope: Envelope, fault: str, now_ns: int
    ) -> Decision:
        """Put off a message of a device that adds more to the ledger than it may in a day."""
        told = self._intake.told_of_a_day(device, fault, now_ns)
        body = _ANSWERED_KINDS.get(envelope.header.kind)
        if body is None:
            return told + self.complain(device, fault, now_ns)
        return told + self._intake.not_today(device, envelope.read(body), fault, now_ns)

    def defer_for(self, device: DeviceId, envelope: Envelope, reason: str) -> Decision:
        """Ask a device to keep what it gives, for a reason; nothing else is said."""
        body = _ANSWERED_KINDS.get(envelope.header.kind)
        if body is None:
            return _SILENCE
        try:
            return self._intake.not_now(device, envelope.read(body), reason)
        except SchemaError:
            return _SILENCE

    def complain(self, device: DeviceId, text: str, now_ns: int) -> Decision:
        """Tell a device what is wrong with its message, not more often than it may be refused."""
        if not self._live.device(device).may_refuse(now_ns, self._rules.intake.refusals_per_minute):
            return Decision()
        return ask(requests.SendToDevice(device, "ctl", Problem(about="message", text=text[:500])))

    def refuse(self, device: DeviceId, text: str, now_ns: int) -> Decision:
        """Tell a device that something in its name was not believed, now and then.

        Whoever forges messages must not use up the refusals that the device itself may get.
        """
        if not self._live.device(device).may_tell_forgery(now_ns):
            return Decision()
        return ask(requests.SendToDevice(device, "ctl", Problem(about="message", text=text[:500])))

    def doubts(self, device: DeviceId, text: str) -> Decision:
        """Record that an admitted device has seen another history of the ledger."""
        if device not in self._state.devices.admitted:
            return Decision()
        return note_problem(device, Problem(about="ledger", text=text))

    def remind_all(self) -> Decision:
        """Publish every device's assignment and desired model again, as a broker may forget."""
        everybody = self._state.devices.admitted
        self._live.untold.update((("assignment", device), None) for device in everybody)
        self._live.untold.update((("desired", device), None) for device in everybody)
        return self.notify_more()

    def notify_more(self) -> Decision:
        """Tell some of those who are to be told something.

        What a hundred thousand devices are told takes half a minute, in which all that they say
        would wait.
        """
        portion = list(islice(self._live.untold, TOLD_AT_ONCE))
        for told in portion:
            del self._live.untold[told]
        admitted = self._state.devices.admitted
        return together(
            self._assignment(device) if what == "assignment" else self._delivery.notify(device)
            for what, device in portion
            if device in admitted
        )

    def notify_about(self, body: EntryBody, maker: DeviceId | None) -> Decision:
        """Return what devices must be told because of an entry, which the state has taken."""
        notifies = _NOTIFIES.get(type(body))
        if notifies is None:
            return _SILENCE
        notification = notifies(body)
        if notification.what == "round":
            return self._notify_of_round(notification.devices)
        if notification.what == "born" and maker is not None:
            return self._notify(maker, notification)
        admitted = self._state.devices.admitted
        devices = notification.devices or tuple(admitted)
        if notification.what not in _ALSO_TO_OTHERS:
            devices = tuple(device for device in devices if device in admitted)
        if notification.what in _RETAINED and len(devices) > TOLD_AT_ONCE:
            return self._notify_gradually(devices, notification)
        return together(self._notify(device, notification) for device in devices)

    def _notify_gradually(
        self, devices: tuple[DeviceId, ...], notification: Notification
    ) -> Decision:
        """Tell many devices what the broker keeps for them; it is made when it is their turn."""
        what: Literal["assignment", "desired"] = "desired"
        if notification.what == "assignment":
            what = "assignment"
        concerned = (device for device in devices if self._concerns(device, notification))
        self._live.untold.update(((what, device), None) for device in concerned)
        return self.notify_more()

    def _concerns(self, device: DeviceId, notification: Notification) -> bool:
        """Whether an entry may have changed what the broker keeps for a device."""
        match notification.what:
            case "assignment":
                return bool(self._state.stages.by_number)
            case "desired":  # with a root its release comes first
                return self._state.trust.root is None
            case "offered":
                return self._state.trust.root is None and self._is_newest(device)
            case _:
                return self._notified_of_action(device, notification.action)

    def _notify(self, device: DeviceId, notification: Notification) -> Decision:
        """Tell a device again what an entry may have changed for it."""
        match notification.what:
            case "assignment" if self._concerns(device, notification):
                return self._assignment(device)
            case "desired" | "offered" | "released" if self._concerns(device, notification):
                return self._delivery.notify(device)
            case "born":
                return self._delivery.notify(device)
            case "everything":
                return self._greet(device)
            case "installations" if self._is_doubled(device):
                return self._notify_of_twins(device)
            case "installations":
                self._twins.settled(device)
            case "retraction" if not is_cohort(device):
                return ask(newest_retraction_notice(self._state, device))
            case "retirement":
                self._live.device(device).boot = None
                told = Problem(about="identity", text=not_admitted(self._state, device))
                return ask(
                    requests.SendToDevice(device, "ctl", told),
                    *(requests.TakeBack(device, leaf) for leaf in ("assignment", "desired")),
                )
            case "revocation":
                self._live.device(device).boot = None  # it is away, whatever it says
        return _SILENCE

    def _notified_of_action(self, device: DeviceId, action: int | None) -> bool:
        """Whether a device is told what this entry desires; of none, whatever it is told."""
        told = self._delivery.desired_for(device)
        return action is None or (told is not None and told.action == action)

    def _is_newest(self, device: DeviceId) -> bool:
        """Whether a device is to run, or to compare, what the entry just taken in says."""
        told = self._delivery.desired_for(device)
        return told is not None and told.action == self._state.size - 1

    def _notify_of_round(self, devices: tuple[DeviceId, ...] | None) -> Decision:
        """Tell whom the newest round asked just now, or whom it asks no more; all, or these."""
        current = self._state.rounds.current
        assert current is not None
        if current.closed is not None:
            return together(self._assignment(device) for device in current.unheard)
        # The same for everybody who is asked.
        trains = round_assignment(self._state, current)
        asked = current.cohort if devices is None else current.cohort.intersection(devices)
        told = [_told(device, trains) for device in current.opened.cohort if device in asked]
        if current.observers:
            looking = current.opened.observers
            chosen = set(looking if devices is None else devices)
            looks = round_assignment(self._state, current, observes=True)
            told += [_told(device, looks) for device in looking if device in chosen]
        return ask(*told)

    def _born(self, device: DeviceId, boot: BootId, birth: Birth, now_ns: int) -> Decision:
        live, known = self._live.device(device), self._state.devices.admitted[device]
        refused_by = None
        if self._rules.wire.common(birth.wire) is None:
            refused_by = self._rules.wire
        fits = (known.boot, known.wire, known.refused_by) == (boot, birth.wire, refused_by)
        born = DeviceBorn(
            boot=boot,
            installation=birth.installation,
            capabilities=birth.capabilities,
            formers=birth.formers,
            tags=birth.tags,
            wire=birth.wire,
            refused_by=refused_by,
        )
        if refused_by is not None:
            # It reads nothing of what it would be told: for the rules it is away.
            live.leave(now_ns)
            return Decision() if fits else record_for(device, born)
        live.here(boot, self._state.size)
        live.answered(boot)
        seen = birth.seen_checkpoint
        live.seen_size = None if seen is None else seen.size
        live.pending = NOTHING_PENDING
        if fits or self._is_doubled(device):
            # Known already, and perhaps retained by the broker since the device had another model.
            return self._greet(device)
        # Which model it is to run depends on what it can: it is told once the state knows that.
        came = record_for(device, born) + self._models.running(device, birth)
        return came + self._greet(device, model=False, installation=birth.installation)

    def _died(self, device: DeviceId, boot: BootId, now_ns: int) -> Decision:
        live = self._live.device(device)
        if live.boot == boot:
            live.leave(now_ns)
        return Decision()

    def _alive(self, device: DeviceId, boot: BootId, heartbeat: Heartbeat) -> Decision:
        """Repeat what the device should have heard by now and has not."""
        live = self._live.device(device)
        live.beat = Beat.of(heartbeat)
        live.seen_size = heartbeat.seen_size
        if not self._state.devices.admitted[device].led:
            return _SILENCE
        if heartbeat.welcomed and boot in live.born:
            # Whatever came in between was late: the death that the broker told of a connection
            # before this one, or the birth of an earlier run.
            live.here(boot, self._state.size)
        if live.boot != boot or not heartbeat.welcomed:
            # Its birth or our answer was lost; our own birth makes it begin again.
            return ask(requests.AnnounceCoordinator(self._state.size))
        repeated = Decision()
        if _older(heartbeat.assignment_action, action_for(self._state, device)):
            repeated += self._assignment(device)
        told = self._delivery.desired_for(device)
        if told is not None and _older(heartbeat.desired_action, told.action):
            repeated += self._delivery.notify(device)
        if heartbeat.outbox_length == 0 and self._holds_otherwise(device, heartbeat):
            repeated += ask(*self._welcomes(device, boot))
        return repeated

    def _healthy(self, device: DeviceId, envelope: Envelope, now_ns: int) -> Decision:
        """Note how the machine of the run that is connected is; nothing decides by it."""
        health, live = envelope.read(DeviceHealth), self._live.device(device)
        if live.boot == envelope.header.boot:
            live.health, live.health_ns = health.model_dump_json().encode(), now_ns
        return _SILENCE

    def _holds_otherwise(self, device: DeviceId, heartbeat: Heartbeat) -> bool:
        """Whether other parts are held than the device knows.

        Messages of an earlier installation may arrive after the birth of the one that is here.
        """
        here = self._state.devices.admitted[device].installation
        own = self._state.contributions.of(device).own_digest(here)
        return heartbeat.held is not None and heartbeat.held != own

    def _greet(
        self, device: DeviceId, *, model: bool = True, installation: BootId | None = None
    ) -> Decision:
        """Tell a device all that it is to know; one that was just born by its installation."""
        boot = self._live.seen(device).boot
        if boot is None:
            return Decision()
        return (
            ask(*self._welcomes(device, boot, installation))
            + self._assignment(device)
            + (self._delivery.notify(device) if model else _SILENCE)
            + self._notify_of_twins(device)
        )

    def _is_doubled(self, device: DeviceId) -> bool:
        return self._state.devices.admitted[device].doubled is not None

    def _notify_of_twins(self, device: DeviceId) -> Decision:
        """Tell both runs, and who is there now, of a name that two installations have."""
        doubled, boot = self._state.devices.admitted[device].doubled, self._live.seen(device).boot
        told = _SILENCE
        for run in dict.fromkeys(() if doubled is None else (*doubled.runs, boot)):
            if run is not None:
                told += self._twins.complain(device, run, self._twins.told(device, run))
        return told

    def _welcomes(
        self, device: DeviceId, boot: BootId, installation: BootId | None = None
    ) -> list[requests.Request]:
        held = self._own_parts(device, installation)
        next_part = _next_part(self._state, device)
        pages = [held[i : i + MAX_HELD_PARTS] for i in range(0, len(held), MAX_HELD_PARTS)] or [[]]
        # First what was retracted, so that a device does not compute it again as something lost.
        told: list[requests.Request] = [*retraction_notices(self._state, device)]
        return told + [
            requests.SendToDevice(
                device,
                "ctl",
                Welcome(
                    boot=boot,
                    held=tuple(page),
                    more=number < len(pages),
                    next_part=next_part,
                ),
            )
            for number, page in enumerate(pages, start=1)
        ]

    def _own_parts(self, device: DeviceId, installation: BootId | None = None) -> list[HeldPart]:
        """Return what is held of the installation that is here; what others gave is not its."""
        here = installation or self._state.devices.admitted[device].installation
        return self._state.contributions.of(device).own_parts(here)

    def _assignment(self, device: DeviceId) -> Decision:
        body = assignment_for(self._state, device)
        if body is None:
            return Decision()
        return ask(_told(device, body))


def _next_part(state: State, device: DeviceId) -> int:
    """Return a part number above all that a device ever used, answers to rounds among them."""
    answers = state.rounds.of(device).answers
    return max(state.contributions.of(device).next_part, max(answers, default=-1) + 1)


def _told(device: DeviceId, assignment: Assignment) -> requests.SendToDevice:
    return requests.SendToDevice(device, "assignment", assignment, retain=True)


def _older(known: int | None, current: int) -> bool:
    """Whether the action that a device knows is not the current one."""
    return known is None or known < current
