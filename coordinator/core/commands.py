"""Commands of the operator: what the command line asks of the coordinator's core."""

from typing import Annotated

from pydantic import Field

from fleetledger.coordinator.topics.classes.commands import ClassCommand
from fleetledger.coordinator.topics.clock.commands import ClockCommand
from fleetledger.coordinator.topics.contributions.commands import ContributionCommand
from fleetledger.coordinator.topics.devices.commands import DeviceCommand
from fleetledger.coordinator.topics.keys.commands import KeyCommand
from fleetledger.coordinator.topics.lineages.commands import LineageCommand
from fleetledger.coordinator.topics.models.commands import ModelCommand
from fleetledger.coordinator.topics.releases.commands import ReleaseCommand
from fleetledger.coordinator.topics.rollouts.commands import RolloutCommand
from fleetledger.coordinator.topics.rounds.commands import RoundCommand
from fleetledger.coordinator.topics.stages.commands import StageCommand

Command = Annotated[
    ClockCommand
    | DeviceCommand
    | KeyCommand
    | LineageCommand
    | ClassCommand
    | StageCommand
    | ContributionCommand
    | RoundCommand
    | ModelCommand
    | ReleaseCommand
    | RolloutCommand,
    Field(discriminator="verb"),
]
