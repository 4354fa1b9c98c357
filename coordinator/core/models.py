"""Models: when one is solved, which one devices are to run, and what devices say of it."""

from __future__ import annotations

from coordinator.core import entries
from coordinator.core.bounds import Bounds
from coordinator.core.commands import GoBack
from coordinator.core.decision import Decision, ask, record, record_for
from coordinator.core.fleet_models import earlier
from coordinator.core.live import NANOSECONDS, Live
from coordinator.core.records import Desired, Model
from coordinator.core.release_records import Released
from coordinator.core.requests import ExportHead, SendToDevice, SolveHead, SolveInput
from coordinator.core.rules import Rules
from coordinator.core.state import State
from coordinator.core.wording import some
from coordinator.errors import CommandError
from schemas.models import DesiredModel
from schemas.values import DeviceId


class Models:
    """Decides what is solved and what is desired."""

    def __init__(self, rules: Rules, state: State, live: Live) -> None:
        self._rules = rules.models
        self._bounds = Bounds(rules.bounds, state)
        self._state = state
        self._live = live
        self._weighed_size: int | None = None
        self._waits = False

    def look(self, now_ns: int) -> Decision:
        """Ask for the export of a solved head, or for a new head if it is time for one."""
        if self._live.making_model:
            return Decision()
        newest = self._state.newest_model
        if newest is not None and newest.exported is None and self._state.failed is None:
            self._live.making_model = True
            return ask(
                ExportHead(
                    newest.solved,
                    newest.solved_index,
                    newest.solved_ns,
                    newest.lineage,
                    self._state.logit_scale if newest.lineage == self._state.lineage else None,
                )
            )
        if self._resting(now_ns):
            return Decision()
        weighed = self._bounds.look()
        if weighed.entries:
            return weighed  # what counts is decided before it is summed
        if not self._waiting() or not self._due(now_ns):
            return Decision()
        self._live.making_model = True
        self._live.last_model_ns = now_ns
        return ask(self._recipe())

    def solved(self, body: entries.ModelSolved) -> Decision:
        """Record a solved head, unless it was recorded or another frozen model leads by now.

        Its export is asked for with the next look.
        """
        self._live.making_model = False
        if body.lineage != self._lineage() or body.version in self._state.models:
            return Decision()
        return record(body.model_copy(update={"descends": self._state.descending_now}))

    def exported(self, body: entries.ModelExported) -> Decision:
        """Record an exported model; make it desired unless models are held."""
        self._live.making_model = False
        if self._state.models[body.version].exported is not None:
            return Decision()
        decision = record(body)
        if self._rules.automatic and not self._state.held:
            inputs = self._state.models[body.version].solved.inputs
            reason = f"solved from {len(inputs)} contributions"
            decision += record(entries.ModelDesired(version=body.version, reason=reason))
        return decision

    def not_made(self, failure: entries.ModelFailed) -> Decision:
        """Record a failure, so that the same inputs are not tried again."""
        self._live.making_model = False
        return record(failure)

    def push(self, version: int, devices: tuple[DeviceId, ...] | None) -> Decision:
        """Make a version desired; raise `CommandError` if it or a device does not exist."""
        self._exported(version)
        for device in devices or ():
            if device not in self._state.devices:
                raise CommandError(f"device: {str(device)!r} is not admitted to this fleet")
        body = entries.ModelDesired(version=version, devices=devices, reason="operator")
        return record(body, actor=entries.OPERATOR)

    def hold(self, held: bool) -> Decision:
        """Stop solved models from going out by themselves, or let them again."""
        return record(entries.ModelsHeld(held=held), actor=entries.OPERATOR)

    def back(self, command: GoBack) -> tuple[Decision, int, str]:
        """Go back to what all devices were to run before, and hold so that it stays.

        Devices with a version of their own keep it, unless the command takes them back too.
        Returns that version and a sentence too; raises `CommandError` where there is none.
        """
        state = self._state
        version = _goes_to(state.fleet_models, command)
        body = entries.ModelDesired(
            version=version, reason=entries.TAKEN_BACK, returns=True, spares=not command.canaries
        )
        kept = "" if command.canaries else self._kept()
        text = (
            f"model {version} is desired of all devices, which were to run "
            f"{state.fleet_models[-1]};{kept} new models are held until `fleetledger model hold "
            "--release`"
        )
        return self.hold(held=True) + record(body, actor=entries.OPERATOR), version, text

    def _kept(self) -> str:
        """Return who keeps a version of its own, in words; empty where nobody does."""
        own: dict[int, list[str]] = {}
        for device, desired in self._state.desired_by_device.items():
            own.setdefault(desired.version, []).append(device)
        return "".join(
            f" model {version} stays on {some(sorted(devices))};"
            for version, devices in sorted(own.items())
        )

    def told(self, device: DeviceId) -> Desired | Released | None:
        """Return what `device` is told to run: with a root, what was released last for it."""
        trust = self._state.trust
        if trust.root is None:
            return self._state.desired_for(device)
        return trust.released_for(device)

    def tell(self, device: DeviceId) -> Decision:
        """Publish the model that `device` is to run, if there is one."""
        told = self.told(device)
        if told is None:
            return Decision()
        message = self.desired_message(told)
        return ask(SendToDevice(device, "desired", message, retain=True))

    def desired_message(self, told: Desired | Released) -> DesiredModel:
        """Return the message that names the files of a version, its release and the roots."""
        exported, trust = self._exported(told.version), self._state.trust
        return DesiredModel(
            action=told.action,
            version=told.version,
            manifest=exported.manifest,
            files=exported.files,
            release=trust.releases.get(told.action),
            roots=tuple(trust.roots),
        )

    def status(self, device: DeviceId, body: entries.DeviceModelStatus) -> Decision:
        """Record what became of a model on a device, once per change."""
        seen = self._state.devices[device].model_versions_seen.get(body.version)
        known = self._state.devices[device]
        same_version = known.active_version == body.version or body.state != "active"
        if seen == body.state and same_version:
            return Decision()
        return record_for(device, body)

    def _exported(self, version: int) -> entries.ModelExported:
        model: Model | None = self._state.models.get(version)
        if model is None or model.exported is None:
            raise CommandError(
                f"version: {version} is not a model; `fleetledger model list` shows the versions"
            )
        return model.exported

    def _resting(self, now_ns: int) -> bool:
        """Whether no model is due whatever came, so that nobody needs to go through it all."""
        return self._live.last_model_ns is not None and not self._due(now_ns)

    def _waiting(self) -> bool:
        """Whether a model of what is held now would differ; the same until the next entry."""
        if self._weighed_size != self._state.size:
            self._weighed_size, self._waits = self._state.size, self._differs()
        return self._waits

    def _differs(self) -> bool:
        """Whether a model of what is held now would differ from the last one, made or failed."""
        inputs, names = self._state.inputs(), self._state.learned_names()
        if not inputs:
            return False
        newest, failed = self._state.newest_model, self._state.failed
        if failed is not None and (failed.inputs, failed.class_names) == (inputs, names):
            return False
        if newest is None:
            return True
        return (newest.solved.inputs, newest.solved.class_names) != (inputs, names) or (
            newest.solved.lineage != self._lineage()
        )

    def _due(self, now_ns: int) -> bool:
        if self._closed_since() and self._state.failed is None:
            return True
        last = self._live.last_model_ns
        if last is None:
            last = self._live.last_model_ns = now_ns
        return now_ns - last >= self._rules.solve_every_seconds * NANOSECONDS

    def _closed_since(self) -> bool:
        """Whether the newest stage was closed after the newest model was solved."""
        stage = self._state.stages.get(self._state.current_stage or 0)
        if stage is None or stage.closed_index is None:
            return False
        newest = self._state.newest_model
        return newest is None or newest.solved_index < stage.closed_index

    def _recipe(self) -> SolveHead:
        state = self._state
        assert isinstance(state.lineage, entries.BackboneImported)
        return SolveHead(
            version=max(state.models, default=0) + 1,
            lineage=state.lineage,
            inputs=tuple(self._input(index) for index in state.inputs()),
            class_names=state.learned_names(),
            resolution=state.classes.resolution(),
        )

    def _input(self, index: int) -> SolveInput:
        counted = self._state.counted[index]
        return SolveInput(index, counted.payload, counted.key.stage)

    def _lineage(self) -> str:
        assert self._state.lineage is not None
        return self._state.lineage.digest


def _goes_to(stack: list[int], command: GoBack) -> int:
    """Return the version to go back to; raise `CommandError` where there is none."""
    below = earlier(stack)
    if not below:
        runs = f"{stack[-1]} is the only one" if stack else "there was none"
        raise CommandError(
            f"model: nothing to go back to: of versions for all devices {runs}; `fleetledger model "
            "push VERSION` makes another one theirs, and ends what single devices try"
        )
    if command.leaving not in (None, stack[-1]):
        raise CommandError(
            f"model: all devices are to run {stack[-1]} by now, not {command.leaving}; look again"
        )
    if command.to in (None, *below):
        return command.to or below[0]
    raise CommandError(
        f"version: {command.to} is none that all devices can go back to; those are "
        f"{some(below)}; `fleetledger model push {command.to}` makes "
        "any version theirs"
    )
