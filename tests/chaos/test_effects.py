"""Programs end at the crash point that their seed names, and do nothing after it."""

from __future__ import annotations

from collections import deque

import pytest

from tests.chaos.effects import CrashPoints, SimulatedCrash, Victim
from tests.chaos.faults import Crash


class Program:
    """Something with two effects."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def commit(self, what: str) -> str:
        self.done.append(f"commit {what}")
        return what

    def publish(self, what: str) -> None:
        self.done.append(f"publish {what}")


METHODS = ((Program, "commit", "commit"), (Program, "publish", "publish"))


def crash(kind: str, after: int) -> Crash:
    return Crash(kind, after, power_cut=False, down_seconds=1.0)


def run(program: Program, victim: Victim) -> bool:
    """Commit and publish three times; return whether the program came to its end."""
    with CrashPoints(METHODS) as points, points.turn(victim):
        try:
            for name in "abc":
                program.commit(name)
                program.publish(name)
        except SimulatedCrash:
            return False
        return True


@pytest.mark.parametrize(
    ("kind", "after", "done"),
    [
        ("", 0, []),
        ("", 1, ["commit a"]),
        ("", 2, ["commit a"]),
        ("", 3, ["commit a", "publish a"]),
        ("commit", 2, ["commit a", "publish a"]),
        ("commit", 3, ["commit a", "publish a", "commit b"]),
        ("publish", 5, ["commit a", "publish a", "commit b", "publish b", "commit c", "publish c"]),
    ],
)
def test_a_program_ends_before_or_after_an_effect(kind: str, after: int, done: list[str]) -> None:
    program = Program()
    assert not run(program, Victim("one", deque([crash(kind, after)])))
    assert program.done == done


def test_crashes_come_one_after_the_other_counted_from_each_start() -> None:
    victim = Victim("one", deque([crash("publish", 1), crash("", 0)]))
    lives = []
    for _ in range(3):
        program = Program()
        lives.append((run(program, victim), len(program.done)))
        victim.restart()
    assert lives == [(False, 2), (False, 0), (True, 6)]


def test_a_dead_program_has_no_further_effects() -> None:
    program, victim = Program(), Victim("one", deque([crash("publish", 0)]))

    def publish_and_tidy_up() -> None:
        try:
            program.publish("a")
        finally:
            program.commit("what a finally would do")

    with CrashPoints(METHODS) as points, points.turn(victim), pytest.raises(SimulatedCrash):
        publish_and_tidy_up()
    assert program.done == []


def test_between_turns_and_afterwards_nothing_is_a_crash_point() -> None:
    program, victim = Program(), Victim("one", deque([crash("", 0)]))
    with CrashPoints(METHODS):
        assert program.commit("a") == "a"
    program.publish("a")
    assert victim.fatal is None


def test_every_effect_on_files_counts_for_a_crash_of_that_kind() -> None:
    victim = Victim("one", deque([crash("file", 2)]))
    for effect in ("open", "commit", "fsync"):
        victim.passes(effect)
    with pytest.raises(SimulatedCrash, match="one at replace"):
        victim.passes("replace")
