"""What is said of answers to rounds: of nobody, of one, of several."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.reports.round_inspection import (
    InspectedMoves,
    MeasuredMove,
    RoundsInspection,
    RoundWithout,
)


def device(name: str, *cosines: float | None, length: float = 1.0) -> InspectedMoves:
    moves = tuple(
        MeasuredMove(round=number, length=length, usual=1.0, cosine=cosine)
        for number, cosine in enumerate(cosines, 1)
    )
    return InspectedMoves.of(name, moves)


def report(*devices: InspectedMoves, rounds: int = 3, without: int = 0) -> RoundsInspection:
    return RoundsInspection(
        stage=1,
        rounds=tuple(range(1, rounds + 1)),
        devices=devices,
        unread=(),
        without=tuple(RoundWithout(round=n, apart=0.5, weights="a" * 64) for n in range(without)),
    )


@pytest.mark.parametrize(
    ("found", "verdict", "sentence"),
    [
        (device("a", -0.5, -0.2, -1, -1), "not judged", "4 answers, of 5 that it takes"),
        (device("a", 0.5), "not judged", "1 answer, of 5 that it takes"),
        (device("a", *(-1,) * 9, 0.1), "with the others", "10 answers, 9 of them against"),
        (device("a", *(-1,) * 29, 0.1), "against the others", "30 answers, 29 of them against"),
        (device("a", *(-1,) * 5), "against the others", "5 answers, 5 of them against"),
        (device("a", *(1,) * 5, length=9.0), "far", "moves 9 times as far as usual"),
        (device("a", *(None,) * 5), "with the others", "0 of them against"),
    ],
)
def test_a_device_is_judged_by_nearly_all_of_its_answers(
    found: InspectedMoves, verdict: str, sentence: str
) -> None:
    assert found.verdict == verdict
    assert sentence in found.sentence


def test_sentences_are_right_for_none_one_and_two() -> None:
    bad = [device(name, -1, -1, -1, -1, -1) for name in ("a", "b")]
    assert list(report(rounds=0).above()) == ["No round of stage 1 can be measured."]
    assert list(report(device("a", 1, 1, 1), rounds=1).above()) == [
        "Nobody lies against the others or far away, in 1 round."
    ]
    assert list(report(bad[0]).above()) == ["a lies against the others or far away, in 3 rounds."]
    assert list(report(*bad).above()) == ["a, b lie against the others or far away, in 3 rounds."]
    assert "no proof" in list(report(*bad).below())[-1]


def test_rounds_without_a_device_say_how_far_they_lie_and_what_is_not_known() -> None:
    lines = list(report(device("a", 1, 1, 1), without=1).below())
    assert "0.5 of the round's step away" in lines[0]
    assert "accuracy is not known here" in lines[-1]
    assert list(report(device("a", 1, 1, 1)).below()) == []
