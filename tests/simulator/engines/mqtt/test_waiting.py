"""Waiting with a limit, and what is shown meanwhile."""

import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from simulator.demo.screen import Screen
from simulator.demo.watch import stage_awaited
from simulator.engines.mqtt.processes import Children
from simulator.engines.mqtt.view import FleetView
from simulator.engines.mqtt.waiting import Follower
from simulator.errors import ProcessDiedError, WaitedTooLongError
from tests.simulator.demo.hand_made import HandMadeLedger


def make_follower(ledger: HandMadeLedger, children: Children) -> tuple[Follower, StringIO]:
    shown = StringIO()
    return Follower(ledger.since, children, Screen(Console(file=shown, width=40)).wait), shown


def test_new_entries_are_taken_in_once_and_in_order(tmp_path: Path):
    ledger = HandMadeLedger()
    ledger.begin()
    follower, _ = make_follower(ledger, Children(tmp_path))
    follower.catch_up()
    ledger.learn(1)
    follower.catch_up()
    follower.catch_up()
    assert follower.view == ledger.view
    assert follower.view.state.size == len(ledger.recorded)


def test_waiting_ends_when_the_question_is_answered(tmp_path: Path):
    ledger = HandMadeLedger()
    ledger.begin()
    follower, shown = make_follower(ledger, Children(tmp_path))
    steps = iter([lambda: ledger.open(1), lambda: None, lambda: ledger.learn(2), lambda: None])

    def question(view: FleetView) -> str | None:
        next(steps)()
        return (
            None
            if len(view.state.stages.by_number) == 2
            else f"{len(view.state.stages.by_number)} of 2 stages"
        )

    follower.wait(question, 10.0, "both")
    assert shown.getvalue().splitlines() == [
        "  both: waiting for 0 of 2 stages",
        "  both: waiting for 1 of 2 stages",
    ]


def test_what_was_awaited_and_the_ends_of_the_logs_are_in_the_error(tmp_path: Path):
    ledger = HandMadeLedger()
    ledger.begin()
    with Children(tmp_path) as children:
        child = children.start(
            "agent", [sys.executable, "-uc", "import time; print('stuck here'); time.sleep(60)"]
        )
        follower, _ = make_follower(ledger, children)

        def question(view: FleetView) -> str | None:
            return stage_awaited(view, ledger.plan, 1)

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
            follower.wait(lambda _view: "Godot", 20.0, "start")


def test_on_a_terminal_the_awaited_line_does_not_stay():
    shown = StringIO()
    console = Console(file=shown, force_terminal=True, width=40)
    with Screen(console) as screen:
        screen.wait("something")
        screen.say("done [not markup]")
    text = shown.getvalue()
    assert "done [not markup]" in text
    assert "\x1b[?25h" in text  # the cursor is shown again
