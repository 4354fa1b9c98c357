"""Results of a run: over the seeds, and on the disk."""

import json
from pathlib import Path

import numpy as np
import pytest

from fleetledger.simulator.errors import RunError
from fleetledger.simulator.metrics.results import RunResults
from tests.simulator.fake_run import Shape, fake_results


@pytest.fixture(scope="module")
def results() -> RunResults:
    return fake_results(Shape(stages=3, rounds=2, detection=True, joining=1))


def test_each_headline_is_summed_up_over_the_seeds(results: RunResults):
    values = list(results.headline("final_accuracy").values())
    assert list(results.headline("final_accuracy")) == [1, 2, 3]
    assert results.summary["final_accuracy"].mean == pytest.approx(np.mean(values))
    assert results.summary["final_accuracy"].deviation == pytest.approx(np.std(values, ddof=1))


def test_what_no_seed_has_is_in_no_summary():
    results = fake_results(Shape(stages=1, seeds=(4,)))
    assert "old_accuracy" not in results.summary
    assert results.headline("old_accuracy") == {}
    assert results.summary["final_accuracy"].deviation is None


def test_what_is_written_is_read_again(results: RunResults, tmp_path: Path):
    path = results.write(tmp_path)
    assert path == tmp_path / "results.json"
    assert RunResults.read(tmp_path) == results
    assert json.loads(path.read_text())["schema_version"] == 1


def test_a_folder_without_results_is_named(tmp_path: Path):
    with pytest.raises(RunError, match="finished run"):
        RunResults.read(tmp_path)


def test_results_of_another_version_are_refused(results: RunResults, tmp_path: Path):
    results.write(tmp_path)
    path = tmp_path / "results.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    with pytest.raises(RunError, match="schema_version"):
        RunResults.read(tmp_path)
