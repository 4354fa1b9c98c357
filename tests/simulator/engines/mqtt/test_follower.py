"""Waiting with a limit, and what is shown meanwhile."""

import sys
from pathlib import Path

import pytest

from fleetledger.coordinator.core.state import State
from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.simulator.engines.mqtt.programs import Follower
from fleetledger.simulator.errors import ProcessDiedError, WaitedTooLongError
from tests.simulator.engines.hand_made import HandMadeLedger


def make_follower(ledger: HandMadeLedger, children: Children) -> tuple[Follower, list[str]]:
    shown: list[str] = []
    return Follower(ledger.reader, children, shown.append), shown


def test_new_entries_are_taken_in_once_and_in_order(tmp_path: Path):
    ledger = HandMadeLedger()
    ledger.begin()
    follower, _ = make_follower(ledger, Children(tmp_path))
    assert follower.state == ledger.state
    ledger.learn(1)
    follower.catch_up()
    follower.catch_up()
    assert follower.state == ledger.state
    assert follower.state.size == len(ledger.recorded)


def test_waiting_ends_when_the_question_is_answered(tmp_path: Path):
    ledger = HandMadeLedger()
    ledger.begin()
    follower, shown = make_follower(ledger, Children(tmp_path))
    steps = iter([lambda: ledger.open(1), lambda: None, lambda: ledger.learn(2), lambda: None])

    def question(state: State) -> str | None:
        next(steps)()
        return (
            None
            if len(state.stages.by_number) == 2
            else f"{len(state.stages.by_number)} of 2 stages"
        )

    follower.wait(question, 10.0, "both")
    assert shown == ["both: waiting for 0 of 2 stages", "both: waiting for 1 of 2 stages"]


def test_what_was_awaited_and_the_ends_of_the_logs_are_in_the_error(tmp_path: Path):
    ledger = HandMadeLedger()
    ledger.begin()
    with Children(tmp_path) as children:
        child = children.start(
            "agent", [sys.executable, "-uc", "import time; print('stuck here'); time.sleep(60)"]
        )
        follower, _ = make_follower(ledger, children)

        def question(state: State) -> str | None:
            return None if state.stages.by_number else "the opening of stage 1"

        while "stuck" not in child.log.read_text():
            pass
        with pytest.raises(WaitedTooLongError, match=r"(?s)stage 1: waited 0.1 .*opening.*stuck"):
            follower.wait(question, 0.1, "stage 1")


def test_a_program_that_ends_is_noticed_while_waiting(tmp_path: Path):
    ledger = HandMadeLedger()
    with Children(tmp_path) as children:
        children.start("coordinator", [sys.executable, "-c", "exit('no broker there')"])
        follower, _ = make_follower(ledger, children)
        with pytest.raises(ProcessDiedError, match="no broker there"):
            follower.wait(lambda _state: "Godot", 20.0, "start")
