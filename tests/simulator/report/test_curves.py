"""Arrays over seeds and stages, against loops over the results."""

import numpy as np
import pytest

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.curves import (
    accuracy_matrix,
    by_stage,
    classes_seen,
    mean_by_stage,
    of_spread,
    phases,
    task_confusion,
)
from tests.simulator.fake_run import Shape, fake_results


@pytest.fixture(scope="module")
def results() -> RunResults:
    return fake_results(Shape(stages=4, classes_per_stage=3))


def test_numbers_lie_by_seed_and_stage(results: RunResults):
    values = by_stage(results, lambda stage: stage.old_accuracy)
    assert values.shape == (3, 4)
    assert np.isnan(values[:, 0]).all()
    assert values[2, 3] == results.seeds[3].stages[3].old_accuracy
    highest = mean_by_stage(results, of_spread(lambda stage: stage.bytes_up, "highest"))
    assert highest[1] == pytest.approx(
        np.mean([seed.stages[1].bytes_up.highest for seed in results.seeds.values()])
    )


def test_the_matrix_is_the_mean_of_the_seeds(results: RunResults):
    matrix = accuracy_matrix(results)
    shares = [
        seed.stages[2].task_correct[1] / seed.stages[2].task_total[1]
        for seed in results.seeds.values()
    ]
    assert matrix[2, 1] == pytest.approx(np.mean(shares))
    assert np.isnan(matrix[1, 2])
    diagonal = [[seed.stages[t].new_accuracy for t in range(4)] for seed in results.seeds.values()]
    assert np.diag(matrix) == pytest.approx(np.mean(diagonal, axis=0))


def test_rows_of_the_confusion_add_up_to_one_where_all_was_answered(results: RunResults):
    assert task_confusion(results).sum(axis=1) == pytest.approx(np.ones(4))


def test_classes_are_counted_as_they_come(results: RunResults):
    assert classes_seen(results) == [3, 6, 9, 12]


def test_what_no_phase_explains_is_other(results: RunResults):
    found = phases(results)
    assert list(found)[-1] == "other"
    assert found["other"] == pytest.approx(np.full(4, 0.5))
    assert sum(found.values()) == pytest.approx(
        mean_by_stage(results, lambda stage: stage.wall_seconds)
    )


def test_seeds_are_cut_to_the_stages_that_all_have(results: RunResults):
    short = results.seeds[2].model_copy(update={"stages": results.seeds[2].stages[:2]})
    cut = results.model_copy(update={"seeds": {**results.seeds, 2: short}})
    assert by_stage(cut, lambda stage: stage.accuracy).shape == (3, 2)
    assert accuracy_matrix(cut).shape == (2, 2)
