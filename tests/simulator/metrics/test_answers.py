"""What the models answered: who was asked, what was right, and that files keep it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.answers import Answers
from tests.simulator.fake_run import Shape, fake_seed


def hand_made() -> Answers:
    """Two stages: classes 2 and 0, then class 1; class 3 is never used."""
    return Answers(
        labels=np.array([0, 0, 2, 1, 1, 3]),
        predictions=np.array([[0, 2, 2, -1, -1, -1], [0, 1, -1, 1, 0, -1]], np.int32),
        stage_of_class=np.array([1, 2, 1, 0]),
    )


def test_a_stage_is_asked_about_all_classes_seen_by_then():
    answers = hand_made()
    assert answers.asked(1).tolist() == [True, True, True, False, False, False]
    assert answers.asked(2).tolist() == [True] * 5 + [False]
    assert answers.seen(1).tolist() == [0, 2]
    assert answers.seen(2).tolist() == [0, 1, 2]


def test_right_answers_are_counted_by_stage_and_task():
    scores = hand_made().task_scores()
    assert scores.correct.tolist() == [[2, 0], [1, 1]]
    assert scores.total.tolist() == [[3, 0], [3, 2]]


def test_no_answer_is_a_wrong_answer():
    answers = hand_made()
    truth, predicted = answers.answered(2)
    assert truth.tolist() == [0, 0, 2, 1, 1]
    assert predicted.tolist() == [0, 1, -1, 1, 0]


def test_scores_agree_with_a_loop_over_samples():
    answers = fake_seed(Shape(stages=4, classes_per_stage=3), seed=5).answers
    scores = answers.task_scores()
    for t in range(4):
        for i in range(t + 1):
            right = asked = 0
            for label, said in zip(answers.labels, answers.predictions[t], strict=True):
                if answers.stage_of_class[label] == i + 1:
                    asked += 1
                    right += int(label == said)
            assert (scores.correct[t, i], scores.total[t, i]) == (right, asked)


def test_what_is_saved_is_loaded_again(tmp_path: Path):
    answers = hand_made()
    answers.save(tmp_path / ".predictions.npz-being-written")
    again = Answers.load(tmp_path / ".predictions.npz-being-written")
    assert again.labels.tolist() == answers.labels.tolist()
    assert again.predictions.tolist() == answers.predictions.tolist()
    assert again.predictions.dtype == np.int32
    assert again.stage_of_class.tolist() == answers.stage_of_class.tolist()


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 torn", b"text"])
def test_a_missing_or_torn_file_is_named(tmp_path: Path, content: bytes | None):
    path = tmp_path / "predictions.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(MetricsError, match=r"predictions\.npz: no file of this run"):
        Answers.load(path)


@pytest.mark.parametrize(
    ("labels", "predictions", "stages", "fault"),
    [
        ([0, 1], [[0]], [1, 1], "give .N,. and .T, N."),
        ([0, 1], [0, 1], [1, 1], "give .N,. and .T, N."),
        ([0, 1], [[0, 1]], [[1, 1]], "stage_of_class"),
        ([0, 2], [[0, 1]], [1, 1], "labels: 0 to 2"),
        ([0, 1], [[0, 2]], [1, 1], "predictions: 0 to 2"),
        ([0, 1], [[-2, 1]], [1, 1], "predictions: -2 to 1"),
        ([0, 0], [[0, 0], [0, 0]], [1, 2], "stage 2: no test sample"),
    ],
)
def test_answers_that_do_not_fit_together_are_refused(labels, predictions, stages, fault):
    with pytest.raises(MetricsError, match=fault):
        Answers(np.array(labels), np.array(predictions, np.int32), np.array(stages))


def test_a_task_whose_classes_come_once_is_asked_of_no_model_before_it():
    accuracy, chance = hand_made().ahead()
    assert np.isnan(accuracy).all()
    assert np.isnan(chance).all()
    assert "forward_transfer" not in fake_seed(Shape(), seed=1).metrics.headline


def test_a_task_that_the_model_before_was_asked_about_is_counted():
    before = replace(
        hand_made(), predictions=np.array([[0, 2, 2, 0, -1, -1], [0, 1, -1, 1, 0, -1]], np.int32)
    )
    accuracy, chance = before.ahead()
    assert accuracy[1] == 0.0
    assert chance[1] == pytest.approx(1 / 2)


def of_domains() -> Answers:
    """Two classes in three domains, one with each stage."""
    return Answers(
        labels=np.array([0, 1, 0, 1, 0, 1]),
        predictions=np.array(
            [[0, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1], [0, 1, 0, 0, 0, 1]], np.int32
        ),
        stage_of_class=np.array([1, 1]),
        first_stage=np.array([1, 1, 2, 2, 3, 3]),
    )


def test_a_task_is_a_class_in_the_domain_that_first_brought_it(tmp_path: Path):
    answers = of_domains()
    assert [answers.asked(stage).sum() for stage in (1, 2, 3)] == [2, 4, 6]
    scores = answers.task_scores()
    assert scores.correct.tolist() == [[2, 0, 0], [1, 2, 0], [2, 1, 2]]
    assert scores.total.tolist() == [[2, 0, 0], [2, 2, 0], [2, 2, 2]]
    assert scores.forgetting() == pytest.approx(0.25)
    ahead, chance = answers.ahead()
    assert ahead.tolist()[1:] == [0.5, 0.5]  # models are asked about domains to come, too
    assert chance.tolist()[1:] == [0.5, 0.5]
    answers.save(tmp_path / "answers.npz")
    assert Answers.load(tmp_path / "answers.npz").first_stage.tolist() == [1, 1, 2, 2, 3, 3]


def test_a_stage_that_brings_nothing_new_has_no_accuracy_of_its_own():
    answers = replace(hand_made(), stage_of_class=np.array([1, 1, 1, 0]))
    first, second = answers.learned(())
    assert first.new_accuracy == pytest.approx(2 / 5)
    assert (second.old_accuracy, second.new_accuracy) == (pytest.approx(2 / 5), None)
    assert (second.task_correct, second.task_total) == ((2, 0), (5, 0))
    assert second.accuracy == second.accuracy_by_tasks == pytest.approx(2 / 5)
    assert answers.learned(())[1].forgetting == 0.0
