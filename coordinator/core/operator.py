"""Commands of the operator, each to the rules of its topic."""

from __future__ import annotations

from dataclasses import dataclass

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.decision import Decision
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.classes import rules as classes
from fleetledger.coordinator.topics.classes.commands import ClassCommand
from fleetledger.coordinator.topics.clock.commands import ClockCommand
from fleetledger.coordinator.topics.clock.rules import Correcting
from fleetledger.coordinator.topics.contributions import commands as contribution_commands
from fleetledger.coordinator.topics.contributions.retraction import Retracting, count_in
from fleetledger.coordinator.topics.contributions.rules import Intake
from fleetledger.coordinator.topics.devices import commands as device_commands
from fleetledger.coordinator.topics.devices.rules import admit, retire, tag
from fleetledger.coordinator.topics.devices.twins import Twins
from fleetledger.coordinator.topics.keys.commands import KeyCommand
from fleetledger.coordinator.topics.keys.rules import KeyRules
from fleetledger.coordinator.topics.lineages import rules as lineages
from fleetledger.coordinator.topics.lineages.commands import LineageCommand
from fleetledger.coordinator.topics.models.commands import ModelCommand
from fleetledger.coordinator.topics.models.rules import Models
from fleetledger.coordinator.topics.releases.commands import ReleaseCommand
from fleetledger.coordinator.topics.releases.rules import Releases
from fleetledger.coordinator.topics.rollouts.commands import RolloutCommand
from fleetledger.coordinator.topics.rollouts.rules import Rollouts
from fleetledger.coordinator.topics.rounds.adapters import Adapting
from fleetledger.coordinator.topics.rounds.commands import AdaptModel, RoundCommand
from fleetledger.coordinator.topics.rounds.void import resume
from fleetledger.coordinator.topics.stages.commands import StageCommand
from fleetledger.coordinator.topics.stages.rules import Stages


@dataclass(frozen=True)
class Operator:
    """Carries out commands; each either decides entries or raises `CommandError`."""

    state: State
    correcting: Correcting
    twins: Twins
    intake: Intake
    enrolling: KeyRules
    stages: Stages
    adapting: Adapting
    models: Models
    releases: Releases
    rollouts: Rollouts
    learning: bool
    """Whether the fleet learns at all."""

    def carry_out(self, command: Command, now_ns: int) -> tuple[Decision, str]:
        """Return what the command decides and a sentence for the operator."""
        if not self.learning and isinstance(command, LineageCommand | StageCommand | RoundCommand):
            raise CommandError(
                f"{command.verb}: this fleet runs models and does not learn (learning = false in "
                "coordinator.toml); `fleetledger model import FILE --preprocessing FILE` brings one"
            )
        if isinstance(command, ClockCommand):
            return self.correcting.correct(now_ns)
        if isinstance(command, device_commands.DeviceCommand):
            return self._of_devices(command)
        if isinstance(command, KeyCommand):
            return self.enrolling.carry_out(command)
        if isinstance(command, LineageCommand):
            return lineages.carry_out(self.state, command)
        if isinstance(command, ClassCommand):
            return classes.carry_out(self.state, command)
        if isinstance(command, StageCommand):
            return self.stages.carry_out(command)
        if isinstance(command, contribution_commands.ContributionCommand):
            return self._of_contributions(command)
        if isinstance(command, ModelCommand):
            decision, text = self.models.carry_out(command)
            ended, words = self.rollouts.gives_way(decision)
            return ended + decision, text + words
        if isinstance(command, ReleaseCommand):
            return self.releases.carry_out(command)
        if isinstance(command, RolloutCommand):
            return self.rollouts.carry_out(command)
        if isinstance(command, AdaptModel):
            return self.adapting.carry_out(command)
        return resume(self.state)

    def _of_devices(self, command: device_commands.DeviceCommand) -> tuple[Decision, str]:
        if isinstance(command, device_commands.AdmitDevice):
            return admit(self.state, command.device), f"device {command.device} is admitted"
        if isinstance(command, device_commands.RetireDevice):
            return self._retire(command)
        if isinstance(command, device_commands.SettleTwins):
            return self.twins.settle(command)
        return tag(self.state, command)

    def _of_contributions(
        self, command: contribution_commands.ContributionCommand
    ) -> tuple[Decision, str]:
        if isinstance(command, contribution_commands.CountIn):
            return count_in(self.state, command)
        if isinstance(command, contribution_commands.SettleEarlier):
            return self.intake.settle_earlier(command)
        return Retracting(self.state).retract(command)

    def _retire(self, command: device_commands.RetireDevice) -> tuple[Decision, str]:
        """Retire a device; what it gave stays in the sum, or leaves it."""
        device, retracting = command.device, Retracting(self.state)
        retired = retire(self.state, device, command.reason)
        text = (
            f"device {device} is retired; `fleetledger coordinator admit {device}` brings it back"
        )
        if not command.retracts:
            return retired, f"{text}; what it gave stays"
        if not retracting.gave(device):
            why = retracting.in_cohorts(device) or "it gave nothing that could be taken out"
            return retired, f"{text}; {why.removeprefix('device: ')}"
        body = contribution_commands.RetractContributions(device=device, reason=command.reason)
        taken_out, said = retracting.retract(body)
        return taken_out + retired, f"{text}; {said}"
