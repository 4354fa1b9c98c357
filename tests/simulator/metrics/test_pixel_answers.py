"""Answers of pixels: what is counted by stage, and that files keep them and no others."""

from pathlib import Path

import numpy as np
import pytest

from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.answers import Answers
from fleetledger.simulator.metrics.pixel_answers import PixelAnswers
from fleetledger.simulator.metrics.segmentation import PixelCounts
from fleetledger.simulator.run.folder import load_answers

STAGES = np.array([1, 2, 1, 0])
"""Classes 0 and 2 come first, then class 1; class 3 is never used."""


def counts(*cells: tuple[int, int, int]) -> PixelCounts:
    matrix = np.zeros((5, 5), np.int64)
    for row, column, pixels in cells:
        matrix[row, column] = pixels
    return PixelCounts(matrix)


def hand_made() -> PixelAnswers:
    first = counts((0, 0, 90), (1, 1, 8), (1, 0, 2), (3, 3, 5))
    second = counts((0, 0, 80), (1, 1, 4), (1, 2, 6), (3, 0, 5), (2, 2, 7), (2, 0, 3))
    return PixelAnswers.none(STAGES).after(first).after(second)


def test_a_stage_is_scored_over_background_and_the_classes_seen_by_then():
    answers = hand_made()
    assert answers.seen(1).tolist() == [0, 2]
    assert answers.seen(2).tolist() == [0, 1, 2]
    assert answers.scores(1).all == pytest.approx((90 / 92 + 8 / 10 + 1) / 3)
    second = answers.scores(2)
    assert second.new == pytest.approx(7 / 16)
    assert second.old == pytest.approx((80 / 88 + 4 / 10 + 0) / 3)
    assert second.tasks == pytest.approx((0.2, 7 / 16))


def test_tasks_are_confused_with_each_other_and_with_background():
    assert hand_made().task_confusion(2).tolist() == [[80, 0, 0], [5, 4, 6], [3, 0, 7]]


def test_later_stages_can_be_left_away_again():
    answers = hand_made()
    assert answers.first(1).stages == 1
    assert np.array_equal(answers.first(1).confusion[0], answers.confusion[0])
    assert answers.first(0).stages == 0


def test_files_of_both_kinds_are_told_apart_and_read_again(tmp_path: Path):
    path = tmp_path / ".predictions.npz-being-written"
    answers = hand_made()
    answers.save(path)
    again = load_answers(path)
    assert isinstance(again, PixelAnswers)
    assert np.array_equal(again.confusion, answers.confusion)
    assert again.stage_of_class.tolist() == STAGES.tolist()
    samples = Answers(np.array([0, 1]), np.array([[0, -1]], np.int32), np.array([1, 2]))
    samples.save(path)
    assert isinstance(load_answers(path), Answers)


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 torn", b"text"])
def test_a_missing_or_torn_file_is_named(tmp_path: Path, content: bytes | None):
    path = tmp_path / "predictions.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(MetricsError, match=r"predictions\.npz: no answers"):
        load_answers(path)
    with pytest.raises(MetricsError, match=r"predictions\.npz"):
        PixelAnswers.load(path)


class Malice:
    def __reduce__(self):
        return (print, ("carried out",))


GOOD = {"pixel_confusion": np.ones((1, 2, 2), np.int64), "stage_of_class": np.array([1])}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"more": np.ones(1)}, "it holds more, pixel_confusion, stage_of_class"),
        ({"pixel_confusion": np.array([Malice()], object)}, "allow_pickle"),
        ({"pixel_confusion": np.ones((1, 2, 2))}, "float64, not int64"),
        ({"pixel_confusion": np.ones((2, 2), np.int64)}, "give .T, V, V."),
        ({"pixel_confusion": np.ones((1, 3, 3), np.int64)}, "with 2 values"),
        ({"pixel_confusion": np.full((1, 2, 2), -1)}, "not negative"),
        ({"pixel_confusion": np.zeros((1, 2, 2), np.int64)}, "stage 1: not one pixel"),
        ({"stage_of_class": np.array([2])}, "of no task so far"),
        ({"stage_of_class": np.ones((1, 1), np.int64)}, "stage_of_class"),
        ({"stage_of_class": np.ones(0, np.int64)}, "stage_of_class"),
    ],
)
def test_files_of_others_are_refused_and_nothing_in_them_is_carried_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes, fault: str
):
    path = tmp_path / "predictions.npz"
    np.savez(path, **{**GOOD, **changes})
    with pytest.raises(MetricsError, match=fault) as caught:
        load_answers(path)
    assert str(path) in str(caught.value)
    assert capsys.readouterr().out == ""


def test_a_file_that_would_unpack_to_too_much_is_refused(tmp_path: Path, monkeypatch):
    path = tmp_path / "predictions.npz"
    np.savez_compressed(path, **{**GOOD, "pixel_confusion": np.zeros((200, 2, 2), np.int64)})
    monkeypatch.setattr("fleetledger.simulator.metrics.any_answers.MOST_BYTES", 6000)
    with pytest.raises(MetricsError, match="bytes of arrays, more than 6000"):
        load_answers(path)
