"""Commands of the operator: what the command line asks of the coordinator's core."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from coordinator.topics.classes.commands import ClassCommand
from coordinator.topics.clock.commands import ClockCommand
from coordinator.topics.contributions.commands import ContributionCommand
from coordinator.topics.devices.commands import DeviceCommand
from coordinator.topics.keys.commands import KeyCommand
from coordinator.topics.lineages.commands import LineageCommand
from coordinator.topics.models.commands import ModelCommand
from coordinator.topics.releases.commands import ReleaseCommand
from coordinator.topics.rollouts.commands import RolloutCommand
from coordinator.topics.rounds.commands import RoundCommand
from coordinator.topics.stages.commands import StageCommand

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
