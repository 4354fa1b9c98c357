"""Asynchronous rounds on pages and in `coordinator status`: what counts, who trains, in words."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.reports.answers import RoundNow
from fleetledger.coordinator.reports.waits import buffer_wait
from tests.coordinator.dashboard.asked import page_of
from tests.coordinator.topics.rounds.test_asynchronous_rounds import bench, training, version


def test_a_round_shows_the_answers_that_count_with_the_age_of_their_weights(
    tmp_path: Path,
) -> None:
    of = bench()
    slow, *quick = sorted(training(of))
    version(of, *quick)
    version(of, slow, next(device for device in training(of) if device != slow))
    first = page_of(tmp_path / "1", of, "/rounds/1")
    assert "2 answers counted, with a drift" in first["title"]
    states = {row["device"]: row["state"] for row in first["devices"]}
    assert states[slow] == "counts in a later round"
    assert sorted(states.values()).count("counts") == 2
    second = page_of(tmp_path / "2", of, "/rounds/2")
    assert "the oldest from weights 1 version back" in second["title"]
    (old,) = [row for row in second["devices"] if row["device"] == slow]
    assert (old["state"], old["reason"]) == ("counts", "began in round 1, 1 version ago")


def test_an_open_round_says_how_many_answers_it_takes_and_who_trains(tmp_path: Path) -> None:
    of = bench()
    one, *others = sorted(training(of))
    of.answer(one)
    page = page_of(tmp_path / "round", of, "/rounds/1")
    assert page["title"] == "Round 1 is open, and takes 2 answers."
    states = {row["device"]: row["state"] for row in page["devices"]}
    assert states == {one: "counts"} | dict.fromkeys(others, "trains")
    stages = page_of(tmp_path / "stages", of, "/stages")["open"]["round"]
    assert (stages["answered"], stages["missing"], stages["buffer"]) == ([one], others, 2)


def test_sentences_are_right_for_one_and_two() -> None:
    def lines(answered: int, train: int, buffer: int) -> str:
        now = RoundNow(
            number=7,
            phase="train",
            index=1,
            opened=0,
            asked=(),
            answered=("a",) * answered,
            missing=("b",) * train,
            buffer=buffer,
            wait=buffer_wait(buffer, 0, 0),
        )
        return next(iter(now.lines())) + now.wait.sentence

    assert lines(0, 1, 1).startswith("round 7: 0 of 1 answer came; 1 device trains")
    assert "It closes when 1 answer has come, or at " in lines(0, 1, 1)
    assert lines(1, 2, 2).startswith("round 7: 1 of 2 answers came; 2 devices train")
    assert "It closes when 2 answers have come, or at " in lines(1, 2, 2)
