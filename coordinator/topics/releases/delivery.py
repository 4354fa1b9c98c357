"""What a device is told to run: what is desired, and with a root what was released last."""

from __future__ import annotations

from fleetledger.coordinator.core.decision import Decision, ask
from fleetledger.coordinator.core.requests import SendToDevice
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.models.state import DesiredVersion
from fleetledger.coordinator.topics.releases.state import Released
from fleetledger.schemas.models import MAX_LACKING, DesiredModel
from fleetledger.schemas.values import ClassName, DeviceId


class Delivery:
    """Tells devices which model to run."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._lacks_at = (-1, -1)
        self._lacks: tuple[ClassName, ...] = ()
        """Of that version and registry: what is told to many devices is looked up once."""

    def desired_for(self, device: DeviceId) -> DesiredVersion | Released | None:
        """Return what `device` is told to run: with a root, what was released last for it."""
        trust = self._state.trust
        if trust.root is None:
            return self._state.models.desired_for(device)
        return trust.released_for(device)

    def notify(self, device: DeviceId) -> Decision:
        """Publish the model that `device` is to run, if there is one."""
        told = self.desired_for(device)
        if told is None:
            return Decision()
        message = self._message(told)
        if told.group is not None:
            message = message.model_copy(
                update={
                    "rollout": told.group.rollout,
                    "group": told.group.group,
                    "mode": "shadow" if told.group.mode == "shadow" else None,
                    "hours": told.group.hours,
                    "settle_seconds": told.group.settle_seconds,
                }
            )
        return ask(SendToDevice(device, "desired", message, retain=True))

    def _message(self, told: DesiredVersion | Released) -> DesiredModel:
        """Return the message that names the files of a version, its release and the roots."""
        exported, trust = self._state.models.by_version[told.version].exported, self._state.trust
        assert exported is not None  # only exported models become desired
        return DesiredModel(
            action=told.action,
            version=told.version,
            manifest=exported.manifest,
            files=exported.files,
            variants=exported.variants,
            release=trust.releases.get(told.action),
            roots=tuple(trust.roots),
            lacks=self._lacking(told.version),
        )

    def _lacking(self, version: int) -> tuple[ClassName, ...]:
        """Return every name of the classes that a learned model does not know."""
        if self._lacks_at != (version, self._state.classes.changed):
            self._lacks_at = (version, self._state.classes.changed)
            self._lacks = self._state.lacking(version)[:MAX_LACKING]
        return self._lacks
