"""The operator's commands, in memory: whoever leads the simulation is the operator."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.inputs import OperatorCommand
from fleetledger.coordinator.program.operator import CommandAnswer
from fleetledger.schemas.values import BootId


class MemoryInbox:
    """Commands that wait, and the answers to those that were carried out.

    The ledger answers a ticket that it knows with its old answer, so `boot`, the name of this
    life of the coordinator, keeps the tickets of a resumed run apart from those of the former one.
    """

    def __init__(self, on_command: Callable[[], None], boot: BootId) -> None:
        self._on_command = on_command
        self._boot = boot
        self._waiting: dict[str, OperatorCommand] = {}
        self._answers: dict[str, CommandAnswer] = {}
        self._numbers = itertools.count(1)

    def submit(self, command: Command) -> str:
        """Put a command in and return its ticket."""
        ticket = f"{self._boot}-{next(self._numbers)}"
        self._waiting[ticket] = OperatorCommand(ticket, command)
        self._on_command()
        return ticket

    def waiting(self) -> list[OperatorCommand]:
        """Return the unanswered commands in their order."""
        return list(self._waiting.values())

    def answer(self, ticket: str, answer: CommandAnswer) -> None:
        """Say what came of a command."""
        self._waiting.pop(ticket, None)
        self._answers[ticket] = answer

    def answer_to(self, ticket: str) -> CommandAnswer | None:
        """Take the answer to a command; None while there is none."""
        return self._answers.pop(ticket, None)

    def close(self) -> None:
        """Nothing is open."""
