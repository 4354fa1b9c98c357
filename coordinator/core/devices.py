"""What devices say, each message to its rule, and what devices are told.

A message from a device that is not admitted never reaches the ledger. A body that breaks the
protocol is answered with a `Problem` that names field and value, so the owner can mend it.
"""

from __future__ import annotations

from coordinator.core import entries
from coordinator.core.assigning import assignment_for, round_assignment
from coordinator.core.background import is_taken
from coordinator.core.decision import Decision, ask, record_for, together
from coordinator.core.intake import Intake, Letter
from coordinator.core.live import Live
from coordinator.core.models import Models
from coordinator.core.requests import AnnounceCoordinator, Request, SendToDevice
from coordinator.core.retraction_refusals import told_of_retraction, told_of_retractions
from coordinator.core.rules import IntakeRules
from coordinator.core.state import State
from coordinator.core.twins import Twins
from schemas.assignments import Assignment
from schemas.class_names import fault_of
from schemas.contributions import Contribution, Nothing, Withdrawal, held_digest
from schemas.envelope import Envelope
from schemas.errors import SchemaError
from schemas.models import BACKGROUND, ModelStatus
from schemas.presence import MAX_HELD_PARTS, Birth, Death, Heartbeat, Welcome
from schemas.reports import Evaluation, Problem, Transition, WaitingClasses
from schemas.values import BootId, DeviceId

_CHANGES_ASSIGNMENT = (
    entries.BackboneImported,
    entries.NetworkImported,
    # Not ClassNamed: the stage that it is named for follows in the same decision, and a device
    # that heard of the name first would count its images for the stage before.
    entries.ClassRenamed,
    entries.ClassMerged,
    entries.StageOpened,
)
_TOLD = frozenset(
    (
        *_CHANGES_ASSIGNMENT,
        entries.RoundOpened,
        entries.RoundClosed,
        entries.ModelDesired,
        entries.RootPublished,
        entries.ReleaseSigned,
        entries.DeviceAdmitted,
        entries.DeviceKeyRevoked,
        entries.ContributionRetracted,
        entries.DeviceDoubled,
        entries.DeviceSettled,
    )
)
"""Entries of which devices are told; most are none."""
_SILENCE = Decision()

_LETTERS: dict[str, type[Letter]] = {
    body.kind: body for body in (Contribution, Withdrawal, Nothing, Transition)
}
_ANSWERED = tuple(_LETTERS)


class Devices:
    """Decides about messages of devices."""

    def __init__(
        self,
        rules: IntakeRules,
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
            if device not in self._state.devices:
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
            return found + self._twins.complain(device, text)
        return found

    def _unless_shut_out(self, device: DeviceId, envelope: Envelope, now_ns: int) -> Decision:
        """Decide about a message, unless its installation was shut out, or has to wait."""
        header = envelope.header
        shut_out = self._twins.shut_out(device, header.boot)
        waits = "" if shut_out else self._twins.waits(device, header.boot, now_ns)
        if header.kind in _ANSWERED and (shut_out or waits):
            letter = envelope.read(_LETTERS[header.kind])
            return self._intake.not_now(device, letter, shut_out or waits)
        if not shut_out:
            return self._by_kind(device, envelope, now_ns)
        if header.kind == Death.kind or not self._live.device(device).may_tell_forgery(now_ns):
            return _SILENCE
        return self._twins.complain(device, shut_out)

    def _by_kind(self, device: DeviceId, envelope: Envelope, now_ns: int) -> Decision:
        if envelope.header.kind in _ANSWERED:
            return self._answered(device, envelope, now_ns)
        if device not in self._state.devices:
            text = (
                f"device: {str(device)!r} is not admitted; `fleetledger coordinator admit {device}`"
            )
            return self.complain(device, text, now_ns)
        match envelope.header.kind:
            case Birth.kind:
                return self._born(device, envelope.header.boot, envelope.read(Birth))
            case Death.kind:
                return self._died(device, envelope.header.boot)
            case Heartbeat.kind:
                return self._alive(device, envelope.header.boot, envelope.read(Heartbeat))
            case ModelStatus.kind:
                return self._model_status(device, envelope.read(ModelStatus))
            case Evaluation.kind:
                return self._evaluated(device, envelope.read(Evaluation))
            case WaitingClasses.kind:
                return self._waiting(device, envelope.read(WaitingClasses), now_ns)
            case Problem.kind:
                problem = envelope.read(Problem)
                return record_for(
                    device, entries.DeviceProblem(about=problem.about, text=problem.text)
                )
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
            case _:
                return self._intake.transition(device, envelope.read(Transition), now_ns)

    def put_off(self, device: DeviceId, envelope: Envelope, seconds: float) -> Decision:
        """Ask a device that has used up its quota to send a letter again; nothing else is said."""
        body = _LETTERS.get(envelope.header.kind)
        if body is None:
            return _SILENCE
        try:
            return self._intake.put_off(device, envelope.read(body), seconds)
        except SchemaError:
            return _SILENCE  # it is read, and refused, when there is room

    def complain(self, device: DeviceId, text: str, now_ns: int) -> Decision:
        """Tell a device what is wrong with its message, not more often than it may be refused."""
        if not self._live.device(device).may_refuse(now_ns, self._rules.refusals_per_minute):
            return Decision()
        return ask(SendToDevice(device, "ctl", Problem(about="message", text=text[:500])))

    def refuse(self, device: DeviceId, text: str, now_ns: int) -> Decision:
        """Tell a device that something in its name was not believed, now and then.

        Whoever forges messages must not use up the refusals that the device itself may get.
        """
        if not self._live.device(device).may_tell_forgery(now_ns):
            return Decision()
        return ask(SendToDevice(device, "ctl", Problem(about="message", text=text[:500])))

    def doubts(self, device: DeviceId, text: str) -> Decision:
        """Record that an admitted device has seen another history of the ledger."""
        if device not in self._state.devices:
            return Decision()
        return record_for(device, entries.DeviceProblem(about="ledger", text=text))

    def remind_all(self) -> Decision:
        """Publish every device's assignment and desired model again, as a broker may forget."""
        return together(
            self._assignment(device) + self._models.tell(device) for device in self._state.devices
        )

    def tell_about(self, body: entries.EntryBody) -> Decision:
        """Return what devices must be told because of an entry."""
        if type(body) not in _TOLD:
            return _SILENCE
        if isinstance(body, entries.StageOpened) or (
            isinstance(body, _CHANGES_ASSIGNMENT) and self._state.stages
        ):
            return together(self._assignment(device) for device in self._state.devices)
        if isinstance(body, entries.RoundOpened):
            # The same for everybody who was asked just now.
            trains = round_assignment(self._state, body)
            told = [_told(device, trains) for device in body.cohort]
            if body.observers:
                looks = round_assignment(self._state, body, observes=True)
                told += [_told(device, looks) for device in body.observers]
            return ask(*told)
        if isinstance(body, entries.RoundClosed):
            unheard = self._state.rounds[body.number].unheard
            return together(self._assignment(device) for device in unheard)
        return self._tell_of_model(body) + self._tell_one(body)

    def _tell_of_model(self, body: entries.EntryBody) -> Decision:
        """Return what devices must be told of a model that is to run."""
        devices: tuple[DeviceId, ...] | None
        match body:
            case entries.ModelDesired(devices=devices):
                if self._state.trust.root is not None:
                    return _SILENCE  # its release comes first
            case entries.ReleaseSigned(signed=signed):
                devices = signed.release.devices
            case entries.RootPublished():
                devices = None
            case _:
                return _SILENCE
        return together(self._models.tell(name) for name in devices or tuple(self._state.devices))

    def _tell_one(self, body: entries.EntryBody) -> Decision:
        """Return what one device must be told of what was decided of it."""
        match body:
            case entries.DeviceAdmitted(device=device):
                return self._greet(device)
            case entries.DeviceKeyRevoked(device=device):
                self._live.device(device).boot = None  # it is away, whatever it says
            case entries.ContributionRetracted(device=device, key=key):
                return ask(told_of_retraction(self._state, device, key))
            case entries.DeviceDoubled(device=device):
                return self._tell_of_twins(device)
            case entries.DeviceSettled():
                self._twins.settled(body)
        return _SILENCE

    def _born(self, device: DeviceId, boot: BootId, birth: Birth) -> Decision:
        live = self._live.device(device)
        live.here(boot, self._state.size)
        live.born.add(boot)
        seen = birth.seen_checkpoint
        live.seen_size = None if seen is None else seen.size
        live.pending.clear()
        if self._state.devices[device].boot == boot or self._is_doubled(device):
            # Known already, and perhaps retained by the broker since the device had another model.
            return self._greet(device)
        body = entries.DeviceBorn(
            boot=boot, installation=birth.installation, capabilities=birth.capabilities
        )
        return record_for(device, body) + self._running(device, birth) + self._greet(device)

    def _running(self, device: DeviceId, birth: Birth) -> Decision:
        """Record the model that a device says it runs, if its own report of it was lost."""
        known = self._state.models.get(birth.active_version or 0)
        if known is None or known.exported is None or birth.active_manifest is None:
            return Decision()
        if known.exported.manifest.digest != birth.active_manifest:
            return Decision()
        body = entries.DeviceModelStatus(
            version=known.solved.version, manifest=birth.active_manifest, state="active"
        )
        return self._models.status(device, body)

    def _died(self, device: DeviceId, boot: BootId) -> Decision:
        live = self._live.device(device)
        if live.boot == boot:
            live.boot = None
        return Decision()

    def _alive(self, device: DeviceId, boot: BootId, heartbeat: Heartbeat) -> Decision:
        """Repeat what the device should have heard by now and has not."""
        live = self._live.device(device)
        live.heartbeat = heartbeat
        live.seen_size = heartbeat.seen_size
        if heartbeat.welcomed and boot in live.born:
            # Whatever came in between was late: the death that the broker told of a connection
            # before this one, or the birth of an earlier run.
            live.here(boot, self._state.size)
        if live.boot != boot or not heartbeat.welcomed:
            # Its birth or our answer was lost; our own birth makes it begin again.
            return ask(AnnounceCoordinator(self._state.size))
        repeated = Decision()
        if _older(heartbeat.assignment_action, self._state.action_for(device)):
            repeated += self._assignment(device)
        told = self._models.told(device)
        if told is not None and _older(heartbeat.desired_action, told.action):
            repeated += self._models.tell(device)
        if heartbeat.outbox_length == 0 and self._holds_otherwise(device, heartbeat):
            repeated += ask(*self._welcomes(device, boot))
        return repeated

    def _holds_otherwise(self, device: DeviceId, heartbeat: Heartbeat) -> bool:
        """Whether other parts are held than the device knows.

        Letters of an earlier installation may arrive after the birth of the one that is here.
        """
        held = self._state.devices[device].held_parts()
        return heartbeat.held is not None and heartbeat.held != held_digest(held)

    def _greet(self, device: DeviceId) -> Decision:
        boot = self._live.device(device).boot
        if boot is None:
            return Decision()
        return (
            ask(*self._welcomes(device, boot))
            + self._assignment(device)
            + self._models.tell(device)
            + self._tell_of_twins(device)
        )

    def _is_doubled(self, device: DeviceId) -> bool:
        return self._state.devices[device].doubled is not None

    def _tell_of_twins(self, device: DeviceId) -> Decision:
        """Tell whoever is there under a name that two installations have."""
        boot = self._live.device(device).boot
        text = "" if boot is None else self._twins.told(device, boot)
        return self._twins.complain(device, text) if text else _SILENCE

    def _welcomes(self, device: DeviceId, boot: BootId) -> list[Request]:
        record = self._state.devices[device]
        held = record.held_parts()
        pages = [held[i : i + MAX_HELD_PARTS] for i in range(0, len(held), MAX_HELD_PARTS)] or [[]]
        # First what was retracted, so that a device does not compute it anew as something lost.
        told: list[Request] = [*told_of_retractions(self._state, device)]
        return told + [
            SendToDevice(
                device,
                "ctl",
                Welcome(
                    boot=boot,
                    held=tuple(page),
                    more=number < len(pages),
                    next_part=record.next_part,
                ),
            )
            for number, page in enumerate(pages, start=1)
        ]

    def _assignment(self, device: DeviceId) -> Decision:
        body = assignment_for(self._state, device)
        if body is None:
            return Decision()
        return ask(_told(device, body))

    def _model_status(self, device: DeviceId, status: ModelStatus) -> Decision:
        if status.state not in ("active", "failed", "rolled_back"):
            return Decision()
        body = entries.DeviceModelStatus(
            version=status.version,
            manifest=status.manifest,
            state=status.state,
            reason=status.reason,
        )
        return self._models.status(device, body)

    def _evaluated(self, device: DeviceId, evaluation: Evaluation) -> Decision:
        if self._state.devices[device].evaluated_version == evaluation.model_version:
            return Decision()
        model = self._state.models.get(evaluation.model_version)
        lineage = None if model is None else model.lineage
        of_pixels = isinstance(lineage, entries.NetworkImported) and lineage.segments
        body = entries.DeviceEvaluated(
            version=evaluation.model_version,
            results=evaluation.results,
            provider=evaluation.provider,
            seconds=evaluation.seconds,
            bytes_up=evaluation.bytes_up,
            bytes_down=evaluation.bytes_down,
            losses=evaluation.losses,
            answers="pixels" if of_pixels else "sample",
        )
        return record_for(device, body)


def _told(device: DeviceId, assignment: Assignment) -> SendToDevice:
    return SendToDevice(device, "assignment", assignment, retain=True)


def _older(known: int | None, current: int) -> bool:
    """Whether the action that a device knows is not the current one."""
    return known is None or known < current
