"""Texts about accuracy become texts about the score of a run."""

import pytest

from fleetledger.simulator.metrics.headline import METRICS, metric_of
from fleetledger.simulator.metrics.score import common_score, name_in_files, say


def test_texts_say_what_a_run_is_scored_by():
    text = "Accuracy by stage; accuracy on all seen classes, %"
    assert say("accuracy", text) == text
    assert say("mIoU", text) == "mIoU by stage; mIoU on all seen classes, %"
    assert say("score", text) == "Score by stage; score on all seen classes, %"


@pytest.mark.parametrize(
    ("score", "name"), [("accuracy", "final_accuracy"), ("mIoU", "final_miou")]
)
def test_names_in_files_are_of_small_letters(score, name: str):
    assert name_in_files(score, "final_accuracy") == name
    assert name_in_files(score, "bytes_up") == "bytes_up"


def test_runs_of_different_scores_have_a_common_word():
    assert common_score(["mIoU", "mIoU"]) == "mIoU"
    assert common_score(["accuracy"]) == "accuracy"
    assert common_score(["accuracy", "mIoU"]) == "score"


def test_headline_numbers_of_pixels_never_say_accuracy():
    for metric in map(metric_of, METRICS):
        assert "ccuracy" not in metric.said_title("mIoU") + metric.said_meaning("mIoU")
        assert metric.said_title("accuracy") == metric.title
        assert metric.said_meaning("accuracy") == metric.meaning
    assert "background" in metric_of("old_accuracy").said_meaning("mIoU")
