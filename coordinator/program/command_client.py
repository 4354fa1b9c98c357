"""Operator's commands are submitted here, and their answers waited for.

A coordinator that runs carries them out. Where none runs this process does, unless told otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.errors import CommandError, OperatorTimeoutError, QuestionError
from fleetledger.coordinator.program.operator import POLL_SECONDS, CommandAnswer, OperatorInbox

Meanwhile = Callable[[], None]
"""Called again and again while an answer is awaited; what it raises ends the waiting."""


def nothing_else() -> None:
    """Do nothing while an answer is awaited."""


def carried_out(
    home: Path,
    command: Command,
    *,
    alone: bool = True,
    timeout_seconds: float = 30.0,
    actor: str = OPERATOR,
    meanwhile: Meanwhile = nothing_else,
) -> CommandAnswer:
    """Submit a command, wait for it, and return the answer.

    Raises `CommandError` if the command was refused, and what `send_all` raises.
    """
    tickets = submit_all(home, (command,), actor=actor)
    (answer,) = answers_to(
        home, tickets, alone=alone, timeout_seconds=timeout_seconds, meanwhile=meanwhile
    )
    return accepted(answer)


def accepted(answer: CommandAnswer) -> CommandAnswer:
    """Return an answer; raise `QuestionError` for a question, `CommandError` for a refusal."""
    if answer.asks:
        raise QuestionError(answer.text)
    if not answer.done:
        raise CommandError(answer.text)
    return answer


def send_all(
    home: Path,
    commands: Sequence[Command],
    *,
    alone: bool = True,
    timeout_seconds: float = 30.0,
    actor: str = OPERATOR,
    meanwhile: Meanwhile = nothing_else,
) -> list[CommandAnswer]:
    """Submit commands together, wait for all of them, and return their answers in this order.

    `alone` carries them out in this process if no coordinator runs. Raises `OperatorTimeoutError`
    where none of those left was answered within the time.
    """
    tickets = submit_all(home, commands, actor=actor)
    return answers_to(
        home, tickets, alone=alone, timeout_seconds=timeout_seconds, meanwhile=meanwhile
    )


def submit_all(home: Path, commands: Sequence[Command], *, actor: str = OPERATOR) -> list[str]:
    """Put commands of `actor` into the inbox, and return their tickets; raise `InboxError`."""
    with closing(OperatorInbox(home)) as inbox:
        return [inbox.submit(command, actor=actor) for command in commands]


def answers_to(
    home: Path,
    tickets: Sequence[str],
    *,
    alone: bool = True,
    timeout_seconds: float = 30.0,
    meanwhile: Meanwhile = nothing_else,
) -> list[CommandAnswer]:
    """Wait for the answers to commands that were submitted; the rest is as in `send_all`."""
    if alone:
        # Most of the command line needs no core.
        from fleetledger.coordinator.program.engine import carry_out_waiting  # noqa: PLC0415

        carry_out_waiting(home)
    with closing(OperatorInbox(home)) as inbox:
        return [_wait(inbox, ticket, home, timeout_seconds, meanwhile) for ticket in tickets]


def _wait(
    inbox: OperatorInbox, ticket: str, home: Path, seconds: float, meanwhile: Meanwhile
) -> CommandAnswer:
    deadline = time.monotonic() + seconds
    while (answer := inbox.answer_to(ticket)) is None:
        meanwhile()
        if time.monotonic() >= deadline:
            raise OperatorTimeoutError(
                f"the coordinator of {home} did not answer within {seconds:g} s; "
                "see its log, the command is still waiting in its inbox"
            )
        time.sleep(POLL_SECONDS)
    return answer
