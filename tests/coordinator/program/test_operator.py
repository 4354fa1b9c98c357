"""A command waits in the inbox until a coordinator carries it out, and the answer comes back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlite_utils import Database

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.errors import CommandError, OperatorTimeoutError
from fleetledger.coordinator.program.command_client import carried_out
from fleetledger.coordinator.program.operator import FILE_NAME, CommandAnswer, OperatorInbox
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.stages.commands import CloseStage
from fleetledger.schemas.values import DeviceId

ADMIT = AdmitDevice(device=DeviceId("dev-1"))


def test_a_command_is_read_as_it_was_submitted(tmp_path: Path) -> None:
    inbox = OperatorInbox(tmp_path)
    first, second = inbox.submit(ADMIT), inbox.submit(CloseStage())
    assert [(item.ticket, item.command) for item in inbox.waiting()] == [
        (first, ADMIT),
        (second, CloseStage()),
    ]


def test_an_answered_command_waits_no_longer(tmp_path: Path) -> None:
    inbox = OperatorInbox(tmp_path)
    ticket = inbox.submit(ADMIT)
    assert inbox.answer_to(ticket) is None
    inbox.answer(ticket, CommandAnswer(True, "admitted"))
    assert inbox.waiting() == []
    answer = inbox.answer_to(ticket)
    assert answer is not None
    assert (answer.done, answer.text) == (True, "admitted")


def test_an_unreadable_command_is_refused_and_does_not_block_the_next(tmp_path: Path) -> None:
    inbox = OperatorInbox(tmp_path)
    broken = inbox.submit(ADMIT)
    following = inbox.submit(CloseStage())
    database = Database(tmp_path / FILE_NAME)
    with database.conn:
        database.execute(
            'UPDATE command SET body = \'{"verb": "explode"}\' WHERE ticket = ?', [broken]
        )
    assert [item.ticket for item in inbox.waiting()] == [following]
    answer = inbox.answer_to(broken)
    assert answer is not None
    assert not answer.done
    assert "explode" in answer.text


def answered(home: Path, command: Command, answer: CommandAnswer) -> CommandAnswer:
    """Submit a command, which a coordinator in another thread answers."""
    OperatorInbox(home).close()

    def coordinator() -> None:
        inbox = OperatorInbox(home)
        while not (waiting := inbox.waiting()):
            pass
        inbox.answer(waiting[0].ticket, answer)

    thread = threading.Thread(target=coordinator)
    thread.start()
    try:
        return carried_out(home, command, alone=False, timeout_seconds=10)
    finally:
        thread.join()


def test_the_sender_waits_for_a_coordinator_in_another_thread(tmp_path: Path) -> None:
    answer = CommandAnswer(True, "device dev-1 is admitted")
    assert answered(tmp_path, ADMIT, answer) == answer


def test_a_refused_command_raises_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="none is open"):
        answered(tmp_path, CloseStage(), CommandAnswer(False, "stage: none is open"))


def test_without_a_coordinator_the_sender_is_told_that_the_command_still_waits(
    tmp_path: Path,
) -> None:
    with pytest.raises(OperatorTimeoutError, match="still waiting in its inbox"):
        carried_out(tmp_path, ADMIT, alone=False, timeout_seconds=0.1)
    assert len(OperatorInbox(tmp_path).waiting()) == 1


def test_programs_that_make_the_inbox_at_once_wait_for_one_another(tmp_path: Path) -> None:
    together = threading.Barrier(4)

    def one(home: Path) -> str:
        together.wait()
        inbox = OperatorInbox(home)
        try:
            return inbox.submit(ADMIT)
        finally:
            inbox.close()

    with ThreadPoolExecutor(4) as pool:
        for turn in range(20):
            home = tmp_path / str(turn)
            tickets = list(pool.map(one, [home] * 4))
            inbox = OperatorInbox(home)
            assert {item.ticket for item in inbox.waiting()} == set(tickets)
            inbox.close()
