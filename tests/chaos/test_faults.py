"""Troubles are drawn from the seed, and are bounded."""

from __future__ import annotations

from tests.chaos.faults import draw_troubles

PROGRAMS = ("coordinator", "device-1", "device-2")


def test_the_same_seed_gives_the_same_troubles() -> None:
    assert draw_troubles(7, PROGRAMS) == draw_troubles(7, PROGRAMS)
    assert draw_troubles(7, PROGRAMS) != draw_troubles(8, PROGRAMS)


def test_a_program_has_the_same_crashes_whoever_else_is_there() -> None:
    alone = draw_troubles(7, ("device-1",)).crashes["device-1"]
    assert draw_troubles(7, PROGRAMS).crashes["device-1"] == alone


def test_seeds_bring_every_kind_of_trouble_and_all_of_it_ends() -> None:
    drawn = [draw_troubles(seed, PROGRAMS) for seed in range(200)]
    crashes = [crash for item in drawn for program in item.crashes.values() for crash in program]
    assert {crash.kind for crash in crashes} == {
        "", "file", "commit", "publish", "acknowledge", "work",
    }  # fmt: skip
    assert {crash.power_cut for crash in crashes} == {True, False}
    assert max(crash.down_seconds for crash in crashes) > 120, "away for minutes"
    assert all(item.network_faults.until <= 900 for item in drawn)
    assert any(
        item.network_faults.late_seconds > 120 and item.network_faults.late for item in drawn
    )
    assert {len(item.broker_restarts) for item in drawn} == {0, 1, 2}
    for item in drawn:
        assert all(moment <= item.network_faults.until for moment, _ in item.cuts)
        assert all(len(program) <= 5 for program in item.crashes.values())
