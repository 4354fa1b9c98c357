"""Commands of the operator, each to its rule, with the sentence that answers it."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.core import commands, entries
from coordinator.core.background import check_classes, check_network
from coordinator.core.correcting import Correcting
from coordinator.core.decision import Decision, record
from coordinator.core.doubts import doubts_about
from coordinator.core.enrolling import Enrolling
from coordinator.core.models import Models
from coordinator.core.releases import Releases
from coordinator.core.retracting import Retracting
from coordinator.core.room import check_lineage, check_other_name
from coordinator.core.stages import Stages, check_new_name
from coordinator.core.state import State
from coordinator.core.twins import Twins
from coordinator.core.void_rounds import resume
from coordinator.errors import CommandError, QuestionError, UnknownClassError
from schemas.envelope import COORDINATOR, PROXY
from schemas.values import ClassName, DeviceId


@dataclass(frozen=True)
class Rooms:
    """The rules that commands are of."""

    stages: Stages
    models: Models
    enrolling: Enrolling
    releases: Releases
    twins: Twins
    correcting: Correcting


class Operator:
    """Carries out commands; each either decides entries or raises `CommandError`."""

    def __init__(self, state: State, rooms: Rooms) -> None:
        self._state = state
        self._stages = rooms.stages
        self._models = rooms.models
        self._retracting = Retracting(state)
        self._releases = rooms.releases
        self._enrolling = rooms.enrolling
        self._twins = rooms.twins
        self._correcting = rooms.correcting

    def carry_out(
        self, command: commands.Command, *, actor: str, now_ns: int
    ) -> tuple[Decision, str]:
        """Return what the command decides and a sentence for the operator."""
        match command:
            case commands.AdmitDevice(device=device):
                return self._admit(device), f"device {device} is admitted"
            case commands.InviteDevice() | commands.RevokeKey() | commands.SettleTwins():
                return self._about_identity(command)
            case commands.ImportBackbone() | commands.ImportNetwork():
                return self._imported(command, actor=actor)
            case commands.OpenStage() | commands.CloseStage():
                return self._about_stages(command, actor=actor)
            case commands.ResumeRounds():
                return resume(self._state, actor=actor), "the next round opens"
            case commands.RenameClass(old=old, new=new):
                return self._rename(old, new), f"class {old} is now {new}; {old} stays an alias"
            case commands.MergeClasses(source=source, target=target):
                return self._merge(source, target), f"{source} now means {target}"
            case commands.PublishRoot() | commands.SignModel():
                return self._about_releases(command)
            case commands.PushModel() | commands.HoldModels() | commands.GoBack():
                return self._about_models(command)
            case commands.CorrectClock():
                return self._correcting.correct(now_ns)
            case commands.RetractContributions():
                return self._retracting.retract(command)

    def _imported(
        self, command: commands.ImportBackbone | commands.ImportNetwork, *, actor: str
    ) -> tuple[Decision, str]:
        if isinstance(command, commands.ImportBackbone):
            backbone = command.backbone
            check_lineage(self._state, backbone)
            text = f"frozen model {backbone.frozen.digest.short} leads; heads begin anew"
            return record(backbone, actor=actor), text
        network = command.network
        check_lineage(self._state, network)
        check_network(self._state, network)
        text = f"network {network.digest.short} leads; it begins with its first weights"
        return record(network, actor=actor), text

    def _about_stages(
        self, command: commands.OpenStage | commands.CloseStage, *, actor: str
    ) -> tuple[Decision, str]:
        if isinstance(command, commands.CloseStage):
            return self._stages.close(actor=actor), "the stage is closed"
        names = command.class_names
        decision = self._stages.open(names, actor=actor)
        if command.asks:
            self._ask_about(names)
        stage = (self._state.current_stage or 0) + 1
        return decision, f"stage {stage} is open for {', '.join(names)}"

    def _ask_about(self, names: tuple[ClassName, ...]) -> None:
        """Raise `QuestionError` where names look mistyped, or devices are missing in a stage."""
        doubts = doubts_about(self._state, names) + self._stages.unfinished()
        if doubts:
            raise QuestionError("\n".join(doubts))

    def _about_releases(
        self, command: commands.PublishRoot | commands.SignModel
    ) -> tuple[Decision, str]:
        if isinstance(command, commands.PublishRoot):
            return self._releases.publish(command)
        return self._releases.take(command)

    def _about_models(
        self, command: commands.PushModel | commands.HoldModels | commands.GoBack
    ) -> tuple[Decision, str]:
        if isinstance(command, commands.PushModel):
            whom = ", ".join(command.devices) if command.devices else "all devices"
            decision = self._models.push(command.version, command.devices)
            waits = self._releases.told(command.version, command.devices)
            return decision, f"model {command.version} goes to {whom}{waits}"
        if isinstance(command, commands.HoldModels):
            text = "new models go out again"
            if command.held:
                text = (
                    "new models wait for `fleetledger model push VERSION`; `fleetledger model hold "
                    "--release` lets them go out by themselves again"
                )
            return self._models.hold(command.held), text
        back, version, text = self._models.back(command)
        return back, text + self._releases.told(version, None)

    def _about_identity(
        self, command: commands.InviteDevice | commands.RevokeKey | commands.SettleTwins
    ) -> tuple[Decision, str]:
        if isinstance(command, commands.SettleTwins):
            return self._twins.settle(command)
        if isinstance(command, commands.RevokeKey):
            return self._enrolling.revoke(command)
        return self._enrolling.invite(command, self._admit(command.device))

    def _admit(self, device: DeviceId) -> Decision:
        if device in (COORDINATOR, PROXY):
            raise CommandError(
                f"device: {str(device)!r} is the {device}'s own name; rename the device"
            )
        if device in self._state.devices:
            return Decision()
        return record(entries.DeviceAdmitted(device=device), actor=entries.OPERATOR)

    def _rename(self, old: ClassName, new: ClassName) -> Decision:
        old = self._resolve(old)
        check_classes(self._state, (new,))
        check_new_name(new)
        if new in self._state.classes.indices:
            raise CommandError(
                f"class: {str(new)!r} exists; to make both one use `fleetledger class merge`"
            )
        meant = self._state.classes.aliases.get(new)
        if meant is not None and self._resolve(new) != old:
            raise CommandError(f"class: {str(new)!r} is another name of {str(meant)!r}")
        check_other_name(self._state, new)
        return record(entries.ClassRenamed(old=old, new=new), actor=entries.OPERATOR)

    def _merge(self, source: ClassName, target: ClassName) -> Decision:
        source, target = self._resolve(source), self._resolve(target)
        if source == target:
            raise CommandError(f"class: both names mean {str(target)!r} already")
        check_other_name(self._state, target)
        body = entries.ClassMerged(source=source, target=target)
        return record(body, actor=entries.OPERATOR)

    def _resolve(self, name: ClassName) -> ClassName:
        try:
            return self._state.classes.resolve(name)
        except UnknownClassError as error:
            raise CommandError(str(error)) from error
