"""A sample without finite numbers is left out by itself, everywhere, and told by its path."""

import os
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from fleetledger.device_agent.apps.http.application import ModelServer, make_app
from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import ActiveModel, PendingComparison
from fleetledger.device_agent.core.requests import (
    Compare,
    Evaluate,
    InstallModel,
    Measure,
    Scan,
    ShadowModel,
)
from fleetledger.device_agent.errors import LoadError
from fleetledger.device_agent.models.inference import predictions
from fleetledger.device_agent.models.inference.running_model import RunningModel
from fleetledger.device_agent.models.sample_answers import each_alone
from fleetledger.export.package import ExportedModel, SolvedHead, export_model
from fleetledger.learning.errors import NotFiniteError
from fleetledger.learning.numerics.detection import DetectionRules
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.reports import ClassResult
from fleetledger.schemas.values import Digest
from tests.device_agent import model_files as models
from tests.device_agent.making import GREY_8
from tests.device_agent.models.inference.homes import ServingHome
from tests.device_agent.program.test_device_jobs import Workshop


def fails_on(bad: float):
    """Return a model that refuses to run on batches with a number."""

    def run(samples):
        if (samples == bad).any():
            raise LoadError("model: cannot run it")
        return samples * 2

    return run


def poisoned_by(bad: float):
    """Return a model that looks at its batch as a whole: one number spoils all rows."""

    def run(samples):
        return samples * (np.nan if (samples == bad).any() else 2)

    return run


SAMPLES = np.array([[1.0], [7.0], [3.0]], np.float32)


@pytest.mark.parametrize("make", [fails_on, poisoned_by])
def test_the_culprit_is_found_and_the_others_keep_their_rows(make) -> None:
    first, culprit, third = each_alone(make(7.0), SAMPLES)
    assert (first.tolist(), culprit, third.tolist()) == ([2.0], None, [6.0])


def test_a_batch_of_finite_rows_is_asked_once() -> None:
    asked = []
    rows = each_alone(lambda some: asked.append(len(some)) or some, SAMPLES)
    assert (len(rows), asked) == (3, [3])


def test_a_single_bad_row_spoils_none_beside_it() -> None:
    assert each_alone(lambda some: np.where(some == 7, np.inf, some), SAMPLES)[1] is None


def test_a_model_that_runs_on_no_sample_does_not_run() -> None:
    def broken(_):
        raise LoadError("model: no kernel")

    for samples in (SAMPLES, SAMPLES[:1]):
        with pytest.raises(LoadError, match="no kernel"):
            each_alone(broken, samples)


def test_a_model_that_gives_one_row_for_a_batch_is_asked_one_by_one() -> None:
    rows = each_alone(lambda some: some[:1], SAMPLES)
    assert np.array_equal(np.stack(rows), SAMPLES)
    with pytest.raises(LoadError, match="2 rows for 1 sample"):
        each_alone(lambda some: np.repeat(some, 2, axis=0), SAMPLES)


LINEAGE = models.standardising_lineage


def exported(version: int = 1) -> ExportedModel:
    solved = SolvedHead(version, "stsa", models.CLASSES, models.head_weights(), 5, 6)
    return export_model(LINEAGE(), solved)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """Jobs with four pictures and a black one, whose frozen model makes NaN of that."""
    made = Workshop(tmp_path)
    (made.home.data_folder / "dark" / "black.png").write_bytes(models.flat_picture())
    made.blobs.put(LINEAGE().frozen)
    frozen = models.offer_of(LINEAGE().frozen)
    made.assignment = made.assignment.model_copy(
        update={"frozen": frozen, "lineage": frozen.digest}
    )
    return made


def install(workshop: Workshop) -> ActiveModel:
    desired = models.store_model(workshop.blobs, exported())
    (installed,) = workshop.jobs.answer(InstallModel(desired))
    assert isinstance(installed, inputs.ModelInstalled), installed
    return installed.active


BLACK = Digest.of(models.flat_picture())


def test_counting_leaves_it_out_and_counts_the_others(workshop: Workshop) -> None:
    left, event = workshop.compute()
    frozen = workshop.assignment.frozen
    assert left == inputs.SamplesUnanswered(frozen.digest, (BLACK,))
    assert len(event.used) == 4
    black = tuple(image for image in workshop.images() if image.digest == BLACK)
    left, event = workshop.compute(images=black)
    assert left.images == (BLACK,)
    assert isinstance(event, inputs.PartEmpty)


def test_an_evaluation_measures_the_others_and_names_it(workshop: Workshop) -> None:
    test = workshop.home.folder / "test"
    models.put_pictures(test, "dark", 1, 2)
    (test / "dark" / "black.png").write_bytes(models.flat_picture())
    (test / "dark" / "torn.png").write_bytes(b"")
    torn, black, event = workshop.jobs.answer(Evaluate(install(workshop)))
    assert black.problem.text == (
        f"{test}/dark/black.png: the model gives NaN or infinity for it; left out until it or the "
        "model changes"
    )
    assert "dark/torn.png: image: 0 bytes are no picture" in torn.problem.text
    assert event.evaluation.results["dark"] == ClassResult(correct=2, total=2)


def test_an_evaluation_on_such_samples_alone_has_nothing_to_measure(workshop: Workshop) -> None:
    test = workshop.home.folder / "test" / "dark"
    test.mkdir(parents=True)
    (test / "black.png").write_bytes(models.flat_picture())
    told, event = workshop.jobs.answer(Evaluate(install(workshop)))
    assert "black.png" in told.problem.text
    assert event.evaluation is None


def test_detection_measures_the_others_and_names_it(workshop: Workshop) -> None:
    active, images = install(workshop), workshop.images()
    told, event = workshop.jobs.answer(Measure(active, images, None, DetectionRules()))
    assert "dark/black.png: the model gives NaN or infinity" in told.problem.text
    assert (len(event.images), len(event.values)) == (5, 4)


def test_a_comparison_leaves_it_out_and_names_it(workshop: Workshop) -> None:
    active = install(workshop)
    models.put_pictures(workshop.home.folder / "test", "dark", 1, 2)
    (workshop.home.folder / "test" / "dark" / "black.png").write_bytes(models.flat_picture())
    candidate = models.store_model(workshop.blobs, exported(2))
    (kept,) = workshop.jobs.answer(ShadowModel(candidate))
    pending = PendingComparison(1, 1, "shadow", kept.candidate, active)
    *told, event = workshop.jobs.answer(Compare(pending))
    assert {"black.png" in item.problem.text for item in told} == {True}
    assert event.comparison.classes["dark"].both == 2


def test_a_black_picture_of_this_device_refuses_no_model(workshop: Workshop) -> None:
    workshop.jobs.answer(Scan())  # the first sample of class `dark` is the black one
    install(workshop)


def test_predict_answers_the_other_files(tmp_path: Path) -> None:
    home = ServingHome(tmp_path / "home")
    home.switch(exported())
    good, black = tmp_path / "good.png", tmp_path / "black.png"
    good.write_bytes(models.picture("dark"))
    black.write_bytes(models.flat_picture())
    os.mkfifo(tmp_path / "pipe.png")
    files = [good, black, tmp_path / "pipe.png", tmp_path / "gone.png", good]
    with RunningModel.open(home.folder) as model:
        found = predictions.predict(model.loaded(), files, 1).predictions
        answers = model.classify_all([good, black, good])
    assert [item.names[:1] for item in found] == [("dark",), (), (), (), ("dark",)]
    assert found[1].fault == f"{black}: the model gives NaN or infinity for it"
    assert "a named pipe" in found[2].fault
    assert isinstance(answers[1], NotFiniteError)
    assert (answers[0].name, answers[2].name) == ("dark", "dark")


def test_serve_answers_the_other_rows(tmp_path: Path) -> None:
    home = ServingHome(tmp_path)
    home.switch(exported())
    rows = [
        preprocess(data, GREY_8).ravel().tolist()
        for data in (models.picture("dark"), models.flat_picture())
    ]
    tensor = {"name": "input", "shape": [2, 1, 8, 8], "datatype": "FP32", "data": rows}
    with RunningModel.open(home.folder) as model:
        server = ModelServer(model, None, frozenset())
        client = TestClient(make_app(server), "http://localhost")
        answer = client.post("/v2/models/active/infer", json={"inputs": [tensor]}).json()
        refused = client.post("/v1/predict", content=models.flat_picture())
        embedded = client.post("/v1/embed", content=models.flat_picture())
    scores = next(item for item in answer["outputs"] if item["name"] == "scores")["data"]
    assert [value is None for value in scores] == [False, False, True, True]
    assert answer["parameters"] == {"error_1": "the model gives NaN or infinity for it"}
    assert (refused.status_code, embedded.status_code) == (422, 422)
    assert "NaN or infinity" in refused.json()["error"]
