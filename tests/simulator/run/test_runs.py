"""A run: what it leaves behind, how it stops, and how it is gone on with."""

import json
from io import StringIO
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from rich.console import Console

from fleetledger.schemas.models import Manifest
from fleetledger.simulator.errors import EngineError, RunError
from fleetledger.simulator.metrics.answers import Answers
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.run.facts import RunFacts
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.runs import RunOptions, resume_run, run_scenario
from fleetledger.simulator.scenario.loading import parse_scenario
from fleetledger.simulator.scenario.model import Scenario
from tests.simulator.run.direct_engine import DirectEngine

SCENARIO = Scenario.model_validate(
    {
        "title": "four digits",
        "seeds": [1, 2],
        "data": {"set": "digits", "per_class": 30, "test_per_class": 10},
        "stages": {"lists": [["3", "1"], ["4"]]},
        "devices": {"count": 2},
        "method": {"settings": {"map_width": 60}},
    }
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))


def quiet() -> Console:
    return Console(file=StringIO(), width=100)


class Stumbling(DirectEngine):
    """Raises `problem` when it is to learn stage `stumbles_at`, after `falls` others."""

    problem: BaseException = EngineError("stage 2: 1 of 2 devices gave nothing")
    stumbles_at = 2
    made: list["Stumbling"] = []

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.made.append(self)

    def learn(self, stage):
        if stage.number == self.stumbles_at:
            raise self.problem
        return super().learn(stage)


@pytest.fixture
def stumbling():
    """A class of its own for every test."""
    return type("StumblingHere", (Stumbling,), {"made": []})


def test_a_run_leaves_scenario_facts_records_answers_model_and_results(tmp_path: Path):
    out = tmp_path / "run"
    results = run_scenario(SCENARIO, out, quiet(), DirectEngine)
    text = (out / "scenario.toml").read_text()
    assert parse_scenario("it", text, out) == SCENARIO
    facts = RunFacts.read(out / "run.json")
    assert facts.state == "done"
    assert facts.sessions[0].ended is not None
    assert set(facts.material) == {1, 2}
    assert RunResults.read(out) == results
    assert (out / "report.html").stat().st_size > 10_000
    for seed in (1, 2):
        folder = RunFolder(out).seed(seed)
        assert [record.stage for record in folder.records()] == [1, 2]
        assert "evaluation" in folder.records()[0].seconds
        assert {path.name for path in folder.model.iterdir()} >= {
            "manifest.json",
            "frozen.onnx",
            "head.onnx",
        }


def test_the_answers_are_those_of_the_exported_model_run_image_by_image(tmp_path: Path):
    """Reference: both files of the model in ONNX Runtime on preprocessed pictures, one by one."""
    from fleetledger.learning.numerics.preprocessing import preprocess
    from fleetledger.simulator.datasets.loading import load_split

    out = tmp_path / "run"
    run_scenario(SCENARIO, out, quiet(), DirectEngine)
    model = out / "seed-2" / "model"
    manifest = Manifest.read((model / "manifest.json").read_bytes())
    frozen = onnxruntime.InferenceSession(model / "frozen.onnx")
    head = onnxruntime.InferenceSession(model / "head.onnx")
    test = load_split(SCENARIO.data, 2).test
    answers = Answers.load(out / "seed-2" / "predictions.npz")
    assert answers.predictions.shape == (2, len(test))
    for index in range(len(test)):
        name = test.class_names[test.labels[index]]
        if name not in manifest.class_names:
            assert answers.predictions[1, index] == -1
            continue
        pixels = preprocess(test.picture(index), manifest.preprocessing)[np.newaxis]
        (features,) = frozen.run(["features"], {manifest.preprocessing.input_name: pixels})
        (scores,) = head.run(["scores"], {"features": features})
        answer = test.class_names[answers.predictions[1, index]]
        assert answer == manifest.class_names[int(scores.argmax())]
    unseen = ~np.isin(test.labels, [1, 3])
    assert (answers.predictions[0, unseen] == -1).all()
    assert (answers.predictions[0, ~unseen] >= 0).all()


def test_an_interrupted_run_says_how_to_go_on_and_does(tmp_path: Path, stumbling):
    out, whole = tmp_path / "run", tmp_path / "whole"
    stumbling.problem = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt, match=f"simulate --resume {out}"):
        run_scenario(SCENARIO, out, quiet(), stumbling)
    assert RunFacts.read(out / "run.json").state == "stopped"
    assert stumbling.made[0].closed
    assert len(RunFolder(out).seed(1).records()) == 1

    stumbling.stumbles_at = 0
    resumed = resume_run(out, quiet(), stumbling)
    assert [engine.learned for engine in stumbling.made] == [[1], [2], [1, 2]]
    facts = RunFacts.read(out / "run.json")
    assert (facts.state, len(facts.sessions)) == ("done", 2)
    uninterrupted = run_scenario(SCENARIO, whole, quiet(), DirectEngine)
    for seed in (1, 2):
        heads = [stage.head for stage in resumed.seeds[seed].stages]
        assert heads == [stage.head for stage in uninterrupted.seeds[seed].stages]
        assert resumed.seeds[seed].task_confusion == uninterrupted.seeds[seed].task_confusion


def test_a_finished_seed_is_kept_without_a_fleet(tmp_path: Path, stumbling):
    out = tmp_path / "run"
    run_scenario(SCENARIO, out, quiet(), DirectEngine)
    before = json.loads((out / "results.json").read_text())
    resume_run(out, quiet(), stumbling)
    assert stumbling.made == []
    assert json.loads((out / "results.json").read_text()) == before


def test_a_fleet_that_fails_leaves_its_reason(tmp_path: Path, stumbling):
    out = tmp_path / "run"
    with pytest.raises(EngineError):
        run_scenario(SCENARIO, out, quiet(), stumbling)
    facts = RunFacts.read(out / "run.json")
    assert facts.state == "failed"
    assert facts.problem == "stage 2: 1 of 2 devices gave nothing"


def test_a_stage_whose_record_was_torn_by_a_crash_is_asked_again(tmp_path: Path, stumbling):
    out = tmp_path / "run"
    run_scenario(SCENARIO, out, quiet(), DirectEngine)
    stages = out / "seed-2" / "stages.jsonl"
    whole = stages.read_bytes()
    stages.write_bytes(whole[:-100])
    stumbling.stumbles_at = 0
    resume_run(out, quiet(), stumbling)
    assert [engine.learned for engine in stumbling.made] == [[2]]
    assert len(RunFolder(out).seed(2).records()) == 2
    assert Answers.load(out / "seed-2" / "predictions.npz").stages == 2


def test_a_folder_that_holds_something_is_refused_before_anything_is_done(tmp_path: Path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RunError, match="is not empty"):
        run_scenario(SCENARIO, tmp_path, quiet(), DirectEngine)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_without_a_run_cannot_be_gone_on_with(tmp_path: Path):
    with pytest.raises(RunError, match="holds no run"):
        resume_run(tmp_path, quiet(), DirectEngine)


def test_what_is_wrong_with_data_or_plan_leaves_no_folder(tmp_path: Path):
    from fleetledger.simulator.errors import SimulatorError

    lists = {"lists": [["3"], ["eleven"]]}
    wrong = Scenario.model_validate({**SCENARIO.model_dump(), "stages": lists})
    with pytest.raises(SimulatorError, match="eleven"):
        run_scenario(wrong, tmp_path / "run", quiet(), DirectEngine)
    assert not (tmp_path / "run").exists()


def test_a_changed_scenario_is_refused(tmp_path: Path):
    out = tmp_path / "run"
    run_scenario(SCENARIO, out, quiet(), DirectEngine)
    path = out / "scenario.toml"
    path.write_text(path.read_text().replace("map_width = 60", "map_width = 70"))
    with pytest.raises(RunError, match=r"scenario\.toml: was changed"):
        resume_run(out, quiet(), DirectEngine)


def test_a_changed_data_set_is_refused(tmp_path: Path, monkeypatch):
    out = tmp_path / "run"
    run_scenario(SCENARIO, out, quiet(), DirectEngine)
    from fleetledger.simulator.run import preparation

    def other_split(data, seed):
        return real(data.model_copy(update={"per_class": 29}), seed)

    real = preparation.load_split
    monkeypatch.setattr(preparation, "load_split", other_split)
    with pytest.raises(RunError, match="the data set is not the one"):
        resume_run(out, quiet(), DirectEngine)


def test_another_version_of_the_program_is_told(tmp_path: Path, monkeypatch):
    out = tmp_path / "run"
    run_scenario(SCENARIO, out, quiet(), DirectEngine)
    monkeypatch.setattr("fleetledger.simulator.run.runs.release", lambda: "9.9")
    console = quiet()
    resume_run(out, console, DirectEngine)
    assert "goes on with 9.9" in console.file.getvalue()


def test_two_processes_do_not_work_on_one_run(tmp_path: Path):
    out = tmp_path / "run"
    run_scenario(SCENARIO, out, quiet(), DirectEngine)
    with RunFolder(out).locked(), pytest.raises(RunError, match="another process"):
        resume_run(out, quiet(), DirectEngine)


def test_without_a_report_the_numbers_alone_are_left(tmp_path: Path) -> None:
    plain = RunOptions(report=False)
    one = SCENARIO.model_copy(update={"seeds": (1,)})
    results = run_scenario(one, tmp_path / "run", quiet(), DirectEngine, plain)
    assert RunResults.read(tmp_path / "run") == results
    assert not list((tmp_path / "run").glob("*.html")) + list((tmp_path / "run").glob("*.png"))
